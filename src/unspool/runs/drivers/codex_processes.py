"""Commands of Codex that continue after the turn that started them."""

from __future__ import annotations

from ...core.errors import NotFoundError
from ..protocol import BackgroundProcess, Emit, ProcessesChanged
from .codex_requests import text_at
from .codex_threads import STOP_TURN_SECONDS, CodexThreads
from .jsonrpc import CallError, RpcConnection

_INVALID_REQUEST = -32600
"""The thread is closed, or this version does not list processes."""


class CodexProcesses:
    """The processes of all threads, as Codex lists them."""

    def __init__(self, connection: RpcConnection, threads: CodexThreads, emit: Emit) -> None:
        self._connection = connection
        self._threads = threads
        self._emit = emit
        self._threads_of: dict[str, str] = {}
        self._reported: list[BackgroundProcess] = []

    @property
    def has_any(self) -> bool:
        """Whether any process was running at the last report."""
        return bool(self._reported)

    async def report(self) -> None:
        """Get the running processes from Codex and emit them if they have changed. Older versions do not list them."""
        found: dict[str, tuple[str, BackgroundProcess]] = {}
        for thread in dict.fromkeys((self._threads.main, *self._threads.paths)):
            found |= {process.id: (thread, process) for process in await self._list(thread)}
        self._threads_of = {id: thread for id, (thread, _) in found.items()}
        processes = [process for _, process in found.values()]
        if processes != self._reported:
            self._reported = processes
            self._emit(ProcessesChanged(processes))

    async def _list(self, thread: str) -> list[BackgroundProcess]:
        """Return the processes of one thread; those of the last report if Codex does not say."""
        try:
            result = await self._connection.call("thread/backgroundTerminals/list", {"threadId": thread})
        except CallError as error:
            if error.code == _INVALID_REQUEST:
                return []
            return [process for process in self._reported if self._threads_of.get(process.id) == thread]
        return [
            BackgroundProcess(id=id, command=text_at(each, "command") or "", folder=text_at(each, "cwd") or "")
            for each in result.get("data") or []
            if isinstance(each, dict) and (id := text_at(each, "processId"))
        ]

    async def end(self, id: str) -> None:
        """End a process."""
        if id not in self._threads_of:
            raise NotFoundError("This process is no longer running")
        params = {"threadId": self._threads_of[id], "processId": id}
        await self._connection.call("thread/backgroundTerminals/terminate", params, seconds=STOP_TURN_SECONDS)
        await self.report()
