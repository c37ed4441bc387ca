"""One run of an agent: its driver, its state, its messages and its requests. Everything is recorded in the run log."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..core.decisions import DecisionMaker, RecordedDecision, TurnEnd
from ..core.errors import UsageError
from .approvals import Approvals, OpenRequest
from .errors import ConflictError
from .log import RunLog
from .messages import RunMessage, RunMessages, check_text
from .processes import start_time
from .protocol import (
    AgentExited,
    Answer,
    Capabilities,
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
)
from .state import IN_TURN, RunState, State

MAX_LIVE_TEXT = 200_000
"""Characters of the current response that are kept; the session log has all of it."""
TIMED_OUT = "Nobody answered in time, so this request was denied for now. Stop and say what you need."

Publish = Callable[[str, str, dict[str, Any], int | None], None]
"""Sends an event to everyone who watches: the run, the kind, the facts, and its number in the log if it has one."""


class RunView(msgspec.Struct, kw_only=True):
    """A run as it is shown."""

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
    questions: list[OpenRequest]
    """Requests that wait for an answer."""
    text: str = msgspec.field(name="words")
    """The response that the model is writing."""
    error: str | None


class RunDetails(msgspec.Struct, kw_only=True):
    """What the agent has reported about itself."""

    session: str | None
    mode: str | None
    model: str | None
    pid: int | None = None
    error: str | None = None
    text: str = ""
    """The response that the model is writing."""
    started_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))


class RunRecorder:
    """Writes what happens to one run to the log first, and then sends it to everyone who watches."""

    def __init__(self, run: str, log: RunLog, publish: Publish) -> None:
        self.log = log
        self._run = run
        self._publish = publish

    def record(self, kind: str, facts: dict[str, Any]) -> None:
        """Write an event to the log and publish it."""
        self._publish(self._run, kind, facts, self.log.record(self._run, kind, facts))

    def record_decision(self, kind: str, decision: RecordedDecision, facts: dict[str, Any]) -> None:
        """Write a decision to disk, and only then let anybody hear of it."""
        self._publish(self._run, kind, facts, self.log.record_decision(self._run, decision, facts))

    def record_end(self, reason: str, facts: dict[str, Any]) -> None:
        """Write that the run has ended and publish it."""
        self._publish(self._run, "state", facts, self.log.end_run(self._run, reason))

    def emit(self, kind: str, facts: dict[str, Any]) -> None:
        """Publish an event that is not worth keeping."""
        self._publish(self._run, kind, facts, None)


class Run:
    """One run of an agent. It belongs to one event loop."""

    def __init__(
        self, id: str, agent: str, spec: RunSpec, driver: Driver, machine: RunState, log: RunLog, publish: Publish
    ) -> None:
        self.id = id
        self.agent = agent
        self.spec = spec
        self.driver = driver
        self.machine = machine
        self.details = RunDetails(session=None if spec.fork else spec.session, mode=spec.mode, model=spec.model)
        self._messages = RunMessages()
        self._approvals = Approvals(spec.folder)
        self._recorder = RunRecorder(id, log, publish)
        self._reported_state: State = machine.state
        self._is_interrupting = False

    @property
    def session(self) -> str | None:
        """The agent's id of the session, once it is known."""
        return self.details.session

    @property
    def pid(self) -> int | None:
        """The agent's process."""
        return self.details.pid

    # --- events of the driver ---

    def handle(self, event: DriverEvent) -> None:
        """Apply an event of the driver, record it and publish it."""
        now = time.monotonic()
        match event:
            case Started():
                self._handle_started(event, now)
            case TurnStarted():
                self.details.text = ""
                self.machine.turn_started(now)
            case TextDelta():
                self._handle_text(event)
            case MessageAccepted():
                if self._messages.accept(event.message):
                    self._recorder.record("taken_up", {"message": event.message})
            case PermissionRequest():
                self._handle_request(event, now)
            case RequestCancelled():
                self._cancel_request(event.id, now)
            case TurnEnded():
                self._handle_turn_ended(event, now)
            case SettingsChanged():
                self._update_settings(event.mode, event.model)
                self._recorder.record("changed", {"mode": self.details.mode, "model": self.details.model})
            case Notice():
                self._recorder.record("remarked", {"text": event.text})
            case AgentExited():
                self._handle_exited(event, now)
        self.report_state()

    def _handle_started(self, event: Started, now: float) -> None:
        self._update_settings(event.mode, event.model)
        if event.pid is not None and event.pid != self.details.pid:
            self.details.pid = event.pid
            self._recorder.log.set_process(self.id, event.pid, start_time(event.pid))
        if event.session is not None and event.session != self.details.session:
            self.details.session = event.session
            self._recorder.log.set_session(self.id, event.session)
            self._recorder.record("session", {"session": event.session})
        self.machine.started(now)

    def _update_settings(self, mode: str | None, model: str | None) -> None:
        self.details.mode = mode or self.details.mode
        self.details.model = model or self.details.model

    def _handle_text(self, delta: TextDelta) -> None:
        if not delta.thinking and delta.subagent is None:
            self.details.text = (self.details.text + delta.text)[-MAX_LIVE_TEXT:]
        facts = {"text": delta.text, "thinking": delta.thinking, "subagent": delta.subagent}
        self._recorder.emit("words", facts)

    def _handle_request(self, request: PermissionRequest, now: float) -> None:
        opened = self._approvals.add(request)
        self.machine.requested(request.id, now)
        self._recorder.record("asked", {"question": opened})

    def _cancel_request(self, id: str, now: float) -> None:
        if self._approvals.cancel(id):
            self.machine.cancelled(id, now)
            self._recorder.record("withdrawn", {"request": id})

    def _cancel_requests(self, now: float) -> None:
        for opened in self._approvals.open():
            self._cancel_request(opened.request.id, now)

    def _handle_turn_ended(self, event: TurnEnded, now: float) -> None:
        self._cancel_requests(now)
        if self._is_interrupting and event.outcome == "completed":
            self._recorder.log.set_turn_end(self.id, "completed")
        self._is_interrupting = False
        self.machine.turn_ended(now, interrupted=event.outcome == "interrupted")
        self.details.error = event.error
        self._recorder.record("turn_ended", {"outcome": event.outcome, "error": event.error})

    def _handle_exited(self, event: AgentExited, now: float) -> None:
        self._cancel_requests(now)
        self.details.error = event.error or self.details.error
        has_failed = event.error is not None or event.code not in (0, None)
        self.machine.exited("failed" if has_failed else "done", now)

    # --- actions of people ---

    async def send(self, id: str, text: str, who: str) -> RunMessage:
        """Send the agent a message; the order in the log is the order for everyone."""
        if self.machine.has_ended:
            raise ConflictError("This agent has ended; resume the session to continue")
        check_text(text)
        if known := self._messages.find(id):
            return known
        message = self._messages.add(id, text, who)
        self._recorder.record("sent", {"message": message})
        self.machine.message_sent(time.monotonic())
        self.report_state()
        await self.driver.send(id, text)
        return message

    async def answer(self, request: str, digest: str, answer: Answer, who: str, by: DecisionMaker = "user") -> None:
        """Answer a request. The first answer counts, and only if the request is still the one that was shown.

        An answer that allows a change of files that have changed since is refused, and the request is shown again.
        """
        if answer.verdict in ("allow", "allow_session") and (changed := self._approvals.refresh(request)) is not None:
            self._recorder.record("asked", {"question": changed})
            raise ConflictError("The file has changed since you saw it. Review the change again.")
        opened = self._approvals.get(request)
        answered = self._approvals.answer(request, digest, answer, who, by)
        # Nothing is awaited before the decision is on disk, so nobody else can answer in between.
        self.machine.answered(request, time.monotonic())
        facts = {"request": request, "verdict": answer.verdict, "reason": answer.reason, "who": who, "by": by}
        decision = self._decision_on(answered, answer, who, by)
        decision.asked_at = opened.at if opened is not None else None
        decision.digest = digest
        self._recorder.record_decision("answered", decision, facts)
        self.report_state()
        await self.driver.answer(answered, answer)

    def _decision_on(self, request: PermissionRequest, answer: Answer, who: str, by: DecisionMaker) -> RecordedDecision:
        return RecordedDecision(
            at=datetime.now(UTC),
            agent=self.agent,
            session=self.session,
            request=request.id,
            call_ids=[request.call_id] if request.call_id else [],
            tool=request.tool,
            kind=request.kind,
            verdict=answer.verdict,
            by=by,
            who=who,
            reason=answer.reason,
            action=request.action,
            answers=answer.answers,
            input=msgspec.UNSET if answer.input is None else msgspec.Raw(msgspec.json.encode(answer.input)),
            rule=request.session_rule if answer.verdict == "allow_session" else None,
            notes=answer.notes,
            subagent=request.subagent,
        )

    async def deny_unanswered(self, request: str) -> None:
        """Deny a request that nobody has answered in time."""
        opened = self._approvals.get(request)
        if opened is not None:
            answer = Answer(verdict="deny", reason=TIMED_OUT)
            await self.answer(request, opened.digest, answer, who="clock", by="timeout")

    async def interrupt(self, who: str) -> None:
        """Stop the current turn."""
        if self.machine.state not in IN_TURN:
            raise ConflictError(_NOTHING_TO_INTERRUPT.get(self.machine.state, "Nothing to interrupt"))
        self._record_interruption(who)
        await self.driver.interrupt()

    def _record_interruption(self, who: str, by: DecisionMaker = "user") -> None:
        """Record that the turn is interrupted, and that the open requests get no answer.

        In the agents' files that looks like a rejection, or like an interruption by the user, or leaves no trace.
        """
        self._is_interrupting = True
        call_ids = [opened.request.call_id for opened in self._approvals.open() if opened.request.call_id]
        decision = interruption(self.agent, self.session, call_ids, by=by, who=who)
        self._recorder.record_decision("interrupting", decision, {"who": who})

    async def change(self, mode: str | None, model: str | None) -> None:
        """Change the mode or the model."""
        capabilities = self.driver.capabilities
        if mode is not None:
            if mode not in capabilities.modes:
                known = ", ".join(capabilities.modes) or "(none)"
                raise UsageError(f"Unknown mode {mode!r} for {self.agent}; available modes: {known}")
            await self.driver.set_mode(mode)
        if model is not None:
            if not capabilities.models:
                raise UsageError(f"The model of {self.agent} cannot be changed while it is running")
            await self.driver.set_model(model)

    async def stop(self, reason: str, by: DecisionMaker = "user") -> None:
        """Stop the agent."""
        self.machine.stopping(reason)
        if self.machine.state in IN_TURN:
            self._record_interruption(reason, by)
        await self.driver.stop()

    def fail(self, reason: str, error: str | None = None) -> None:
        """End the run although its agent has not reported that it exited."""
        self.details.error = error or self.details.error
        self.machine.exited(reason, time.monotonic())
        self.report_state()

    # --- reporting ---

    def report_state(self) -> None:
        """Record and publish the state if it has changed."""
        state = self.machine.state
        if state == self._reported_state:
            return
        self._reported_state = state
        if state == "ended":
            reason = self.machine.reason or "done"
            facts = {"state": state, "reason": reason, "error": self.details.error}
            self._recorder.record_end(reason, facts)
        else:
            self._recorder.record("state", {"state": state, "reason": None, "error": self.details.error})

    def view(self) -> RunView:
        """The run as it is now."""
        machine, details = self.machine, self.details
        age = time.monotonic() - machine.since
        return RunView(
            id=self.id,
            agent=self.agent,
            session=details.session,
            folder=self.spec.folder,
            state=machine.state,
            reason=machine.reason,
            since=datetime.fromtimestamp(time.time() - age, UTC),
            started_at=details.started_at,
            mode=details.mode,
            model=details.model,
            pid=details.pid,
            capabilities=self.driver.capabilities,
            messages=self._messages.latest(),
            questions=self._approvals.open(),
            text=details.text if machine.state in ("in-turn", "waiting-input") else "",
            error=details.error,
        )


_NOTHING_TO_INTERRUPT: dict[State, str] = {
    "starting": "Nothing to interrupt: the agent is starting",
    "idle": "Nothing to interrupt: the agent is idle",
    "interrupted": "Nothing to interrupt: the agent is idle",
    "ended": "Nothing to interrupt: the agent has ended",
}


def interruption(
    agent: str,
    session: str | None,
    call_ids: list[str],
    *,
    by: DecisionMaker,
    who: str,
    at: datetime | None = None,
    turn: TurnEnd = "interrupted",
) -> RecordedDecision:
    """The decision that a turn was interrupted; the requests that were open are neither allowed nor denied."""
    return RecordedDecision(
        at=at or datetime.now(UTC),
        agent=agent,
        session=session,
        request=None,
        call_ids=call_ids,
        verdict="interrupt",
        by=by,
        who=who,
        turn=turn,
    )
