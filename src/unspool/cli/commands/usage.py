"""`unspool usage`: tokens and what they cost at list prices, by day, model, project, agent or session."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.timestamps import parse_time, zone_seconds
from ...store import Store
from ...store.locate import data_folder
from ...store.rows import SessionRow
from ...store.session_usage import SessionUsage, TurnUsage, session_usage, turn_usage
from ...store.usage_report import (
    DIMENSIONS,
    Dimension,
    UsageEntry,
    UsageFilter,
    UsageReport,
    UsageReporter,
    parse_dimensions,
    usage_table,
)
from ...usage.cost import COST_NOTE, Cost, TokenCount, dollars
from ...usage.prices import PriceTable
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source, is_terminal
from .._shared.output import print_json, print_note, short_id
from .._shared.records import SessionName, session_name
from .._shared.selection import stored_filter
from .._shared.session_costs import readable_prices
from .._shared.store import found_rows, open_synced_store
from .._shared.table import Column, print_table

EXAMPLES = """examples:
  unspool usage --since 30d
  unspool usage --by model,project --since 2026-11-01
  unspool usage latest
  unspool usage --by day,model,project,agent --csv > usage.csv"""

_NUMBERS = (
    Column("replies", drop=3, right=True), Column("input", right=True), Column("output", right=True),
    Column("cache read", drop=2, right=True), Column("cache write", drop=1, right=True),
    Column("cost", "green", right=True),
)  # fmt: skip


class UsageOfSession(msgspec.Struct, kw_only=True):
    """The usage of one session, for `--json`."""

    session: SessionName
    usage: SessionUsage
    turns: list[TurnUsage]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "show the turns and sub-agents of these sessions")
    parser.add_argument(
        "--by",
        metavar="NAMES",
        default="day",
        type=_dimensions,
        help=f"how to group, separated by commas: {', '.join(DIMENSIONS)} (default: day)",
    )
    parser.add_argument("--model", metavar="NAME", help="only this model, by its recorded name")
    add_limit(parser, "show only the N most expensive groups")
    form = parser.add_mutually_exclusive_group()
    add_json(form, "everything as a JSON object")
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    add_filters(parser)
    add_source(parser, syncs=True)


def _dimensions(text: str) -> str:
    try:
        parse_dimensions(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def run(args: argparse.Namespace) -> int:
    """Print the usage."""
    prices = readable_prices(args)
    with open_synced_store(args) as store:
        for row in found_rows(store, args.sessions):
            _print_session(store, prices, row, args)
        if args.sessions:
            return 0
        report = UsageReporter(store.database, prices, zone_seconds()).report(_filter(args), parse_dimensions(args.by))
    if args.limit is not None:
        report.entries = sorted(report.entries, key=_most_first)[: args.limit]
    if args.json:
        print_json(report)
    elif args.csv:
        _print_csv(report)
    else:
        _print_report(report, prices)
    return 0


def _filter(args: argparse.Namespace) -> UsageFilter:
    # The period applies to the requests, not to their sessions.
    sessions = replace(stored_filter(args), active_since=None, started_before=None)
    return UsageFilter(sessions=sessions, since=parse_time(args.since), until=parse_time(args.until), model=args.model)


def _most_first(entry: UsageEntry) -> tuple[float, int]:
    return -entry.cost.usd, -entry.tokens.total


# --- a report --------------------------------------------------------------------------------------------------------


def _print_csv(report: UsageReport) -> None:
    header, rows = usage_table(report)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def _print_report(report: UsageReport, prices: PriceTable) -> None:
    columns = [Column(name, shrinks_to=12 if name == "project" else None) for name in report.by]
    rows = [[*_key(entry, report.by), *_numbers(entry.replies, entry.tokens, entry.cost)] for entry in report.entries]
    total = report.total
    names = ["total", *[""] * (len(report.by) - 1)]
    print_table(
        [*columns, *_NUMBERS], [*rows, [*names, *_numbers(total.replies, total.tokens, total.cost)]] if rows else []
    )
    _remark_on(report.unpriced_models, prices)


def _key(entry: UsageEntry, by: Sequence[Dimension]) -> Iterator[str]:
    for name, value in zip(by, entry.key(by), strict=True):
        yield short_id(value) if name == "session" and is_terminal() else value


def _numbers(replies: int, tokens: TokenCount, cost: Cost) -> list[str]:
    counts = (replies, tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    return [*(f"{count:,}" if is_terminal() else str(count) for count in counts), dollars(cost)]


def _remark_on(unpriced: Sequence[str], prices: PriceTable) -> None:
    if is_terminal():
        print_note(COST_NOTE)
    if unpriced and prices.error is None:
        print_note(f"No price is known for {', '.join(unpriced)}; add one to {data_folder() / 'prices.toml'}.")


# --- a session -------------------------------------------------------------------------------------------------------


def _print_session(store: Store, prices: PriceTable, row: SessionRow, args: argparse.Namespace) -> None:
    found = session_usage(store.database, store.sessions, prices, row)
    turns = turn_usage(store.database, prices, row.id)
    if args.json:
        print_json(UsageOfSession(session=session_name(row.agent, row.name), usage=found, turns=turns))
        return
    rows = [[_turn_name(turn), *_numbers(turn.replies, turn.tokens, turn.cost)] for turn in turns]
    rows += [[f"sub-agent {one.session}", *_numbers(one.replies, one.tokens, one.cost)] for one in found.subagents]
    replies = sum(turn.replies for turn in turns) + sum(one.replies for one in found.subagents)
    rows.append(["total", *_numbers(replies, found.total_tokens, found.total)])
    if args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([["turn", *(column.header for column in _NUMBERS)], *rows])
        return
    print_table([Column("turn", shrinks_to=16), *_NUMBERS], rows)
    _remark_on(found.unpriced_models, prices)


def _turn_name(turn: TurnUsage) -> str:
    return f"#{turn.message_index}" if turn.message_index is not None else "before the first prompt"
