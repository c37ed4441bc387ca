"""Receipts for tool calls of agents run by unspool: what was asked, who decided, what ran, and what changed.

A receipt combines the decision log, which has the request and the decisions, with the record of the session, which has
the outcome. It claims nothing beyond these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from ..core import model as m
from ..core.decisions import DecisionMaker, RecordedDecision, Verdict
from .diff import FileChange, changed_files
from .exact import exact_line
from .sanitize import harmless, local, one_line

VERDICTS: dict[Verdict, str] = {
    "allow": "allowed",
    "allow_session": "allowed for the session",
    "deny": "denied",
    "deny_stop": "denied, and the turn stopped",
    "interrupt": "interrupted while waiting",
}
_WIDTH = 200
_HEAD, _TAIL = 140, 60
"""Number of characters shown from the beginning and the end of a long action."""


class CallDecision(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One decision about a call."""

    verdict: Verdict
    by: DecisionMaker
    who: str | None = None
    """The browser tab or program that sent it."""
    at: datetime
    reason: str | None = None


class Receipt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was asked, decided, run and changed for one tool call."""

    asked_at: datetime | None = None
    """When the agent asked; absent for decisions by versions that did not record it."""
    asked: m.Action | None = None
    """The request that the person saw."""
    decisions: list[CallDecision]
    """In order; the last one counts."""
    has_run: bool | None = None
    """None if the record does not say."""
    ran: m.Action | None = None
    """What ran, if it differs from the request."""
    outcome: m.Outcome | None = None
    """None if no result is recorded."""
    exit_code: int | None = None
    changed: list[FileChange] = []
    """The files that the call changed, according to its input; a command can change others."""


class ReceiptLine(NamedTuple):
    """A description of one step of a receipt."""

    step: str
    text: str


DecisionsByCall = Mapping[str, list[RecordedDecision]]


def decisions_by_call(decisions: Iterable[RecordedDecision]) -> DecisionsByCall:
    """Return the decisions about each call, in order."""
    found: dict[str, list[RecordedDecision]] = {}
    for decision in decisions:
        for call_id in decision.call_ids:
            found.setdefault(call_id, []).append(decision)
    return found


def receipt_of(
    decisions: list[RecordedDecision], action: m.Action, result: m.ToolResult | None, change: m.InputChange | None
) -> Receipt:
    """Return the receipt of a call; `action` is what ran, as far as it is known."""
    outcome = result.outcome if result is not None else None
    return Receipt(
        asked_at=next((one.asked_at for one in decisions if one.asked_at is not None), None),
        asked=next((one.action for one in decisions if one.action is not None), None),
        decisions=[
            CallDecision(verdict=one.verdict, by=one.by, who=one.who, at=one.at, reason=one.reason) for one in decisions
        ],
        has_run=_HAS_RUN.get(outcome) if outcome is not None else None,
        ran=change.ran if change is not None else None,
        outcome=outcome,
        exit_code=result.exit_code if result is not None else None,
        changed=changed_files(action.diff, action.path) if action.diff and outcome == "ok" else [],
    )


_HAS_RUN: dict[m.Outcome, bool] = {"ok": True, "error": True, "rejected": False}
"""Other outcomes do not tell: an interrupted or invalid call may have done a part of its work."""


def receipt_lines(receipt: Receipt) -> list[ReceiptLine]:
    """Describe a receipt step by step."""
    asked = action_text(receipt.asked) if receipt.asked is not None else "an interruption, without a request"
    at = f"{local(receipt.asked_at)}: " if receipt.asked_at is not None else ""
    return [
        ReceiptLine("asked", f"{at}{asked}"),
        *(ReceiptLine("decided", _decision_text(one)) for one in receipt.decisions),
        ReceiptLine("ran", _run_text(receipt)),
        ReceiptLine("changed", _change_text(receipt)),
    ]


def action_text(action: m.Action) -> str:
    """Describe a call on one line, with every character visible. The middle of a long text is omitted."""
    question = action.questions[0].question if action.questions else None
    text = action.command or action.path or question or action.plan
    text = text or bytes(action.raw_input).decode("utf-8", "replace")
    if len(text) <= _HEAD + _TAIL:
        return exact_line(text)
    left_out = len(text) - _HEAD - _TAIL
    return f"{exact_line(text[:_HEAD])} … {left_out:,} characters … {exact_line(text[-_TAIL:])}"


def _decision_text(one: CallDecision) -> str:
    by = {"user": f"by {one.who or 'you'}", "timeout": "because nobody answered in time"}.get(one.by, f"by {one.who}")
    reason = f": “{one_line(one.reason, _WIDTH)}”" if one.reason and one.by == "user" else ""
    return harmless(f"{VERDICTS[one.verdict]} {by}, {local(one.at)}{reason}")


def _run_text(receipt: Receipt) -> str:
    if receipt.has_run is False:
        return "nothing"
    if receipt.has_run is None:
        return f"unknown: {_UNCLEAR.get(receipt.outcome or 'unknown', 'no result recorded')}"
    return f"with a changed input: {action_text(receipt.ran)}" if receipt.ran is not None else "as asked"


_UNCLEAR: dict[m.Outcome, str] = {
    "interrupted": "it was interrupted",
    "tool_use_error": "it was an invalid tool call",
}


def _change_text(receipt: Receipt) -> str:
    parts = [f"exit code {receipt.exit_code}"] if receipt.exit_code is not None else []
    parts += [f"{exact_line(one.path)} (+{one.added} −{one.removed})" for one in receipt.changed]
    return ", ".join(parts) or ("nothing" if receipt.has_run is False else "nothing recorded")
