"""One run of an agent: its driver, its state, its messages and its requests. Everything is recorded in the run log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..core.decisions import DecisionMaker, RecordedDecision, TurnEnd
from ..core.errors import UsageError
from ..store.run_log import RunLog
from .approvals import Approvals
from .attachments import Attachment
from .driver_events import DriverEvents
from .errors import ConflictError
from .live_text import LiveTexts
from .live_text_file import LiveTextFile
from .messages import RunMessage, RunMessages
from .outbox import Outbox
from .protocol import (
    Answer,
    Driver,
    DriverEvent,
    EndsProcesses,
    PermissionRequest,
    RunSpec,
)
from .run_view import RunDetails, RunView, view_of
from .state import IN_TURN, RunState, State

TIMED_OUT = "Nobody answered in time, so this request was denied for now. Stop and say what you need."

Publish = Callable[[str, str, dict[str, Any], int | None], None]
"""Sends an event to all watchers: the run, the kind, the facts, and the number of the event in the log, if any."""


class RunRecorder:
    """Writes the events of one run to the log, and then publishes them to all watchers."""

    def __init__(self, run: str, log: RunLog, publish: Publish) -> None:
        self.log = log
        self._run = run
        self._publish = publish

    def record(self, kind: str, facts: dict[str, Any]) -> None:
        """Write an event to the log and publish it."""
        self._publish(self._run, kind, facts, self.log.record(self._run, kind, facts))

    def record_decision(self, kind: str, decision: RecordedDecision, facts: dict[str, Any]) -> None:
        """Write a decision to disk, and only then publish it."""
        self._publish(self._run, kind, facts, self.log.record_decision(self._run, decision, facts))

    def record_end(self, reason: str, facts: dict[str, Any]) -> None:
        """Write the end of the run to the log and publish it."""
        self._publish(self._run, "state", facts, self.log.end_run(self._run, reason))

    def emit(self, kind: str, facts: dict[str, Any], seq: int | None = None) -> None:
        """Publish an event; `seq` is its number in the log, if it is there."""
        self._publish(self._run, kind, facts, seq)


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
        self.details.chosen_model = spec.model
        self.messages = RunMessages()
        self.approvals = Approvals(spec.folder)
        self.texts = LiveTexts(LiveTextFile(log.live_text_path(id)))
        self.recorder = RunRecorder(id, log, publish)
        self.outbox = Outbox(self)
        self._reported_state: State = machine.state

    @property
    def session(self) -> str | None:
        """The agent's id of the session, once it is known."""
        return self.details.session

    @property
    def former_sessions(self) -> Mapping[str, float]:
        """The sessions that the agent worked on before, and when it left each of them."""
        return self.details.former_sessions

    @property
    def waiting_calls(self) -> frozenset[str]:
        """The calls that are waiting for a person's decision."""
        return frozenset(each.request.call_id for each in self.approvals.open() if each.request.call_id)

    @property
    def pid(self) -> int | None:
        """The id of the agent's process."""
        return self.details.pid

    def handle(self, event: DriverEvent) -> None:
        """Apply an event of the driver, record it and publish it."""
        DriverEvents(self).handle(event)
        self.report_state()

    def end_text(self, is_cut_off: bool) -> None:
        """Record a response that was cut off: some agents erase it, and a killed agent cannot write it."""
        if (kept := self.texts.end_turn(is_cut_off)) is not None:
            self.recorder.record("cut_off", {"text": kept})
        self.texts.release()

    # --- actions of people ---

    async def send(self, id: str, text: str, who: str, attachments: Sequence[Attachment] = ()) -> RunMessage:
        """Send the agent a message."""
        return await self.outbox.send(id, text, who, attachments)

    async def answer(self, request: str, digest: str, answer: Answer, who: str, by: DecisionMaker = "user") -> None:
        """Answer a request. The first answer counts, and only if the request is still the one that was shown.

        If the files have changed since, an answer that allows the change is refused and the request is shown again.
        """
        if answer.verdict in ("allow", "allow_session") and (changed := self.approvals.refresh(request)) is not None:
            self.recorder.record("asked", {"question": changed})
            raise ConflictError("The file has changed since you saw it. Review the change again.")
        open_request = self.approvals.check(request, digest, answer, who)
        facts: dict[str, Any] = {"request": request, "verdict": answer.verdict, "reason": answer.reason}
        facts |= {"who": who, "by": by}
        decision = decision_on(self, open_request.request, answer, who, by)
        decision.asked_at = open_request.at
        decision.digest = digest
        # The request is closed once the decision is on disk: if that fails, it can be answered again. Nothing is
        # awaited until then, so nobody else can answer in between.
        seq = self.recorder.log.record_decision(self.id, decision, facts)
        answered = self.approvals.answer(request, digest, answer, who, by)
        self.machine.answered(request, time.monotonic())
        self.recorder.emit("answered", facts, seq)
        self.report_state()
        await self.driver.answer(answered, answer)

    async def deny_unanswered(self, request: str) -> None:
        """Deny a request that nobody answered in time."""
        open_request = self.approvals.get(request)
        if open_request is not None:
            answer = Answer(verdict="deny", reason=TIMED_OUT)
            try:
                await self.answer(request, open_request.digest, answer, who="clock", by="timeout")
            except Exception:
                # The decision may not have been recorded, for example because the disk is full.
                self.machine.denial_failed(request, time.monotonic())
                raise

    async def interrupt(self, who: str) -> None:
        """Stop the current turn."""
        if self.machine.state not in IN_TURN:
            raise ConflictError(_NOTHING_TO_INTERRUPT.get(self.machine.state, "Nothing to interrupt"))
        self.record_interruption(who)
        await self.driver.interrupt()

    def record_interruption(self, who: str, by: DecisionMaker = "user") -> None:
        """Record that the turn is interrupted, and that the open requests get no answer.

        In the agents' files, this looks like a rejection or an interruption by the user, or is not recorded.
        """
        self.details.is_interrupting = True
        call_ids = [each.request.call_id for each in self.approvals.open() if each.request.call_id]
        decision = interruption(self.agent, self.session, call_ids, by=by, who=who)
        self.recorder.record_decision("interrupting", decision, {"who": who})

    async def end_process(self, id: str) -> None:
        """End a process that continues after its turn."""
        if not isinstance(self.driver, EndsProcesses):
            raise UsageError(f"Individual processes of {self.agent} cannot be ended; stop the agent instead")
        await self.driver.end_process(id)

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
            self.details.chosen_model = model

    async def stop(self, reason: str, by: DecisionMaker = "user") -> None:
        """Stop the agent."""
        self.machine.stopping(reason)
        self.details.server_ends = by == "agent"
        if self.machine.state in IN_TURN:
            self.record_interruption(reason, by)
        await self.driver.stop()

    def fail(self, reason: str, error: str | None = None) -> None:
        """End the run although its agent has not reported that it exited."""
        self.details.error = error or self.details.error
        if self.machine.state in IN_TURN:
            self.end_text(is_cut_off=True)
        now = time.monotonic()
        DriverEvents(self).cancel_requests(now)
        self.machine.exited(reason, now)
        self.report_state()

    # --- reporting ---

    def report_state(self) -> None:
        """Record and publish the state if it has changed."""
        state = self.machine.state
        if state == self._reported_state:
            return
        self._reported_state = state
        if state == "ended":
            self.texts.release()
            self.outbox.release()
            reason = self.machine.reason or "done"
            facts = {"state": state, "reason": reason, "error": self.details.error}
            self.recorder.record_end(reason, facts)
        else:
            self.recorder.record("state", {"state": state, "reason": None, "error": self.details.error})

    def view(self) -> RunView:
        """Return the current state of the run for pages and the API."""
        return view_of(self)


_NOTHING_TO_INTERRUPT: dict[State, str] = {
    "starting": "Nothing to interrupt: the agent is starting",
    "idle": "Nothing to interrupt: the agent is idle",
    "interrupted": "Nothing to interrupt: the agent is idle",
    "needs-login": "Nothing to interrupt: the agent is not logged in",
    "ended": "Nothing to interrupt: the agent has ended",
}


def decision_on(run: Run, request: PermissionRequest, answer: Answer, who: str, by: DecisionMaker) -> RecordedDecision:
    """Return the record of an answer to a request."""
    return RecordedDecision(
        at=datetime.now(UTC),
        agent=run.agent,
        session=run.session,
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
    """Return the record of an interrupted turn; requests that were open are neither allowed nor denied."""
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
