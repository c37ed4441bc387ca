"""`unspool share`: a page without secrets, and a report of what was redacted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...agents import agent_named
from ...core.errors import UnspoolError, UsageError
from ...core.session import Session
from ...formats.file_names import FileNames, safe_name
from ...redact import Redactor, Report, describe_contained, describe_redacted, find_in_session
from ...store.private_files import replace_private
from ...store.redaction_key import make_redactor
from .._shared.failures import Failures
from .._shared.options import add_filters, add_limit, add_sessions, add_source
from .._shared.output import print_json, print_note
from .._shared.progress import with_progress
from .._shared.redaction import PERSONAL_HELP, describe_report
from .._shared.selection import Filter, choose

EXAMPLES = """examples:
  unspool share latest
  unspool share latest --check
  unspool share --project tidepool --since 7d -o tidepool/"""

_INDEX = "index"


class ShareReport(msgspec.Struct, kw_only=True):
    """The files that were written, and a report of what was redacted."""

    files: list[str]
    """The pages. Empty with `--check`."""
    redacted: Report


class _Page(NamedTuple):
    session: Session
    notice: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to share")
    add_source(parser)
    add_filters(parser)
    add_limit(parser, "share only the newest N sessions")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="a file (default: ID.html), or a directory for several sessions and an index",
    )
    parser.add_argument("--check", action="store_true", help="only report what would be redacted")
    parser.add_argument("--redact-personal", action="store_true", help=PERSONAL_HELP)
    parser.add_argument("--with-secrets", action="store_true", help="do not redact anything")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; see `unspool schema --output`")


def run(args: argparse.Namespace) -> int:
    """Share."""
    if not args.sessions and args.output is None and not args.check:
        raise UsageError("name a session, or write all of them to a directory with -o DIR/")
    if args.with_secrets and args.redact_personal:
        raise UsageError("--with-secrets and --redact-personal cannot be used together")
    redactor = None if args.with_secrets else make_redactor(personal=args.redact_personal)
    failures = Failures(args.debug)
    files = [str(path) for path in _written(args, _pages(args, redactor, failures))]
    report = Report() if redactor is None else redactor.report
    if args.json:
        print_json(ShareReport(files=files, redacted=report))
        return failures.exit_code
    for file in files:
        print(file)
    for line in (
        ["The output may contain secrets: it was not checked."] if redactor is None else describe_report(report)
    ):
        print_note(line)
    if files:
        print_note("Read it before you share it: no detector finds every secret.")
    return failures.exit_code


def _pages(args: argparse.Namespace, redactor: Redactor | None, failures: Failures) -> Iterator[_Page]:
    keep = Filter(args)
    for item in with_progress(failures.listing(keep.apply(choose(args))), "sessions"):
        with failures.skipping(item.ref):
            for session in item.catalog.load_all(item.ref):
                if keep.takes_session(session):
                    yield _page(session, redactor)


def _page(session: Session, redactor: Redactor | None) -> _Page:
    if redactor is None:
        return _Page(session, describe_contained(find_in_session(session, make_redactor())))
    return _Page(redactor.session(session), describe_redacted(find_in_session(session, redactor)))


def _written(args: argparse.Namespace, pages: Iterator[_Page]) -> Iterator[Path]:
    if args.check:
        for _ in pages:
            pass
        return
    if args.output and (args.output.endswith("/") or Path(args.output).is_dir()):
        yield from _folder(Path(args.output), pages)
        return
    first = next(pages, None)
    if first is None:
        raise UnspoolError("no session matches")
    if next(pages, None) is not None:
        raise UsageError("there are several sessions or sub-agents; write them to a directory with -o DIR/")
    yield _put(Path(args.output or safe_name(first.session.id) + ".html"), _rendered(first))


def _folder(folder: Path, pages: Iterable[_Page]) -> Iterator[Path]:
    """Write a page for each session, and an index of them."""
    from ...render.html import IndexRow, render_index

    rows: list[IndexRow] = []
    names = FileNames(_INDEX)
    for page in pages:
        name = f"{names.next(page.session.id)}.html"
        yield _put(folder / name, _rendered(page))
        rows.append(IndexRow(name, page.session.info, len(page.session.messages), page.notice))
    if not rows:
        raise UnspoolError("no session matches")
    yield _put(folder / f"{_INDEX}.html", render_index(rows).encode("utf-8", "replace"))


def _rendered(page: _Page) -> bytes:
    # Templates and syntax highlighting take as long to load as everything else.
    from ...render.html import render_html

    session = page.session
    pieces = render_html(session, agent_named(session.agent).describe, notice=page.notice)
    return "".join(pieces).encode("utf-8", "replace")


def _put(path: Path, data: bytes) -> Path:
    try:
        replace_private(path, data)
    except OSError as error:
        raise UnspoolError(f"{path}: {error.strerror}") from error
    return path
