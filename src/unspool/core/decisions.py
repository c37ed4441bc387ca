"""Decisions that people made about running agents, as evidence for what happened in a session.

The files of an agent cannot always tell: interrupting a turn during a permission request, denying the request, and a
rule that denies it leave the same bytes behind. When the agent ran under unspool, the answer was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

import msgspec

from . import model as m
from .session import Session

Verdict = Literal["allow", "allow_session", "deny", "deny_stop", "interrupt"]
DecisionMaker = Literal["user", "timeout", "agent"]
EVIDENCE = "supervisor"


class RecordedDecision(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A decision, as it was recorded before the agent received it."""

    at: datetime
    agent: str
    session: str | None
    request: str | None
    call_ids: list[str]
    """The calls it is about; an interruption is about all that were running or waiting for permission."""
    tool: str | None = None
    kind: str | None = None
    verdict: Verdict
    by: DecisionMaker
    who: str | None = None
    """The browser tab or program that sent it."""
    reason: str | None = None
    action: m.Action | None = None
    """What the person saw."""
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The input that replaced the one of the agent."""


Evidence = Callable[[str, str], Iterable[RecordedDecision]]
"""Returns the recorded decisions about a session, given its agent and id."""


def no_evidence(_agent: str, _session: str) -> Iterable[RecordedDecision]:
    """The evidence where nothing is known beside the files."""
    return ()


def apply_decisions(head: Session, decisions: Iterable[RecordedDecision]) -> Session:
    """A record in which recorded decisions take precedence over what the files suggest."""
    known = list(decisions)
    if not known:
        return head
    found = _Applied(head)
    for decision in known:
        for call_id in decision.call_ids:
            if decision.verdict in ("deny", "deny_stop"):
                found.rejected(call_id, decision)
            elif decision.verdict == "interrupt":
                found.interrupted(call_id, decision)
    return found.record()


class _Applied:
    def __init__(self, head: Session) -> None:
        self._head = head
        self._rejections = list(head.rejections)
        self._interruptions = list(head.interruptions)
        self._orphans = {orphan.tool_use_id: orphan for orphan in head.orphans}

    def record(self) -> Session:
        return msgspec.structs.replace(
            self._head, rejections=sorted(self._rejections, key=lambda event: event.message_index),
            interruptions=self._interruptions,
        )  # fmt: skip

    def rejected(self, call_id: str, decision: RecordedDecision) -> None:
        """A person, or a timeout in place of a person, denied a call."""
        by: m.RejectedBy = "user" if decision.by == "user" else "host"
        for place, event in enumerate(self._rejections):
            if event.tool_use_id == call_id:
                self._rejections[place] = msgspec.structs.replace(
                    event, reason=decision.reason or event.reason, by=by, evidence=EVIDENCE, confidence=1.0,
                    action=event.action or decision.action,
                )  # fmt: skip
                return
        where = self._message_of(call_id)
        if where is None:
            return
        # What looks like an interruption of this one call was its rejection.
        self._interruptions = [
            event
            for event in self._interruptions
            if event.tool_use_ids != [call_id] or event.during not in ("approval", "tool")
        ]
        kind: m.RejectionType = _TYPES.get(decision.kind or "", "permission")
        self._rejections.append(
            m.Rejection(
                message_index=where, tool_use_id=call_id, tool_name=decision.tool, reason=decision.reason,
                timestamp=decision.at, rejection_type=kind, by=by, evidence=EVIDENCE, action=decision.action,
            )
        )  # fmt: skip

    def interrupted(self, call_id: str, decision: RecordedDecision) -> None:
        """A call that looks rejected or unfinished was interrupted: nobody was asked, or nobody answered."""
        rejection = next((event for event in self._rejections if event.tool_use_id == call_id), None)
        if rejection is not None and rejection.evidence == EVIDENCE:
            return
        if rejection is not None:
            self._rejections.remove(rejection)
        where = rejection.message_index if rejection is not None else self._message_of(call_id)
        is_told = any(event.message_index == where or call_id in event.tool_use_ids for event in self._interruptions)
        if where is None or is_told:
            return
        self._interruptions.append(
            m.Interruption(
                message_index=where, interrupted_message_index=None, type="user" if decision.by == "user" else "system",
                during="approval", timestamp=decision.at, tool_use_ids=[call_id], evidence=EVIDENCE,
            )
        )  # fmt: skip

    def _message_of(self, call_id: str) -> int | None:
        """The message with the end of a call, or with the call."""
        for event in self._interruptions:
            if call_id in event.tool_use_ids and event.message_index is not None:
                return event.message_index
        for failure in self._head.errors:
            if failure.tool_use_id == call_id:
                return failure.message_index
        return self._orphans[call_id].message_index if call_id in self._orphans else None


_TYPES: dict[str, m.RejectionType] = {
    "command": "command", "edit": "edit", "plan": "plan", "question": "option", "permission": "permission",
}  # fmt: skip
