"""`unspool rejections` and similar commands: all events of one kind in the store, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from ...core import model as m
from ...core import typed_json
from ...core.events import BY_NAME, find_listed_kind
from ...core.timestamps import parse_time
from ...render.event_text import describe_event
from ...render.markdown import fenced
from ...render.sanitize import harmless, local, one_line
from ...store.filters import EventFilter
from ...store.rows import EventRow
from .._shared.event_rows import message_of, print_events
from .._shared.options import add_filters, add_limit, add_sessions, add_source
from .._shared.output import print_json
from .._shared.records import EventItem, item_of_row
from .._shared.selection import stored_filter
from .._shared.store import found_rows, open_synced_store
from .._shared.table import AGENT, DESCRIPTION, MESSAGE, PROJECT, SESSION, TIME

EXAMPLES = """examples:
  %(prog)s --since 30d
  %(prog)s --agent codex --json
  %(prog)s --format markdown > events.md"""

_COLUMNS = (TIME, AGENT, PROJECT, SESSION, MESSAGE, DESCRIPTION)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to search instead of all")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument(
        "--format", choices=("table", "markdown", "json"), default="table", help="output format (default: table)"
    )
    add_limit(parser, "list only the newest N events")
    parser.add_argument(
        "--json",
        action="store_const",
        dest="format",
        const="json",
        help="print one JSON object per line; see `unspool schema --output`",
    )
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """List the events of the kind that the command is named after."""
    kind = find_listed_kind(args.command)
    with open_synced_store(args) as store:
        ids = tuple(row.id for row in found_rows(store, args.sessions)) if args.sessions else None
        wanted = _filter(kind.name, args, ids)
        entries = [_item(row) for row in islice(store.events.select(wanted), args.limit)]
    if args.format == "json":
        for entry in entries:
            print_json(entry)
    elif args.format == "markdown":
        print("\n".join(line for entry in entries for line in _markdown(entry)))
    else:
        print_events(_COLUMNS, entries)
    return 0


def _filter(kind: str, args: argparse.Namespace, ids: tuple[int, ...] | None) -> EventFilter:
    # The period applies to the events, not to their sessions.
    sessions = replace(stored_filter(args), ids=ids, active_since=None, started_before=None)
    since, until = parse_time(args.since), parse_time(args.until)
    return EventFilter(kinds=(kind,), sessions=sessions, tool=args.tool, since=since, until=until)


def _item(row: EventRow) -> EventItem:
    event = typed_json.decode(row.event, type=BY_NAME[row.kind].struct)
    return EventItem(
        session=item_of_row(row.session),
        kind=row.kind,
        message_index=row.message_index,
        timestamp=row.timestamp,
        text=describe_event(event),
        event=event,
    )


def _markdown(entry: EventItem) -> Iterator[str]:
    yield f"## {harmless(one_line(entry.text, 200))}"
    yield ""
    yield f"{local(entry.timestamp)} · {entry.session.agent} · `{harmless(entry.session.name)}` {message_of(entry)}"
    yield ""
    action = entry.event.action if isinstance(entry.event, m.Rejection) else None
    text = (action.diff or action.command or action.plan) if action is not None else None
    if text:
        yield from fenced(harmless(text), "diff" if action is not None and action.diff else "")
        yield ""
