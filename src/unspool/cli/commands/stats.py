"""`unspool stats`: sessions, turns, tools, rejections and tokens over time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.text import Text

from ...core.plural import counted
from ...core.timestamps import zone_seconds
from ...store.stats import Day, Stats, Tokens, compute_stats, cost_of_tokens
from ...usage.cost import COST_NOTE, Cost, dollars
from .._shared.options import add_filters, add_json, add_limit, add_source, is_terminal
from .._shared.output import console, print_json, print_note
from .._shared.selection import stored_filter
from .._shared.session_costs import readable_prices
from .._shared.store import open_synced_store
from .._shared.table import Column, print_table

EXAMPLES = """examples:
  unspool stats
  unspool stats --project tidepool --since 30d
  unspool stats --json | jq .tokens"""

_BARS = "▁▂▃▄▅▆▇█"
_ROWS = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_limit(parser, "list at most N tools and N projects", _ROWS)
    add_json(parser, "all numbers as a JSON object")
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """Print the numbers."""
    wanted = stored_filter(args)
    with open_synced_store(args) as store:
        found = compute_stats(store.database, wanted, zone_seconds(), readable_prices(args))
    if args.json:
        print_json(found)
        return 0
    out = console()
    for line in _summary(found):
        out.print(line, soft_wrap=not is_terminal())
    for columns, rows in _tables(found, args.limit):
        print()
        print_table(columns, [[_cell(value) for value in row] for row in rows])
    if is_terminal():
        print_note(COST_NOTE)
    return 0


def _summary(found: Stats) -> Iterator[Text]:
    agents = ", ".join(f"{count:,} {agent}" for agent, count in found.sessions.items())
    turns = sum(day.turns for day in found.days)
    yield Text(
        f"{sum(found.sessions.values()):,} sessions ({agents}), {found.subagents:,} sub-agents, {turns:,} turns", "bold"
    )
    yield Text(
        f"{found.messages:,} messages; " + ", ".join(counted(n, kind) for kind, n in found.events.items()), "dim"
    )
    if found.days:
        yield Text()
        yield from _activity(found.days)


def _tables(found: Stats, limit: int) -> Iterator[tuple[Sequence[Column], Sequence[Sequence[str | int]]]]:
    yield (
        (Column("tool", shrinks_to=16), _number("calls"), _number("failed"), *_STOPPED),
        [(tool.name, tool.calls, tool.failed, tool.rejected, tool.interrupted) for tool in found.tools[:limit]],
    )
    yield (
        (Column("project", shrinks_to=16), _number("sessions"), _number("turns"), *_STOPPED),
        [(p.path, p.sessions, p.turns, p.rejections, p.interruptions) for p in found.projects[:limit]],
    )
    yield MODEL_COLUMNS, list(_by_model(found.tokens))


def _number(header: str, drop: int = 0) -> Column:
    return Column(header, right=True, drop=drop)


_STOPPED = (_number("rejected"), _number("interrupted"))
MODEL_COLUMNS = (
    Column("model"), _number("replies", 4), _number("input"), _number("output"), _number("cache read", 3),
    _number("cache write", 2), _number("reasoning", 1), _number("cost"),
)  # fmt: skip


def _cell(value: str | int) -> str:
    return value if isinstance(value, str) else f"{value:,}" if is_terminal() else str(value)


def _activity(days: list[Day]) -> Iterator[Text]:
    last = days[-60:]
    for name, values in (
        ("turns", [day.turns for day in last]),
        ("calls", [day.calls for day in last]),
        ("rejected", [day.rejections for day in last]),
        ("interrupted", [day.interruptions for day in last]),
    ):
        yield Text.assemble((f"{name:<12}", "dim"), (_bars(values), "cyan"), (f"  {sum(values):,}", ""))
    yield Text(f"{'':<12}{last[0].day} to {last[-1].day}, {len(last)} days with sessions", "dim")


def _bars(values: list[int]) -> str:
    most = max(values, default=0)
    return "".join(_BARS[round((value / most) * (len(_BARS) - 1))] if value else "·" for value in values)


def _by_model(tokens: list[Tokens]) -> Iterator[tuple[str | int, ...]]:
    sums: dict[str, list[int]] = {}
    costs: dict[str, Cost] = {}
    for entry in tokens:
        row = sums.setdefault(entry.model, [0] * 6)
        values = (entry.replies, entry.input, entry.output, entry.cache_read, entry.cache_write, entry.reasoning)
        sums[entry.model] = [total + value for total, value in zip(row, values, strict=True)]
        costs.setdefault(entry.model, Cost()).add(cost_of_tokens(entry))
    return ((model, *row, dollars(costs[model])) for model, row in sorted(sums.items(), key=lambda item: -item[1][0]))
