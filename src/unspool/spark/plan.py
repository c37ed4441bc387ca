"""Plans the partitions of a query or of a stream's batch. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..io.files import name_of
from ..library import Library
from .file_systems import resolve_paths
from .filters import KeyFilters
from .homes import Homes, open_homes
from .options import Options
from .planning import Family, Partition, find_families, make_partitions
from .stream_offsets import changed_between, find_logs


def plan_everything(options: Options, filters: KeyFilters) -> list[Partition]:
    """Return partitions with all sessions that the filters do not exclude."""
    with open_homes(resolve_paths(options.paths, options.file_system)) as homes:
        homes.list_everything()
        for mirror in homes.mirrors:
            mirror.fetch_starts()
        library = Library(*homes.local)
        families = find_families(filter(filters.may_match, library.refs()))
        before = filters.excludes_before()
        wanted = (family for family in families if not before or _is_recent(family, homes, before))
        return _partitions(wanted, homes, options)


def _is_recent(family: Family, homes: Homes, before: int) -> bool:
    # Copies of a session may start on different days. The first copy is used, so all of them have to be read.
    return any(homes.last_changed(ref) >= before for ref in family.sessions)


def plan_changes(options: Options, start: dict[str, Any], end: dict[str, Any]) -> list[Partition]:
    """Return partitions with the sessions whose logs changed between two offsets, and their families."""
    with open_homes(resolve_paths(options.paths, options.file_system)) as homes:
        logs = changed_between(find_logs(homes), start, end)
        # Only folders with changes are searched.
        library = Library.empty() if not logs else Library(*dict.fromkeys(log.root for log in logs))
        changed = {log.path for log in logs}
        wanted = (family for family in find_families(library.refs()) if _has_changed(family, changed))
        return _partitions(wanted, homes, options)


def _has_changed(family: Family, changed: set[str]) -> bool:
    return any(name_of(path) in changed for ref in family.sessions for path in (ref.path, *ref.more))


def _partitions(families: Iterable[Family], homes: Homes, options: Options) -> list[Partition]:
    found = make_partitions(families, options.partition_bytes, homes.portable)
    homes.check()
    remotes, unreadable = tuple(homes.remotes), tuple(homes.unreadable)
    first, *others = found or [Partition()]
    return [
        first._replace(remotes=remotes, unreadable=unreadable),
        *(partition._replace(remotes=remotes) for partition in others),
    ]
