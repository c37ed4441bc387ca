"""How the calls of a Claude Code conversation end: results, failures, refusals, and what an interruption stopped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core.builder import Call, SessionBuilder
from .content import RawAt, blocks_of, flat_text
from .outcomes import MARKER, TOOL_MARKER, ClaudeVerdict, judge
from .saved_outputs import MARK, SavedOutputs
from .schema import Block, Line, ToolUseResult
from .tools import SUBAGENT_TOOLS, action_of


class Spawn(NamedTuple):
    """A call that starts a sub-agent."""

    message: int
    call_id: str
    prompt: str | None
    agent_type: str | None
    description: str | None
    timestamp: datetime | None


class Result(NamedTuple):
    """A tool result since the model last spoke."""

    message: int
    call_id: str
    verdict: ClaudeVerdict
    call: Call | None
    timestamp: datetime | None

    @property
    def is_agents(self) -> bool:
        """Whether a sub-agent ran in the call."""
        return self.call is not None and self.call.name in SUBAGENT_TOOLS


class Stop(NamedTuple):
    """What an interruption marker means for the calls before it."""

    during: m.During
    is_refusal: bool
    is_doubtful: bool
    results: list[Result]


class ClaudeToolCalls:
    """The calls of one conversation, and what is still undecided about them."""

    def __init__(self, draft: SessionBuilder) -> None:
        self._draft = draft
        self.spawns: dict[str, Spawn] = {}
        self.agents: dict[str, ToolUseResult] = {}
        """What the calls of sub-agents gave back, by call."""
        self.stopped_agents: set[str] = set()
        self.saved: SavedOutputs | None = None
        """Where outputs lie that were too large for a line."""
        self._results: list[Result] = []
        self._open: list[Result] = []

    def begin(self, index: int, blocks: Iterable[m.Block], timestamp: datetime | None) -> None:
        """The model called tools: remember those that start sub-agents."""
        for block in blocks:
            if type(block) is m.ToolCall and block.name in SUBAGENT_TOOLS:
                given = block.input if isinstance(block.input, dict) else {}
                prompt, kind, about = (_text(given.get(key)) for key in ("prompt", "subagent_type", "description"))
                self.spawns[block.id] = Spawn(index, block.id, prompt, kind, about, timestamp)

    def read(
        self, line: Line, content: list[Block], raw_at: RawAt
    ) -> tuple[list[m.Block], list[tuple[m.ToolResult, ClaudeVerdict]]]:
        """The blocks of a line with results, and how each call ended."""
        blocks: list[m.Block] = []
        results: list[tuple[m.ToolResult, ClaudeVerdict]] = []
        for place, block in enumerate(content):
            if block.tool_use_id is None:
                blocks += blocks_of([block], partial(_shifted, raw_at, place))
                continue
            text, parts = flat_text(block.content)
            verdict = judge(text, block.is_error is True, line)
            result = m.ToolResult(block.tool_use_id, text, verdict.outcome, verdict.exit_code, parts)
            result.synthetic = text == m.MADE_UP_RESULT
            if self.saved is not None and text.startswith(MARK):
                result.saved = self.saved.find(text)
            blocks.append(result)
            results.append((result, verdict))
        return blocks, results

    def close(self, line: Line, index: int, result: m.ToolResult, verdict: ClaudeVerdict, inherited: bool) -> None:
        """A result arrived; `inherited` ones are told by the session they come from."""
        call = self._draft.close_call(result.call_id)
        entry = Result(index, result.call_id, verdict, call, line.timestamp)
        if entry.is_agents and isinstance(line.tool_use_result, ToolUseResult):
            self.agents[result.call_id] = line.tool_use_result
        self._results.append(entry)
        if verdict.outcome == "ok" or inherited:
            return
        if verdict.outcome == "unknown":
            if call is not None and not result.synthetic:
                orphan = m.Orphan(
                    message_index=call.message, tool_use_id=result.call_id, tool_name=call.name, reason="killed"
                )
                self._draft.orphans.append(orphan)
        elif verdict.is_open:
            self._open.append(entry)
        elif verdict.outcome == "rejected":
            self._reject([entry])
        elif verdict.outcome in ("error", "tool_use_error"):
            self._fail(entry, result.content)

    def next_step(self) -> None:
        """The conversation goes on: a refusal text that no marker followed was a refusal."""
        if self._results:
            self._decide(refused=True)
            self._results.clear()

    def finish(self) -> None:
        """After the last line."""
        self._decide(refused=True)

    # --- markers ---

    def stop(self, line: Line, text: str, is_headless: bool) -> Stop:
        """What a marker tells of the calls before it; `settle` acts on it."""
        stopped = [x for x in self._results if x.verdict.outcome == "interrupted" or x.verdict.is_open]
        refusal, doubtful = self._tells_refusal(line, text, is_headless)
        return Stop(_during(text, stopped), refusal, doubtful, stopped)

    def settle(self, stop: Stop, inherited: bool) -> None:
        """Decide what was open."""
        self._decide(refused=stop.is_refusal)
        if not stop.is_refusal and not inherited:
            self.stopped_agents.update(entry.call_id for entry in stop.results if entry.is_agents)

    def _tells_refusal(self, line: Line, text: str, is_headless: bool) -> tuple[bool, bool]:
        """Whether a marker only closes a refusal, and whether that cannot be told.

        In the terminal `interruptedMessageId` (2.1.200 and later) tells an interruption. Headless there is no such
        field: an interrupt at an open or running call and a refusal that ends the turn are written alike. The
        interrupt is what people do, so it is read as one.
        """
        refused = any(entry.verdict.outcome == "rejected" and not entry.verdict.fell for entry in self._open)
        if text == MARKER or not refused or line.interrupted_message_id is not None:
            return False, False
        return not is_headless, is_headless

    # --- verdicts ---

    def _decide(self, refused: bool) -> None:
        """The line after a refusal text tells what it was: a refusal, or an interrupted call."""
        if not self._open:
            return
        entries, self._open = self._open, []
        if not refused:
            self._mark_interrupted(entries)
            return
        for entry in entries:
            if entry.verdict.outcome == "error":
                self._fail(entry, f"Exit code {entry.verdict.exit_code}")
        refusals = [entry for entry in entries if entry.verdict.outcome == "rejected"]
        if refusals and not all(entry.verdict.fell for entry in refusals):
            self._reject(refusals)
        else:
            # A call that fell although no other was refused: its sibling was interrupted.
            self._mark_interrupted(refusals)

    def _mark_interrupted(self, entries: list[Result]) -> None:
        for entry in entries:
            self._draft.set_outcome(entry.message, entry.call_id, "interrupted")

    def _reject(self, entries: list[Result]) -> None:
        """A refusal: of one call, with those that fell together with it."""
        entry = next((e for e in entries if not e.verdict.fell), entries[0])
        call, verdict = entry.call, entry.verdict
        kind: m.RejectionType = "other"
        action = None
        if call is not None:
            kind, action = action_of(call.name, call.raw_input)
        self._draft.rejections.append(
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
            )
        )

    def _fail(self, entry: Result, text: str) -> None:
        self._draft.failures.append(
            m.Failure(
                kind="tool_use_error" if entry.verdict.outcome == "tool_use_error" else "tool_error",
                message_index=entry.message,
                text=text,
                tool_use_id=entry.call_id,
                exit_code=entry.verdict.exit_code,
                timestamp=entry.timestamp,
            )
        )


def _shifted(raw_at: RawAt, first: int, place: int) -> msgspec.Raw:
    return raw_at(first + place)


def _during(text: str, stopped: list[Result]) -> m.During:
    if any(entry.is_agents for entry in stopped):
        return "subagent"
    return "tool" if stopped or text == TOOL_MARKER else "response"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
