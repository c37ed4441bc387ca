"""Sources of the sessions in tables: agents' files, a store, or records in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from ..agents import AGENTS, SessionRef
from ..core import model as m
from ..core.errors import BusyError, NotFoundError, UnspoolError, UsageError
from ..core.session import Session
from ..io.sources import COMPRESSED
from ..library import Library, SessionReading, expanded
from ..redact import Redactor
from ..store import Store, open_store
from ..store.filters import SessionFilter

LONG_LOG = 24 << 20
"""A session with more bytes of logs is read twice instead of being held in memory."""
_COMPRESSION = 8
"""The assumed ratio of the size of a log to its compressed size."""
_STORE_SCHEMES = ("postgresql://", "postgres://")
_LAKE = Path("fingerprints") / "_delta_log"
"""A folder that every lake has."""
_SQLITE = b"SQLite format 3\0"


class Unreadable(NamedTuple):
    """A session that cannot be read."""

    agent: str
    session: str
    file: str | None
    reason: str


class TableSource(Protocol):
    """A source of sessions."""

    def readings(self) -> Iterator[SessionReading | Unreadable]:
        """Yield each session, or an `Unreadable` with the reason."""
        ...


class InMemory:
    """Sessions that are already loaded."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self._sessions = sessions

    def readings(self) -> Iterator[SessionReading]:
        """Yield each session."""
        return map(reading_of, self._sessions)


def reading_of(session: Session) -> SessionReading:
    """Wrap a loaded session as a `SessionReading`."""
    return SessionReading(session, session.messages, session.context_map)


class OnDisk:
    """The sessions of a library."""

    def __init__(self, library: Library, refs: Iterable[SessionRef] | None = None) -> None:
        self._library = library
        self._refs = refs

    def readings(self) -> Iterator[SessionReading | Unreadable]:
        """Yield each session and the sub-agents in its file, or an `Unreadable` with the reason."""
        for ref in self._library.refs() if self._refs is None else self._refs:
            is_long = size_of_logs(ref) > LONG_LOG
            try:
                for reading in self._library.read_all(ref, in_pieces=is_long):
                    yield reading._replace(messages=_readable(reading.messages)) if is_long else reading
            except Exception as error:
                # An error in one session must not affect the rows of the others.
                yield Unreadable(ref.agent, ref.id, str(ref.path), _reason(error))


def _readable(messages: Iterable[m.Message]) -> Iterator[m.Message]:
    """Yield the messages of a log that is being read. Any error is raised as an UnspoolError."""
    try:
        yield from messages
    except Exception as error:
        raise UnspoolError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UnspoolError | OSError) else f"{type(error).__name__}: {error}"


def size_of_logs(ref: SessionRef) -> int:
    """Return the approximate size of a session's logs in bytes, after decompression."""
    size = 0
    for path in (ref.path, *ref.more):
        try:
            stamp = AGENTS[ref.agent].log(path).stamp()
        except OSError:
            continue  # Reading the file will report the error.
        size += stamp.size * (_COMPRESSION if path.suffix == COMPRESSED else 1) if stamp is not None else 0
    return size


class Stored:
    """The sessions of a store, most recent first, so that the most recent of several copies is used."""

    def __init__(self, store: Store, ids: Iterable[int] | None = None, redactor: Redactor | None = None) -> None:
        self._store = store
        self._ids = None if ids is None else tuple(ids)
        self._redactor = redactor

    def readings(self) -> Iterator[SessionReading | Unreadable]:
        """Yield each session, or an `Unreadable` with the reason."""
        store = self._store
        for row in store.sessions.select(SessionFilter(ids=self._ids)):
            try:
                # A session that is being written must not be read in part.
                with store.snapshot():
                    session = store.messages.load_session(row.id)
            except NotFoundError:
                continue  # It was forgotten after it was listed.
            except UnspoolError as error:
                if isinstance(error, BusyError) or store.is_lost:
                    raise  # This says nothing about the session.
                yield Unreadable(row.agent, row.name, None, str(error))
            else:
                yield reading_of(session if self._redactor is None else self._redactor.session(session))


def find_sources(sources: Iterable[str | Path | Store | Session]) -> list[TableSource]:
    """Return sources for home directories, folders, files, stores and sessions; by default, the user's home."""
    found: list[TableSource] = []
    on_disk: list[Path] = []
    for source in sources:
        if isinstance(source, Session):
            found.append(InMemory([source]))
        elif isinstance(source, Store):
            found.append(Stored(source))
        elif is_store(source):
            found.append(Stored(open_store(str(source), read_only=True)))
        elif (expanded(source) / _LAKE).is_dir():
            raise UsageError(
                f"{source} is a lake; query it with `unspool sql --lake`, or read its tables as Delta tables"
            )
        else:
            on_disk.append(expanded(source))
    if on_disk or not found:
        found.insert(0, OnDisk(Library(*on_disk)))
    return found


def is_store(location: str | Path) -> bool:
    """Return whether this is a store of unspool: a PostgreSQL URL, or an SQLite database that no agent has written."""
    if str(location).startswith(_STORE_SCHEMES):
        return True
    path = expanded(location)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return False
    try:
        Library.empty().refs_of(path)
    except NotFoundError:
        return True
    return False
