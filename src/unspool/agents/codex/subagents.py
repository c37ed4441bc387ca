"""Threads that a Codex thread starts: sub-agents and reviews."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...core.builder import SessionBuilder
from ...core.open_calls import Call
from ...io.decode import decode_any
from .schema import CodexItem, CodexPayload
from .tools import SPAWN_TOOLS

_AGENT_PATH = '"agent_path":"'


class SpawnedThread(NamedTuple):
    """A thread that was started from this one."""

    message: int | None
    call_id: str | None
    thread_id: str
    evidence: str


class CodexSubagents:
    """The threads that were started from one thread, found by whatever the version records about them."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.spawned: dict[str, SpawnedThread] = {}
        self.finished: set[str] = set()
        self.reviews: list[tuple[int, datetime | None]] = []
        """The messages and times at which reviews started."""
        self._builder = builder
        self._calls: set[str] = set()

    @property
    def last_review(self) -> int | None:
        """The message with which the last review started."""
        return self.reviews[-1][0] if self.reviews else None

    def called(self, call_id: str, tool: str) -> None:
        """Remember a call that may start a sub-agent."""
        if tool in SPAWN_TOOLS:
            self._calls.add(call_id)

    def answered(self, call_id: str, call: Call | None, text: str) -> None:
        """Read the result of a call that may have started a sub-agent."""
        if call_id not in self._calls:
            return
        given = decode_any(text)
        thread_id = given.get("agent_id") if isinstance(given, dict) else None
        if isinstance(thread_id, str):
            self._add(thread_id, call.message if call else None, call_id, "agent_id")

    def started(self, thread_id: str, call_id: str | None, evidence: str) -> None:
        """Add a sub-agent that an event names."""
        call = self._builder.calls.find(call_id or "")
        self._add(thread_id, call.message if call else None, call_id, evidence)

    def _add(self, thread_id: str, message: int | None, call_id: str | None, evidence: str) -> None:
        if thread_id not in self.spawned:
            self.spawned[thread_id] = SpawnedThread(message, call_id, thread_id, evidence)

    def read_event(self, payload: CodexPayload) -> None:
        """Read an event about a sub-agent: that it was started (0.118), or what it does (0.145)."""
        if payload.new_thread_id is not None:
            self.started(payload.new_thread_id, payload.call_id, "spawn event")
        self._active(payload.agent_thread_id, payload.event_id, payload.kind, "activity event")

    def _active(self, thread_id: str | None, call_id: str | None, kind: str | None, evidence: str) -> None:
        if thread_id is not None and kind == "started":
            self.started(thread_id, call_id, evidence)
        elif thread_id is not None and kind == "completed":
            self.finished.add(thread_id)

    def read_item(self, item: CodexItem) -> None:
        """Read a finished item about a sub-agent."""
        if item.type == "SubAgentActivity":
            self._active(item.agent_thread_id, item.id, item.kind, "activity item")
        elif item.type == "CollabAgentToolCall" and item.tool == "spawn_agent":
            for thread_id in item.receiver_thread_ids or ():
                self.started(thread_id, item.id, "call item")

    def notified(self, text: str) -> None:
        """Read the message with which a sub-agent reports its end."""
        start = text.find(_AGENT_PATH)
        if start >= 0 and '"completed"' in text:
            start += len(_AGENT_PATH)
            self.finished.add(text[start : text.find('"', start)])
