"""`unspool lineage`: how sessions are related."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from ...core.lineage import Family, Lineage, LineageEdge, LineageNode, OutlineRow, SessionKey
from ...core.plural import counted
from ...render.plain_text import plain_line
from ...render.sanitize import harmless, local, one_line
from ...store import Store
from ...store.filters import SessionFilter
from ...store.lineage import load_lineage
from ...store.rows import SessionRow
from .._shared.options import SESSION_HELP, add_filters, add_json, add_limit, add_source, is_terminal
from .._shared.output import console, print_json, print_note, short_id
from .._shared.selection import stored_filter
from .._shared.store import found_rows, open_synced_store

EXAMPLES = """examples:
  unspool lineage latest
  unspool lineage --json | jq .usage"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help=f"show only the families of these sessions: {SESSION_HELP}"
    )
    add_limit(parser, "show only the newest N families")
    add_json(parser, "one JSON object per family, with nodes and edges")
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """Print the families."""
    with open_synced_store(args) as store:
        named = found_rows(store, args.sessions)
        families = list(_of_sessions(store, named) if named else _of_all(store, stored_filter(args)))[: args.limit]
    if args.json:
        for _, family in families:
            print_json(family)
        return 0
    if not families:
        print_note("No sessions are related.")
    out = console()
    # Lines are not cut in a pipe.
    options: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"} if is_terminal() else {"soft_wrap": True}
    for index, (lineage, family) in enumerate(families):
        if index:
            out.print()
        for line in _lines(lineage, family):
            out.print(line, **options)
    return 0


def _of_sessions(store: Store, rows: list[SessionRow]) -> Iterator[tuple[Lineage, Family]]:
    """Yield the families of some sessions, without duplicates."""
    shown: set[SessionKey] = set()
    for row in rows:
        key = SessionKey(row.agent, row.name)
        if key not in shown:
            lineage = load_lineage(store, row)
            family = lineage.family(key)
            shown.update(node.key for node in family.nodes)
            yield lineage, family


def _of_all(store: Store, filter: SessionFilter) -> Iterator[tuple[Lineage, Family]]:
    """Yield the families with a session that passes a filter, newest first."""
    lineage = load_lineage(store)
    passing = {SessionKey(row.agent, row.name) for row in store.sessions.select(filter)}
    for family in list(lineage.families())[::-1]:
        if any(node.key in passing for node in family.nodes):
            yield lineage, family


def _lines(lineage: Lineage, family: Family) -> Iterator[Text]:
    for row in lineage.outline(family):
        yield Text.assemble((_branch(row), "dim"), *_start(row), *_session(row.node), *_more(row.more))
    yield Text(_summary(family), "dim")


def _branch(row: OutlineRow) -> str:
    """Return the characters that connect a session with the one above it."""
    if not row.lasts:
        return ""
    lines = "".join("   " if last else "│  " for last in row.lasts[:-1])
    return f"{'⋯  ' if row.depth > len(row.lasts) else ''}{lines}{'└─ ' if row.lasts[-1] else '├─ '}"


def _start(row: OutlineRow) -> Iterator[tuple[str, str]]:
    if row.edge is not None:
        yield f"{_how(row.edge)}  ", "yellow"
    elif row.node.origin not in ("new", "subagent") and not row.more:
        yield f"{row.node.origin} of an unknown session  ", "yellow"


def _session(node: LineageNode) -> Iterator[tuple[str, str]]:
    if node.missing:
        yield "(missing)", "dim"
    else:
        yield plain_line(node.title or "(no title)", 60), ""
    # The first part of a sub-agent's id is in the row above it.
    yield f"  {harmless(short_id(node.id.rsplit('/', 1)[-1]))}", "bold"
    yield "".join(f"  {part}" for part in (local(node.started_at), node.agent) if part), "dim"


def _more(edges: list[LineageEdge]) -> Iterator[tuple[str, str]]:
    for edge in edges:
        yield f"  also {_how(edge)} of {harmless(short_id(edge.source))}", "yellow"


def _how(edge: LineageEdge) -> str:
    """Describe a relation to another session, with the evidence, and the confidence if it is below 1."""
    if edge.kind == "subagent" and edge.confidence >= 1:
        return "sub-agent"
    details = [one_line(edge.evidence, 60)] if edge.evidence else []
    if edge.confidence < 1:
        details.append(f"{edge.confidence:.0%} sure")
    return f"{edge.kind} ({', '.join(details)})" if details else edge.kind


def _summary(family: Family) -> str:
    usage = family.usage
    given = [part for part in (usage.input, usage.cache_read, usage.cache_write) if part is not None]
    missing = sum(node.missing for node in family.nodes)
    parts = [counted(len(family.nodes) - missing, "session")]
    if missing:
        parts.append(f"{missing:,} missing")
    if given:
        parts.append(f"{sum(given):,} tokens in")
    if usage.output is not None:
        parts.append(f"{usage.output:,} tokens out")
    return ", ".join(parts)
