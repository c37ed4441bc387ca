"""`unspool events`: events of every kind, across sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from ...core.events import EVENT_NAMES, iter_events
from ...core.session import Session
from ...render.event_text import describe_event
from ...render.sanitize import local
from .._shared.failures import Failures
from .._shared.options import Filter, add_filters, add_places, add_sessions, choose, event_name
from .._shared.output import print_json, print_table, short_id
from .._shared.progress import watched

EXAMPLES = """examples:
  unspool events --type rejection
  unspool events latest
  unspool events --type interruption --since 30d --json"""


_HEADERS = ("event", "agent", "session", "message", "time", "description")
_STYLES = ("yellow", "cyan", "", "dim", "dim")


class Event(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An event with the session it belongs to."""

    agent: str
    session: str
    kind: str
    message_index: int | None
    timestamp: datetime | None
    text: str
    event: Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to search instead of all")
    add_places(parser)
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="EVENT",
        type=event_name,
        help=f"only events of this type; may be repeated: {', '.join(EVENT_NAMES)}",
    )
    add_filters(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """List the events."""
    keep = Filter(args)
    kinds = frozenset(args.type or EVENT_NAMES)
    failures = Failures(args.debug)
    found = watched(_events(args, keep, kinds, failures), "events")
    if args.json:
        for event in found:
            print_json(event)
        return failures.exit_code
    rows = (
        [event.kind, event.agent, short_id(event.session), _place(event), local(event.timestamp), event.text]
        for event in found
    )
    print_table(_HEADERS, rows, wrap=5, styles=_STYLES)
    return failures.exit_code


def _place(event: Event) -> str:
    return "" if event.message_index is None else f"#{event.message_index}"


def _events(args: argparse.Namespace, keep: Filter, kinds: frozenset[str], failures: Failures) -> Iterator[Event]:
    for library, ref in keep.apply(choose(args)):
        with failures.skipping(ref):
            for session in library.load_all(ref):
                if keep.takes_session(session):
                    yield from (event for event in events_of(session) if event.kind in kinds)


def events_of(session: Session) -> Iterator[Event]:
    """All events of a session, each with its description."""
    for kind, event in iter_events(session):
        yield _event(session, kind.name, kind.index_of(event), event, describe_event(event, 60))


def _event(session: Session, kind: str, index: int | None, event: Any, text: str) -> Event:
    timestamp = getattr(event, "timestamp", None)
    if timestamp is None and index is not None:
        timestamp = session.messages[index].timestamp
    return Event(
        agent=session.agent, session=session.id, kind=kind, message_index=index, timestamp=timestamp, text=text,
        event=event,
    )  # fmt: skip
