"""How the calls of a Gemini session end: results, failures, refusals, and calls that were stopped while they ran."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core.builder import SessionBuilder
from ...io.decode import clean_raw, decode_any
from .content import result_text
from .outcomes import GeminiVerdict, judge
from .schema import ABSENT, ToolCall
from .tools import AGENT_TOOLS, action_of

BY_RESULT = "result text"
_NO_INPUT = msgspec.Raw(b"{}")


class Ended(NamedTuple):
    """A call with what came of it."""

    message: int
    id: str
    name: str
    text: str
    timestamp: datetime | None
    status: str | None = None
    args: msgspec.Raw = ABSENT
    display: msgspec.Raw = ABSENT


class Agent(NamedTuple):
    """A call in which a sub-agent ran."""

    message: int
    call_id: str
    name: str
    agent_id: str | None
    status: m.AgentStatus


class GeminiToolCalls:
    """The calls of one session. Each is judged once, however often the log tells of it."""

    def __init__(self, draft: SessionBuilder) -> None:
        self._draft = draft
        self.agents: list[Agent] = []
        self.interruption: m.Interruption | None = None
        """Of this turn, once something told of it."""
        self._judged: set[str] = set()
        self._refused_in: set[int] = set()

    def is_known(self, call_id: str) -> bool:
        """Whether the end of a call was told already."""
        return call_id in self._judged

    def close(self, calls: list[ToolCall], index: int) -> None:
        """The log holds calls with their results: judge those that are new."""
        for call in calls:
            self._draft.close_call(call.id)
            if call.id not in self._judged:
                self._note_agent(call, index)
                text = result_text(call)
                self.judge(
                    Ended(index, call.id, call.name, text, call.timestamp, call.status, call.args, call.result_display)
                )

    def judge(self, ended: Ended) -> None:
        """Say how a call ended."""
        self._judged.add(ended.id)
        verdict = judge(ended.status, ended.text, ended.name)
        if verdict.outcome == "rejected":
            self._reject(ended, verdict)
        elif verdict.outcome == "interrupted":
            self._stop(ended)
        elif verdict.outcome in ("error", "tool_use_error"):
            self._draft.failures.append(
                m.Failure(
                    kind="tool_use_error" if verdict.outcome == "tool_use_error" else "tool_error",
                    message_index=ended.message,
                    text=ended.text,
                    tool_use_id=ended.id,
                    exit_code=verdict.exit_code,
                    timestamp=ended.timestamp,
                )
            )

    def take_refusal(self, index: int) -> bool:
        """Whether a person refused calls of a reply; the note that ends such a turn is told by that, once."""
        refused = index in self._refused_in
        self._refused_in.discard(index)
        return refused

    def learn_input(self, call: m.ToolCall) -> None:
        """What a refused call asked for was told later."""
        for rejection in self._draft.rejections:
            if rejection.tool_use_id == call.id:
                rejection.rejection_type, rejection.action = action_of(call.name, call.raw_input, None)

    def _reject(self, ended: Ended, verdict: GeminiVerdict) -> None:
        if verdict.by == "user":
            self._refused_in.add(ended.message)
        last = self._draft.rejections[-1] if self._draft.rejections else None
        if verdict.fell and last is not None and last.message_index == ended.message:
            last.sibling_tool_use_ids.append(ended.id)
            return
        kind, action = action_of(ended.name, input_of(ended.args), decode_any(ended.display))
        self._draft.rejections.append(
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
        """A call that was stopped while it ran: the note that tells of it comes before or after."""
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
            self._draft.interruptions.append(self.interruption)
        self.interruption.during = during
        self.interruption.tool_use_ids.append(ended.id)

    def _note_agent(self, call: ToolCall, index: int) -> None:
        display = decode_any(call.result_display)
        is_agent = call.name in AGENT_TOOLS or (isinstance(display, dict) and display.get("isSubagentProgress") is True)
        if not is_agent or call.status == "error":
            return
        given = decode_any(call.args)
        name = given.get("agent_name") if isinstance(given, dict) else None
        status: m.AgentStatus = "interrupted" if call.status == "cancelled" else "completed"
        self.agents.append(Agent(index, call.id, name if isinstance(name, str) else call.name, call.agent_id, status))


def input_of(args: msgspec.Raw) -> msgspec.Raw:
    """The input of a call."""
    return clean_raw(args) if args else _NO_INPUT
