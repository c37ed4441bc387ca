"""Options shared by several commands, and the sessions they select."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ...agents import AGENTS, Peek, SessionRef
from ...core.assemble import TipRule
from ...core.errors import NotFoundError, UsageError
from ...core.events import EVENT_NAMES, count_events, find_kind
from ...core.model import Kind
from ...core.session import Session
from ...core.stream import StreamLine
from ...core.timestamps import parse_time
from ...core.views import Branches, OrphanMode
from ...library import Library, expanded
from ...store.decision_log import recorded_decisions

_FILTERS = ("has:", "is:")
"""How words among the sessions ask for events; both mean the same."""


def home_help() -> str:
    """What a home directory is, for the help of options that take one."""
    return f"a home directory that contains {', '.join(agent.info.folder for agent in AGENTS.values())}"


def add_places(parser: argparse.ArgumentParser) -> None:
    """Where to look for sessions."""
    parser.add_argument(
        "--home", action="append", default=[], metavar="DIR",
        help=f"{home_help()} (default: yours); may be repeated",
    )  # fmt: skip


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Which sessions, by name."""
    parser.add_argument(
        "sessions",
        nargs="*",
        metavar="SESSION",
        help=f"{what}: an id, the start of one, a file, a directory, or `latest`",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Which sessions, by what they are."""
    group = parser.add_argument_group("filters")
    group.add_argument(
        "--agent",
        choices=list(AGENTS),
        action="append",
        default=[],
        help="only sessions of this agent; may be repeated",
    )
    group.add_argument("--project", metavar="TEXT", help="only projects with TEXT in their path")
    group.add_argument("--since", metavar="TIME", help="only sessions active since TIME: 2026-11-01, 7d, 12h, today")
    group.add_argument("--until", metavar="TIME", help="only sessions started before TIME")
    group.add_argument(
        "--kind", choices=("main", "subagent", "all"), default=None, help="main sessions, sub-agents, or both"
    )
    group.add_argument(
        "--has", metavar="EVENT", action="append", default=[], type=event_name,
        help=f"only sessions with this event, also written has:EVENT; one of {', '.join(EVENT_NAMES)}",
    )  # fmt: skip


def event_name(word: str) -> str:
    """The kind of event that an option names, under the name of the table."""
    try:
        return find_kind(word).name
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_view(parser: argparse.ArgumentParser, branches: str) -> None:
    """What of a session to show."""
    parser.add_argument("--branches", choices=("active", "all"), default=branches, help=f"default: {branches}")
    parser.add_argument(
        "--orphans", choices=("hide", "mark", "synthesize"), default="mark",
        help="unfinished calls: hide them, mark them, or add a synthetic result (default: mark)",
    )  # fmt: skip
    parser.add_argument(
        "--tip", default="agent", metavar="RULE",
        help="the end of the active path: agent (the agent's own rule, default), newest, longest, or a message id",
    )  # fmt: skip


class Reader(Protocol):
    """Reads sessions, from disk or from the store."""

    def load(self, ref: SessionRef, tip: TipRule = "agent") -> Session:
        """A whole session."""
        ...

    def load_all(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[Session]:
        """A session, and those in the same file."""
        ...

    def stream(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[StreamLine]:
        """The session as stream lines."""
        ...

    def peek(self, ref: SessionRef) -> Peek:
        """What a list of sessions shows."""
        ...

    def inside(self, ref: SessionRef) -> list[SessionRef]:
        """Sub-agents inside the file of a session."""
        ...


class Chosen(NamedTuple):
    """A session and the reader for it."""

    library: Reader
    ref: SessionRef


def choose(args: argparse.Namespace) -> Iterator[Chosen]:
    """The sessions a command works on: those named, or all."""
    library = Library(*args.home, evidence=recorded_decisions)
    takes_events = "has" in args
    names = [name for name in args.sessions if not (takes_events and name.startswith(_FILTERS))]
    if not names:
        yield from (Chosen(library, ref) for ref in library.refs())
    # Look up all names first: a wrong one should fail at once, not in the middle of the work.
    for group in [_named(library, name, from_store=not args.home) for name in names]:
        yield from group


def _named(library: Library, name: str, from_store: bool) -> Iterable[Chosen]:
    if name and name != "latest" and expanded(name).is_dir():
        folder = Library(name, evidence=recorded_decisions)
        return (Chosen(folder, ref) for ref in folder.refs())
    try:
        return [Chosen(library, library.find(name))]
    except NotFoundError:
        if from_store and (kept := _kept(name)) is not None:
            return [kept]
        raise


def _kept(name: str) -> Chosen | None:
    """A session that was deleted from disk. The store is only opened if it is needed."""
    from .archived import find_stored

    found = find_stored(name)
    return Chosen(*found) if found is not None else None


class Filter:
    """Selects sessions by the filter options."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._agents = frozenset(args.agent)
        self._project = (args.project or "").lower()
        self._since = parse_time(args.since)
        self._until = parse_time(args.until)
        self._kind = args.kind or "all"
        self.events = frozenset((*args.has, *_events_in(args.sessions)))

    def takes(self, ref: SessionRef) -> bool:
        """Whether a session passes, judged by its reference."""
        return self.takes_agent(ref.agent) and self.takes_kind(ref.kind)

    def takes_agent(self, name: str) -> bool:
        """Whether sessions of an agent pass."""
        return not self._agents or name in self._agents

    @property
    def needs_peek(self) -> bool:
        """Whether the first lines of a session are needed."""
        return bool(self._project or self._since or self._until)

    def takes_peek(self, peek: Peek) -> bool:
        """Whether a session passes, judged by its first lines."""
        if self._project:
            project = peek.project
            if project is None or self._project not in (project.path or project.name).lower():
                return False
        last = peek.ended_at or peek.started_at
        if self._since and (last is None or last < self._since):
            return False
        return not (self._until and (peek.started_at is None or peek.started_at >= self._until))

    def takes_session(self, session: Session) -> bool:
        """Whether a session passes, judged by its events."""
        return self.takes_kind(session.info.kind) and all(count_events(session)[kind] for kind in self.events)

    def takes_kind(self, kind: Kind) -> bool:
        """Whether sessions of a kind pass; a main session's file may contain sub-agents."""
        return self._kind in ("all", kind)

    def apply(self, chosen: Iterable[Chosen]) -> Iterator[Chosen]:
        """The sessions that pass without being read."""
        for item in chosen:
            if self.takes(item.ref) and (not self.needs_peek or self._takes_beginning(item)):
                yield item

    def _takes_beginning(self, item: Chosen) -> bool:
        """A session that fails is taken, so that it is reported when it is read."""
        try:
            peek = item.library.peek(item.ref)
        except Exception:
            return True
        return self.takes_peek(peek)


def _events_in(words: Iterable[str]) -> Iterator[str]:
    """Events asked for by words like `has:rejection` or `is:rejected`."""
    return (find_kind(word.partition(":")[2]).name for word in words if word.startswith(_FILTERS))


def is_terminal() -> bool:
    """Whether the output goes to a terminal."""
    return sys.stdout.isatty()
