"""`unspool history`: the versions of a session's files that the store has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ...ingest.history import History, Version
from ...render.sanitize import local
from .._shared.options import add_json, add_limit, add_session, add_source
from .._shared.output import print_json
from .._shared.store import found_rows, open_synced_store
from .._shared.table import Column, print_table

EXAMPLES = """examples:
  unspool history latest
  unspool history 37c23 --json | jq 'select(.change == "rewritten")'
  unspool restore 37c23 --version 2 --to ~/before"""

_COLUMNS = (
    Column("version"), Column("found"), Column("change"), Column("bytes", drop=2), Column("difference", drop=1),
)  # fmt: skip
_CHANGES = {"edited": "edited in place"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_session(parser)
    add_limit(parser, "list only the newest N versions")
    add_json(parser, "one JSON object per version")
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """List the versions, oldest first."""
    with open_synced_store(args) as store:
        (row,) = found_rows(store, args.sessions)
        versions = History(store, row).versions
    first = max(0, len(versions) - args.limit) if args.limit is not None else 0
    if args.json:
        for version in versions[first:]:
            print_json(version)
    else:
        print_table(_COLUMNS, list(_rows(versions))[first:])
    return 0


def _rows(versions: list[Version]) -> Iterator[tuple[str, ...]]:
    before = 0
    for version in versions:
        at = local(version.at) or "before versions were recorded"
        change = _CHANGES.get(version.change, version.change)
        yield str(version.number), at, change, f"{version.size:,}", f"{version.size - before:+,}"
        before = version.size
