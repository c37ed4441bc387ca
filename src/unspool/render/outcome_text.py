"""Words and marks for how a tool call ended, the same wherever it is shown."""

from __future__ import annotations

from .transcript import CallView

MARKS = {"ok": "✓", "error": "✗", "tool_use_error": "✗", "rejected": "⊘", "interrupted": "✕", "unknown": "○"}

SAVED = "the model was given only the beginning of this output"
"""Said of an output that the agent saved in a file."""


def outcome_of(call: CallView) -> str:
    """One of the outcomes, or `unknown` for a call that never finished."""
    return call.result.outcome if call.result is not None else "unknown"


def outcome_text(call: CallView) -> str:
    """How a call ended, in a few words."""
    if call.result is None:
        reason = call.orphan.reason if call.orphan is not None else "no result"
        return "not finished yet" if reason == "running" else f"never finished ({reason})"
    outcome = call.result.outcome
    if outcome == "rejected":
        return _refusal(call)
    if outcome == "error" and call.result.exit_code is not None:
        return f"exit {call.result.exit_code}"
    if call.result.synthetic:
        return "never finished (result made up)"
    return {"ok": "ok", "error": "failed", "tool_use_error": "wrong use of the tool"}.get(outcome, outcome)


def _refusal(call: CallView) -> str:
    rejection = call.rejection
    if rejection is None:
        return "refused"
    by = "" if rejection.by == "user" else f" by {rejection.by}"
    return f"refused{by}: “{rejection.reason}”" if rejection.reason else f"refused{by}"
