"""The runs that work on sessions, and their states. They take precedence over what the files of a session suggest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from .run import Run
from .state import IN_TURN, State

SessionKey: TypeAlias = tuple[str, str]
"""The agent, and its id of the session."""


class SessionRun(msgspec.Struct, kw_only=True, frozen=True):
    """The latest run on a session."""

    run: str
    state: State
    ended_at: float | None = None
    """When it ended or moved to another session; None while it is working on this one."""
    waiting_calls: frozenset[str] = frozenset()
    """The calls that are waiting for a person's decision."""

    @property
    def is_active(self) -> bool:
        """Whether the agent has the session open."""
        return self.ended_at is None

    @property
    def is_in_turn(self) -> bool:
        """Whether calls without a result may still get one."""
        return self.is_active and self.state in IN_TURN


SessionRuns: TypeAlias = Mapping[SessionKey, SessionRun]


def past_runs(ends: Mapping[SessionKey, float]) -> dict[SessionKey, SessionRun]:
    """Return the runs of earlier servers, given the times when they ended."""
    return {key: SessionRun(run="", state="ended", ended_at=at) for key, at in ends.items()}


def runs_by_session(runs: Iterable[Run], past: SessionRuns) -> dict[SessionKey, SessionRun]:
    """Return the latest run on each session, from the runs of this server and `past` ones."""
    found = dict(past)
    for run in runs:
        for session, left_at in run.former_sessions.items():
            _keep_latest(found, (run.agent, session), SessionRun(run=run.id, state="ended", ended_at=left_at))
        if run.session is not None:
            _keep_latest(found, (run.agent, run.session), _current(run))
    return found


def _keep_latest(found: dict[SessionKey, SessionRun], key: SessionKey, run: SessionRun) -> None:
    known = found.get(key)
    if known is None or run.is_active or (known.ended_at is not None and (run.ended_at or 0.0) > known.ended_at):
        found[key] = run


def _current(run: Run) -> SessionRun:
    machine = run.machine
    ended_at = time.time() - (time.monotonic() - machine.since) if machine.has_ended else None
    return SessionRun(run=run.id, state=machine.state, ended_at=ended_at, waiting_calls=run.waiting_calls)
