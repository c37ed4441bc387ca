"""The threads of one Codex process and their turns: the main conversation, and its sub-agents."""

from __future__ import annotations

import asyncio
from collections import deque

from ..protocol import Emit, Notice, TurnEnded, TurnOutcome
from .codex_requests import object_at, text_at
from .jsonrpc import CallError, Params, RpcConnection
from .turn_state import TurnAction, TurnState

STOP_TURN_SECONDS = 30.0
REMEMBERED_TURNS = 64
_OUTCOMES: dict[str, TurnOutcome] = {"completed": "completed", "interrupted": "interrupted", "failed": "failed"}


class CodexThreads:
    """The running turns of all threads. The agent is working until all of them have ended."""

    def __init__(self) -> None:
        self.main = ""
        self.paths: dict[str, str] = {}
        """The session files of the threads."""
        self.state = TurnState()
        self._running: dict[str, str] = {}
        self._ended: deque[str] = deque(maxlen=REMEMBERED_TURNS)
        self._end_events: dict[str, asyncio.Event] = {}
        self._outcome = TurnEnded(outcome="completed")

    def learn_path(self, thread: Params) -> None:
        """Remember the session file of a thread."""
        if (id := text_at(thread, "id")) and (path := text_at(thread, "path")):
            self.paths[id] = path

    def subagent(self, thread: str) -> str | None:
        """Return the thread if it is a sub-agent, None for the main conversation."""
        return thread if thread not in ("", self.main) else None

    def running(self) -> dict[str, str]:
        """Return the running turns by thread."""
        return dict(self._running)

    def has_ended(self, turn: str | None) -> bool:
        """Return whether a turn is known to have ended."""
        return turn in self._ended

    def start_turn(self, thread: str, turn: str) -> bool:
        """Record that a turn has started; return True if the agent was not working before."""
        if turn in self._ended or self._running.get(thread) == turn:
            return False
        self._running[thread] = turn
        if thread == self.main:
            self._outcome = TurnEnded(outcome="completed")
        return TurnAction.REPORT_START in self.state.apply("started")

    def end_turn(self, thread: str, turn: Params) -> TurnEnded | None:
        """Record that a turn has ended; return the outcome if the agent is no longer working."""
        id = text_at(turn, "id") or ""
        self._ended.append(id)
        self._running.pop(thread, None)
        if event := self._end_events.pop(id, None):
            event.set()
        if thread == self.main:
            problem = object_at(turn, "error")
            self._outcome = TurnEnded(
                outcome=_OUTCOMES.get(text_at(turn, "status") or "", "failed"),
                error=text_at(problem, "message"),
                needs_login=_is_login_missing(problem),
            )
        if not self.state.is_active or self._running:
            return None
        self.state.apply("ended")
        return self._outcome

    def end_event(self, turn: str) -> asyncio.Event:
        """Return an event that is set when the turn ends."""
        return self._end_events.setdefault(turn, asyncio.Event())


def _is_login_missing(problem: Params) -> bool:
    is_key_missing = (text_at(problem, "message") or "").startswith("Missing environment variable")
    return is_key_missing or problem.get("codexErrorInfo") == "unauthorized"


async def interrupt_turn(connection: RpcConnection, threads: CodexThreads, emit: Emit, thread: str, turn: str) -> None:
    """Stop a turn, and wait for the response or the end of the turn: Codex does not respond if it ended by itself."""
    if threads.has_ended(turn):
        return
    ended = threads.end_event(turn)
    call = connection.call("turn/interrupt", {"threadId": thread, "turnId": turn}, seconds=STOP_TURN_SECONDS)
    tasks = [asyncio.ensure_future(call), asyncio.ensure_future(ended.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(results[0], CallError) and not threads.has_ended(turn) and not connection.is_closed:
        emit(Notice(f"Codex does not respond to the interrupt: {results[0].message}."))
