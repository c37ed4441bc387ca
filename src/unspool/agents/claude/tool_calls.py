"""How the tool calls of a Claude Code conversation end: with a result, an error, a rejection, or an interruption."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.open_calls import Call
from .content import blocks_of, flat_text
from .outcomes import FLAG, MARKER, STOPPING_EXITS, TOOL_MARKER, ClaudeVerdict, judge
from .saved_outputs import MARK, SavedOutputs
from .schema import ClaudeBlock, ClaudeRecord, ResultDetails, ToolUseResult
from .subagents import SubagentCalls
from .tools import ASKING_TOOLS, PLAN_TOOL, SUBAGENT_TOOLS, action_of


class JudgedResult(NamedTuple):
    """A tool result in a record, and how its call ended."""

    result: m.ToolResult
    verdict: ClaudeVerdict
    details: ResultDetails


class ClaudeResult(NamedTuple):
    """A tool result since the last message of the model."""

    message: int
    call_id: str
    verdict: ClaudeVerdict
    call: Call | None
    timestamp: datetime | None
    text: str
    inherited: bool

    @property
    def says_stopped(self) -> bool:
        """Whether its text says that the call was stopped."""
        return self.verdict.outcome == "interrupted" and self.verdict.evidence != FLAG and not self.inherited

    @property
    def is_refused(self) -> bool:
        """Whether it has the text of a rejection."""
        return self.verdict.outcome == "rejected" and not self.verdict.is_sibling

    @property
    def is_signalled(self) -> bool:
        """Whether only its exit code says that the call was stopped."""
        return self.verdict.outcome == "error" and self.verdict.exit_code in STOPPING_EXITS

    @property
    def only_asks(self) -> bool:
        """Whether the call did nothing but ask."""
        return self.call is not None and self.call.name in ASKING_TOOLS

    @property
    def is_of_subagent(self) -> bool:
        """Whether the call ran a sub-agent."""
        return self.call is not None and self.call.name in SUBAGENT_TOOLS


class Stop(NamedTuple):
    """The meaning of an interruption marker for the calls before it."""

    during: m.During
    is_rejection: bool
    is_doubtful: bool
    results: list[ClaudeResult]


class ClaudeToolCalls:
    """The results in one conversation, including those that cannot be classified yet."""

    def __init__(self, builder: SessionBuilder, subagents: SubagentCalls) -> None:
        self.saved: SavedOutputs | None = None
        """Finds outputs that were too large for a record."""
        self._builder = builder
        self._subagents = subagents
        self._results: list[ClaudeResult] = []
        self._open: list[ClaudeResult] = []
        self._rejected: list[ClaudeResult] = []
        self._running: set[str] = set()
        self._is_marked = False
        self._all_ok = True

    def read(
        self, record: ClaudeRecord, content: list[ClaudeBlock], source: m.Source
    ) -> tuple[list[m.Block], list[JudgedResult]]:
        """Return the blocks of a record with results, and how each call ended."""
        blocks: list[m.Block] = []
        results: list[JudgedResult] = []
        for index, block in enumerate(content):
            if block.tool_use_id is None:
                blocks += blocks_of([block], self._builder.raw_at, source, first=index)
                continue
            details = block.tool_use_result or record.tool_use_result
            text, parts = flat_text(block.content)
            verdict = judge(text, block.is_error is True, details, record)
            result = m.ToolResult(block.tool_use_id, text, verdict.outcome, verdict.exit_code, parts)
            result.synthetic = text == m.MADE_UP_RESULT
            if self.saved is not None and text.startswith(MARK):
                result.saved = self.saved.find(text)
            blocks.append(result)
            results.append(JudgedResult(result, verdict, details))
        return blocks, results

    def runs(self, call_id: str) -> None:
        """Note that a call is running, so it is not waiting for approval."""
        if call_id in self._builder.calls.open:
            self._running.add(call_id)

    def close(self, record: ClaudeRecord, index: int, judged: JudgedResult, inherited: bool) -> None:
        """Read a result; an `inherited` one causes no event here."""
        result, verdict, details = judged
        call = self._builder.close_call(result.call_id)
        entry = ClaudeResult(index, result.call_id, verdict, call, record.timestamp, result.content, inherited)
        if call is not None and call.name in SUBAGENT_TOOLS and isinstance(details, ToolUseResult):
            self._subagents.results[result.call_id] = details
        self._results.append(entry)
        if verdict.outcome == "ok" or inherited:
            return
        self._all_ok = False
        if verdict.outcome == "unknown":
            if call is not None and not result.synthetic:
                orphan = m.Orphan(
                    message_index=call.message, tool_use_id=result.call_id, tool_name=call.name, reason="killed"
                )
                self._builder.events.orphans.append(orphan)
        elif verdict.is_open:
            self._open.append(entry)
        elif verdict.outcome == "rejected":
            self._rejected.append(entry)
        elif verdict.outcome in ("error", "tool_use_error"):
            self._fail(entry, result.content)

    def next_step(self) -> None:
        """Classify the pending calls, because the conversation continues without a marker."""
        if not self._results:
            return
        if not self._all_ok:
            self._stop_without_marker()
            self._all_ok = True
        self._results.clear()
        self._running.clear()
        self._is_marked = False

    def finish(self) -> None:
        """Finish after the last record."""
        self._stop_without_marker()
        last_plans = {entry.call_id for entry in self._results if _refuses_plan(entry)}
        for rejection in self._builder.events.rejections:
            if rejection.tool_use_id in last_plans:
                # A plan that was approved with "clear context" looks the same, and the next session may be gone.
                rejection.evidence, rejection.confidence = "result text, last in the session", 0.5

    # --- markers ---

    def stop(self, record: ClaudeRecord, text: str, is_headless: bool) -> Stop:
        """Return what a marker says about the calls before it; `settle` acts on it."""
        stopped = [x for x in self._results if x.verdict.outcome == "interrupted" or x.verdict.is_open]
        is_rejection, is_doubtful = self._closes_rejection(record, text, is_headless)
        return Stop(_during(text, stopped), is_rejection, is_doubtful, stopped)

    def settle(self, stop: Stop, inherited: bool) -> None:
        """Classify the calls that were pending until the marker."""
        self._is_marked = True
        self._decide(rejected=stop.is_rejection)
        if not stop.is_rejection and not inherited:
            self._subagents.stopped.update(entry.call_id for entry in stop.results if entry.is_of_subagent)

    def _closes_rejection(self, record: ClaudeRecord, text: str, is_headless: bool) -> tuple[bool, bool]:
        """Return whether a marker only closes a rejection, and whether that is uncertain.

        In the terminal, `interruptedMessageId` (2.1.200 and later) marks an interruption. Headless sessions have no
        such field: an interruption of a call and a rejection that ends the turn look the same. Interruptions are more
        common, so it is read as one.
        """
        refused = [entry for entry in self._open if entry.is_refused]
        if any(entry.only_asks for entry in refused):
            return True, False
        if text == MARKER or record.interrupted_message_id is not None or self._all_ran(refused):
            return False, False
        return not is_headless, is_headless

    def _all_ran(self, entries: list[ClaudeResult]) -> bool:
        return all(entry.call_id in self._running for entry in entries)

    def _stop_without_marker(self) -> None:
        """Classify the calls that no marker followed; only its result shows that a call was stopped."""
        refused = [entry for entry in self._open if entry.is_refused]
        signalled = [entry for entry in self._open if entry.is_signalled]
        ran = bool(refused) and self._all_ran(refused)
        stopped = refused if ran else [entry for entry in self._results if entry.says_stopped]
        self._open = [entry for entry in self._open if not entry.is_signalled]
        self._decide(rejected=not ran)
        self._mark_interrupted(signalled)
        if stopped and not self._is_marked:
            self._interrupt(stopped, "a running call was refused" if ran else "result text", 0.9)
        elif signalled:
            self._interrupt(signalled, f"exit code {signalled[0].verdict.exit_code}", 0.5)

    def _interrupt(self, stopped: list[ClaudeResult], evidence: str, confidence: float) -> None:
        first = stopped[0]
        self._subagents.stopped.update(entry.call_id for entry in stopped if entry.is_of_subagent)
        self._builder.events.interruptions.append(
            m.Interruption(
                message_index=first.message,
                interrupted_message_index=first.call.message if first.call is not None else None,
                type="user",
                during=_during("", stopped),
                timestamp=first.timestamp,
                tool_use_ids=[entry.call_id for entry in stopped],
                evidence=evidence,
                confidence=confidence,
            )
        )

    # --- plans ---

    @property
    def has_refused_plan(self) -> bool:
        """Whether a plan was rejected since the last message of the model or the user."""
        return any(map(_refuses_plan, self._results))

    def approve_plan(self) -> list[int]:
        """Turn the rejection of a plan into an approval; returns the messages with the calls."""
        refused = {entry.call_id: entry for entry in self._results if _refuses_plan(entry)}
        self._open = [entry for entry in self._open if entry.call_id not in refused]
        rejections = self._builder.events.rejections
        rejections[:] = [rejection for rejection in rejections if rejection.tool_use_id not in refused]
        for call_id, entry in refused.items():
            self._builder.set_outcome(entry.message, call_id, "ok")
        return [entry.call.message for entry in refused.values() if entry.call is not None]

    # --- verdicts ---

    def _decide(self, rejected: bool) -> None:
        """Classify the open calls: the record after a rejection text shows whether it was an interruption.

        Rejections wait too, because the result may come before its call.
        """
        for entry in self._rejected:
            self._reject([entry])
        self._rejected.clear()
        if not self._open:
            return
        entries, self._open = self._open, []
        if not rejected:
            self._mark_interrupted(entries)
            return
        for entry in entries:
            if entry.verdict.outcome == "error":
                self._fail(entry, entry.text)
        rejections = [entry for entry in entries if entry.verdict.outcome == "rejected"]
        if rejections and not all(entry.verdict.is_sibling for entry in rejections):
            self._reject(rejections)
        else:
            # No other call was rejected, so the sibling of these was interrupted.
            self._mark_interrupted(rejections)

    def _mark_interrupted(self, entries: list[ClaudeResult]) -> None:
        for entry in entries:
            self._builder.set_outcome(entry.message, entry.call_id, "interrupted")

    def _reject(self, entries: list[ClaudeResult]) -> None:
        """Add the rejection of a call, with those that were cancelled together with it."""
        asked = [entry for entry in entries if not entry.verdict.is_sibling and entry.call_id not in self._running]
        entry = next(iter(asked or (e for e in entries if not e.verdict.is_sibling)), entries[0])
        call, verdict = entry.call or self._builder.calls.find(entry.call_id), entry.verdict
        kind: m.RejectionType = "other"
        action = None
        if call is not None:
            kind, action = action_of(call.name, call.raw_input)
        self._builder.events.rejections.append(
            m.Rejection(
                message_index=entry.message,
                tool_use_id=entry.call_id,
                tool_name=call.name if call else None,
                reason=verdict.reason,
                timestamp=entry.timestamp,
                rejection_type=kind,
                by=verdict.by or "user",
                evidence=verdict.evidence,
                action=action,
                sibling_tool_use_ids=[e.call_id for e in entries if e is not entry],
                asked_to_clarify=verdict.is_clarifying,
            )
        )

    def _fail(self, entry: ClaudeResult, text: str) -> None:
        self._builder.events.errors.append(
            m.Failure(
                kind="tool_use_error" if entry.verdict.outcome == "tool_use_error" else "tool_error",
                message_index=entry.message,
                text=text,
                tool_use_id=entry.call_id,
                exit_code=entry.verdict.exit_code,
                timestamp=entry.timestamp,
            )
        )


def _refuses_plan(entry: ClaudeResult) -> bool:
    is_plan = entry.call is not None and entry.call.name == PLAN_TOOL
    return is_plan and entry.verdict.outcome == "rejected" and entry.verdict.reason is None


def _during(text: str, stopped: list[ClaudeResult]) -> m.During:
    if any(entry.is_of_subagent for entry in stopped):
        return "subagent"
    return "tool" if stopped or text == TOOL_MARKER else "response"
