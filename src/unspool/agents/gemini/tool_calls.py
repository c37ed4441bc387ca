"""How the tool calls of a Gemini session end: with a result, an error, a rejection, or an interruption."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core.builder import SessionBuilder
from ...io.decode import clean_raw, decode_any
from .content import result_text
from .outcomes import GeminiVerdict, judge
from .schema import ABSENT, GeminiToolCall
from .tools import AGENT_TOOLS, action_of

BY_RESULT = "result text"
_POSITION = re.compile(r"_\d{10,}_(\d{1,9})$")
_PROGRESS = "isSubagentProgress"
_NO_INPUT = msgspec.Raw(b"{}")


class Ended(NamedTuple):
    """A call with its result."""

    message: int
    id: str
    name: str
    text: str
    timestamp: datetime | None
    status: str | None = None
    args: msgspec.Raw = ABSENT
    display: msgspec.Raw = ABSENT


class AnsweredCall(NamedTuple):
    """A call of a reply, the text of its result, and how it ended."""

    call: GeminiToolCall
    text: str
    verdict: GeminiVerdict


class AgentCall(NamedTuple):
    """A call in which a sub-agent ran."""

    message: int
    call_id: str
    name: str
    agent_id: str | None
    status: m.AgentStatus


class GeminiToolCalls:
    """The calls of one session. Each is classified once, even if the log repeats it."""

    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self.agents: list[AgentCall] = []
        self.interruption: m.Interruption | None = None
        """The interruption of this turn, if one was found."""
        self._judged: set[str] = set()
        self._rejected_in: set[int] = set()

    def is_known(self, call_id: str) -> bool:
        """Whether a call was classified."""
        return call_id in self._judged

    def close(self, answered: list[AnsweredCall], index: int) -> None:
        """Add the events of the calls of a reply that are new."""
        found: list[tuple[Ended, GeminiVerdict]] = []
        for call, text, verdict in answered:
            self._builder.close_call(call.id)
            if call.id not in self._judged:
                self._note_agent(call, index)
                ended = Ended(
                    index, call.id, call.name, text, call.timestamp, call.status, call.args, call.result_display
                )
                found.append((ended, verdict))
        # Calls that were cancelled because another one was rejected belong to that rejection.
        for ended, verdict in sorted(found, key=lambda entry: entry[1].is_sibling):
            self._add(ended, verdict)

    def judge(self, ended: Ended) -> None:
        """Classify a call, and add the event that it caused."""
        self._add(ended, judge(ended.status, ended.text, ended.name))

    def _add(self, ended: Ended, verdict: GeminiVerdict) -> None:
        self._judged.add(ended.id)
        if verdict.outcome == "rejected":
            self._reject(ended, verdict)
        elif verdict.outcome == "interrupted":
            self._stop(ended)
        elif verdict.outcome in ("error", "tool_use_error"):
            self._builder.events.errors.append(
                m.Failure(
                    kind="tool_use_error" if verdict.outcome == "tool_use_error" else "tool_error",
                    message_index=ended.message,
                    text=ended.text,
                    tool_use_id=ended.id,
                    exit_code=verdict.exit_code,
                    timestamp=ended.timestamp,
                )
            )

    def take_rejection(self, index: int) -> bool:
        """Return whether a person rejected calls of a reply; True only once, because one note ends such a turn."""
        rejected = index in self._rejected_in
        self._rejected_in.discard(index)
        return rejected

    def learn_input(self, call: m.ToolCall) -> None:
        """Complete the rejection of a call whose input was recorded later."""
        for rejection in self._builder.events.rejections:
            if rejection.tool_use_id == call.id:
                rejection.rejection_type, rejection.action = action_of(call.name, call.raw_input, None)

    def _reject(self, ended: Ended, verdict: GeminiVerdict) -> None:
        if verdict.by == "user":
            self._rejected_in.add(ended.message)
        last = self._builder.events.rejections[-1] if self._builder.events.rejections else None
        if verdict.is_sibling and last is not None and last.message_index == ended.message:
            last.sibling_tool_use_ids.append(ended.id)
            return
        kind, action = action_of(ended.name, input_of(ended.args), decode_any(ended.display))
        self._builder.events.rejections.append(
            m.Rejection(
                message_index=ended.message,
                tool_use_id=ended.id,
                tool_name=ended.name,
                timestamp=ended.timestamp,
                rejection_type=kind,
                by=verdict.by or "user",
                evidence="cancelled; an interruption would look the same" if verdict.is_doubtful else BY_RESULT,
                confidence=0.5 if verdict.is_doubtful else 1.0,
                action=action,
            )
        )

    def _stop(self, ended: Ended) -> None:
        """Add or extend the interruption of a call that was stopped; the note about it comes before or after."""
        is_agent = ended.name in AGENT_TOOLS or any(agent.call_id == ended.id for agent in self.agents)
        during: m.During = "subagent" if is_agent else "tool"
        if self.interruption is None:
            self.interruption = m.Interruption(
                message_index=ended.message,
                interrupted_message_index=ended.message,
                type="user",
                during=during,
                evidence=BY_RESULT,
                confidence=0.9,
            )
            self._builder.events.interruptions.append(self.interruption)
        self.interruption.during = during
        self.interruption.tool_use_ids.append(ended.id)

    def _note_agent(self, call: GeminiToolCall, index: int) -> None:
        is_agent = call.name in AGENT_TOOLS or _shows_agent(call.result_display)
        if not is_agent or call.status == "error":
            return
        given = decode_any(call.args)
        name = given.get("agent_name") if isinstance(given, dict) else None
        status: m.AgentStatus = "interrupted" if call.status == "cancelled" else "completed"
        agent_name = name if isinstance(name, str) else call.name
        self.agents.append(AgentCall(index, call.id, agent_name, call.agent_id, status))


def answered_calls(calls: list[GeminiToolCall]) -> list[AnsweredCall]:
    """Return the calls of a reply with their results, in the model's order."""
    texts = [(call, result_text(call)) for call in in_order(calls)]
    return [AnsweredCall(call, text, judge(call.status, text, call.name)) for call, text in texts]


def _shows_agent(display: msgspec.Raw) -> bool:
    # Most displays are diffs of whole files, which are not worth decoding.
    shown = decode_any(display) if _PROGRESS.encode() in bytes(display) else None
    return isinstance(shown, dict) and shown.get(_PROGRESS) is True


def in_order(calls: list[GeminiToolCall]) -> list[GeminiToolCall]:
    """Return the calls of a reply in the model's order; 0.61 lists them in the order in which they ended.

    Its ids end with the position. Over ACP a message collects the calls of several replies, which repeat positions.
    """
    if len(calls) < 2:
        return calls
    positions = [int(found[1]) for call in calls if (found := _POSITION.search(call.id))]
    if len(positions) < len(calls) or len(set(positions)) < len(positions):
        return calls
    return [call for _, call in sorted(zip(positions, calls, strict=True), key=lambda entry: entry[0])]


def input_of(args: msgspec.Raw) -> msgspec.Raw:
    """Return the input of a call."""
    return clean_raw(args) if args else _NO_INPUT
