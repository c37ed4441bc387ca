"""`unspool export`: write sessions as NDJSON, a stream, Markdown or HTML."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...agents import agent_named
from ...core.errors import UnspoolError, UsageError
from ...core.session import Session
from ...core.stream import SessionLine, iter_stream
from ...core.views import Branches
from ...store.private_files import open_private
from .._shared.failures import Failures
from .._shared.options import Chosen, Filter, add_filters, add_places, add_sessions, add_view, choose
from .._shared.output import remark
from .._shared.progress import watched

EXAMPLES = """examples:
  unspool export > sessions.ndjson
  unspool export latest --format html -o session.html
  unspool export --project tidepool --format markdown -o notes/
  unspool export huge.jsonl --format stream | head"""

Piece = tuple[str, bytes]
"""A part of the output, with the id of the session it belongs to."""

_encoder = msgspec.json.Encoder()
_SUFFIXES = {"ndjson": ".ndjson", "stream": ".ndjson", "markdown": ".md", "html": ".html"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to export instead of all")
    add_places(parser)
    parser.add_argument(
        "--format", choices=list(_SUFFIXES), default="ndjson",
        help="ndjson: one line per session (default); stream: many small lines; markdown; html: a self-contained page",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="PATH", help="a file, or a directory that gets one file per session")
    add_view(parser, branches="all")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Export."""
    keep = Filter(args)
    chosen = watched(keep.apply(choose(args)), "sessions")
    failures = Failures(args.debug)
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


def _is_folder(name: str) -> bool:
    return name.endswith("/") or Path(name).is_dir()


def _output(name: str | None) -> AbstractContextManager[BinaryIO]:
    if name is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return open_private(name)
    except OSError as error:
        raise UnspoolError(f"{name}: {error.strerror}") from error


def _only_one(chosen: Iterator[Chosen]) -> Iterator[Chosen]:
    first = next(chosen, None)
    if first is None:
        return
    if next(chosen, None) is not None:
        raise UsageError("an HTML page holds one session; name one, or write to a directory with -o DIR/")
    yield first


def _first_page(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The page of the session itself, without the sub-agents in the same file."""
    for place, (_, page) in enumerate(groupby(pieces, key=itemgetter(0))):
        if place:
            remark("Sub-agents in the same file are left out; use -o DIR/ to write a page for each.")
            return
        yield from page


def _pieces(args: argparse.Namespace, item: Chosen, keep: Filter) -> Iterator[Piece]:
    """The output for a session and the sub-agents in the same file."""
    library, ref = item
    if args.format == "stream" and not keep.events:
        id, is_wanted = ref.id, True
        for line in library.stream(ref, args.tip, args.branches, args.orphans):
            if isinstance(line, SessionLine):
                id, is_wanted = line.session.id, keep.takes_kind(line.session.kind)
            if is_wanted:
                yield id, _encoder.encode(line) + b"\n"
        return
    is_data = args.format in ("ndjson", "stream")
    for session in library.load_all(ref, args.tip, args.branches if is_data else "all", args.orphans):
        if keep.takes_session(session):
            for piece in _FORMATS[args.format](session, args.branches):
                yield session.id, piece


def _ndjson(session: Session, _: Branches) -> Iterator[bytes]:
    yield _encoder.encode(session) + b"\n"


def _stream(session: Session, _: Branches) -> Iterator[bytes]:
    for line in iter_stream(session):
        yield _encoder.encode(line) + b"\n"


def _markdown(session: Session, branches: Branches) -> Iterator[bytes]:
    from ...render.markdown import render_markdown

    for line in render_markdown(session, agent_named(session.agent).describe, branches):
        yield line.encode("utf-8", "replace") + b"\n"


def _html(session: Session, branches: Branches) -> Iterator[bytes]:
    # Templates and syntax highlighting take as long to load as everything else.
    from ...render.html import render_html

    for piece in render_html(session, agent_named(session.agent).describe, branches):
        yield piece.encode("utf-8", "replace")


_FORMATS: dict[str, Callable[[Session, Branches], Iterator[bytes]]] = {
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
        self._names: Counter[str] = Counter()

    def write(self, pieces: Iterator[Piece]) -> None:
        """Write the files of a session and the sub-agents in the same file."""
        for id, group in groupby(pieces, key=itemgetter(0)):
            with open_private(self._path / self._name(id)) as file:
                file.writelines(piece for _, piece in group)

    def _name(self, id: str) -> str:
        name = _safe_name(id)
        self._names[name] += 1
        # A copy of a home directory has the same ids.
        again = f"-{self._names[name]}" if self._names[name] > 1 else ""
        return name + again + self._suffix


def _safe_name(id: str) -> str:
    """An id comes from a log, so it must not lead out of the directory."""
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in id).strip(".") or "session"
