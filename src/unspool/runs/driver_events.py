"""Applies the events of a driver to its run."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from .processes import start_time
from .protocol import (
    AgentExited,
    CommandsOffered,
    DriverEvent,
    MessageAccepted,
    MessageReturned,
    Notice,
    PermissionRequest,
    ProcessesChanged,
    RequestCancelled,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from .state import IN_TURN

if TYPE_CHECKING:
    from .run import Run

EXITED_IN_TURN = "it ended unexpectedly"
"""The reason for the end of a run whose agent exited in the middle of a turn."""
EXITED_IN_TURN_EVIDENCE = "the agent ended unexpectedly"


class DriverEvents:
    """Applies the events of one driver to its run, which has all the state."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def handle(self, event: DriverEvent) -> None:
        """Apply an event."""
        run = self._run
        now = time.monotonic()
        match event:
            case Started():
                self._handle_started(event, now)
            case TurnStarted():
                run.texts.start_turn()
                run.machine.turn_started(now)
            case TextDelta():
                run.recorder.emit("words", run.texts.add(event))
            case MessageAccepted():
                if run.outbox.accepted(event.message):
                    run.recorder.record("taken_up", {"message": event.message})
            case MessageReturned():
                run.outbox.returned(event.message)
            case PermissionRequest():
                self._handle_request(event, now)
            case RequestCancelled():
                self._cancel_request(event.id, now)
            case TurnEnded():
                self._handle_turn_ended(event, now)
            case SettingsChanged():
                self._update_settings(event.mode, event.model)
                run.recorder.record("changed", {"mode": run.details.mode, "model": run.details.model})
            case ProcessesChanged():
                run.details.processes = event.processes
                run.recorder.record("processes", {"processes": event.processes})
            case Notice():
                run.recorder.record("remarked", {"text": event.text})
            case CommandsOffered():
                run.details.commands = event.commands
            case AgentExited():
                self._handle_exited(event, now)

    def _handle_started(self, event: Started, now: float) -> None:
        run = self._run
        self._update_settings(event.mode, event.model)
        if event.pid is not None and event.pid != run.details.pid:
            run.details.pid = event.pid
            run.recorder.log.set_process(run.id, event.pid, start_time(event.pid))
        if event.session is not None and event.session != run.details.session:
            self._enter_session(event.session)
        run.machine.started(now)

    def _enter_session(self, session: str) -> None:
        """Follow the agent to another session, such as the one that `/clear` starts."""
        run = self._run
        former = run.details.session
        if former is not None:
            run.details.former_sessions[former] = time.time()
        run.details.former_sessions.pop(session, None)
        run.details.session = session
        run.recorder.log.set_session(run.id, session)
        run.recorder.record("session", {"session": session, "left": former})

    def _update_settings(self, mode: str | None, model: str | None) -> None:
        run = self._run
        run.details.mode = mode or run.details.mode
        run.details.model = model or run.details.model

    def _handle_request(self, request: PermissionRequest, now: float) -> None:
        run = self._run
        open_request = run.approvals.add(request)
        if run.machine.limits.waiting:
            open_request.deadline = open_request.at + timedelta(seconds=run.machine.limits.waiting)
        run.machine.requested(request.id, now)
        run.recorder.record("asked", {"question": open_request})

    def _cancel_request(self, id: str, now: float) -> None:
        run = self._run
        if not run.approvals.cancel(id):
            return
        run.machine.cancelled(id, now)
        # If the server is shutting down, this is not logged: the request stays unanswered, and the next server offers
        # it again.
        report = run.recorder.emit if run.details.server_ends else run.recorder.record
        report("withdrawn", {"request": id})

    def cancel_requests(self, now: float) -> None:
        """Close all open requests, because the agent is no longer waiting for an answer."""
        run = self._run
        for open_request in run.approvals.open():
            self._cancel_request(open_request.request.id, now)

    def _handle_turn_ended(self, event: TurnEnded, now: float) -> None:
        run = self._run
        if run.machine.has_ended:
            return
        self.cancel_requests(now)
        if run.details.is_interrupting and event.outcome == "completed":
            run.recorder.log.set_turn_end(run.id, "completed")
        was_interrupted = run.details.is_interrupting
        run.details.is_interrupting = False
        run.end_text(event.outcome != "completed")
        is_interrupted = event.outcome == "interrupted"
        run.machine.turn_ended(now, interrupted=is_interrupted, needs_login=event.needs_login)
        run.details.error = event.error
        run.recorder.record("turn_ended", {"outcome": event.outcome, "error": event.error})
        # A person who interrupted too late wanted to stop the agent, too.
        run.outbox.turn_ended("interrupted" if was_interrupted else event.outcome)

    def _handle_exited(self, event: AgentExited, now: float) -> None:
        run = self._run
        has_failed = event.error is not None or event.code not in (0, None)
        reason = "failed" if has_failed else "done"
        if run.machine.state in IN_TURN:
            run.end_text(is_cut_off=True)
            if not run.machine.is_stopping:
                reason = EXITED_IN_TURN
                self._record_crash(event)
        self.cancel_requests(now)
        run.details.error = event.error or run.details.error
        run.details.processes = []
        run.machine.exited(reason, now)

    def _record_crash(self, event: AgentExited) -> None:
        """Record that the agent ended in the middle of a turn, unless a person was interrupting it anyway."""
        run = self._run
        if not run.details.is_interrupting:
            code = "" if event.code is None else f" (exit code {event.code})"
            run.record_interruption(f"{EXITED_IN_TURN_EVIDENCE}{code}", by="agent")
