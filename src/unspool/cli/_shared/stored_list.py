"""Lists of sessions from the store, for when the files are too many to look at."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from ...core.timestamps import parse_time
from ...store import Store
from ...store.filters import SessionFilter
from ...store.rows import SessionRow


class StoredRow(NamedTuple):
    """A session in the list, with its first file."""

    session: SessionRow
    path: str
    size: int
    """The size of all of its files."""


def stored_rows(store: Store, args: argparse.Namespace, events: frozenset[str]) -> Iterator[StoredRow]:
    """The sessions of this machine that pass the filter options, the most recent first; not those that were deleted."""
    filter = SessionFilter(
        machine=store.machine, agent=args.agent[0] if len(args.agent) == 1 else None,
        kind=None if args.kind == "all" else args.kind, project_contains=args.project,
        has=next(iter(events)) if len(events) == 1 else None, is_gone=False,
        active_since=parse_time(args.since), started_before=parse_time(args.until),
    )  # fmt: skip
    is_exact = len(args.agent) <= 1 and len(events) <= 1
    count = 0
    for row in store.sessions.select(filter, limit=args.limit if is_exact else None):
        if count == args.limit:
            return
        if (not args.agent or row.agent in args.agent) and all(row.counts.get(kind) for kind in events):
            count += 1
            files = [store.files.get(file.id) for file in store.files.of_session(row.id)]
            yield StoredRow(row, files[0].path if files else row.name, sum(file.size for file in files))
