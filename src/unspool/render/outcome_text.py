"""Texts and symbols for the outcome of a tool call, the same wherever it is shown."""

from __future__ import annotations

from ..core import model as m
from .event_text import OPEN_CALLS
from .sanitize import one_line
from .transcript import CallView

MARKS = {"ok": "✓", "error": "✗", "tool_use_error": "✗", "rejected": "⊘", "interrupted": "✕", "unknown": "○"}

_ASKED_WIDTH = 120

SAVED = "the model was given only the beginning of this output"
"""A note for output that the agent saved in a file."""


def outcome_of(call: CallView) -> str:
    """Return the outcome of a call; `unknown` if it has no result."""
    return call.result.outcome if call.result is not None else "unknown"


def outcome_text(call: CallView) -> str:
    """Describe the outcome of a call in a few words."""
    ended = _ended(call)
    return ended if call.change is None else f"{ended}; input changed, asked for: {asked_text(call.change)}"


def asked_text(change: m.InputChange) -> str:
    """Return the original request of the model, before a person changed it, in one line."""
    action = change.asked
    return one_line(action.command or action.path or bytes(action.raw_input).decode("utf-8", "replace"), _ASKED_WIDTH)


def _ended(call: CallView) -> str:
    if call.result is not None and call.result.synthetic:
        return "unfinished (synthetic result)"
    if call.orphan is not None and call.is_unfinished:
        return OPEN_CALLS.get(call.orphan.reason, f"unfinished ({call.orphan.reason})")
    if call.result is None:
        return "no result recorded"
    outcome = call.result.outcome
    if outcome == "rejected":
        return _rejection(call)
    if outcome == "error" and call.result.exit_code is not None:
        return f"exit {call.result.exit_code}"
    return {"ok": "ok", "error": "failed", "tool_use_error": "invalid tool call"}.get(outcome, outcome)


def _rejection(call: CallView) -> str:
    rejection = call.rejection
    if rejection is None:
        return "rejected"
    if rejection.asked_to_clarify:
        return "asked to clarify"
    by = "" if rejection.by == "user" else f" by {rejection.by}"
    return f"rejected{by}: “{rejection.reason}”" if rejection.reason else f"rejected{by}"
