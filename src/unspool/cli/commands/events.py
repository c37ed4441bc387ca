"""`unspool events`: events of every kind, across sessions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from heapq import nlargest

from ...core.events import EVENT_NAMES, iter_events
from ...core.session import Session
from ...render.event_text import describe_event
from .._shared.event_rows import EVENT, print_events, when
from .._shared.failures import Failures
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source, event_name
from .._shared.output import print_json
from .._shared.progress import with_progress
from .._shared.records import EventItem, item_of_session
from .._shared.selection import Chosen, Filter, choose
from .._shared.table import AGENT, DESCRIPTION, MESSAGE, SESSION, TIME

EXAMPLES = """examples:
  unspool events --type rejection
  unspool events latest
  unspool events --type interruption --since 30d --json"""

_COLUMNS = (EVENT, AGENT, SESSION, MESSAGE, TIME, DESCRIPTION)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to search instead of all")
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="EVENT",
        type=event_name,
        help=f"only events of this type; may be repeated: {', '.join(EVENT_NAMES)}",
    )
    add_limit(parser, "list only the newest N events, the newest first")
    add_json(parser)
    add_filters(parser)
    add_source(parser)


def run(args: argparse.Namespace) -> int:
    """List the events."""
    limit, args.limit = args.limit, None
    keep = Filter(args)
    kinds = frozenset(args.type or EVENT_NAMES)
    failures = Failures(args.debug)
    listed = failures.listing(keep.apply(choose(args)))
    sessions = with_progress(listed, "sessions", collects=not args.json or limit is not None)
    found = _events(sessions, keep, kinds, failures)
    if limit is not None:
        found = iter(nlargest(limit, found, key=when))
    if args.json:
        for event in found:
            print_json(event)
    else:
        print_events(_COLUMNS, found)
    return failures.exit_code


def _events(sessions: Iterable[Chosen], keep: Filter, kinds: frozenset[str], failures: Failures) -> Iterator[EventItem]:
    for catalog, ref in sessions:
        with failures.skipping(ref):
            for session in filter(keep.takes_session, catalog.load_all(ref)):
                ended_at = session.info.ended_at
                for event in events_of(session):
                    if event.kind in kinds and keep.takes_time(event.timestamp or ended_at):
                        event.session.gone_at = catalog.gone_at(ref)
                        yield event


def events_of(session: Session) -> Iterator[EventItem]:
    """Yield all events of a session, each with its description."""
    item = item_of_session(session)
    for kind, event in iter_events(session):
        index = kind.index_of(event)
        timestamp = getattr(event, "timestamp", None)
        if timestamp is None and index is not None:
            timestamp = session.messages[index].timestamp
        yield EventItem(
            session=item,
            kind=kind.name,
            message_index=index,
            timestamp=timestamp,
            text=describe_event(event, 60),
            event=event,
        )
