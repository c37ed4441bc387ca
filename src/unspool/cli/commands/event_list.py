"""`unspool rejections` and similar commands: all events of one kind in the store, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from ...agents import AGENTS
from ...core import model as m
from ...core.events import BY_NAME, find_listed_kind
from ...core.timestamps import parse_time
from ...render.event_text import describe_event
from ...render.markdown import fenced
from ...render.sanitize import harmless, local, one_line
from ...store.filters import EventFilter, SessionFilter
from ...store.rows import EventRow
from .._shared.output import print_json, print_table, short_id
from .._shared.store import add_store, opened

EXAMPLES = """examples:
  %(prog)s --since 30d
  %(prog)s --agent codex --json
  %(prog)s --format markdown > events.md"""


class Entry(msgspec.Struct, kw_only=True):
    """An event with the session it belongs to."""

    agent: str
    session: str
    project: str | None
    title: str | None
    message_index: int | None
    timestamp: datetime | None
    text: str
    event: Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--agent", choices=list(AGENTS), help="only sessions of this agent")
    parser.add_argument("--project", metavar="TEXT", help="only projects with TEXT in their path")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--since", metavar="TIME", help="only events since TIME: 2026-11-01, 7d, 12h, today")
    parser.add_argument("--until", metavar="TIME", help="only events before TIME")
    parser.add_argument(
        "--format", choices=("table", "markdown", "json"), default="table", help="output format (default: table)"
    )
    parser.add_argument(
        "--json", action="store_const", dest="format", const="json", help="print one JSON object per line"
    )
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """List the events of the kind that the command is named after."""
    kind = find_listed_kind(args.command)
    with opened(args) as store:
        entries = [_entry(row) for row in store.events.select(_filter(kind.name, args))]
    if args.format == "json":
        for entry in entries:
            print_json(entry)
    elif args.format == "markdown":
        print("\n".join(line for entry in entries for line in _markdown(entry)))
    else:
        rows = (
            [local(entry.timestamp), entry.agent, _project(entry), short_id(entry.session), _place(entry), entry.text]
            for entry in entries
        )
        print_table(
            ("time", "agent", "project", "session", "message", "description"), rows, wrap=5, styles=("dim", "cyan")
        )
    return 0


def _filter(kind: str, args: argparse.Namespace) -> EventFilter:
    sessions = SessionFilter(agent=args.agent, project_contains=args.project)
    since, until = parse_time(args.since), parse_time(args.until)
    return EventFilter(kinds=(kind,), sessions=sessions, tool=args.tool, since=since, until=until)


def _entry(row: EventRow) -> Entry:
    event = msgspec.json.decode(row.event, type=BY_NAME[row.kind].struct)
    session = row.session
    return Entry(
        agent=session.agent, session=session.name, project=session.project, title=session.title,
        message_index=row.message_index, timestamp=row.timestamp, text=describe_event(event), event=event,
    )  # fmt: skip


def _markdown(entry: Entry) -> Iterator[str]:
    yield f"## {harmless(one_line(entry.text, 200))}"
    yield ""
    yield f"{local(entry.timestamp)} · {entry.agent} · `{harmless(entry.session)}` {_place(entry)}"
    yield ""
    action = entry.event.action if isinstance(entry.event, m.Rejection) else None
    text = (action.diff or action.command or action.plan) if action is not None else None
    if text:
        yield from fenced(harmless(text), "diff" if action is not None and action.diff else "")
        yield ""


def _project(entry: Entry) -> str:
    return (entry.project or "").rstrip("/").rsplit("/", 1)[-1]


def _place(entry: Entry) -> str:
    return "" if entry.message_index is None else f"#{entry.message_index}"
