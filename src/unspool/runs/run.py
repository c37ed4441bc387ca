"""One running agent: its driver, its state, what it was told and what it asked. All of it is written down."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from ..core.decisions import DecisionMaker, RecordedDecision
from ..core.decisions import Verdict as DecidedVerdict
from ..core.errors import UnspoolError, UsageError
from .log import RunLog
from .processes import start_time
from .protocol import (
    AgentExited,
    Capabilities,
    Decision,
    Driver,
    DriverEvent,
    MessageAccepted,
    Notice,
    PermissionRequest,
    RequestCancelled,
    RunSpec,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnStarted,
)  # fmt: skip
from .state import RunState, State

MOST_WORDS = 200_000
"""Of what the model says while it says it; the log has all of it."""
MOST_WAITING = 50
LONGEST_MESSAGE = 1_000_000
TIMED_OUT = "Nobody answered in time, so this was refused for now. Stop and say what you need."

Publish = Callable[[str, str, dict[str, Any], int | None], None]
"""Tells those who watch: the run, what happened, the facts, and the number in the book where it has one."""


class ConflictError(UnspoolError):
    """Somebody was quicker, or what was meant is not there any more."""


class RunMessage(msgspec.Struct, kw_only=True):
    """Something a person said to the agent."""

    id: str
    text: str
    who: str
    at: datetime
    state: Literal["sent", "taken_up"] = "sent"


class OpenQuestion(msgspec.Struct, kw_only=True):
    """Something the agent asked, as it is shown; an answer has to name the digest of what it answers."""

    asked: PermissionRequest
    digest: str
    at: datetime


class RunView(msgspec.Struct, kw_only=True):
    """A running agent, for those who look at it."""

    id: str
    agent: str
    session: str | None
    folder: str
    state: State
    reason: str | None
    since: datetime
    started_at: datetime
    mode: str | None
    model: str | None
    pid: int | None
    capabilities: Capabilities
    messages: list[RunMessage]
    """The last ones, in the order that counts."""
    questions: list[OpenQuestion]
    words: str
    """What the model is saying just now."""
    error: str | None


class Run:
    """One running agent. It belongs to one event loop."""

    def __init__(
        self, id: str, agent: str, spec: RunSpec, driver: Driver, machine: RunState, book: RunLog, publish: Publish
    ) -> None:
        self.id = id
        self.agent = agent
        self.spec = spec
        self.session = spec.session if not spec.fork else None
        self.driver = driver
        self.machine = machine
        self.started_at = datetime.now(UTC)
        self.mode, self.model = spec.mode, spec.model
        self.pid: int | None = None
        self.error: str | None = None
        self.messages: list[RunMessage] = []
        self.questions: dict[str, OpenQuestion] = {}
        self._answered: dict[str, dict[str, Any]] = {}
        self._words = ""
        self._book = book
        self._publish = publish
        self._state = machine.state

    # --- what the driver tells ---

    def hear(self, told: DriverEvent) -> None:
        """Something has happened."""
        now = time.monotonic()
        match told:
            case Started():
                self._began(told, now)
            case TurnStarted():
                self._words = ""
                self.machine.turn_began(now)
            case TextDelta():
                self._say(told)
            case MessageAccepted():
                self._took_up(told.message)
            case PermissionRequest():
                self._ask(told, now)
            case RequestCancelled():
                self._withdraw(told.id, now)
            case TurnEnded():
                self._turn_ended(told, now)
            case SettingsChanged():
                self.mode, self.model = told.mode or self.mode, told.model or self.model
                self._note("changed", {"mode": self.mode, "model": self.model})
            case Notice():
                self._note("remarked", {"text": told.text})
            case AgentExited():
                self._exited(told, now)
        self._tell_state()

    def _began(self, told: Started, now: float) -> None:
        self.mode, self.model = told.mode or self.mode, told.model or self.model
        if told.pid is not None and told.pid != self.pid:
            self.pid = told.pid
            self._book.set_process(self.id, told.pid, start_time(told.pid))
        if told.session is not None and told.session != self.session:
            self.session = told.session
            self._book.set_session(self.id, told.session)
            self._note("session", {"session": told.session})
        self.machine.began(now)

    def _say(self, told: TextDelta) -> None:
        if not told.thinking and told.subagent is None:
            self._words = (self._words + told.text)[-MOST_WORDS:]
        facts = {"text": told.text, "thinking": told.thinking, "subagent": told.subagent}
        self._publish(self.id, "words", facts, None)

    def _took_up(self, id: str) -> None:
        for message in self.messages:
            if message.id == id and message.state == "sent":
                message.state = "taken_up"
                self._note("taken_up", {"message": id})

    def _ask(self, asked: PermissionRequest, now: float) -> None:
        question = OpenQuestion(asked=asked, digest=digest_of(asked), at=datetime.now(UTC))
        self.questions[asked.id] = question
        self.machine.asked(asked.id, now)
        self._note("asked", {"question": question})

    def _withdraw(self, id: str, now: float) -> None:
        if self.questions.pop(id, None) is not None:
            self.machine.withdrawn(id, now)
            self._note("withdrawn", {"request": id})

    def _turn_ended(self, told: TurnEnded, now: float) -> None:
        for id in list(self.questions):
            self._withdraw(id, now)
        self.machine.turn_ended(now, interrupted=told.outcome == "interrupted")
        self.error = told.error
        self._note("turn_ended", {"outcome": told.outcome, "error": told.error})

    def _exited(self, told: AgentExited, now: float) -> None:
        for id in list(self.questions):
            self._withdraw(id, now)
        self.error = told.error or self.error
        failed = told.error is not None or told.code not in (0, None)
        self.machine.exited("failed" if failed else "done", now)

    # --- what people do ---

    async def send(self, id: str, text: str, who: str) -> RunMessage:
        """Give the agent a message; the book's order is the order for everybody."""
        if self.machine.has_ended:
            raise ConflictError("this agent has ended; resume the session to go on")
        if not text.strip() or len(text) > LONGEST_MESSAGE:
            raise UsageError(f"a message has between 1 and {LONGEST_MESSAGE:,} characters")
        if known := next((message for message in self.messages if message.id == id), None):
            return known
        if sum(message.state == "sent" for message in self.messages) >= MOST_WAITING:
            raise ConflictError(f"{MOST_WAITING} messages wait already; let the agent take some up first")
        message = RunMessage(id=id, text=text, who=who, at=datetime.now(UTC))
        self.messages.append(message)
        self._note("sent", {"message": message})
        self.machine.sent(time.monotonic())
        self._tell_state()
        await self.driver.send(id, text)
        return message

    async def answer(self, request: str, digest: str, decision: Decision, who: str, by: DecisionMaker = "user") -> None:
        """Answer what the agent asked. The first answer counts, and only one to exactly what was shown."""
        question = self.questions.get(request)
        if question is None:
            known = self._answered.get(request)
            said = (
                f"it was answered already: {known['verdict']} by {known['who']}"
                if known
                else "it is not asked any more"
            )
            raise ConflictError(f"this answer comes too late, {said}")
        if digest != question.digest:
            raise ConflictError("what the agent asks is not what this answer was given to; look again")
        self._check(question.asked, decision)
        # From here on there is no way back for anybody else: nothing is awaited before it is written down.
        self.machine.answered(request, time.monotonic())
        del self.questions[request]
        note: dict[str, Any] = {
            "request": request,
            "verdict": decision.verdict,
            "reason": decision.reason,
            "who": who,
            "by": by,
        }
        self._answered[request] = note
        decided = self._decided(question.asked, decision.verdict, by, who, decision.reason)
        if decision.input is not None:
            decided.input = msgspec.Raw(msgspec.json.encode(decision.input))
        self._publish(self.id, "answered", note, self._book.decide(self.id, decided, note))
        self._tell_state()
        await self.driver.answer(question.asked, decision)

    def _check(self, asked: PermissionRequest, decision: Decision) -> None:
        if decision.verdict not in asked.verdicts:
            raise UsageError(f"this can be answered with {', '.join(asked.verdicts)}, not with {decision.verdict}")
        if decision.input is not None and not asked.takes_input:
            raise UsageError(f"{self.agent} does not let the input be changed")

    async def refuse_for_nobody(self, request: str) -> None:
        """Nobody has answered in time."""
        question = self.questions.get(request)
        if question is not None:
            decision = Decision(verdict="deny", reason=TIMED_OUT)
            await self.answer(request, question.digest, decision, who="clock", by="timeout")

    async def interrupt(self, who: str) -> None:
        """Stop the turn."""
        if self.machine.state not in ("in-turn", "waiting-input"):
            raise ConflictError("no turn runs that could be stopped")
        self._note_interruption(who)
        await self.driver.interrupt()

    def _note_interruption(self, who: str, by: DecisionMaker = "user") -> None:
        """Write down that what is asked gets no answer: the agents' files tell that like a refusal."""
        asked = [question.asked for question in self.questions.values()]
        call_ids = [one.call_id for one in asked if one.call_id]
        decided = interruption(self.agent, self.session, call_ids, by=by, who=who)
        note: dict[str, Any] = {"who": who}
        self._publish(self.id, "interrupting", note, self._book.decide(self.id, decided, note))

    async def change(self, mode: str | None, model: str | None) -> None:
        """Change the mode, or the model."""
        capabilities = self.driver.capabilities
        if mode is not None:
            if mode not in capabilities.modes:
                raise UsageError(
                    f"{self.agent} has the modes {', '.join(capabilities.modes) or '(none)'}, not {mode!r}"
                )
            await self.driver.set_mode(mode)
        if model is not None:
            if not capabilities.models:
                raise UsageError(f"{self.agent} cannot change its model while it runs")
            await self.driver.set_model(model)

    async def stop(self, reason: str, by: DecisionMaker = "user") -> None:
        """End the program."""
        self.machine.ending(reason)
        if self.questions:
            self._note_interruption(reason, by)
        await self.driver.stop()

    # --- telling ---

    def _decided(
        self, asked: PermissionRequest, verdict: DecidedVerdict, by: DecisionMaker, who: str, reason: str | None
    ) -> RecordedDecision:
        return RecordedDecision(
            at=datetime.now(UTC), agent=self.agent, session=self.session, request=asked.id,
            call_ids=[asked.call_id] if asked.call_id else [], tool=asked.tool, kind=asked.kind, verdict=verdict, by=by,
            who=who, reason=reason, action=asked.action,
        )  # fmt: skip

    def _note(self, kind: str, facts: dict[str, Any]) -> None:
        self._publish(self.id, kind, facts, self._book.note(self.id, kind, facts))

    def _tell_state(self) -> None:
        state = self.machine.state
        if state == self._state:
            return
        self._state = state
        if state == "ended":
            reason = self.machine.reason or "done"
            facts = {"state": state, "reason": reason, "error": self.error}
            self._publish(self.id, "state", facts, self._book.end(self.id, reason))
        else:
            self._note("state", {"state": state, "reason": None, "error": self.error})

    def view(self) -> RunView:
        """How it looks now."""
        age = time.monotonic() - self.machine.since
        return RunView(
            id=self.id, agent=self.agent, session=self.session, folder=self.spec.folder, state=self.machine.state,
            reason=self.machine.reason, since=datetime.fromtimestamp(time.time() - age, UTC),
            started_at=self.started_at, mode=self.mode, model=self.model, pid=self.pid,
            capabilities=self.driver.capabilities, messages=self.messages[-MOST_WAITING:],
            questions=list(self.questions.values()),
            words=self._words if self.machine.state in ("in-turn", "waiting-input") else "", error=self.error,
        )  # fmt: skip


def interruption(
    agent: str, session: str | None, call_ids: list[str], *, by: DecisionMaker, who: str
) -> RecordedDecision:
    """That calls were interrupted, and neither allowed nor refused."""
    return RecordedDecision(
        at=datetime.now(UTC), agent=agent, session=session, request=None, call_ids=call_ids, verdict="interrupt",
        by=by, who=who,
    )  # fmt: skip


def digest_of(asked: PermissionRequest) -> str:
    """What was shown, in few characters."""
    return hashlib.blake2b(msgspec.json.encode(asked), digest_size=12).hexdigest()
