"""What people decided about running agents, and what that proves: the agents' own files cannot always tell.

Stopping a turn while an agent asks, refusing with a stop, and a rule that refuses leave the same bytes behind. Whoever
ran the agent under unspool gave the answer there, and that is evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from . import model as m
from .session import Session

Verdict = Literal["allow", "allow_session", "deny", "deny_stop", "interrupt"]
DecidedBy = Literal["user", "timeout", "agent"]
EVIDENCE = "supervisor"


class Decided(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One decision, as it was written down when it was made."""

    at: datetime
    agent: str
    session: str | None
    request: str | None
    call_ids: list[str]
    """The calls it was about: of an interruption all that were running or asked."""
    tool: str | None = None
    kind: str | None = None
    verdict: Verdict
    by: DecidedBy
    who: str | None = None
    """The tab or program from which it came."""
    reason: str | None = None
    action: m.Action | None = None
    """What was shown."""
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """What was used instead of it."""


def apply_decisions(head: Session, decisions: Iterable[Decided]) -> Session:
    """A record in which what was decided counts more than what the files seem to say."""
    known = list(decisions)
    if not known:
        return head
    found = _Applied(head)
    for decision in known:
        for call_id in decision.call_ids:
            if decision.verdict in ("deny", "deny_stop"):
                found.refused(call_id, decision)
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

    def refused(self, call_id: str, decision: Decided) -> None:
        """A person, or the clock in a person's place, refused a call."""
        by: m.Refuser = "user" if decision.by == "user" else "host"
        for place, event in enumerate(self._rejections):
            if event.tool_use_id == call_id:
                self._rejections[place] = msgspec.structs.replace(
                    event, reason=decision.reason or event.reason, by=by, evidence=EVIDENCE, confidence=1.0,
                    action=event.action or decision.action,
                )  # fmt: skip
                return
        where = self._place_of(call_id)
        if where is None:
            return
        # What looked like an interruption of this one call was its refusal.
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

    def interrupted(self, call_id: str, decision: Decided) -> None:
        """What looks like a refusal, or like nothing, was an interruption: nobody was asked, or nobody answered."""
        refusal = next((event for event in self._rejections if event.tool_use_id == call_id), None)
        if refusal is not None and refusal.evidence == EVIDENCE:
            return
        if refusal is not None:
            self._rejections.remove(refusal)
        where = refusal.message_index if refusal is not None else self._place_of(call_id)
        is_told = any(event.message_index == where or call_id in event.tool_use_ids for event in self._interruptions)
        if where is None or is_told:
            return
        self._interruptions.append(
            m.Interruption(
                message_index=where, interrupted_message_index=None, type="user" if decision.by == "user" else "system",
                during="approval", timestamp=decision.at, tool_use_ids=[call_id], evidence=EVIDENCE,
            )
        )  # fmt: skip

    def _place_of(self, call_id: str) -> int | None:
        """The message that tells of a call's end, or of the call."""
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
