"""`unspool ls`: list sessions. Reads only the first and last lines of each unless events are asked for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import msgspec

from ...agents import AGENTS, Peek
from ...agents._metadata import project_of
from ...api import samples
from ...core import model as m
from ...core.errors import UsageError
from ...core.events import BY_NAME, count_events
from ...io.files import name_of, size_of
from ...library import Library, without_conversation
from ...render.sanitize import local
from .._shared.failures import Failures
from .._shared.options import Chosen, Filter, add_filters, add_places, add_sessions, choose, is_terminal
from .._shared.output import print_json, print_table, remark
from .._shared.progress import watched

EXAMPLES = """examples:
  unspool ls --project tidepool --since 7d
  unspool ls --has rejection --json
  unspool ls ~/old-laptop/.claude"""


_NONE = (
    "No sessions found. Use --home DIR to look elsewhere, or --or-samples to list the samples that come with unspool."
)


class Row(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A session in a list."""

    agent: str
    id: str
    kind: m.Kind
    title: str | None
    project: m.Project | None
    started_at: datetime | None
    ended_at: datetime | None
    version: str | None
    size: int
    path: str
    parent: str | None = None
    archived: bool = False
    no_conversation: bool = False
    """A file with nothing but notes; only with `--all`."""
    events: dict[str, int] = {}
    """Only with `--has` or `--events`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "directories or files to list instead of your home directory")
    add_places(parser)
    add_filters(parser)
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="list only the newest N")
    parser.add_argument("--stored", action="store_true", help="list what the last sync has stored, without the files")
    parser.add_argument("--events", action="store_true", help="count the events of each session (reads every session)")
    parser.add_argument("--all", action="store_true", help="also list files that hold no conversation, only notes")
    parser.add_argument("--or-samples", action="store_true", help="list the sample sessions if there are none")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """List the sessions."""
    if args.kind is None:
        args.kind = "main"
    keep = Filter(args)
    if args.or_samples and not args.sessions and next(choose(args), None) is None:
        remark("No sessions on this computer yet. These are the samples that come with unspool.")
        args.home = [str(samples())]
    failures = Failures(args.debug)
    rows_of = _stored_rows if args.stored else _rows
    found = list(watched(rows_of(args, keep, failures), "sessions"))
    if args.all and not (args.sessions or keep.needs_peek or keep.events):
        found += _left_out(args, keep)
    found.sort(key=_newest, reverse=True)
    rows = found[: args.limit] if args.limit is not None else found
    if args.json:
        for row in rows:
            print_json(row)
        return failures.exit_code
    headers = ["agent", "session", "last active", "project", "title"]
    if args.events or keep.events:
        headers.append("events")
    if not rows:
        remark(_NONE)
        return failures.exit_code
    styles = ("cyan", "", "dim", "green", "", "yellow")
    print_table(headers, (_cells(row, len(headers)) for row in rows), wrap=4, styles=styles)
    if is_terminal():
        remark(f"{len(rows):,} of {len(found):,} sessions" if len(rows) < len(found) else f"{len(rows):,} sessions")
    return failures.exit_code


def _rows(args: argparse.Namespace, keep: Filter, failures: Failures) -> Iterator[Row]:
    for chosen in _each(args, keep, failures):
        with failures.skipping(chosen.ref):
            if not keep.takes(chosen.ref):
                continue
            peek = chosen.library.peek(chosen.ref)
            if not keep.takes_peek(peek):
                continue
            events: dict[str, int] = {}
            if args.events or keep.events:
                session = chosen.library.load(chosen.ref)
                if not keep.takes_session(session):
                    continue
                events = {kind: count for kind, count in count_events(session).items() if count}
            yield _row(chosen, peek, events)


def _stored_rows(args: argparse.Namespace, keep: Filter, _: Failures) -> Iterator[Row]:
    # Most lists need no store, and start faster without it.
    from ...store import open_store
    from .._shared.stored_list import stored_rows

    if args.home or args.all or any(":" not in name for name in args.sessions):
        raise UsageError("--stored lists the store of this computer; leave out --home, --all, files and directories")
    with closing(open_store(read_only=True)) as store:
        for row, path, size in stored_rows(store, args, keep.events):
            events = {kind: row.counts[kind] for kind in BY_NAME if row.counts.get(kind)}
            yield Row(
                agent=row.agent, id=row.name, kind=row.kind, title=row.title, version=None, started_at=row.started_at,
                project=project_of(row.project), ended_at=row.ended_at, size=size, path=path, parent=row.parent,
                events=events if args.events or keep.events else {},
            )  # fmt: skip


def _left_out(args: argparse.Namespace, keep: Filter) -> Iterator[Row]:
    """Files without a conversation, which are no sessions."""
    for agent, path in without_conversation(Library(*args.home)):
        if keep.takes_agent(agent):
            log = AGENTS[agent].log(path)
            yield Row(
                agent=agent, id=path.stem, kind="main", title=None, project=None, version=None, started_at=None,
                ended_at=datetime.fromtimestamp(log.modified() / 1e9, UTC), size=size_of(path), path=name_of(path),
                no_conversation=True,
            )  # fmt: skip


def _each(args: argparse.Namespace, keep: Filter, failures: Failures) -> Iterator[Chosen]:
    """Sessions, each followed by the sub-agents in its file if those are asked for."""
    for chosen in choose(args):
        yield chosen
        if keep.takes_kind("subagent"):
            with failures.skipping(chosen.ref):
                yield from [Chosen(chosen.library, ref) for ref in chosen.library.inside(chosen.ref)]


def _row(chosen: Chosen, peek: Peek, events: dict[str, int]) -> Row:
    ref = chosen.ref
    return Row(
        agent=ref.agent, id=ref.id, kind=ref.kind, title=peek.title, project=peek.project, version=peek.version,
        started_at=peek.started_at, ended_at=peek.ended_at, size=peek.size, path=name_of(ref.path), parent=ref.parent,
        archived=ref.archived, events=events,
    )  # fmt: skip


def _newest(row: Row) -> datetime:
    return row.ended_at or row.started_at or datetime.min.replace(tzinfo=UTC)


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind if count == 1 else BY_NAME[kind].plural}"


def _cells(row: Row, columns: int) -> list[str]:
    # Some ids begin with a time, so sessions of the same minute share their first digits.
    short = row.id if row.kind == "subagent" else row.id[:13]
    cells = [row.agent, short, local(row.ended_at or row.started_at), row.project.name if row.project else ""]
    cells.append("(no conversation)" if row.no_conversation else row.title or "")
    if columns > len(cells):
        cells.append(", ".join(_counted(kind, count) for kind, count in row.events.items()))
    return cells
