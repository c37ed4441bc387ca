"""Opens the store for commands that query it, and brings it up to date first."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from msgspec.structs import replace

from ...core.errors import BusyError, NoSpaceError, NotFoundError, NotWritableError, RedactedStoreError
from ...ingest.sync import Progress, Report, Syncer
from ...ingest.sync_selection import SyncSelection
from ...store import Store, open_store
from ...store.forgotten import ForgottenSession
from ...store.locate import STORE_VARIABLE
from ...store.rows import SessionRow
from .output import print_error, print_note
from .selection import stored_filter

_PATIENCE_SECONDS = 0.5
_LOCK_SECONDS = 3.0
"""How long a command that only reads waits for another process to import sessions."""
_MAY_BE_BEHIND = "The newest sessions and messages may be missing."


def warn_of_password(location: str | None) -> None:
    """Warn that a password on the command line is not secret. For long-running commands."""
    if location is not None and "://" in location and urlsplit(location).password:
        print_note("Other users of this computer can see the password in the arguments of this command.")
        print_note(f"Use a password file (~/.pgpass), or put the address in {STORE_VARIABLE}.")


@contextmanager
def open_synced_store(args: argparse.Namespace, *, writes: bool = False) -> Iterator[Store]:
    """Open the store, after importing new and changed sessions of this computer.

    A command that `writes` fails if the store is not writable. Others print a note and use the store as it is.
    """
    store = _open_to_sync(args, writes) if writes or not args.no_sync else open_store(args.store, read_only=True)
    try:
        if not args.no_sync and not store.database.read_only:
            _sync_first(store, args, writes)
        yield store
        if report_damage(store):
            args.is_incomplete = True
    finally:
        store.close()


def found_rows(store: Store, names: Iterable[str], *, is_exact: bool = False) -> list[SessionRow]:
    """Return the stored sessions with these names."""
    return [store.sessions.find(name, is_exact=is_exact) for name in names]


def selected_rows(store: Store, args: argparse.Namespace) -> list[SessionRow]:
    """Return the stored sessions that a command changes or writes: those named, or those that pass the filters.

    Without names and filters, the list is empty: a command that removes sessions must not remove all by default.
    """
    if args.sessions:
        return found_rows(store, args.sessions, is_exact=True)
    if not (args.agent or args.project or args.since or args.until or args.has or args.limit is not None):
        return []
    wanted = replace(
        stored_filter(args), machine=store.machine, kind=None if args.kind == "all" else args.kind or "main"
    )
    return store.sessions.select(wanted, limit=args.limit)


def report_damage(store: Store) -> bool:
    """Report what could not be shown because it is damaged in the store, and return whether there is any."""
    for damage in store.messages.damaged:
        row = store.sessions.get(damage.session)
        print_error(f"session {row.name if row is not None else damage.session}: {damage.text}")
    return bool(store.messages.damaged)


def _open_to_sync(args: argparse.Namespace, writes: bool) -> Store:
    try:
        return open_store(args.store)
    except NotWritableError as error:
        if writes:
            raise
        try:
            store = open_store(args.store, read_only=True)
        except NotFoundError:
            raise error from None
        _note_unwritable(args, error)
        return store


def _sync_first(store: Store, args: argparse.Namespace, writes: bool) -> None:
    try:
        report = sync(store, args.home, patience=None if writes else _LOCK_SECONDS)
    except RedactedStoreError as error:
        print_note(f"unspool: {error}. {_MAY_BE_BEHIND}")
        return
    except (BusyError, NotWritableError) as error:
        if writes:
            raise
        if isinstance(error, BusyError):
            print_note(f"Another process is importing sessions. {_MAY_BE_BEHIND}")
        else:
            _note_unwritable(args, error)
        return
    for name, reason in report.failures.items():
        print_note(f"unspool: cannot read {name}: {reason}")
        args.is_incomplete = True


def _note_unwritable(args: argparse.Namespace, error: NotWritableError) -> None:
    """Print a note. Some stores are meant to be only read, but a full disk is a failure."""
    print_note(f"unspool: {error}. {_MAY_BE_BEHIND}")
    if isinstance(error, NoSpaceError):
        args.is_incomplete = True


def sync(
    store: Store,
    homes: list[str],
    patience: float | None = None,
    forgotten: Iterable[ForgottenSession] = (),
    selection: SyncSelection | None = None,
    with_secrets: bool = False,
) -> Report:
    """Bring a store up to date, with a progress bar if it takes long; see `Syncer` for the other arguments."""
    show = _Bar() if sys.stderr.isatty() else None
    try:
        syncer = Syncer(
            store, *homes, may_share=True, forgotten=forgotten, selection=selection, with_secrets=with_secrets
        )
        return syncer.run(show, patience=patience)
    finally:
        if show is not None:
            show.end()


class _Bar:
    """A progress bar on the terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._shown = False

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.1
        self._shown = True
        part = progress.bytes_done / progress.bytes_total if progress.bytes_total else 0.0
        bar = "█" * round(part * 20)
        text = f"{progress.done:,} of {progress.total:,} sessions, {progress.bytes_done / 1e6:,.0f} MB"
        print(f"\r  {bar:░<20} {part:4.0%}  {text}   ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
