"""A child process that exchanges lines over its standard input and output, one JSON object per line.

It gets its own process session and mark, so that everything it starts can be found and stopped. The end of its error
output is kept for error messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from ...core.errors import NotFoundError, UnspoolError
from .. import processes
from .line_buffer import MAX_LINE_BYTES, LineBuffer

logger = logging.getLogger(__name__)

ERROR_TAIL = 2_000
"""Characters of the error output that are kept."""
POLITE_SECONDS = 10.0
SILENT_SECONDS = 10.0
"""How long a process may continue to run after it has closed its output."""
DRAIN_SECONDS = 5.0
"""The longest wait for the last output, which happens only if another process holds the pipe open."""
_CONTROL_CHARACTERS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|[\x00-\x08\x0b-\x1f\x7f]")


class _Pipes(asyncio.SubprocessProtocol):
    """The pipes of a child process; the event loop calls its methods."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self.lines = LineBuffer(MAX_LINE_BYTES)
        self.errors = b""
        self.code: int | None = None
        self.has_exited = asyncio.Event()
        self.is_silent = asyncio.Event()
        """The process has closed its output, or has exited."""
        self.is_closed = asyncio.Event()
        """Both the output and the error output are closed."""
        self._on_line = on_line
        self._open = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None

    def input(self) -> asyncio.WriteTransport | None:
        """Return the pipe to the standard input of the process."""
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        return cast(asyncio.WriteTransport, pipe) if pipe is not None else None

    def close(self) -> None:
        """Close all pipes."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport when the process has been started."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Handle data that the process has written."""
        if fd == 2:
            self.errors = (self.errors + data)[-2 * ERROR_TAIL :]
            return
        for line in self.lines.feed(data):
            if stripped := line.strip():
                self._handle_line(stripped)

    def _handle_line(self, line: bytes) -> None:
        # A line that cannot be handled, for example because a disk is full, must not affect the lines after it.
        try:
            self._on_line(line)
        except Exception:
            logger.exception("cannot handle a line of process %s", self._transport and self._transport.get_pid())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Handle the end of one of the pipes."""
        self._open.discard(fd)
        if fd == 1:
            self._handle_line(b"")
            self.is_silent.set()
        if not self._open:
            self.is_closed.set()

    def process_exited(self) -> None:
        """Store the exit code. Children of the process may still hold its output open."""
        assert self._transport is not None
        self.code = self._transport.get_returncode()
        self.has_exited.set()
        self.is_silent.set()


class LineProcess:
    """A child process. Its lines are passed to `on_line`, with an empty one at the end."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self.pid = 0
        self.mark = uuid.uuid4().hex
        self._pipes = _Pipes(on_line)
        self._started: float | None = None
        self._is_being_stopped = False
        self._is_stopped = asyncio.Event()

    @property
    def code(self) -> int | None:
        """The exit code, once the process has exited."""
        return self._pipes.code

    @property
    def is_silent(self) -> bool:
        """Whether the process has closed its output, or has exited."""
        return self._pipes.is_silent.is_set()

    async def start(
        self, command: Sequence[str], folder: str, environment: Mapping[str, str], mark: str | None = None
    ) -> None:
        """Start the process. Raises UnspoolError if that is not possible."""
        self.mark = mark or self.mark
        if not os.path.isdir(folder):
            raise NotFoundError(f"{folder} is not a directory; an agent needs an existing directory to work in")
        loop = asyncio.get_running_loop()
        variables = {**environment, processes.MARK: self.mark}
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self._pipes, *command, cwd=folder, env=variables, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise UnspoolError(f"Could not start {command[0]}: {error}") from error
        self.pid = transport.get_pid()
        self._started = processes.start_time(self.pid)

    def write(self, line: bytes) -> None:
        """Write a line; does nothing if the process has exited.

        This does not wait: lines that the process has not read yet stay in memory, which are at most a prompt and a few
        answers.
        """
        pipe = self._pipes.input()
        if pipe is not None and not pipe.is_closing() and not self._pipes.has_exited.is_set():
            pipe.write(line + b"\n")

    def close_input(self) -> None:
        """Close the standard input of the process."""
        pipe = self._pipes.input()
        if pipe is not None:
            pipe.close()

    def take_skipped_lines(self) -> int:
        """Return the number of lines skipped since the last call because they were too long."""
        return self._pipes.lines.take_skipped()

    def error_tail(self) -> str | None:
        """Return the end of the error output."""
        text = _CONTROL_CHARACTERS.sub("", self._pipes.errors.decode("utf-8", "replace")).strip()
        return text[-ERROR_TAIL:] or None

    async def stop(self, prepare: Callable[[], None] | None = None) -> None:
        """Stop the process and everything it started, and wait until that is done."""

        async def ask() -> None:
            if prepare is not None:
                prepare()
            self.close_input()

        self._is_being_stopped = True
        await self._stop(ask)

    async def wait(self) -> None:
        """Wait until the process exits or closes its output, and stop everything it started."""
        await self._pipes.is_silent.wait()
        if not self._is_being_stopped:
            await _wait_at_most(self._pipes.has_exited, SILENT_SECONDS)
        if self._is_being_stopped:
            await self._is_stopped.wait()
        else:
            await self._stop(None)

    async def _stop(self, ask: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if self.pid:  # Otherwise it could not be started, and there is nothing to stop.
                await self._stop_all(ask)
        finally:
            self._is_stopped.set()

    async def _stop_all(self, ask: Callable[[], Awaitable[None]] | None) -> None:
        await processes.end_group(self.pid, ask, started=self._started, mark=self.mark, polite_seconds=POLITE_SECONDS)
        await _wait_at_most(self._pipes.has_exited, processes.KILL_SECONDS)
        await _wait_at_most(self._pipes.is_closed, DRAIN_SECONDS)
        self._pipes.close()


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
