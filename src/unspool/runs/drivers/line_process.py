"""A program that is talked to in lines: one JSON object a line goes in and comes out.

It gets a session and a mark of its own, so that everything it starts can be found again and ended. What it says on
stderr is kept as far as its last words go.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from ...core.errors import NotFoundError, UnspoolError
from .. import processes
from .jsonrpc import LONGEST_LINE, Lines

LAST_WORDS = 2_000
POLITE_SECONDS = 10.0
QUIET_SECONDS = 10.0
"""How long a program may live on after it has closed its output."""
LAST_WORDS_SECONDS = 5.0
"""How long what a program said last may be on its way. Only a stranger that holds its output open makes this pass."""
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|[\x00-\x08\x0b-\x1f\x7f]")


class Piped(asyncio.SubprocessProtocol):
    """A running program. Lines are handed to `take`; an empty one says that there will be no more."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.pid = 0
        self.code: int | None = None
        self.mark = uuid.uuid4().hex
        self.has_exited = asyncio.Event()
        self.is_silent = asyncio.Event()
        """It has closed its output, or has exited."""
        self._take = take
        self._started: float | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._lines = Lines(LONGEST_LINE)
        self._open_outputs = {1, 2}
        self._is_closed = asyncio.Event()
        """Nothing more comes, neither from its output nor from its errors."""
        self._is_being_ended = False
        self._is_done = asyncio.Event()
        self._errors = b""

    async def start(
        self, command: Sequence[str], folder: str, environment: Mapping[str, str], mark: str | None = None
    ) -> None:
        """Start the program; UnspoolError with a sentence where that is not possible."""
        self.mark = mark or self.mark
        if not os.path.isdir(folder):
            raise NotFoundError(f"{folder} is no folder: an agent works in a folder that is there.")
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self, *command, cwd=folder, env={**environment, processes.MARK: self.mark},
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise UnspoolError(f"{command[0]} could not be started: {error}") from error
        self.pid = transport.get_pid()
        self._started = processes.start_time(self.pid)

    def write(self, line: bytes) -> None:
        """Give it a line; one that has ended is told nothing.

        There is no waiting: what it does not read stays in memory, and that is at most a prompt and a few answers.
        """
        pipe = self._input()
        if pipe is not None and not pipe.is_closing() and not self.has_exited.is_set():
            pipe.write(line + b"\n")

    def close_input(self) -> None:
        """Tell it that there will be no more."""
        pipe = self._input()
        if pipe is not None:
            pipe.close()

    def take_passed_over(self) -> int:
        """How many lines were too long since this was asked last."""
        count, self._lines.passed_over = self._lines.passed_over, 0
        return count

    def last_words(self) -> str | None:
        """What it said last on stderr."""
        text = _CONTROLS.sub("", self._errors.decode("utf-8", "replace")).strip()
        return text[-LAST_WORDS:] or None

    async def end(self, polite: Callable[[], None] | None = None) -> None:
        """End it and everything it started, and wait until that is done."""

        async def ask() -> None:
            if polite is not None:
                polite()
            self.close_input()

        self._is_being_ended = True
        await self._end(ask)

    async def until_gone(self) -> None:
        """Wait until it has ended by itself, or has closed its output; then nothing of it is left to run."""
        await self.is_silent.wait()
        if not self._is_being_ended:
            await _bounded(self.has_exited, QUIET_SECONDS)
        if self._is_being_ended:
            await self._is_done.wait()
        else:
            await self._end(None)

    async def _end(self, polite: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if self.pid:  # There is nothing to end where nothing could be started.
                await self._end_all(polite)
        finally:
            self._is_done.set()

    async def _end_all(self, polite: Callable[[], Awaitable[None]] | None) -> None:
        await processes.end_group(
            self.pid, polite, started=self._started, mark=self.mark, polite_seconds=POLITE_SECONDS
        )  # fmt: skip
        await _bounded(self.has_exited, processes.KILL_SECONDS)
        await _bounded(self._is_closed, LAST_WORDS_SECONDS)
        if self._transport is not None:
            self._transport.close()

    def _input(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        return cast(asyncio.WriteTransport, pipe) if pipe is not None else None

    # --- what the event loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It says something."""
        if fd == 2:
            self._errors = (self._errors + data)[-2 * LAST_WORDS :]
            return
        for line in self._lines.feed(data):
            if stripped := line.strip():
                self._take(stripped)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - all reasons are alike
        """It says no more."""
        self._open_outputs.discard(fd)
        if fd == 1:
            self._take(b"")
            self.is_silent.set()
        if not self._open_outputs:
            self._is_closed.set()

    def process_exited(self) -> None:
        """It has ended; what it started may still hold its output open."""
        assert self._transport is not None
        self.code = self._transport.get_returncode()
        self.has_exited.set()
        self.is_silent.set()


async def _bounded(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
