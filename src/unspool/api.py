"""The functions that most programs need, built on `Library`."""

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


StoreLocation = str | Path | Literal[True]
"""A store: the path of its file, the URL of a database, or True for your default store."""


def sessions(*homes: str | Path, store: StoreLocation | None = None) -> Iterator[SessionRef]:
    """Find all sessions in your home directory, or in the given locations. Only the first lines of each file are read.

    A location is a home directory that contains the agents' directories, an agent's directory, any other directory, or
    a single file. With a `store`, sessions whose files are gone are found as well; their `gone` is true.

    >>> import unspool
    >>> refs = list(unspool.sessions(unspool.samples()))
    >>> sorted({ref.agent for ref in refs})
    ['claude', 'codex', 'gemini']
    """
    library = Library(*homes)
    if store is None:
        return library.refs()
    return _with_stored(library, store)


def load(
    session: str | Path | SessionRef,
    tip: TipRule = "agent",
    *,
    home: str | Path | None = None,
    store: StoreLocation | None = None,
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
        with _open(store) as opened:
            catalog = Catalog(Library(*_locations(home), evidence=evidence), lambda: opened)
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
    """Return the path of a home directory with a few sessions of each agent, for trying things out."""
    return Path(__file__).parent / "samples"


def _with_stored(library: Library, store: StoreLocation) -> Iterator[SessionRef]:
    with _open(store) as opened:
        yield from Catalog(library, lambda: opened).refs()


@contextmanager
def _open(location: StoreLocation) -> Iterator[Store]:
    # Imported late: most programs only read files, and start faster without the store.
    from .store import open_store

    with closing(open_store(None if location is True else str(location), read_only=True)) as store:
        yield store


def _locations(home: str | Path | None) -> list[str | Path]:
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
    library = Library(*_locations(home), evidence=evidence)
    return library, library.find(session)


def _is_path(name: str) -> bool:
    """Whether a name is a path; the id of a sub-agent has a slash as well."""
    path = expanded(name)
    return looks_like_path(name) and (path.is_absolute() or path.exists())


class _CachedLibrary(NamedTuple):
    library: Library
    created_at: float
    used_at: float


_cached: dict[tuple[Path, Evidence | None], _CachedLibrary] = {}
_UNUSED_SECONDS = 5.0
_OLD_SECONDS = 30.0


def _library_at(folder: Path, evidence: Evidence | None) -> Library:
    """Return a library for sessions in the same folder, shared by calls in quick succession.

    Other sessions and the prompt history, which reading a session may need, are then looked up only once. The sessions
    themselves are always read again.
    """
    now = time.monotonic()
    for known, cached in list(_cached.items()):
        if now - cached.used_at > _UNUSED_SECONDS or now - cached.created_at > _OLD_SECONDS:
            # Another thread may have removed it already.
            _cached.pop(known, None)
    key = folder, evidence
    found = _cached.get(key)
    if found is None:
        found = _CachedLibrary(Library.empty(evidence), now, now)
    _cached[key] = found._replace(used_at=now)
    return found.library
