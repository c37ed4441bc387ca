"""`unspool restore`: write the files of a session from the store, byte for byte."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...core.errors import UnspoolError, UsageError
from ...ingest.restore import restore_session
from ...render.exact import exact_text
from .._shared.output import print_json
from .._shared.store import add_store, opened

EXAMPLES = """examples:
  unspool restore 37c23 --to ~/restored
  unspool restore 37c23 --version 2 --to ~/before"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("session", metavar="SESSION", nargs="+", help="session id, or the start of one")
    parser.add_argument(
        "--to", metavar="DIR", required=True, help="a directory; files are laid out as in a home directory"
    )
    parser.add_argument(
        "--version",
        type=int,
        metavar="N",
        help="an earlier state of the files, by its number in `unspool history` (default: the last one)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per file")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files."""
    target = Path(args.to).expanduser()
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is not a directory")
    if args.version is not None and len(args.session) > 1:
        raise UsageError("--version needs a single session: each has versions of its own")
    with opened(args) as store:
        for name in args.session:
            row = store.sessions.find(name, is_exact=True)
            try:
                written = restore_session(store, row, target, args.version)
            except FileExistsError as error:
                raise UnspoolError(f"{error.filename} already exists; restore to another directory") from error
            except OSError as error:
                raise UnspoolError(f"cannot write to {target}: {error.strerror}") from error
            if not written:
                raise UnspoolError(f"the store has no bytes of {row.name}: its files could never be read")
            for path, _, size in written:
                if args.json:
                    print_json({"session": row.name, "path": str(path), "size": size})
                else:
                    # The path is partly that of the archived file, which may contain sequences for terminals.
                    print(f"{exact_text(str(path))}  {size:,} bytes")
    return 0
