"""`unspool ls`: list sessions. Reads only the first and last lines of each unless events are requested."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from ...agents import AGENTS
from ...api import samples
from ...core.errors import UsageError
from ...core.events import BY_NAME
from ...core.timestamps import from_seconds
from ...io.faults import collect_faults
from ...io.files import name_of, size_of
from ...library import Library, without_conversation
from ...render.plain_text import plain_line
from ...render.sanitize import local
from .._shared.failures import Failures
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source, is_terminal
from .._shared.output import print_json, print_note, short_id
from .._shared.progress import with_progress
from .._shared.quick_list import listed, quick_list
from .._shared.records import SessionItem, project_name
from .._shared.selection import Chosen, Filter, choose
from .._shared.table import AGENT, LAST_ACTIVE, PROJECT, SESSION, TITLE, Column, print_table

EXAMPLES = """examples:
  unspool ls --project tidepool --since 7d
  unspool ls --has rejection --json
  unspool ls agent:codex has:compaction
  unspool ls ~/old-laptop/.claude"""

_EVENTS = Column("events", "yellow", shrinks_to=12)
_COST = Column("cost", "green", right=True)
_COLUMNS = (_COST, PROJECT, TITLE, _EVENTS)
"""The columns after the time; some are optional."""
_NONE = "No sessions found. Use --home DIR to look elsewhere, or --samples to list the bundled samples."
_ONLY_IN_STORE = "(only in store)"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "directories or files to list instead of your home directory")
    add_limit(parser, "list only the newest N")
    parser.add_argument(
        "--stored", action="store_true", help="list what the last sync stored, without looking at the files"
    )
    parser.add_argument("--events", action="store_true", help="count the events of each session (reads every session)")
    parser.add_argument(
        "--cost",
        action="store_true",
        help="show the cost at API list prices of sessions that are in the store",
    )
    parser.add_argument(
        "--all", action="store_true", help="also list files that contain only notes and no conversation"
    )
    parser.add_argument("--or-samples", action="store_true", help="list the sample sessions if there are none")
    add_json(parser)
    add_filters(parser)
    add_source(parser)


def run(args: argparse.Namespace) -> int:
    """List the sessions."""
    limit, args.limit = args.limit, None
    if args.kind is None:
        args.kind = "main"
    if args.or_samples and not args.sessions and next(choose(args), None) is None:
        print_note("No sessions on this computer yet. These are the bundled samples.")
        args.home = [str(samples())]
    keep, failures = Filter(args), Failures(args.debug)
    with collect_faults() as faults:
        found, is_all = _found(args, keep, failures, limit)
    failures.add_faults(faults)
    found.sort(key=_newest, reverse=True)
    items = found[:limit]
    costs = _costs(items, args) if args.cost else [""] * len(items)
    if args.json:
        for item in items:
            print_json(item)
    elif items:
        shown = {_COST: args.cost, _EVENTS: bool(args.events or keep.events)}
        columns = [AGENT, SESSION, LAST_ACTIVE, *(column for column in _COLUMNS if shown.get(column, True))]
        indexes = [0, 1, 2, *(index for index, column in enumerate(_COLUMNS, 3) if shown.get(column, True))]
        rows = (_cells(item, cost) for item, cost in zip(items, costs, strict=True))
        print_table(columns, ([row[index] for index in indexes] for row in rows))
        if is_terminal():
            print_note(_total(len(items), len(found) if is_all else None))
    else:
        print_note(_NONE)
    return failures.exit_code


def _costs(items: list[SessionItem], args: argparse.Namespace) -> list[str]:
    # Most lists need no store, and start faster without it.
    from .._shared.session_costs import add_costs

    return add_costs(items, args)


def _total(shown: int, total: int | None) -> str:
    if total is None:
        return f"The newest {shown:,} sessions"
    return f"{shown:,} of {total:,} sessions" if shown < total else f"{shown:,} sessions"


def _found(
    args: argparse.Namespace, keep: Filter, failures: Failures, limit: int | None
) -> tuple[list[SessionItem], bool]:
    """Return the sessions that pass, and whether these are all: with a limit, old ones may be left out."""
    if not (args.sessions or args.all or (args.home and not args.samples)):
        quick = quick_list(args, keep, failures, limit)
        if quick is not None:
            return quick, limit is None or len(quick) < limit
    elif args.stored:
        raise UsageError("--stored lists the store of this computer; leave out --home, --all, files and directories")
    found = list(with_progress(_items(args, keep, failures), "sessions", collects=True))
    if args.all and not (args.sessions or keep.needs_peek or keep.events):
        found += _left_out(args, keep)
    return found, True


def _items(args: argparse.Namespace, keep: Filter, failures: Failures) -> Iterator[SessionItem]:
    for chosen in _each(args, keep, failures):
        with failures.skipping(chosen.ref):
            item = listed(chosen.catalog, chosen.ref, keep, counts=args.events)
            if item is not None:
                yield item


def _left_out(args: argparse.Namespace, keep: Filter) -> Iterator[SessionItem]:
    """Yield files without a conversation, which are not sessions."""
    for agent, path in without_conversation(Library(*args.home)):
        if keep.takes_agent(agent):
            log = AGENTS[agent].log(path)
            yield SessionItem(
                agent=agent,
                name=path.stem,
                kind="main",
                title=None,
                project=None,
                started_at=None,
                ended_at=from_seconds(log.modified() / 1e9),
                size=size_of(path),
                path=name_of(path),
                no_conversation=True,
            )


def _each(args: argparse.Namespace, keep: Filter, failures: Failures) -> Iterator[Chosen]:
    """Yield sessions, each followed by the sub-agents in its file if they are requested."""
    for chosen in choose(args):
        yield chosen
        if keep.takes_kind("subagent"):
            with failures.skipping(chosen.ref):
                yield from [Chosen(chosen.catalog, ref) for ref in chosen.catalog.inline_subagents(chosen.ref)]


def _newest(item: SessionItem) -> datetime:
    return item.ended_at or item.started_at or datetime.min.replace(tzinfo=UTC)


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind if count == 1 else BY_NAME[kind].plural}"


def _cells(item: SessionItem, cost: str) -> list[str]:
    title = "(no conversation)" if item.no_conversation else plain_line(item.title or "", 200)
    return [
        item.agent,
        short_id(item.name),
        local(item.ended_at or item.started_at),
        cost,
        project_name(item.project),
        f"{_ONLY_IN_STORE} {title}".rstrip() if item.gone_at is not None else title,
        ", ".join(_counted(kind, count) for kind, count in item.counts.items()),
    ]
