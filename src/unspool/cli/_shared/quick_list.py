"""Lists of sessions from the store, combined with changes on disk since the last sync."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import count, islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...agents import SessionRef
from ...catalog import Catalog
from ...core.errors import NotFoundError
from ...core.events import BY_NAME, count_events
from ...io.listing import may_exist
from .failures import Failures
from .records import SessionItem, item_of_ref, item_of_row
from .selection import Filter, catalog_of, stored_filter

if TYPE_CHECKING:
    from ...ingest.freshness import DiskChanges
    from ...store import Store
    from ...store.rows import FileRow, SessionRow


def quick_list(
    args: argparse.Namespace, keep: Filter, failures: Failures, limit: int | None
) -> list[SessionItem] | None:
    """Return the sessions that pass the filter options; with a limit, at least the newest of them.

    None if there is no store, or too much has changed since the last sync. With `--stored`, the disk is not
    checked.
    """
    catalog = catalog_of(args)
    store = catalog.store
    if store is None:
        if args.stored:
            raise NotFoundError("there is no store yet; `unspool sync` creates one")
        return None
    # In one snapshot, because sessions may be stored and forgotten meanwhile.
    with store.snapshot():
        if args.stored:
            return list(islice(_stored(store, args, keep, None, limit, []), limit))
        # Imported late: only needed if there is a store.
        from ...ingest.freshness import changes_since_sync, copies_of

        changes = changes_since_sync(store, catalog.library)
        if changes is None:
            return None
        changed = list(_changed(catalog, changes.sessions.values(), args, keep, failures))
        elsewhere: list[SessionRow] = []
        stored = list(islice(_stored(store, args, keep, changes, limit, elsewhere), limit))
        # There may be copies in the folders that are listed.
        copies = copies_of(store, catalog.library, changes, elsewhere) if elsewhere else []
        return [*changed, *stored, *_changed(catalog, copies, args, keep, failures)]


def _changed(
    catalog: Catalog, refs: Iterable[SessionRef], args: argparse.Namespace, keep: Filter, failures: Failures
) -> Iterator[SessionItem]:
    """Yield sessions on disk that differ from those in the store."""
    for ref in refs:
        with failures.skipping(ref):
            item = listed(catalog, ref, keep, counts=args.events)
            if item is not None:
                yield item


def listed(catalog: Catalog, ref: SessionRef, keep: Filter, *, counts: bool) -> SessionItem | None:
    """Return a session from disk, or from the store if its files are gone; None if it does not pass the filters."""
    if not keep.takes(ref) or not keep.takes_peek(peek := catalog.peek(ref)):
        return None
    item = item_of_ref(ref, peek, catalog.gone_at(ref))
    if counts or keep.events:
        session = catalog.load(ref)
        if not keep.takes_session(session):
            return None
        item.counts = {kind: number for kind, number in count_events(session).items() if number}
    return item


def _stored(
    store: Store,
    args: argparse.Namespace,
    keep: Filter,
    changes: DiskChanges | None,
    page: int | None,
    elsewhere: list[SessionRow],
) -> Iterator[SessionItem]:
    """Yield all other sessions, newest first. They are read in pages.

    Those that were imported from folders which are not listed are added to `elsewhere` instead.
    """
    wanted = replace(stored_filter(args), is_empty=False)
    for start in count(0, page or 1):
        rows = store.sessions.select(wanted, limit=page, offset=start)
        own = store.sessions.not_marked_gone(tuple(row.id for row in rows)) if changes is not None else set()
        for row in rows:
            files = [store.files.get(file.id) for file in store.files.of_session(row.id)]
            item = item_of_row(row)
            if changes is not None:
                if (row.agent, row.name) in changes.sessions:
                    continue
                if row.id in own and not any(changes.has(file.path) for file in files):
                    if any(may_exist(file.path) for file in files):
                        elsewhere.append(row)
                        continue
                    item.gone_at = datetime.now(UTC)
            yield _completed(item, row, files, store, args, keep)
        if page is None or len(rows) < page:
            return


def _completed(
    item: SessionItem, row: SessionRow, files: list[FileRow], store: Store, args: argparse.Namespace, keep: Filter
) -> SessionItem:
    """Add the other columns of the list to a session."""
    if args.events or keep.events:
        item.counts = {kind: row.counts[kind] for kind in BY_NAME if row.counts.get(kind)}
    if args.json:
        info = store.messages.load_head(row.id).info
        item.version, item.archived = info.versions[-1] if info.versions else None, info.archived
        item.size, item.path = sum(file.size for file in files), files[0].path if files else None
    return item
