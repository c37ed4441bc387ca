"""Claude Code as a process of its own: lines of JSON in and out, a small environment, and an end that is sure.

The SDK would start the program itself, but with all of our environment and in our group of processes; so it is given
this in place of its own transport, whose methods it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from ..processes import MARK, end_group, start_time
from .jsonrpc import Lines

LAST_WORDS = 2048
"""Bytes of what it said last that are kept."""
WRITE_SECONDS = 60.0
DRAIN_SECONDS = 5.0
_CHUNK = 256 * 1024
_LOOK_SECONDS = 1.0


class Program:
    """One run of the program."""

    def __init__(self, command: list[str], folder: str, environment: dict[str, str], mark: str | None = None) -> None:
        self.command = command
        self.folder = folder
        self.mark = mark or uuid.uuid4().hex
        self.environment = {**environment, MARK: self.mark}
        self.started: float | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._last_words = b""
        self._listening: asyncio.Task[None] | None = None
        self._all_read = asyncio.Event()
        self._writing = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, once it was started."""
        return self._process.pid if self._process is not None else None

    @property
    def code(self) -> int | None:
        """What it ended with."""
        return self._process.returncode if self._process is not None else None

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._last_words.decode(errors="replace").strip()

    # --- the methods of a transport ---

    async def connect(self) -> None:
        """Start it. OSError when it cannot be."""
        if self._process is not None:
            return
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, stderr=pipe,
            cwd=self.folder, env=self.environment, start_new_session=True,
        )  # fmt: skip
        self.started = start_time(self._process.pid)
        self._listening = asyncio.create_task(self._keep_last_words())

    def is_ready(self) -> bool:
        """It runs and listens."""
        process = self._process
        return process is not None and process.returncode is None and not self._input.is_closing()

    async def write(self, data: str) -> None:
        """Give it a line."""
        async with self._writing:
            if not self.is_ready():
                raise ConnectionError("Claude Code does not run any more")
            self._input.write(data.encode())
            await asyncio.wait_for(self._input.drain(), WRITE_SECONDS)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it says no more."""
        assert self._process is not None
        assert self._process.stdout is not None
        lines = Lines()
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                for line in lines.feed(chunk):
                    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                        message = msgspec.json.decode(line)
                        if isinstance(message, dict):
                            yield message
        finally:
            self._all_read.set()

    async def end_input(self) -> None:
        """Let it know that nothing more comes: it ends when it is done."""
        if self._process is not None:
            self._input.close()

    async def close(self) -> None:
        """End it for sure."""
        await self.end()

    # --- its end ---

    async def end(self, polite: Callable[[], Awaitable[None]] | None = None) -> None:
        """End it and everything it started; `polite` may prepare it. Once is enough, however often it is asked for."""
        if self._process is None:
            return
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(polite))
        await asyncio.shield(self._ending)

    async def _end(self, polite: Callable[[], Awaitable[None]] | None) -> None:
        assert self._process is not None

        async def ask() -> None:
            if polite is not None:
                await polite()
            await self.end_input()

        await end_group(self._process.pid, ask, started=self.started, mark=self.mark)
        await self.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=DRAIN_SECONDS)
            self._listening.cancel()
        self._let_go()

    async def wait(self) -> int | None:
        """Wait until the program itself has ended, whoever else may hold its pipes."""
        if self._process is None:
            return None
        ended = asyncio.ensure_future(self._process.wait())
        while self._process.returncode is None:
            await asyncio.wait({ended}, timeout=_LOOK_SECONDS)
        ended.cancel()
        return self._process.returncode

    async def wait_for_rest(self) -> None:
        """Wait until all it has said was read; not for long, since others may hold the pipe."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_read.wait(), DRAIN_SECONDS)

    def _let_go(self) -> None:
        # The pipes of a program that was killed are closed here and not by some later collection of garbage.
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    @property
    def _input(self) -> asyncio.StreamWriter:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    async def _keep_last_words(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._last_words = (self._last_words + chunk)[-LAST_WORDS:]
