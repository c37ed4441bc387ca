"""Ended runs from the run log: how each ended, the text that was cut off, and the approval requests left open."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..core import model as m
from ..core import typed_json
from ..runs.approvals import OpenRequest
from ..runs.live_text import LiveText
from ..runs.supervisor import KILLED
from ..store.run_log import LogEntry, RunLog

_LOG_ENTRIES = 2000
"""The number of latest entries of the run log in which ended runs are looked for."""
_LONGEST_ACTION = 4000


class PastRun(msgspec.Struct, kw_only=True):
    """A run that has ended, as recorded in the run log."""

    id: str
    agent: str
    folder: str
    session: str | None
    ended_at: datetime
    reason: str
    cut_off: LiveText | None = None
    """The text that the model was writing when its turn ended."""
    asking: list[OpenRequest] = []
    """The approval requests that were open when the run ended."""

    @property
    def server_was_killed(self) -> bool:
        """Whether the run ended because its server was killed."""
        return self.reason == KILLED

    @property
    def prompt_to_ask_again(self) -> str:
        """A prompt that makes the agent ask again: agents forget their open requests."""
        actions = "\n\n".join(f"{opened.request.tool}: {_described(opened.request.action)}" for opened in self.asking)
        return (
            "The program was stopped while it was waiting for my permission for the following, which was not run. "
            f"Please ask again.\n\n{actions}"
        )


class _AskedFacts(msgspec.Struct):
    question: OpenRequest


def past_runs(log: RunLog) -> list[PastRun]:
    """Return the runs that ended lately, the last one first."""
    last = log.last_seq()
    recent: dict[str, list[LogEntry]] = {}
    for entry in log.entries(max(0, last - _LOG_ENTRIES), _LOG_ENTRIES):
        recent.setdefault(entry.run, []).append(entry)
    found = []
    for run, entries in recent.items():
        if any(entry.kind == "run.ended" for entry in entries):
            # A long run was started before the latest entries.
            has_start = entries[0].kind == "run.started"
            found.append(_past_run(run, entries if has_start else log.entries(0, last, run)))
    return sorted(found, key=lambda one: one.ended_at, reverse=True)


def _past_run(run: str, entries: list[LogEntry]) -> PastRun:
    known: dict[str, Any] = {}
    asking: dict[str, OpenRequest] = {}
    for entry in entries:
        if entry.kind in ("asked", "answered", "withdrawn"):
            _follow_requests(asking, entry)
        elif entry.kind in ("run.started", "session", "cut_off"):
            known.update(msgspec.json.decode(entry.data))
        elif entry.kind == "taken_up":
            # Text after this belongs to another reply.
            known.pop("text", None)
        elif entry.kind == "run.ended":
            known.update(msgspec.json.decode(entry.data), ended_at=entry.at)
            break
    return PastRun(
        id=run,
        agent=known["agent"],
        folder=known["folder"],
        session=known["session"],
        ended_at=known["ended_at"],
        reason=known["reason"],
        cut_off=typed_json.convert(known.get("text"), LiveText | None),
        asking=list(asking.values()),
    )


def _follow_requests(found: dict[str, OpenRequest], entry: LogEntry) -> None:
    if entry.kind == "asked":
        opened = typed_json.decode(entry.data, type=_AskedFacts).question
        found[opened.request.id] = opened
    else:
        found.pop(msgspec.json.decode(entry.data)["request"], None)


def _described(action: m.Action) -> str:
    text = action.command or action.path or action.plan or bytes(action.raw_input).decode("utf-8", "replace")
    return text if len(text) <= _LONGEST_ACTION else f"{text[:_LONGEST_ACTION]}\n[{len(text) - _LONGEST_ACTION} more]"
