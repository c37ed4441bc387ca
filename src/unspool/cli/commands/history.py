"""`unspool history`: the versions of a session's files that the store has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ...ingest.history import History, Version
from ...render.sanitize import local
from .._shared.output import print_json, print_table
from .._shared.store import add_store, opened

EXAMPLES = """examples:
  unspool history latest
  unspool history 37c23 --json | jq 'select(.change == "rewritten")'
  unspool restore 37c23 --version 2 --to ~/before"""

_CHANGES = {"edited": "edited in place"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("session", metavar="SESSION", help="a session id, the start of one, a file, or `latest`")
    parser.add_argument("--json", action="store_true", help="print one JSON object per version")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """List the versions, the oldest first."""
    with opened(args) as store:
        versions = History(store, store.sessions.find(args.session)).versions
    if args.json:
        for version in versions:
            print_json(version)
    else:
        print_table(("version", "found", "change", "bytes", "difference"), _rows(versions), wrap=2)
    return 0


def _rows(versions: list[Version]) -> Iterator[tuple[str, ...]]:
    before = 0
    for version in versions:
        at = local(version.at) or "before versions were recorded"
        change = _CHANGES.get(version.change, version.change)
        yield str(version.number), at, change, f"{version.size:,}", f"{version.size - before:+,}"
        before = version.size
