"""How the tool calls of a Codex thread end: with a result, an error, a rejection, or an interruption."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.open_calls import Call
from .outcomes import CodexVerdict
from .schema import CodexPayload
from .tools import action_of, command_of, is_escalated, patch_of, waits_for_agent

_AUTO_REVIEW = "auto_review"
_DENIALS_BEFORE_ABORT = 2
"""The third rejection in a row stops the turn (seen: 0.166); its own result only says that the turn was aborted."""


class CodexResult(NamedTuple):
    """A tool result since the last message of the model."""

    message: int
    call_id: str
    verdict: CodexVerdict
    call: Call | None
    timestamp: datetime | None


class Abort(NamedTuple):
    """A turn that was aborted, to be classified after the last line."""

    message: int
    interrupted: int | None
    timestamp: datetime | None
    reason: str
    results: list[CodexResult]
    could_ask: bool
    """Whether a person is asked for approval in this turn."""
    by_reviewer: bool
    """Whether the program stopped the turn because the automatic reviewer rejected several calls in a row."""


class CodexToolCalls:
    """The results and aborts of one thread, including those that cannot be classified yet."""

    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self.policy: str | None = None
        """The approval policy: when the user is asked."""
        self.reviewer: str | None = None
        """Who is asked: `user`, or `auto_review` for a model; recorded since 0.145."""
        self.aborts: list[Abort] = []
        self._results: list[CodexResult] = []
        self._denials = 0
        self._ran: set[str] = set()
        self._ran_commands: set[str] = set()

    @property
    def can_ask(self) -> bool:
        """Whether a person is asked for approval."""
        return self.policy != "never" and self.reviewer in (None, "user")

    @property
    def last(self) -> CodexResult | None:
        """The latest result of the turn."""
        return self._results[-1] if self._results else None

    def next_turn(self) -> None:
        """Start a new turn."""
        self._results = []
        self._denials = 0

    def close(self, entry: CodexResult, text: str, last_model: int, inherited: bool) -> None:
        """Read a result; an `inherited` one causes no event here."""
        if self._results and self._results[-1].message < last_model:
            self._results = []
        self._results.append(entry)
        verdict = entry.verdict
        if verdict.kind != "aborted":
            self._denials = self._denials + 1 if verdict.by == "rule" else 0
        if inherited:
            return
        if verdict.kind == "rejected":
            self._reject(entry, verdict.by or "user", "result text", 1.0)
        elif verdict.kind in ("error", "tool_use_error"):
            self._builder.events.errors.append(
                m.Failure(
                    kind="tool_use_error" if verdict.kind == "tool_use_error" else "tool_error",
                    message_index=entry.message,
                    text=text,
                    tool_use_id=entry.call_id,
                    exit_code=verdict.exit_code,
                    timestamp=entry.timestamp,
                )
            )

    def read_event(self, payload: CodexPayload) -> None:
        """Read the end of a command, or the verdict of the automatic reviewer, its only trace in 0.118."""
        if payload.type == "guardian_assessment":
            self.reviewer = self.reviewer or _AUTO_REVIEW
        else:
            self.note_run(payload.call_id)

    def note_run(self, call_id: str | None, command: object = None) -> None:
        """Note that a command or patch ran, so nobody rejected it."""
        self._ran.add(call_id or "")
        if isinstance(command, list) and command:
            self._ran_commands.add(str(command[-1]))

    @property
    def are_denied_in_a_row(self) -> bool:
        """Whether the automatic reviewer rejected enough calls in a row for the program to stop the turn."""
        return self.reviewer == _AUTO_REVIEW and self._denials >= _DENIALS_BEFORE_ABORT

    def since(self, index: int) -> list[CodexResult]:
        """Return the results after a message."""
        return [entry for entry in self._results if entry.message > index]

    def finish(self) -> None:
        """Classify the aborts, now that it is known which calls ran."""
        for abort in self.aborts:
            self._judge(abort)

    def _judge(self, abort: Abort) -> None:
        """Add one event for an abort: a rejection if a call was rejected, else an interruption."""
        if any(entry.verdict.kind == "rejected" for entry in abort.results):
            return
        stopped = [entry for entry in abort.results if entry.verdict.kind == "aborted"]
        rejected = next((entry for entry in stopped if abort.could_ask and self._waited_for_approval(entry)), None)
        if rejected is not None:
            siblings = [entry.call_id for entry in stopped if entry is not rejected]
            for entry in stopped:
                self._builder.set_outcome(entry.message, entry.call_id, "rejected")
            self._reject(rejected, "user", "inferred: a call that needed approval never ran", 0.7, siblings)
            return
        by_user = abort.reason == "interrupted" and not abort.by_reviewer
        evidence = f"turn_aborted: {abort.reason}"
        self._builder.events.interruptions.append(
            m.Interruption(
                message_index=abort.message,
                interrupted_message_index=abort.interrupted,
                type="user" if by_user else "system",
                during=during(abort.results),
                timestamp=abort.timestamp,
                tool_use_ids=[entry.call_id for entry in stopped],
                evidence=f"{evidence}, after rejections by the automatic reviewer" if abort.by_reviewer else evidence,
                confidence=0.8 if abort.by_reviewer else 1.0,
            )
        )

    def _waited_for_approval(self, entry: CodexResult) -> bool:
        """Whether a stopped call was waiting for approval: it needed one, and nothing shows that it ran.

        A patch is applied at once, so one that was stopped was waiting.
        """
        call = entry.call
        if call is None or entry.call_id in self._ran:
            return False
        raw = bytes(call.raw_input)
        if is_escalated(raw):
            return command_of(call.name, raw) not in self._ran_commands
        return patch_of(raw) is not None

    def reject_unanswered(self, call_id: str, call: Call) -> None:
        """Add the rejection of a call that asked for approval and got no result."""
        entry = CodexResult(call.message, call_id, CodexVerdict("rejected", "user"), call, call.timestamp)
        self._reject(entry, "user", "inferred: a call that asked for approval has no result", 0.4)

    def _reject(
        self, entry: CodexResult, by: m.RejectedBy, evidence: str, confidence: float, siblings: list[str] | None = None
    ) -> None:
        kind: m.RejectionType = "other"
        action = None
        if entry.call is not None:
            kind, action = action_of(entry.call.name, entry.call.raw_input)
        self._builder.events.rejections.append(
            m.Rejection(
                message_index=entry.message,
                tool_use_id=entry.call_id,
                tool_name=entry.call.name if entry.call else None,
                timestamp=entry.timestamp,
                rejection_type=kind,
                by=by,
                evidence=evidence,
                confidence=confidence,
                action=action,
                sibling_tool_use_ids=siblings or [],
            )
        )


def during(results: list[CodexResult]) -> m.During:
    """Return what was running when a turn was stopped."""
    stopped = [entry for entry in results if entry.verdict.kind == "aborted"]
    if any(
        entry.call is not None and waits_for_agent(entry.call.name, bytes(entry.call.raw_input)) for entry in stopped
    ):
        return "subagent"
    return "tool" if stopped else "response"
