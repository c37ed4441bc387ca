"""`unspool stats`: sessions, turns, tools, rejections and tokens over time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...core.plural import counted
from ...core.timestamps import zone_seconds
from ...render.sanitize import one_line
from ...store.locate import data_folder
from ...store.stats import Day, Stats, Tokens, compute_stats, cost_of_tokens
from ...usage.cost import COST_NOTE, Cost, dollars
from ...usage.prices import load_prices
from .._shared.options import add_filters, add_json, add_limit, add_source, is_terminal
from .._shared.output import console, print_json, remark
from .._shared.selection import stored_filter
from .._shared.store import opened

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
    with opened(args) as store:
        found = compute_stats(store.database, wanted, zone_seconds(), load_prices(data_folder()))
    if args.json:
        print_json(found)
        return 0
    out = console()
    for piece in _pieces(found, args.limit):
        out.print(piece, soft_wrap=not is_terminal())
    if is_terminal():
        remark(COST_NOTE)
    return 0


def _pieces(found: Stats, limit: int) -> Iterator[RenderableType]:
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
    yield Text()
    yield _table(
        ("tool", "calls", "failed", "rejected", "interrupted"),
        [(tool.name, tool.calls, tool.failed, tool.rejected, tool.interrupted) for tool in found.tools[:limit]],
    )
    yield Text()
    yield _table(
        ("project", "sessions", "turns", "rejected", "interrupted"),
        [(p.path, p.sessions, p.turns, p.rejections, p.interruptions) for p in found.projects[:limit]],
    )
    yield Text()
    yield _table(
        ("model", "replies", "input", "output", "cache read", "cache write", "reasoning", "cost"),
        list(_by_model(found.tokens)),
    )


def _activity(days: list[Day]) -> Iterator[Text]:
    last = days[-60:]
    for name, values in (
        ("turns", [day.turns for day in last]), ("calls", [day.calls for day in last]),
        ("rejected", [day.rejections for day in last]), ("interrupted", [day.interruptions for day in last]),
    ):  # fmt: skip
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


def _table(headers: Sequence[str], rows: Sequence[Sequence[str | int]]) -> RenderableType:
    if not is_terminal():
        lines = ["\t".join(headers), *("\t".join(one_line(str(cell), 200) for cell in row) for row in rows)]
        return Text("\n".join(lines))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, header in enumerate(headers):
        table.add_column(header, justify="right" if place else "left")
    for row in rows:
        table.add_row(*(Text(one_line(f"{cell:,}" if isinstance(cell, int) else cell, 80)) for cell in row))
    return table
