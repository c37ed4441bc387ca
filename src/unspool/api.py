"""The functions that most programs need; `Library` is behind them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .agents import SessionRef
from .core.assemble import TipRule
from .core.decisions import Evidence
from .core.resolve import looks_like_path
from .core.session import Session
from .core.stream import StreamLine
from .library import Library, expanded


def sessions(*homes: str | Path) -> Iterator[SessionRef]:
    """Find all sessions in your home directory, or in the given locations. Only the first lines of each file are read.

    A place is a home directory that contains the agents' directories, an agent's directory, any other directory, or a
    single file.

    >>> import unspool
    >>> refs = list(unspool.sessions(unspool.samples()))
    >>> sorted({ref.agent for ref in refs})
    ['claude', 'codex', 'gemini']
    """
    return Library(*homes).refs()


def load(session: str | Path | SessionRef, tip: TipRule = "agent", *, evidence: Evidence | None = None) -> Session:
    """Read a whole session: one that `sessions` found, a file, or an id (or the start of one) in your home directory.

    `tip` selects the end of the active path: the agent's own rule, `newest`, `longest`, or the id of a message.
    `evidence` is called with the agent and the id of a session and returns the decisions that were recorded while it
    ran; without it, the result depends on the session's files alone.

    >>> import unspool
    >>> ref = next(ref for ref in unspool.sessions(unspool.samples()) if ref.agent == "claude")
    >>> session = unspool.load(ref)
    >>> session.agent, session.messages[0].role
    ('claude', 'user')
    """
    library, ref = _find(session, evidence)
    return library.load(ref, tip)


def stream(
    session: str | Path | SessionRef, tip: TipRule = "agent", *, evidence: Evidence | None = None
) -> Iterator[StreamLine]:
    """Read a session as a stream of small records, with constant memory however long the session is.

    >>> import unspool
    >>> ref = next(unspool.sessions(unspool.samples()))
    >>> lines = list(unspool.stream(ref))
    >>> type(lines[0]).__name__, type(lines[-1]).__name__
    ('SessionLine', 'EndLine')
    """
    library, ref = _find(session, evidence)
    return library.stream(ref, tip)


def samples() -> Path:
    """A home directory with a few sessions of each agent, for trying things out."""
    return Path(__file__).parent / "samples"


def _find(session: str | Path | SessionRef, evidence: Evidence | None) -> tuple[Library, SessionRef]:
    if isinstance(session, SessionRef):
        return _library_at(session.root, evidence), session
    if isinstance(session, Path) or _is_path(session):
        path = expanded(session).absolute()
        library = _library_at(path.parent, evidence)
        return library, library.ref_of(path)
    library = Library(evidence=evidence)
    return library, library.find(session)


def _is_path(name: str) -> bool:
    """Whether a name is a path; the id of a sub-agent has a slash as well."""
    path = expanded(name)
    return looks_like_path(name) and (path.is_absolute() or path.exists())


class _Kept(NamedTuple):
    library: Library
    made_at: float
    used_at: float


_kept: dict[tuple[Path, Evidence | None], _Kept] = {}
_UNUSED_SECONDS = 5.0
_OLD_SECONDS = 30.0


def _library_at(place: Path, evidence: Evidence | None) -> Library:
    """A library for sessions in the same place, shared by calls in quick succession.

    What surrounds a session (other sessions, the prompt history) is then looked up once for all of them. The sessions
    themselves are always read again.
    """
    now = time.monotonic()
    for known, kept in list(_kept.items()):
        if now - kept.used_at > _UNUSED_SECONDS or now - kept.made_at > _OLD_SECONDS:
            del _kept[known]
    key = place, evidence
    found = _kept.get(key)
    _kept[key] = found._replace(used_at=now) if found is not None else _Kept(Library.of_nothing(evidence), now, now)
    return _kept[key].library
