"""The few functions most programs need; `Library` is behind them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .agents import SessionRef
from .core.assemble import TipRule
from .core.session import Session
from .core.stream import StreamLine
from .library import Library, expanded


def sessions(*homes: str | Path) -> Iterator[SessionRef]:
    """Find all sessions, in the user's own home or in those given; nothing is read but the first lines.

    A home holds the agents' folders; an agent's folder, any other folder, or a single file will do as well.

    >>> import unspool
    >>> refs = list(unspool.sessions(unspool.samples()))
    >>> sorted({ref.agent for ref in refs})
    ['claude', 'codex', 'gemini']
    """
    return Library(*homes).refs()


def load(session: str | Path | SessionRef, tip: TipRule = "agent") -> Session:
    """Read a whole session: one that was found, a file, or an id (or its beginning) in the user's own home.

    `tip` chooses the end of the active path: the agent's own rule, `newest`, `longest`, or the id of a message.

    >>> import unspool
    >>> ref = next(ref for ref in unspool.sessions(unspool.samples()) if ref.agent == "claude")
    >>> session = unspool.load(ref)
    >>> session.agent, session.messages[0].role
    ('claude', 'user')
    """
    library, ref = _find(session)
    return library.load(ref, tip)


def stream(session: str | Path | SessionRef, tip: TipRule = "agent") -> Iterator[StreamLine]:
    """The same in small pieces: memory stays flat, however long the session is.

    >>> import unspool
    >>> ref = next(unspool.sessions(unspool.samples()))
    >>> lines = list(unspool.stream(ref))
    >>> type(lines[0]).__name__, type(lines[-1]).__name__
    ('SessionLine', 'EndLine')
    """
    library, ref = _find(session)
    return library.stream(ref, tip)


def samples() -> Path:
    """A home with a few sessions of each agent, for trying things out."""
    return Path(__file__).parent / "samples"


def _find(session: str | Path | SessionRef) -> tuple[Library, SessionRef]:
    if isinstance(session, SessionRef):
        return _library_at(session.root), session
    if isinstance(session, Path) or os.sep in session:
        path = expanded(session).absolute()
        library = _library_at(path.parent)
        return library, library.ref_of(path)
    library = Library()
    return library, library.find(session)


class _Kept(NamedTuple):
    library: Library
    made_at: float
    used_at: float


_kept: dict[Path, _Kept] = {}
_UNUSED_SECONDS = 5.0
_OLD_SECONDS = 30.0


def _library_at(place: Path) -> Library:
    """A library for sessions in the same place, shared by calls that follow each other.

    What lies around a session (which others there are, what was typed) is then looked up once for all of them, not
    once for each. The sessions themselves are always read anew.
    """
    now = time.monotonic()
    for known, kept in list(_kept.items()):
        if now - kept.used_at > _UNUSED_SECONDS or now - kept.made_at > _OLD_SECONDS:
            del _kept[known]
    found = _kept.get(place)
    _kept[place] = found._replace(used_at=now) if found is not None else _Kept(Library.of_nothing(), now, now)
    return _kept[place].library
