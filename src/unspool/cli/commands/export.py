"""`unspool export`: write sessions as NDJSON, a stream, Markdown, HTML, Parquet, or in a format of another tool."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...agents import agent_named
from ...core.errors import UnspoolError, UsageError
from ...core.session import Session
from ...core.stream import AnnotationLine, EndLine, SessionLine, iter_stream
from ...core.views import Branches
from ...formats import FORMATS
from ...formats.file_names import FileNames
from ...redact import Redactor, describe_contained, describe_redacted, find_in_session
from ...store.redaction_key import make_redactor
from .._shared.failures import Failures
from .._shared.options import add_filters, add_limit, add_sessions, add_source, add_view
from .._shared.other_formats import OtherFormat, add_format_options, check_format_options
from .._shared.output import print_note
from .._shared.output_file import OutputError, writing, writing_to_standard_output
from .._shared.progress import with_progress
from .._shared.redaction import add_redaction, describe_secrets, redactor_of
from .._shared.selection import Chosen, Filter, choose

EXAMPLES = """examples:
  unspool export > sessions.ndjson
  unspool export latest --format html -o session.html
  unspool export --project tidepool --format markdown -o notes/
  unspool export huge.jsonl --format stream | head
  unspool export latest --redact --format markdown
  unspool export --format parquet -o tables/
  unspool export --project tidepool --format atif -o trajectories/
  unspool export latest --format otel --to http://localhost:4318
  unspool export latest --format anthropic --at 40 > request.json"""

Piece = tuple[str, bytes]
"""A part of the output, with the id of the session it belongs to."""

_encoder = msgspec.json.Encoder()
_FOR_PEOPLE = ("markdown", "html")
"""Formats for sharing."""
_FOR_PROGRAMS = ("ndjson", "stream")
"""Formats that are redacted as they are written."""
_SUFFIXES = {"ndjson": ".ndjson", "stream": ".ndjson", "markdown": ".md", "html": ".html"}
_PARQUET = "parquet"
_OTHERS = {format.name: format for format in FORMATS}
_SUFFIXES |= {format.name: format.suffix for format in FORMATS}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to export instead of all")
    add_source(parser)
    others = "; ".join(f"{format.name}: {format.about}" for format in FORMATS)
    parser.add_argument(
        "--format",
        choices=[*_SUFFIXES, _PARQUET],
        default="ndjson",
        metavar="FORMAT",
        help="ndjson: one line per session (default); stream: many small lines; markdown; html: a self-contained page; "
        f"parquet: a directory of tables; {others}",
    )
    parser.add_argument(
        "--json", action="store_const", dest="format", const="ndjson", help="the same as --format ndjson"
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="a file, or a directory for one file per session")
    add_view(parser, branches="all")
    add_filters(parser)
    add_limit(parser, "export only the newest N sessions")
    add_format_options(parser, FORMATS)
    add_redaction(parser)


def run(args: argparse.Namespace) -> int:
    """Export."""
    check_format_options(args, _OTHERS.get(args.format))
    args.redactor = redactor_of(args)
    args.notices = _Notices(args.redactor) if args.format in _FOR_PEOPLE else None
    exit_code = _export(args)
    if args.notices is not None and args.notices.contained:
        print_note(describe_secrets(len(args.notices.contained)))
    return exit_code


def _export(args: argparse.Namespace) -> int:
    keep = Filter(args)
    failures = Failures(args.debug)
    listed = failures.listing(keep.apply(choose(args)))
    chosen = with_progress(listed, "sessions", collects=bool(args.output or args.to))
    if args.format == _PARQUET:
        _write_tables(args, chosen, keep, failures)
        return failures.exit_code
    if args.format in _OTHERS:
        _write_other(args, chosen, keep, failures)
        return failures.exit_code
    if args.output and _is_folder(args.output):
        folder = _Folder(Path(args.output), _SUFFIXES[args.format])
        for item in chosen:
            with failures.skipping(item.ref):
                folder.write(_pieces(args, item, keep))
        return failures.exit_code
    if args.format == "html":
        chosen = _only_one(chosen)
    # A name that matches nothing must not overwrite an existing file.
    first = list(islice(chosen, 1))
    with _output(args.output) as file:
        for item in chain(first, chosen):
            with failures.skipping(item.ref):
                pieces = _pieces(args, item, keep)
                file.writelines(piece for _, piece in (_first_page(pieces) if args.format == "html" else pieces))
    return failures.exit_code


def _write_tables(args: argparse.Namespace, chosen: Iterator[Chosen], keep: Filter, failures: Failures) -> None:
    from ...data.extra import return_freed_memory
    from ...data.parquet import ParquetFolder
    from ...data.sources import InMemory
    from ...data.tables import Tables

    def sessions() -> Iterator[Session]:
        for library, ref in chosen:
            with failures.skipping(ref):
                found = library.load_all(ref, args.tip, args.branches, args.orphans)
                kept = (session for session in found if keep.takes_session(session))
                yield from kept if args.redactor is None else map(args.redactor.session, kept)

    if not args.output:
        raise UsageError("--format parquet writes a directory of tables; name it with -o DIR/")
    return_freed_memory()
    ParquetFolder(Path(args.output)).write(Tables([InMemory(sessions())]))


def _write_other(args: argparse.Namespace, chosen: Iterator[Chosen], keep: Filter, failures: Failures) -> None:
    written = OtherFormat(args, _OTHERS[args.format], keep, failures)
    # A name that matches nothing must not overwrite an existing file.
    chosen = chain(list(islice(chosen, 1)), chosen)
    if args.to is not None:
        written.send(chosen, args.to)
    elif args.output and _is_folder(args.output):
        folder = _Folder(Path(args.output), _SUFFIXES[args.format])
        written.write_each(chosen, lambda id, pieces: folder.write((id, piece) for piece in pieces))
    else:
        with _output(args.output) as file:
            written.write(chosen, file)


def _is_folder(name: str) -> bool:
    return name.endswith("/") or Path(name).is_dir()


def _output(name: str | None) -> AbstractContextManager[BinaryIO]:
    return writing_to_standard_output() if name is None else writing(Path(name))


def _only_one(chosen: Iterator[Chosen]) -> Iterator[Chosen]:
    first = next(chosen, None)
    if first is None:
        return
    if next(chosen, None) is not None:
        raise UsageError("an HTML page holds one session; name one, or write to a directory with -o DIR/")
    yield first


def _first_page(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the page of the session, without the sub-agents in the same file."""
    for index, (_, page) in enumerate(groupby(pieces, key=itemgetter(0))):
        if index:
            print_note("Sub-agents in the same file are left out; use -o DIR/ to write a page for each.")
            return
        yield from page


def _pieces(args: argparse.Namespace, item: Chosen, keep: Filter) -> Iterator[Piece]:
    """Yield the output for a session and the sub-agents in the same file."""
    redactor: Redactor | None = args.redactor
    pieces = _complete_pieces(args, item, keep)
    if redactor is None or args.format not in _FOR_PROGRAMS:
        yield from pieces
        return
    for id, group in groupby(pieces, key=itemgetter(0)):
        for piece in redactor.stream(piece for _, piece in group):
            yield id, piece


def _complete_pieces(args: argparse.Namespace, item: Chosen, keep: Filter) -> Iterator[Piece]:
    """Yield the same, but with secrets in JSON formats, which are redacted afterwards."""
    catalog, ref = item
    if args.format == "stream" and not keep.events:
        id, is_wanted = ref.id, True
        for line in catalog.stream(ref, args.tip, args.branches, args.orphans):
            if isinstance(line, SessionLine):
                id, is_wanted = line.session.id, keep.takes_kind(line.session.kind)
            if is_wanted and isinstance(line, EndLine):
                for own in map(AnnotationLine, catalog.annotations(ref.agent, id)):
                    yield id, _encoder.encode(own) + b"\n"
            if is_wanted:
                yield id, _encoder.encode(line) + b"\n"
        return
    is_data = args.format in _FOR_PROGRAMS
    for session in catalog.load_all(ref, args.tip, args.branches if is_data else "all", args.orphans):
        if keep.takes_session(session):
            session.annotations = catalog.annotations(ref.agent, session.id)
            shown = session if args.redactor is None or is_data else args.redactor.session(session)
            notice = args.notices.of(session) if args.notices is not None else ""
            for piece in _FORMATS[args.format](shown, args.branches, notice):
                yield session.id, piece


class _Notices:
    """Notices in documents about secrets that they contain, or that were redacted."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._is_redacted = redactor is not None
        self._redactor = make_redactor() if redactor is None else redactor
        self.contained: set[str] = set()
        """The placeholders of all secrets that were written."""

    def of(self, session: Session) -> str:
        """Return the notice for a session."""
        findings = find_in_session(session, self._redactor)
        if self._is_redacted:
            return describe_redacted(findings)
        self.contained.update(finding.placeholder for finding in findings)
        return describe_contained(findings)


def _ndjson(session: Session, _: Branches, __: str) -> Iterator[bytes]:
    yield _encoder.encode(session) + b"\n"


def _stream(session: Session, _: Branches, __: str) -> Iterator[bytes]:
    for line in iter_stream(session):
        yield _encoder.encode(line) + b"\n"


def _markdown(session: Session, branches: Branches, notice: str) -> Iterator[bytes]:
    from ...render.markdown import render_markdown

    for line in render_markdown(session, agent_named(session.agent).describe, branches, notice=notice):
        yield line.encode("utf-8", "replace") + b"\n"


def _html(session: Session, branches: Branches, notice: str) -> Iterator[bytes]:
    # Templates and syntax highlighting take as long to load as everything else.
    from ...render.html import render_html

    for piece in render_html(session, agent_named(session.agent).describe, branches, notice=notice):
        yield piece.encode("utf-8", "replace")


_FORMATS: dict[str, Callable[[Session, Branches, str], Iterator[bytes]]] = {
    "ndjson": _ndjson, "stream": _stream, "markdown": _markdown, "html": _html,
}  # fmt: skip


class _Folder:
    """One file per session, named after it."""

    def __init__(self, path: Path, suffix: str) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnspoolError(f"{path}: {error.strerror}") from error
        self._path = path
        self._suffix = suffix
        self._names = FileNames()

    def write(self, pieces: Iterator[Piece]) -> None:
        """Write the files of a session and the sub-agents in the same file."""
        for id, group in groupby(pieces, key=itemgetter(0)):
            try:
                with writing(self._path / (self._names.next(id) + self._suffix)) as file:
                    file.writelines(piece for _, piece in group)
            except OutputError as error:
                if error.concerns_all:
                    raise
                raise UnspoolError(str(error)) from error
