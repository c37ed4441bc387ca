"""The processes of Codex, when some of its threads cannot say which they have."""

from __future__ import annotations

from typing import Any

from unspool.runs.drivers.codex_processes import CodexProcesses
from unspool.runs.drivers.codex_threads import CodexThreads
from unspool.runs.drivers.jsonrpc import CallError
from unspool.runs.protocol import DriverEvent, ProcessesChanged

from ..harness import run


class Connection:
    """A connection with one answer for each thread: its processes, or an error with a code."""

    def __init__(self, **answers: list[str] | int | None) -> None:
        self.answers = answers

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        answer = self.answers[params["threadId"]]
        if not isinstance(answer, list):
            raise CallError(method, "no list", answer)
        return {"data": [{"processId": id, "command": id, "cwd": "/"} for id in answer]}


def test_an_error_of_one_thread_says_nothing_about_the_others() -> None:
    """A thread that does not respond still has its processes; one that Codex does not know has none."""
    threads = CodexThreads()
    threads.main = "main"
    threads.paths = {"closed": "/a", "other": "/b"}
    connection = Connection(main=["p1"], closed=["p2"], other=["p3"])
    events: list[DriverEvent] = []
    processes = CodexProcesses(connection, threads, events.append)  # type: ignore[arg-type]

    def reported() -> list[str]:
        run(processes.report())
        last = events[-1]
        assert isinstance(last, ProcessesChanged)
        return [process.id for process in last.processes]

    assert reported() == ["p1", "p2", "p3"]
    connection.answers = {"main": None, "closed": -32600, "other": ["p3", "p4"]}
    assert reported() == ["p1", "p3", "p4"]
    connection.answers = {"main": [], "closed": -32600, "other": None}
    assert reported() == ["p3", "p4"]
    assert processes.has_any
