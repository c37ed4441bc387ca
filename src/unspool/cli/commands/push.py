"""`unspool push`: copy the sessions of this computer to another store, usually a team's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager

import msgspec

from ...core.errors import NotFoundError, RedactedStoreError, UsageError
from ...ingest.push import push_archived
from ...ingest.redacted_push import push_redacted
from ...redact import Redactor, Report
from ...store import Store, open_store
from .._shared.options import add_json, add_source
from .._shared.output import print_error, print_json, print_note
from .._shared.redaction import add_redaction, describe_report, redactor_of
from .._shared.store import sync

EXAMPLES = """examples:
  unspool push postgresql://team.example/unspool
  unspool push postgresql://team.example/unspool --redact
  unspool search --store postgresql://team.example/unspool 'frozen dataclass'"""


class PushReport(msgspec.Struct, kw_only=True):
    """The result of copying sessions to another store."""

    new: int
    changed: int
    kept: int
    """Sessions whose files are gone."""
    failures: dict[str, str]
    redacted: Report | None = None
    """What was redacted in the copied sessions, with `--redact`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("target", metavar="STORE", help="postgresql://… or a file")
    add_json(parser, "the result as a JSON object")
    add_source(parser)
    group = add_redaction(parser)
    group.add_argument(
        "--with-secrets",
        action="store_true",
        help="replace sessions that were pushed with --redact by complete ones, with their files",
    )


@contextmanager
def _source(location: str | None) -> Iterator[Store | None]:
    """Open the store with sessions that were deleted from disk, if any."""
    try:
        store = open_store(location, read_only=location is None)
    except NotFoundError:
        yield None
        return
    with closing(store):
        yield store


def run(args: argparse.Namespace) -> int:
    """Copy new sessions on disk, and those that only your own store has, except for forgotten ones."""
    redactor = redactor_of(args)
    if redactor is not None and args.with_secrets:
        raise UsageError("--redact and --with-secrets cannot be used together")
    with closing(open_store(args.target)) as target:
        report = _push_all(args, target) if redactor is None else _push_redacted(args, target, redactor)
    if args.json:
        print_json(report)
        return 1 if report.failures else 0
    print(f"{report.new:,} new, {report.changed:,} changed, {report.kept:,} deleted from disk")
    for name, why in report.failures.items():
        print_error(f"{name}: {why}")
    if report.redacted is not None and report.new + report.changed + report.kept:
        for line in describe_report(report.redacted):
            print_note(line)
        print_note("Log files are not copied: the other store cannot restore them.")
    return 1 if report.failures else 0


def _push_all(args: argparse.Namespace, target: Store) -> PushReport:
    with _source(args.store) as source:
        forgotten = source.forgotten.all() if source is not None else ()
        try:
            report = sync(target, args.home, forgotten=forgotten, with_secrets=args.with_secrets)
        except RedactedStoreError:
            raise UsageError(
                f"{_shown(args.target)} has the sessions of this computer without their secrets; add --redact, or "
                "--with-secrets to replace them by complete sessions"
            ) from None
        gone = push_archived(source, target) if source is not None else 0
    return PushReport(new=report.new, changed=report.changed, kept=gone, failures=report.failures)


def _push_redacted(args: argparse.Namespace, target: Store, redactor: Redactor) -> PushReport:
    """Update your own store, then copy from it."""
    with closing(open_store(args.store)) as source:
        failures = sync(source, args.home).failures
        counts = push_redacted(source, target, redactor)
    return PushReport(
        new=counts.new,
        changed=counts.changed,
        kept=counts.gone,
        failures=failures | counts.failures,
        redacted=redactor.report,
    )


def _shown(location: str) -> str:
    """Return the address of a store without its password."""
    return location.rpartition("@")[2] if "://" in location else location
