"""Whether somebody else works on a session: two programs that write one file destroy it."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ..agents import AGENTS, SessionRef

_FRESH_SECONDS = 20.0
"""A file that was written to so recently may be written to again."""
_LAST_WORDS_SECONDS = 1.0
"""What our own agent wrote may reach the file a little after its end was noticed."""


class Owner(msgspec.Struct, kw_only=True, frozen=True):
    """Who seems to work on a session, and how that is known."""

    what: str
    evidence: str


def owner_of(ref: SessionRef, now: float | None = None, ours_until: float | None = None) -> Owner | None:
    """Who works on a session, besides us: the agent's own list of running programs says so, or fresh writing does.

    What was written until `ours_until` was written by an agent of ours, which has ended then.
    """
    status = AGENTS[ref.agent].open(ref.root).live.get(ref.id)
    if status is not None:
        title = AGENTS[ref.agent].info.title
        return Owner(what=title, evidence=f"{title} has it open, and is {status}")
    now = time.time() if now is None else now
    written = max(
        (changed for path in (ref.path, *ref.more) if (changed := _changed_at(path)) is not None), default=0.0
    )
    is_ours = ours_until is not None and written <= ours_until + _LAST_WORDS_SECONDS
    age = now - written
    if age < _FRESH_SECONDS and not is_ours:
        return Owner(what="another program", evidence=f"its file was written {max(0.0, age):.0f} s ago")
    return None


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
