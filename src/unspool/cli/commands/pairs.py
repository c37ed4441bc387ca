"""`unspool pairs`: rejected actions and what was accepted instead, as preference data."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from ...core import model as m
from ...core.plural import counted
from ...formats.pairs import PreferencePair, pairs_of
from .._shared.failures import Failures
from .._shared.options import add_filters, add_limit, add_sessions, add_source
from .._shared.output import json_line, print_note
from .._shared.output_file import writing, writing_to_standard_output
from .._shared.progress import with_progress
from .._shared.redaction import add_redaction, redactor_of
from .._shared.selection import Filter, choose

EXAMPLES = """examples:
  unspool pairs > pairs.jsonl
  unspool pairs --project tidepool --redact -o pairs.jsonl
  unspool pairs latest --by all | jq -r .reason"""
_ALL = "all"
_PERSON = "user"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to use instead of all")
    add_source(parser)
    parser.add_argument(
        "--by",
        choices=[*get_args(m.RejectedBy), _ALL],
        default=_PERSON,
        metavar="WHO",
        help=f"who rejected the action: {', '.join(get_args(m.RejectedBy))} or {_ALL} (default: {_PERSON})",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    add_filters(parser)
    add_limit(parser, "use only the newest N sessions")
    add_redaction(parser)


def run(args: argparse.Namespace) -> int:
    """Write the pairs."""
    failures = Failures(args.debug)
    count = 0
    with writing_to_standard_output() if args.output is None else writing(Path(args.output)) as file:
        for pair in _pairs(args, failures):
            file.write(json_line(pair))
            count += 1
    if not count or args.output is not None:
        print_note(
            f"{counted(count, 'pair')}." if count else "No pairs: no rejected action was followed by an accepted one."
        )
    return failures.exit_code


def _pairs(args: argparse.Namespace, failures: Failures) -> Iterator[PreferencePair]:
    keep = Filter(args)
    redactor = redactor_of(args)

    def takes(rejection: m.Rejection) -> bool:
        return args.by in (_ALL, rejection.by)

    for item in with_progress(failures.listing(keep.apply(choose(args))), "sessions", collects=args.output is not None):
        with failures.skipping(item.ref):
            for session in item.catalog.load_all(item.ref):
                if session.rejections and keep.takes_session(session):
                    yield from pairs_of(session if redactor is None else redactor.session(session), takes)
