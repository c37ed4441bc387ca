"""`unspool push`: copy the sessions of this computer to another store, usually a team's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ...core.errors import NotFoundError
from ...ingest.push import push_kept
from ...store import Store, open_store
from .._shared.output import complain, print_json
from .._shared.store import sync

EXAMPLES = """examples:
  unspool push postgresql://team.example/unspool
  unspool search --store postgresql://team.example/unspool 'frozen dataclass'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("target", metavar="STORE", help="postgresql://… or a file")
    parser.add_argument(
        "--store", metavar="PLACE", help="the store that has the sessions deleted from disk (default: yours)"
    )
    parser.add_argument(
        "--home",
        metavar="DIR",
        action="append",
        default=[],
        help="a home directory that contains the sessions; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")


@contextmanager
def _source(location: str | None) -> Iterator[Store | None]:
    """The store that has what was deleted from disk, if there is one."""
    try:
        store = open_store(location, read_only=location is None)
    except NotFoundError:
        yield None
        return
    with closing(store):
        yield store


def run(args: argparse.Namespace) -> int:
    """Copy what is new on disk, and what only your own store has, but nothing that you have forgotten."""
    with closing(open_store(args.target)) as target, _source(args.store) as source:
        report = sync(target, args.home, forgotten=source.forgotten.all() if source is not None else ())
        kept = push_kept(source, target) if source is not None else 0
    if args.json:
        print_json({"new": report.new, "changed": report.changed, "kept": kept, "failures": report.failures})
    else:
        print(f"{report.new:,} new, {report.changed:,} changed, {kept:,} deleted from disk")
        for name, why in report.failures.items():
            complain(f"{name}: {why}")
    return 1 if report.failures else 0
