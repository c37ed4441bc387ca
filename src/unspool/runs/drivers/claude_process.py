"""The process of Claude Code: it exchanges JSON lines, has a minimal environment, and can be stopped reliably.

The SDK would start the program with our whole environment and in our process group. This class replaces its transport
and has the same methods.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from ...core.errors import UnspoolError
from ...io.decode import decode_object, repair_line
from ..processes import MARK, end_group, start_time
from .line_buffer import LineBuffer

ERROR_TAIL = 2048
"""Bytes of the error output that are kept."""
WRITE_SECONDS = 60.0
DRAIN_SECONDS = 5.0
_CHUNK = 256 * 1024
_POLL_SECONDS = 1.0
_START_POLL_SECONDS = 0.01
_RESULT_POLLS = 100

T = TypeVar("T")


class ClaudeProcess:
    """One process of Claude Code."""

    def __init__(self, command: list[str], folder: str, environment: dict[str, str], mark: str | None = None) -> None:
        self.command = command
        self.folder = folder
        self.mark = mark or uuid.uuid4().hex
        self.environment = {**environment, MARK: self.mark}
        self.started: float | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._errors = b""
        self._error_reader: asyncio.Task[None] | None = None
        self._all_read = asyncio.Event()
        self._write_lock = asyncio.Lock()
        self._stopping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, once the process has been started."""
        return self._process.pid if self._process is not None else None

    @property
    def code(self) -> int | None:
        """The exit code, once the process has exited."""
        return self._process.returncode if self._process is not None else None

    @property
    def error_tail(self) -> str:
        """The end of the error output."""
        return self._errors.decode(errors="replace").strip()

    # --- the methods of a transport of the SDK ---

    async def connect(self) -> None:
        """Start the process. Raises OSError if that is not possible."""
        if self._process is not None:
            return
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )
        self.started = start_time(self._process.pid)
        self._error_reader = asyncio.create_task(self._read_errors())

    def is_ready(self) -> bool:
        """Whether the process is running and accepts input."""
        process = self._process
        return process is not None and process.returncode is None and not self._input.is_closing()

    async def write(self, data: str) -> None:
        """Write a line."""
        async with self._write_lock:
            if not self.is_ready():
                raise ConnectionError("Claude Code is not running")
            self._input.write(data.encode())
            await asyncio.wait_for(self._input.drain(), WRITE_SECONDS)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of the process, until it closes its output."""
        assert self._process is not None
        assert self._process.stdout is not None
        lines = LineBuffer()
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                for line in lines.feed(chunk):
                    if message := decode_object(repair_line(line)[0]):  # Anything else is not a message.
                        yield message
        finally:
            self._all_read.set()

    async def end_input(self) -> None:
        """Close the input; the program then exits when it is done."""
        if self._process is not None:
            self._input.close()

    async def close(self) -> None:
        """Stop the process."""
        await self.stop()

    # --- waiting and stopping ---

    async def run_while_alive(self, work: Awaitable[T], seconds: float) -> T:
        """Await something that needs a response of the process, but not longer than the process is running.

        Raises TimeoutError after `seconds`, and UnspoolError if the process has exited.
        """
        task = asyncio.ensure_future(work)
        exited = asyncio.ensure_future(self._wait_for_exit(task))
        try:
            await asyncio.wait({task, exited}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if exited.done():
                raise UnspoolError(self.error_tail or f"it exited with code {self.code}")
            raise TimeoutError
        finally:
            for each in (task, exited):
                each.cancel()
            await asyncio.wait({task, exited}, timeout=1.0)

    async def _wait_for_exit(self, task: asyncio.Future[Any]) -> None:
        while self.pid is None:
            await asyncio.sleep(_START_POLL_SECONDS)
        await self.wait()
        # The last output may still contain the result, or a better explanation.
        await self.wait_for_output()
        for _ in range(_RESULT_POLLS):
            if task.done():
                break
            await asyncio.sleep(0)

    async def stop(self, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop the process and everything it started; `prepare` runs first. Further calls wait for the first one."""
        if self._process is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(prepare))
        await asyncio.shield(self._stopping)

    async def _stop(self, prepare: Callable[[], Awaitable[None]] | None) -> None:
        assert self._process is not None

        async def ask() -> None:
            if prepare is not None:
                await prepare()
            await self.end_input()

        await end_group(self._process.pid, ask, started=self.started, mark=self.mark)
        await self.wait()
        if self._error_reader is not None:
            await asyncio.wait({self._error_reader}, timeout=DRAIN_SECONDS)
            self._error_reader.cancel()
        self._close_pipes()

    async def wait(self) -> int | None:
        """Wait until the process itself has exited, even if other processes hold its pipes open."""
        if self._process is None:
            return None
        exited = asyncio.ensure_future(self._process.wait())
        while self._process.returncode is None:
            await asyncio.wait({exited}, timeout=_POLL_SECONDS)
        exited.cancel()
        return self._process.returncode

    async def wait_for_output(self) -> None:
        """Wait a limited time until all output has been read, since other processes may hold the pipe open."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_read.wait(), DRAIN_SECONDS)

    def _close_pipes(self) -> None:
        # Close the pipes of a killed process here, instead of when they are garbage-collected.
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    @property
    def _input(self) -> asyncio.StreamWriter:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    async def _read_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._errors = (self._errors + chunk)[-ERROR_TAIL:]
