"""Decisions that people made about running agents, as evidence for what happened in a session.

The files of an agent cannot always tell: interrupting a turn during a permission request, denying the request, and a
rule that denies it leave the same bytes behind. When the agent ran under unspool, the answer was recorded, and so was
every interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Literal, cast

import msgspec

from . import model as m
from .assemble import SUPERVISED, SessionAssembler
from .builder import SessionBuilder
from .open_calls import Call
from .timestamps import shifted
from .tree import MODEL, PROMPT, QUEUED, UNANSWERED

Verdict = Literal["allow", "allow_session", "deny", "deny_stop", "interrupt"]
DecisionMaker = Literal["user", "timeout", "agent"]
TurnEnd = Literal["interrupted", "completed", "unknown"]
EVIDENCE = SUPERVISED
_CAUSE = f"{EVIDENCE}: "
_CLOCKS_DIFFER = timedelta(seconds=1)
"""Tolerance for times: agents round them, or take them a moment before they write."""


class RecordedDecision(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A decision, as it was recorded before the agent received it."""

    at: datetime
    agent: str
    session: str | None
    request: str | None
    call_ids: list[str]
    """The calls it is about; an interruption is about all that were waiting for permission."""
    tool: str | None = None
    kind: str | None = None
    verdict: Verdict
    by: DecisionMaker
    who: str | None = None
    """The browser tab or program that sent it."""
    reason: str | None = None
    action: m.Action | None = None
    """The action that the person saw."""
    asked_at: datetime | None = None
    """When the agent asked."""
    digest: str | None = None
    """A hash over all of the request as it was shown, with the text of the rule that the answer may create."""
    answers: dict[str, list[str]] = {}
    """For a question: the answers that were chosen or written, by question."""
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The input that replaced the one of the agent."""
    rule: str | None = None
    """For `allow_session`: what it allows from then on, in the words that the person saw."""
    notes: dict[str, str] = {}
    """For a question: what the person added to the answer, by question."""
    subagent: str | None = None
    """The sub-agent that asked. Its calls are in a log of its own."""
    turn: TurnEnd = "interrupted"
    """How an interrupted turn ended. `completed`: it was over before the agent reacted. `unknown`: the server was
    killed, so the end was not observed."""


Evidence = Callable[[str, str], Iterable[RecordedDecision]]
"""Returns the recorded decisions about a session, given its agent and id."""
Describe = Callable[[str, msgspec.Raw], m.Action]
"""Returns what a call does, given the name of the tool and its input."""


def no_evidence(_agent: str, _session: str) -> Iterable[RecordedDecision]:
    """Return no decisions, so that only the files count."""
    return ()


def main_session(id: str) -> str:
    """The session under which decisions about a session are recorded: for a sub-agent, the one that started it."""
    return id.partition("/")[0]


def apply_decisions(assembler: SessionAssembler, decisions: Iterable[RecordedDecision], describe: Describe) -> None:
    """Let recorded decisions take precedence over what the files suggest.

    They are applied in the order in which they were made: an agent may ask about the same call again, and then the last
    answer counts.
    """
    known = list(decisions)
    if not known:
        return
    events = DecidedEvents(assembler)
    for decision in known:
        if decision.verdict == "interrupt":
            events.interrupt(decision)
            continue
        for call_id in decision.call_ids:
            if decision.verdict in ("deny", "deny_stop"):
                events.deny(call_id, decision)
            else:
                events.allow(call_id, decision, describe)


class DecidedEvents:
    """The events of one session while decisions are applied to it."""

    def __init__(self, assembler: SessionAssembler) -> None:
        self._builder = assembler.builder
        self._events = assembler.builder.events
        self._turns = Turns(assembler.builder)

    # --- denied ---

    def deny(self, call_id: str, decision: RecordedDecision) -> None:
        """Record that a person, or a timeout instead of a person, denied a call."""
        by: m.RejectedBy = "user" if decision.by == "user" else "host"
        known = self._rejection_of(call_id)
        if known is not None:
            known.by, known.evidence, known.confidence = by, EVIDENCE, 1.0
            known.reason = decision.reason or known.reason
            known.action = _fuller(known.action, decision.action)
            where: int | None = known.message_index
        else:
            where = self._message_of(call_id, decision)
        if where is None:
            return
        stopped = self._forget_interruption(call_id, decision, where)
        self._events.errors = [event for event in self._events.errors if event.tool_use_id != call_id]
        self._set_outcome(call_id, where, "rejected")
        if known is None:
            self._events.rejections.append(
                m.Rejection(
                    message_index=where,
                    tool_use_id=call_id,
                    tool_name=decision.tool,
                    reason=decision.reason,
                    timestamp=decision.at,
                    rejection_type=_TYPES.get(decision.kind or "", "permission"),
                    by=by,
                    evidence=EVIDENCE,
                    action=decision.action,
                    sibling_tool_use_ids=stopped,
                )
            )

    def _forget_interruption(self, call_id: str, decision: RecordedDecision, where: int) -> list[str]:
        """Remove what looks like an interruption but was this rejection; returns the other calls that it stopped."""
        turn = self._turns.around(where)
        for event in list(self._events.interruptions):
            others = [each for each in event.tool_use_ids if each != call_id]
            is_about_call = call_id in event.tool_use_ids
            ended_turn = decision.verdict == "deny_stop" and _is_trace(event, decision) and self._is_in(event, turn)
            if (is_about_call and not others) or ended_turn:
                self._events.interruptions.remove(event)
                return others
            if is_about_call:
                event.tool_use_ids = others
        return []

    # --- allowed ---

    def allow(self, call_id: str, decision: RecordedDecision, describe: Describe) -> None:
        """Record that a person allowed a call, perhaps with another input. If it looks rejected, it was interrupted."""
        rejection = self._rejection_of(call_id)
        if rejection is not None and rejection.by in _PEOPLE:
            self._interrupt_rejected(rejection, "tool", "allowed before it was stopped", 0.9)
        elif any(call_id in event.sibling_tool_use_ids for event in self._events.rejections):
            self._set_outcome(call_id, None, "interrupted")
        if decision.input is not msgspec.UNSET:
            self._change_input(call_id, decision, describe)

    def _change_input(self, call_id: str, decision: RecordedDecision, describe: Describe) -> None:
        call = self._call(call_id, decision)
        where = call.message if call is not None else self._message_of(call_id, decision)
        if where is None or not isinstance(decision.input, msgspec.Raw):
            return
        tool = decision.tool or (call.name if call is not None else "")
        asked = decision.action or m.Action(call.raw_input if call is not None else msgspec.Raw(b"null"))
        self._events.input_changes.append(
            m.InputChange(
                message_index=where,
                tool_use_id=call_id,
                tool_name=tool,
                timestamp=decision.at,
                asked=asked,
                ran=describe(tool, decision.input),
                evidence=EVIDENCE,
            )
        )

    # --- interrupted ---

    def interrupt(self, decision: RecordedDecision) -> None:
        """Record that a turn was interrupted and no call rejected. It is one event, however many traces it left."""
        if decision.turn == "completed":
            return
        turn = self._turn_of(decision)
        for rejection in list(self._events.rejections):
            is_asked = rejection.tool_use_id in decision.call_ids
            is_guess = rejection.confidence < 1 and rejection.by in _PEOPLE and rejection.message_index in turn
            if not is_supervised(rejection) and (is_asked or is_guess):
                self._interrupt_rejected(rejection, "approval" if is_asked else "tool", "interrupted", 0.9)
        event = self._trace_of(decision, turn)
        if event is None:
            event = self._new_interruption(decision, turn)
        if event is not None and not is_supervised(event):
            self._confirm(event, decision)

    def _turn_of(self, decision: RecordedDecision) -> range:
        for call_id in decision.call_ids:
            call = self._call(call_id, decision)
            if call is not None:
                return self._turns.around(call.message)
        # The log of a sub-agent may have ended long before: only its own calls connect it to a decision.
        return self._turns.at(decision.at) if self._builder.kind == "main" else range(0)

    def _trace_of(self, decision: RecordedDecision, turn: range) -> m.Interruption | None:
        """Find the interruption in the events of the files, or of an earlier decision about the same turn."""
        interruptions = self._events.interruptions
        for event in interruptions:
            if set(decision.call_ids) & set(event.tool_use_ids):
                return event
        in_turn = [event for event in interruptions if self._is_in(event, turn)]
        known = [event for event in in_turn if is_supervised(event)]
        return next((event for event in in_turn if _is_trace(event, decision)), known[0] if known else None)

    def _new_interruption(self, decision: RecordedDecision, turn: range) -> m.Interruption | None:
        """Add an interruption that left no trace: the agent was stopped before it could write one."""
        if self._builder.kind == "subagent":
            return None  # An interruption belongs to the session in which it happened.
        if decision.turn == "unknown" and not decision.call_ids and not self._turns.is_unfinished(turn, decision.at):
            return None
        calls = self._builder.calls.unanswered()
        stopped = {call_id: None for call_id, call in calls if call.message in turn or call_id in decision.call_ids}
        event = m.Interruption(
            message_index=turn[-1] if turn else None,
            interrupted_message_index=self._turns.last_spoken(turn),
            type="user",
            during="tool" if stopped else "response",
            timestamp=decision.at,
            tool_use_ids=list(stopped),
            evidence="",
        )
        self._events.interruptions.append(event)
        return event

    def _confirm(self, event: m.Interruption, decision: RecordedDecision) -> None:
        event.type = "user" if decision.by == "user" else "system"
        event.evidence = EVIDENCE if decision.by == "user" else f"{_CAUSE}{decision.who}"
        event.confidence = 1.0
        if decision.call_ids:
            event.during = "approval"
            event.tool_use_ids += [each for each in decision.call_ids if each not in event.tool_use_ids]
        for call_id in event.tool_use_ids:
            self._set_outcome(call_id, event.message_index, "interrupted")

    def _interrupt_rejected(self, rejection: m.Rejection, during: m.During, evidence: str, confidence: float) -> None:
        """Turn a rejection into an interruption, unless the files already report the interruption."""
        self._events.rejections.remove(rejection)
        where = rejection.message_index
        denied = {event.tool_use_id for event in self._events.rejections}
        stopped = (rejection.tool_use_id, *rejection.sibling_tool_use_ids)
        call_ids = [each for each in stopped if each is not None and each not in denied]
        for call_id in call_ids:
            self._set_outcome(call_id, where, "interrupted")
        turn = self._turns.around(where)
        in_turn = [event for event in self._events.interruptions if self._is_in(event, turn)]
        known = next((event for event in in_turn if event.type == "user" or is_supervised(event)), None)
        if known is not None:
            known.tool_use_ids += [each for each in call_ids if each not in known.tool_use_ids]
            return
        self._events.interruptions.append(
            m.Interruption(
                message_index=where,
                interrupted_message_index=self._turns.last_spoken(turn),
                type="user",
                during=during,
                timestamp=rejection.timestamp,
                tool_use_ids=call_ids,
                evidence=evidence,
                confidence=confidence,
            )
        )

    # --- looking things up ---

    def _call(self, call_id: str, decision: RecordedDecision) -> Call | None:
        """Return the call that a decision is about, which was made before it."""
        return self._builder.calls.find(call_id, shifted(decision.at, _CLOCKS_DIFFER))

    def _rejection_of(self, call_id: str) -> m.Rejection | None:
        return next((event for event in self._events.rejections if event.tool_use_id == call_id), None)

    def _is_in(self, event: m.Interruption, turn: range) -> bool:
        return event.message_index in turn or event.interrupted_message_index in turn

    def _set_outcome(self, call_id: str, where: int | None, outcome: m.Outcome) -> None:
        """Correct the outcome in the message with the result: the one of the event, or the one that closed the call."""
        call = self._builder.calls.find(call_id)
        ended = call.ended if call is not None else None
        # Readers close a call just before or just after they add the message with its result.
        for index in {where, ended, None if ended is None else ended - 1} - {None, len(self._builder)}:
            self._builder.set_outcome(cast(int, index), call_id, outcome)

    def _message_of(self, call_id: str, decision: RecordedDecision) -> int | None:
        """Return the message with the end of a call, or with the call; if it was not logged, the last one before."""
        for event in self._events.interruptions:
            if call_id in event.tool_use_ids and event.message_index is not None:
                return event.message_index
        for failure in self._events.errors:
            if failure.tool_use_id == call_id:
                return failure.message_index
        call = self._call(call_id, decision)
        if call is not None:
            return call.message
        is_elsewhere = decision.subagent is not None or self._builder.kind == "subagent"
        return None if is_elsewhere else self._turns.last_before(decision.at)


class Turns:
    """Finds the turn of a session that was running at a point in time."""

    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder

    def last_before(self, moment: datetime) -> int | None:
        """The last message that was written before a moment."""
        return self._builder.last_before(moment)

    def at(self, moment: datetime) -> range:
        """Return the messages of the turn that was running at a moment."""
        index = self.last_before(moment)
        return range(0) if index is None else self.around(index)

    def around(self, index: int) -> range:
        """The messages of the turn to which a message belongs: from its prompt to the next one."""
        flags = self._builder.columns.flags
        first, end = index, index + 1
        while first > 0 and not _starts_turn(flags[first]):
            first -= 1
        while end < len(flags) and not _starts_turn(flags[end]):
            end += 1
        return range(first, end)

    def is_unfinished(self, turn: range, moment: datetime) -> bool:
        """Whether a turn that was running at a moment never ended.

        Then nothing was written after that moment, or the last prompt or call got no answer.
        """
        last = self.last_spoken(turn)
        if last is None:
            return False
        is_cut_off = self._builder.sink.time_of(turn[-1]) <= moment.timestamp()
        return is_cut_off or bool(self._builder.columns.flags[last] & (PROMPT | UNANSWERED))

    def last_spoken(self, turn: range) -> int | None:
        """The last message of the model in a turn, or else its prompt."""
        flags = self._builder.columns.flags
        return next((index for index in reversed(turn) if flags[index] & (PROMPT | MODEL)), None)


def recorded_cause(event: m.Interruption) -> str | None:
    """Return the recorded cause of an interruption; None if a person interrupted the turn, or no cause was recorded."""
    return event.evidence.removeprefix(_CAUSE) if event.evidence.startswith(_CAUSE) else None


def is_supervised(event: m.Rejection | m.Interruption) -> bool:
    """Whether an event is based on a recorded decision."""
    return event.evidence.startswith(EVIDENCE)


def _starts_turn(flag: int) -> bool:
    return bool(flag & PROMPT) and not flag & QUEUED


def _is_trace(event: m.Interruption, decision: RecordedDecision) -> bool:
    """Whether an event of the same turn can be the trace of a decision.

    Agents log interruptions that they made themselves as the user's. A marker comes after the decision; without a
    marker, the event was inferred and has the time of the prompt.
    """
    if event.type != "user" or is_supervised(event):
        return False
    return event.confidence < 1 or event.timestamp is None or event.timestamp >= shifted(decision.at, -_CLOCKS_DIFFER)


def _fuller(logged: m.Action | None, shown: m.Action | None) -> m.Action | None:
    """Return the action with more details: an agent's log may have lost the input of a rejected call."""
    if logged is None or shown is None:
        return logged or shown
    return shown if logged == m.Action(logged.raw_input) and bytes(logged.raw_input) in _NO_INPUT else logged


_NO_INPUT = (b"", b"null", b"{}")
_PEOPLE: tuple[m.RejectedBy, ...] = ("user", "host")
"""Whose rejections a recorded decision overrides. A rule or a hook may still reject what a person allowed."""
_TYPES: dict[str, m.RejectionType] = {
    "command": "command", "edit": "edit", "plan": "plan", "question": "option", "permission": "permission",
}  # fmt: skip
