"""`unspool lake`: keep the tables of all sessions in a lake of Delta tables."""

from __future__ import annotations

import argparse

from ...core.plural import counted
from .._shared.options import add_source
from .._shared.output import print_note
from .._shared.redaction import add_redaction, describe_report, redactor_of
from .._shared.store import open_synced_store

EXAMPLES = """examples:
  unspool lake sync lake/
  unspool lake sync shared-lake/ --redact
  unspool lake sync s3://bucket/lake --store postgresql://team/unspool
  unspool sql --lake lake/ "select count(*) from messages\""""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=["sync"], help="sync: write new and changed sessions, remove forgotten ones")
    parser.add_argument("lake", metavar="DIR", help="a directory, or the URL of an object store such as s3://…")
    add_source(parser, syncs=True)
    add_redaction(parser)


def run(args: argparse.Namespace) -> int:
    """Bring the lake up to date."""
    from ...data.extra import return_freed_memory
    from ...data.lake import Lake

    return_freed_memory()
    redactor = redactor_of(args)
    with open_synced_store(args) as store:
        report = Lake(args.lake).sync(store, redactor)
    print(
        f"{counted(report.added, 'session')} added, {report.replaced:,} replaced, {report.removed:,} removed, "
        f"{report.unchanged:,} unchanged; snapshot {report.snapshot}"
    )
    if redactor is not None and report.added + report.replaced:
        for line in describe_report(redactor.report):
            print_note(line)
    return 0
