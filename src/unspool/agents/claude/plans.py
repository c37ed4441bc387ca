"""Plans that were approved with "clear context": the work continues from the plan, in an empty context.

Claude Code records this as if the plan had been rejected: the call gets the refusal text, and an interruption marker
follows. Only the next message, usually in a new session, shows the approval: it repeats the plan.

| version | the old file ends with | the new file begins with |
|---|---|---|
| 2.1.12 | the call | the old lines, the refusal, the marker, then the plan without a parent |
| 2.1.29 | the call | the refusal, the marker, the plan |
| 2.1.49 | the refusal and the marker | the plan |
| 2.1.63 and 2.1.219 | the refusal | the marker, the plan |
| 2.1.325 | the call | the plan |
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import INHERITED, MODEL, NONE, PROMPT, UNANSWERED
from .schema import ClaudeRecord
from .tool_calls import ClaudeToolCalls
from .tools import PLAN_TOOL

PLAN_EVIDENCE = "approved plan"
_OPENING = "Implement the following plan:"
_TRANSCRIPT = re.compile(r"read the full transcript at: \S*?([0-9a-fA-F-]{36})\.jsonl")
_CONTINUATION = "auto-continuation"
_SAME_MOMENT = timedelta(seconds=5)
"""Maximum time between the refusal and the plan; less than a second in all versions that were seen."""


def is_plan(text: str) -> bool:
    """Whether a message has the words with which the agent passes on an approved plan."""
    return text.startswith(_OPENING)


def plan_in(text: str) -> str | None:
    """Return the plan that a message passes on, from its heading on."""
    return text.removeprefix(_OPENING).lstrip("#* \r\n\t") if is_plan(text) else None


def is_marked(record: ClaudeRecord) -> bool:
    """Whether a record is marked as one that passes on a plan (2.1.29 and later)."""
    return record.plan_content is not None or (record.origin is not None and record.origin.kind == _CONTINUATION)


def session_in(text: str) -> str | None:
    """Return the session in which the plan was made, if the message names its transcript (2.1.30 and later)."""
    found = _TRANSCRIPT.search(text)
    return found[1] if found is not None else None


class ClaudePlans:
    """Recognises messages that pass on an approved plan."""

    def __init__(self, builder: SessionBuilder, calls: ClaudeToolCalls) -> None:
        self.starts_session = False
        """Whether the session starts with a plan that was approved in another one."""
        self._builder = builder
        self._calls = calls

    @property
    def is_expected(self) -> bool:
        """Whether the plan that starts the session has not been read yet: lines before it are about the old session."""
        return self.starts_session and not self._is_started

    @property
    def _is_started(self) -> bool:
        return any(flag & (PROMPT | MODEL) for flag in self._builder.columns.flags)

    def is_passed_on(self, record: ClaudeRecord, text: str) -> bool:
        """Whether a user record passes on an approved plan."""
        if not is_plan(text):
            return False
        if is_marked(record) or self.is_expected:
            return True
        parent = record.parent_uuid if isinstance(record.parent_uuid, str) else None
        is_root = record.parent_uuid is None or self._builder.find(parent) == NONE
        return is_root and self._calls.has_refused_plan

    def cleared(self, record: ClaudeRecord, index: int) -> None:
        """Read the plan that follows messages of the same file: it was approved, and the context was cleared."""
        self.starts_session = False
        if not self._calls.has_refused_plan:
            return
        calls = self._calls.approve_plan()
        flags, details = self._builder.columns.flags, self._builder.details
        if any(flags[call] & INHERITED for call in calls):
            # 2.1.12 copies the conversation only to record how it ended, so this is not a fork.
            details.origin = m.Origin(
                kind="clear",
                session=details.origin.session,
                evidence=PLAN_EVIDENCE,
                confidence=details.origin.confidence,
            )
        self._builder.events.context_clears.append(
            m.ContextClear(
                after_message_index=index - 1,
                timestamp=record.timestamp,
                evidence="session",
                confidence=0.9,
            )
        )


def approve_plan_at(builder: SessionBuilder, at: datetime) -> None:
    """Turn the rejection of a plan into an approval, because another session starts with the plan at that moment."""
    rejections = builder.events.rejections
    for rejection in rejections:
        near = rejection.timestamp is not None and abs(rejection.timestamp - at) <= _SAME_MOMENT
        if near and rejection.tool_name == PLAN_TOOL and rejection.reason is None and rejection.by == "user":
            rejections.remove(rejection)
            builder.set_outcome(rejection.message_index, rejection.tool_use_id or "", "ok")
            return
    for call_id, call in builder.calls.unanswered():
        if call.name == PLAN_TOOL:
            # 2.1.12, 2.1.29 and 2.1.325 write no result, but the session was not killed.
            builder.columns.flags[call.message] &= ~UNANSWERED
            builder.events.orphans.append(
                m.Orphan(message_index=call.message, tool_use_id=call_id, tool_name=call.name, reason="unknown")
            )
