"""`unspool verify`: check the integrity of the store and of the decision log, and repair the store."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import msgspec

from ...core.errors import NotFoundError, NotWritableError, UsageError
from ...core.plural import counted
from ...ingest.rebuild import copy_readable, replace_database
from ...ingest.store_repair import StoreRepair
from ...ingest.verify import StoreVerification, Verifier
from ...render.sanitize import harmless
from ...store import Store, open_store
from ...store.decision_chain import Head
from ...store.decision_verify import Verification, verify_decisions
from ...store.locate import data_folder, store_path
from ...store.truncated import extend_truncated
from .._shared.options import add_json, add_source
from .._shared.output import print_json
from .._shared.store import sync

EXAMPLES = """examples:
  unspool verify
  unspool verify --repair                repair the store from the files on disk
  unspool verify --repair --from postgresql://team.example/unspool
  unspool verify --json | jq .store.faults
  unspool verify --expect 41:9f86d08…    check an entry that you noted elsewhere

exit codes: 0 no faults, or all were repaired; 1 faults were found; 2 invalid usage"""


class VerificationReport(Verification, kw_only=True):
    """The result of verifying the decisions and the store."""

    store: StoreVerification | None = None
    """None if there is no store."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--expect",
        metavar="ENTRY:HASH",
        help="an entry that this command printed earlier as the newest one",
    )
    parser.add_argument(
        "--repair", action="store_true", help="repair damaged sessions from the files on disk or from the archive"
    )
    parser.add_argument(
        "--from",
        dest="other",
        metavar="STORE",
        help="with --repair: also repair from this store, which may have the same sessions",
    )
    add_json(parser, "the result as a JSON object")
    add_source(parser)


def run(args: argparse.Namespace) -> int:
    """Verify the decision log and the store, and print the result."""
    if args.other is not None and not args.repair:
        raise UsageError("--from names a store to repair from; add --repair")
    decisions = verify_decisions(data_folder(), _head(args.expect) if args.expect is not None else None)
    store = _verify_store(args)
    if args.json:
        print_json(VerificationReport(**msgspec.structs.asdict(decisions), store=store))
    else:
        print("\n".join(map(harmless, [*_lines(decisions), *(_store_lines(store) if store is not None else [])])))
    return 1 if decisions.faults or (store is not None and not store.is_intact) else 0


def _verify_store(args: argparse.Namespace) -> StoreVerification | None:
    if args.repair and (path := store_path(args.store)) is not None:
        extend_truncated(path)
    store = _existing_store(args.store)
    if store is None:
        return None
    try:
        found = Verifier(store).run()
        if args.repair and any(fault.part == "database" for fault in found.faults):
            store, found = _rebuilt(store, args, found)
        if args.repair and not found.is_intact:
            other = open_store(args.other, read_only=True) if args.other is not None else None
            try:
                StoreRepair(store, *args.home, other=other).run(found.faults)
            finally:
                if other is not None:
                    other.close()
        return found
    finally:
        store.close()


def _rebuilt(store: Store, args: argparse.Namespace, found: StoreVerification) -> tuple[Store, StoreVerification]:
    """Rebuild a damaged database from its readable part and from the disk; return what is still missing."""
    damaged = Path(store.location)
    new = damaged.with_name(f"{damaged.name}-rebuilt")
    for path in (new, *(new.with_name(new.name + suffix) for suffix in ("-wal", "-shm", "-lock"))):
        path.unlink(missing_ok=True)
    with store.exclusive():
        with closing(open_store(str(new))) as target:
            copy_readable(store, target)
            target.database.optimize()
        store.close()
        moved_to = replace_database(new, damaged)
    rebuilt = open_store(args.store)
    sync(rebuilt, args.home)
    again = Verifier(rebuilt).run()
    for fault in found.faults:
        if fault.part == "database":
            fault.repaired_from = f"what could be read; the damaged database is kept as {moved_to}"
            again.faults.insert(0, fault)
    return rebuilt, again


def _existing_store(location: str | None) -> Store | None:
    """Open the store, writable if possible, to add checksums to data of earlier versions. None if there is none."""
    try:
        readable = open_store(location, read_only=True)
    except NotFoundError:
        return None
    try:
        writable = open_store(location)
    except NotWritableError:
        return readable
    readable.close()
    return writable


def _store_lines(found: StoreVerification) -> list[str]:
    counts = found.counts
    lines = [f"{'✓' if fault.repaired_from else '✗'} {fault.text}" for fault in found.faults]
    what = f"{counted(counts.sessions, 'session')}, {counted(counts.blocks, 'block')} of messages and"
    what += f" {counted(counts.chunks, 'chunk')} of files"
    if not found.faults:
        lines.append(f"✓ Store: {what}: intact; {found.compared} compared with the disk")
    else:
        repaired = sum(fault.repaired_from is not None for fault in found.faults)
        lines.append(f"Store: {what}: {counted(len(found.faults), 'fault')}, {repaired} repaired")
    if counts.sealed:
        lines.append(f"Added checksums to {counted(counts.sealed, 'part')} that an earlier version stored")
    if counts.unsealed:
        lines.append(f"Not covered: {counted(counts.unsealed, 'part')} without a checksum; the store is read-only")
    return lines


def _head(text: str) -> Head:
    number, _, digest = text.partition(":")
    try:
        return Head(int(number), digest)
    except ValueError:
        raise UsageError(f"--expect needs ENTRY:HASH as `unspool verify` printed it, not {text!r}") from None


def _lines(found: Verification) -> list[str]:
    lines = [f"✗ {fault.text}" for fault in found.faults]
    if found.head is None and not found.faults and not found.not_covered:
        return ["No decisions have been recorded on this computer"]
    if found.faults:
        lines.append(f"The decision log was changed: {counted(len(found.faults), 'fault')}, the first one at the top")
    elif found.decisions or not found.not_covered:
        lines.append(f"✓ {counted(found.decisions, 'decision')}: complete and unchanged")
    if found.not_covered:
        lines.append(f"Not covered: {counted(found.not_covered, 'decision')} from before the log was protected")
    if found.unprotected:
        lines.append(f"Not protected against removal yet: {counted(found.unprotected, 'entry')} at the end")
    if found.head is not None:
        lines.append(f"Newest entry: {found.head}")
    return lines
