"""Whether somebody else works on a session: two programs that write one file destroy it."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ..agents import AGENTS, SessionRef

_FRESH_SECONDS = 20.0
"""A file that was written to so recently may be written to again."""


class Owner(msgspec.Struct, kw_only=True, frozen=True):
    """Who seems to work on a session, and how that is known."""

    what: str
    evidence: str


def owner_of(ref: SessionRef, now: float | None = None) -> Owner | None:
    """Who works on a session, besides us: the agent's own list of running programs says so, or fresh writing does."""
    status = AGENTS[ref.agent].open(ref.root).live.get(ref.id)
    if status is not None:
        title = AGENTS[ref.agent].info.title
        return Owner(what=title, evidence=f"{title} has it open, and is {status}")
    now = time.time() if now is None else now
    ages = [now - changed for path in (ref.path, *ref.more) if (changed := _changed_at(path)) is not None]
    age = min(ages, default=_FRESH_SECONDS)
    if age < _FRESH_SECONDS:
        return Owner(what="another program", evidence=f"its file was written {max(0.0, age):.0f} s ago")
    return None


def _changed_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
