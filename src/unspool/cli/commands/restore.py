"""`unspool restore`: write the files of a session from the store, byte for byte."""

from __future__ import annotations

import argparse
from errno import ENAMETOOLONG
from pathlib import Path

from ...core.errors import DamagedError, UnspoolError, UsageError
from ...ingest.restore import restore_session
from ...render.exact import exact_text
from ...store import Store
from ...store.rows import SessionRow
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_error, print_json
from .._shared.records import WrittenFile, session_name
from .._shared.store import open_synced_store, selected_rows

EXAMPLES = """examples:
  unspool restore 37c23 --to ~/restored
  unspool restore 37c23 --version 2 --to ~/before
  unspool restore --project tidepool --until 2026-11-01 --to ~/restored"""


class NotRestoredError(UnspoolError):
    """One session cannot be restored."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to restore")
    parser.add_argument(
        "--to", metavar="DIR", required=True, help="a directory; files are laid out as in a home directory"
    )
    parser.add_argument(
        "--version",
        type=int,
        metavar="N",
        help="an earlier state of the files, by its number in `unspool history` (default: the last one)",
    )
    add_limit(parser, "restore only the newest N sessions")
    add_json(parser, "one JSON object per file")
    add_filters(parser)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """Write the files."""
    target = Path(args.to).expanduser()
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is not a directory")
    with open_synced_store(args) as store:
        rows = selected_rows(store, args)
        if not rows:
            raise UsageError("no session to restore; name one, or use --project, --since and other filters")
        if args.version is not None and len(rows) > 1:
            raise UsageError("--version needs a single session, because each has its own versions")
        code = 0
        for row in rows:
            try:
                _restore(args, store, row, target)
            except (NotRestoredError, DamagedError) as error:
                # The others can be restored.
                print_error(str(error))
                code = 1
    return code


def _restore(args: argparse.Namespace, store: Store, row: SessionRow, target: Path) -> None:
    try:
        written = restore_session(store, row, target, args.version)
    except FileExistsError as error:
        raise NotRestoredError(f"{error.filename} already exists; restore to another directory") from error
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise NotRestoredError(
                f"{row.name}: {error.strerror}; restore to a directory with a shorter path"
            ) from error
        raise UnspoolError(f"cannot write to {target}: {error.strerror}") from error
    if not written:
        raise NotRestoredError(f"the store has no files of {row.name}: they could never be read")
    for path, _, size in written:
        if args.json:
            print_json(WrittenFile(session=session_name(row.agent, row.name), path=str(path), size=size))
        else:
            # Part of the path is that of the archived file, which may contain terminal escape sequences.
            print(f"{exact_text(str(path))}  {size:,} bytes")
