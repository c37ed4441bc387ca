"""Detects whether another program is using a session: two programs that write to the same file corrupt it."""

from __future__ import annotations

import time

import msgspec

from ..agents import AGENTS, SessionRef

_RECENT_SECONDS = 20.0
"""A file that was written to this recently may be written to again."""
_FLUSH_SECONDS = 1.0
"""An agent that we ran may write its last lines shortly after we noticed its exit."""


class SessionOwner(msgspec.Struct, kw_only=True, frozen=True):
    """The program that seems to be using a session, and the evidence for it."""

    name: str
    evidence: str


def find_owner(ref: SessionRef, now: float | None = None, ours_until: float | None = None) -> SessionOwner | None:
    """Return the other program that is using a session: the agent lists it as open, or its file was just written to.

    Anything written until `ours_until` was written by an agent that we ran, which has exited since.
    """
    status = AGENTS[ref.agent].open(ref.root).live.get(ref.id)
    if status is not None:
        title = AGENTS[ref.agent].info.title
        return SessionOwner(name=title, evidence=f"{title} has it open and is {status}")
    now = time.time() if now is None else now
    log = AGENTS[ref.agent].log
    written = max(log(path).modified() for path in (ref.path, *ref.more)) / 1e9
    is_ours = ours_until is not None and written <= ours_until + _FLUSH_SECONDS
    age = now - written
    if age < _RECENT_SECONDS and not is_ours:
        return SessionOwner(name="Another program", evidence=f"its file was written {max(0.0, age):.0f} s ago")
    return None
