"""Redaction of a command's output."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ...core.plural import counted
from ...redact import Redactor, Report
from ...store.redaction_key import make_redactor

PERSONAL_HELP = "also replace personal data: names of users and hosts, home directories, e-mail addresses"


def add_redaction(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options for redaction."""
    group = parser.add_argument_group("redaction")
    group.add_argument(
        "--redact", action="store_true", help="replace secrets with placeholders, always the same one for a secret"
    )
    group.add_argument("--redact-personal", action="store_true", help=PERSONAL_HELP)
    return group


def redactor_of(args: argparse.Namespace) -> Redactor | None:
    """Return the redactor for the options; None without redaction."""
    return make_redactor(personal=args.redact_personal) if args.redact or args.redact_personal else None


def describe_report(report: Report) -> Iterator[str]:
    """Yield a summary of what was redacted, without the secrets themselves."""
    if not report.total:
        yield "Nothing was redacted."
        return
    values, places = counted(len(report.placeholders), "value"), counted(report.total, "place")
    yield f"Redacted {values} in {places}:"
    for placeholder, count in sorted(report.placeholders.items()):
        yield f"  {placeholder}  {count}×"


def describe_secrets(count: int) -> str:
    """Return a notice that an unredacted output contains secrets."""
    values = counted(count, "secret")
    return f"The output contains {values}; --redact replaces them, and `unspool secrets` lists where they are."
