"""Selects the sessions that a command works on: by name or by filter, on disk and in the store."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...agents import AGENTS, Peek, SessionRef
from ...api import samples
from ...catalog import Catalog
from ...core.errors import NotFoundError, UnspoolError, UsageError
from ...core.events import count_events, find_kind
from ...core.model import Kind
from ...core.session import Session
from ...core.timestamps import parse_time
from ...io.listing import may_exist
from ...library import Library, expanded
from ...store.locate import STORE_NAME, STORE_VARIABLE, data_folder, open_store
from .output import print_error

if TYPE_CHECKING:
    from ...core.decisions import RecordedDecision
    from ...store import Store
    from ...store.filters import SessionFilter

_WORD = re.compile(r"([a-z]+):(?![\\/])(.+)", re.DOTALL)
_WORDS = {
    "agent": "agent", "project": "project", "kind": "kind", "has": "has", "is": "has",
    "since": "since", "after": "since", "until": "until", "before": "until",
}  # fmt: skip
"""Filter names before a colon, and the equivalent options."""
_NEVER = datetime.min.replace(tzinfo=UTC)


def prepare(args: argparse.Namespace) -> None:
    """Replace `--samples` by its home and store, and filters such as `agent:NAME` by the equivalent options."""
    if getattr(args, "samples", False):
        if args.home:
            raise UsageError("--samples and --home cannot be used together")
        args.home = [str(samples())]
        args.store = args.store or str(data_folder() / "samples.db")
    if "sessions" in args and "agent" in args:
        names = [word for word in args.sessions if not _is_filter(args, word)]
        args.sessions = names


def _is_filter(args: argparse.Namespace, word: str) -> bool:
    """Return whether a word is a filter; if so, set the equivalent option."""
    found = _WORD.fullmatch(word)
    if found is None or Path(word).exists():
        return False
    name, value = found.groups()
    option = _WORDS.get(name)
    if option is None or option not in args:
        from difflib import get_close_matches

        near = get_close_matches(name, [known for known, meant in _WORDS.items() if meant in args], n=1)
        raise UsageError(f"unknown filter {name!r} in {word!r}" + (f"; did you mean {near[0]}:?" if near else ""))
    if option == "has":
        args.has = [*args.has, find_kind(value).name]
    elif option == "agent":
        args.agent = [*args.agent, _agent(value)]
    elif getattr(args, option) not in (None, value):
        raise UsageError(f"--{option} is given twice: {getattr(args, option)!r} and {value!r}")
    else:
        setattr(args, option, _kind(value) if option == "kind" else value)
    return True


def _agent(name: str) -> str:
    if name not in AGENTS:
        raise UsageError(f"unknown agent {name!r}; choose from {', '.join(AGENTS)}")
    return name


def _kind(name: str) -> str:
    if name not in ("main", "subagent", "all"):
        raise UsageError(f"unknown kind {name!r}; choose from main, subagent, all")
    return name


# --- sessions ---


class Chosen(NamedTuple):
    """A session and the catalog that reads it."""

    catalog: Catalog
    ref: SessionRef


def choose(args: argparse.Namespace) -> Iterator[Chosen]:
    """Yield the sessions a command works on: those named, or all, including those that only the store still has."""
    catalog = catalog_of(args)
    if not args.sessions:
        yield from (Chosen(catalog, ref) for ref in catalog.refs())
    # Look up all names first: a wrong one should fail at once, not halfway through.
    for group in [_named(catalog, name) for name in args.sessions]:
        yield from group


def choose_one(args: argparse.Namespace) -> Iterator[Chosen]:
    """Yield the session a command works on. A directory must contain exactly one."""
    name = args.sessions[0]
    if _is_folder(name):
        count = sum(1 for _ in Library(name).refs())
        if count != 1:
            found = "no sessions" if not count else f"{count:,} sessions"
            raise UsageError(f"{name} is a directory with {found}; name one session, see `unspool ls {name}`")
    yield from choose(args)


def catalog_of(args: argparse.Namespace) -> Catalog:
    """Return the catalog of the homes and the store in the options. The store is closed when the command ends."""
    library = Library(*args.home, evidence=_recorded)
    below = [root for _, root in library.homes()] if args.home and args.store is None else None
    catalog = Catalog(library, lambda: _existing_store(args), below=below)
    args.on_exit.callback(_close, catalog, args)
    return catalog


def _recorded(agent: str, session: str) -> list[RecordedDecision]:
    """Return the decisions recorded for a session. Their reader is only imported when a session is loaded."""
    from ...store.decision_log import recorded_decisions

    return recorded_decisions(agent, session)


def _close(catalog: Catalog, args: argparse.Namespace) -> None:
    """Report what could not be read in the store, and close it."""
    store = catalog.opened_store
    if store is None:
        return
    if store.messages.damaged:
        # Imported late: it imports everything that reads sessions.
        from .store import report_damage

        if report_damage(store):
            args.is_incomplete = True
    store.close()


def _existing_store(args: argparse.Namespace) -> Store | None:
    """Open the store, if any. If it is unreadable, sessions on disk can still be read, but the command has failed."""
    is_default = args.store is None and not os.environ.get(STORE_VARIABLE)
    if is_default and not may_exist(data_folder() / STORE_NAME):
        return None
    try:
        return open_store(args.store, read_only=True)
    except NotFoundError:
        return None
    except UnspoolError as error:
        if getattr(args, "stored", False):
            raise
        print_error(f"cannot read the store, so what only the store has is missing: {error}")
        args.is_incomplete = True
        return None


def _named(catalog: Catalog, name: str) -> Iterable[Chosen]:
    if _is_folder(name):
        folder = Catalog(Library(name, evidence=_recorded))
        return (Chosen(folder, ref) for ref in folder.refs())
    return [Chosen(catalog, catalog.find(name))]


def _is_folder(name: str) -> bool:
    return bool(name) and name != "latest" and expanded(name).is_dir()


# --- filters ---


class Filter:
    """Filters sessions by the filter options."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._agents = frozenset(args.agent)
        self._project = (args.project or "").lower()
        self._since = parse_time(args.since)
        self._until = parse_time(args.until)
        self._kind = getattr(args, "kind", None) or "all"
        self._limit: int | None = getattr(args, "limit", None)
        self.events = frozenset(getattr(args, "has", ()))

    def takes(self, ref: SessionRef) -> bool:
        """Whether a session passes, according to its reference."""
        return self.takes_agent(ref.agent) and self.takes_kind(ref.kind)

    def takes_agent(self, name: str) -> bool:
        """Whether sessions of an agent pass."""
        return not self._agents or name in self._agents

    @property
    def needs_peek(self) -> bool:
        """Whether the filters need the first lines of a session."""
        return bool(self._project or self._since or self._until)

    def takes_peek(self, peek: Peek) -> bool:
        """Whether a session passes, according to its first lines: its project, and when it was active."""
        if self._project:
            project = peek.project
            if project is None or self._project not in (project.path or project.name).lower():
                return False
        last = peek.ended_at or peek.started_at
        if self._since and (last is None or last < self._since):
            return False
        return not (self._until and (peek.started_at is None or peek.started_at >= self._until))

    def takes_time(self, at: datetime | None) -> bool:
        """Whether a time is in the period."""
        if at is None:
            return not (self._since or self._until)
        return not ((self._since and at < self._since) or (self._until and at >= self._until))

    def takes_session(self, session: Session) -> bool:
        """Whether a session passes, according to its events."""
        return self.takes_kind(session.info.kind) and all(count_events(session)[kind] for kind in self.events)

    def takes_kind(self, kind: Kind) -> bool:
        """Whether sessions of a kind pass; a main session's file may contain sub-agents."""
        return self._kind in ("all", kind)

    def apply(self, chosen: Iterable[Chosen]) -> Iterator[Chosen]:
        """Yield the sessions that pass, without reading them in full; with a limit, only the newest, newest first."""
        passing = (item for item in chosen if self.takes(item.ref) and (not self.needs_peek or self._takes(item)))
        if self._limit is None:
            return passing
        return iter(sorted(passing, key=_last_active, reverse=True)[: self._limit])

    def _takes(self, item: Chosen) -> bool:
        """Return whether a session passes. An unreadable one does, so that the error is reported when it is read."""
        try:
            peek = item.catalog.peek(item.ref)
        except Exception:
            return True
        return self.takes_peek(peek)


def _last_active(item: Chosen) -> datetime:
    try:
        return last_active(item.catalog.peek(item.ref))
    except Exception:
        return _NEVER


def last_active(peek: Peek) -> datetime:
    """Return when a session was last active, for sorting."""
    return peek.ended_at or peek.started_at or _NEVER


def stored_filter(args: argparse.Namespace) -> SessionFilter:
    """Return the filter options as a filter for the store."""
    from ...store.filters import SessionFilter

    kind = getattr(args, "kind", None)
    return SessionFilter(
        agents=tuple(args.agent) or None,
        project_contains=args.project,
        kind=None if kind in (None, "all") else kind,
        has_all=tuple(getattr(args, "has", ())),
        active_since=parse_time(args.since),
        started_before=parse_time(args.until),
    )
