"""The functions that most programs need; `Library` is behind them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from .agents import SessionRef
from .catalog import Catalog
from .core.assemble import TipRule
from .core.decisions import Evidence
from .core.resolve import looks_like_path
from .core.session import Session
from .core.stream import StreamLine
from .library import Library, expanded

if TYPE_CHECKING:
    from .store import Store


StorePlace = str | Path | Literal[True]
"""A store: the path of its file, the URL of a database, or True for your own."""


def sessions(*homes: str | Path, store: StorePlace | None = None) -> Iterator[SessionRef]:
    """Find all sessions in your home directory, or in the given locations. Only the first lines of each file are read.

    A place is a home directory that contains the agents' directories, an agent's directory, any other directory, or a
    single file. With a `store`, sessions whose files are gone are found as well; their `gone` is true.

    >>> import unspool
    >>> refs = list(unspool.sessions(unspool.samples()))
    >>> sorted({ref.agent for ref in refs})
    ['claude', 'codex', 'gemini']
    """
    library = Library(*homes)
    if store is None:
        return library.refs()
    return _stored_too(library, store)


def load(
    session: str | Path | SessionRef,
    tip: TipRule = "agent",
    *,
    home: str | Path | None = None,
    store: StorePlace | None = None,
    evidence: Evidence | None = None,
) -> Session:
    """Read a whole session: one that `sessions` found, a file, or an id (or the start of one) in your home directory.

    `tip` selects the end of the active path: the agent's own rule, `newest`, `longest`, or the id of a message.
    `home` is the home directory in which an id is looked up, if it is not yours. With a `store`, a session whose files
    are gone is read from there. `evidence` is called with the agent and the id of a session and returns the decisions
    that were recorded while it ran; without it, the result depends on the session's files alone.

    >>> import unspool
    >>> session = unspool.load("37c23", home=unspool.samples())
    >>> session.agent, session.messages[0].role
    ('claude', 'user')
    """
    if store is not None:
        with _opened(store) as kept:
            catalog = Catalog(Library(*_places(home), evidence=evidence), lambda: kept)
            return catalog.load(session if isinstance(session, SessionRef) else catalog.find(str(session)), tip)
    library, ref = _find(session, home, evidence)
    return library.load(ref, tip)


def stream(
    session: str | Path | SessionRef,
    tip: TipRule = "agent",
    *,
    home: str | Path | None = None,
    evidence: Evidence | None = None,
) -> Iterator[StreamLine]:
    """Read a session as a stream of small records, with constant memory however long the session is.

    >>> import unspool
    >>> ref = next(unspool.sessions(unspool.samples()))
    >>> lines = list(unspool.stream(ref))
    >>> type(lines[0]).__name__, type(lines[-1]).__name__
    ('SessionLine', 'EndLine')
    """
    library, ref = _find(session, home, evidence)
    return library.stream(ref, tip)


def samples() -> Path:
    """A home directory with a few sessions of each agent, for trying things out."""
    return Path(__file__).parent / "samples"


def _stored_too(library: Library, place: StorePlace) -> Iterator[SessionRef]:
    with _opened(place) as store:
        yield from Catalog(library, lambda: store).refs()


@contextmanager
def _opened(place: StorePlace) -> Iterator[Store]:
    # Most programs read files only, and start faster without the store.
    from .store import open_store

    with closing(open_store(None if place is True else str(place), read_only=True)) as store:
        yield store


def _places(home: str | Path | None) -> list[str | Path]:
    return [] if home is None else [home]


def _find(
    session: str | Path | SessionRef, home: str | Path | None, evidence: Evidence | None
) -> tuple[Library, SessionRef]:
    if isinstance(session, SessionRef):
        return _library_at(session.root, evidence), session
    if isinstance(session, Path) or _is_path(session):
        path = expanded(session).absolute()
        library = _library_at(path.parent, evidence)
        return library, library.ref_of(path)
    library = Library(*_places(home), evidence=evidence)
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
