"""Writes sessions in the formats of other tools: to a file, a directory, a pipe or a collector."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ...catalog import Catalog
from ...core.errors import UnspoolError, UsageError
from ...core.plural import counted
from ...core.session import Session
from ...formats import Format, Options, Writer
from ...formats.conversation import EmptyContextError, LeftOut
from .failures import Failures
from .options import is_terminal
from .output import print_note
from .selection import Chosen, Filter


def add_format_options(parser: argparse.ArgumentParser, formats: tuple[Format, ...]) -> None:
    """Add the options of individual formats."""
    requests = " and ".join(each.name for each in formats if each.is_request)
    group = parser.add_argument_group("formats of other tools")
    group.add_argument(
        "--at", type=int, metavar="N", help=f"{requests}: the context before message N of one session (default: now)"
    )
    group.add_argument("--prompt", metavar="TEXT", help=f"{requests}: add a prompt at the end")
    group.add_argument("--model", metavar="NAME", help=f"{requests}: the model (default: that of the session)")
    group.add_argument(
        "--to", metavar="URL", help="otel: send the traces to a collector, such as http://localhost:4318"
    )


def check_format_options(args: argparse.Namespace, format: Format | None) -> None:
    """Reject options that the format does not support."""
    is_request = format is not None and format.is_request
    for name in ("at", "prompt", "model"):
        if getattr(args, name) is not None and not is_request:
            raise UsageError(f"--{name} is for --format openai and anthropic")
    if args.at is not None and (len(args.sessions) != 1 or Path(args.sessions[0]).is_dir()):
        raise UsageError("--at needs exactly one session; `unspool ls` lists them")
    if format is not None and format.is_binary and args.output is None and is_terminal():
        raise UsageError(f"--format {format.name} writes an archive, not text; name a file with -o")
    if args.to is not None and (format is None or format.name != "otel"):
        raise UsageError("--to is for --format otel")
    if args.to is not None and args.output is not None:
        raise UsageError("--to and -o both say where the traces go; use one of them")


class OtherFormat:
    """Writes the sessions that a command selected."""

    def __init__(self, args: argparse.Namespace, format: Format, keep: Filter, failures: Failures) -> None:
        self._args = args
        self._format = format
        self._keep = keep
        self._failures = failures
        self._roots = _Roots()
        self._left_out: dict[tuple[str, str], int] = {}
        self._stopped: UnspoolError | None = None
        """The error that stopped the writing."""
        self._options = Options(
            at=args.at, prompt=args.prompt, model=args.model, root_of=self._roots.root_of, left_out=self._count
        )

    def write(self, chosen: Iterator[Chosen], file: BinaryIO) -> None:
        """Write all of them to one file. It never contains an incomplete session."""
        writer = self._format.open(self._options)
        has_begun = False

        def put(session: Session) -> None:
            nonlocal has_begun
            start = b"" if has_begun else writer.begin(session)
            pieces = list(writer.session(session))
            file.write(start)
            file.writelines(pieces)
            has_begun = True

        self._each(chosen, put)
        file.write((b"" if has_begun else writer.begin(None)) + writer.end())

    def write_each(self, chosen: Iterator[Chosen], put: Callable[[str, Iterator[bytes]], None]) -> None:
        """Write each of them to a separate file: `put` gets the id of the session and the content."""
        self._each(chosen, lambda session: put(session.id, _document(self._format.open(self._options), session)))

    def send(self, chosen: Iterator[Chosen], address: str) -> None:
        """Send all of them to a collector."""
        from ...formats.collector import Collector, NoCollectorError

        collector = Collector(address)

        def put(session: Session) -> None:
            try:
                for line in self._format.open(self._options).session(session):
                    collector.send(line)
            except NoCollectorError as error:
                self._stopped = error

        self._each(chosen, put)
        print_note(f"Sent {counted(collector.sent, 'request')} to {collector.name}.")

    def _count(self, part: LeftOut) -> None:
        kind = part.noun, part.why
        self._left_out[kind] = self._left_out.get(kind, 0) + part.number

    def _each(self, chosen: Iterator[Chosen], use: Callable[[Session], None]) -> None:
        for item in chosen:
            self._roots.catalog = item.catalog
            with self._failures.skipping(item.ref):
                for session in self._sessions(item):
                    redactor = self._args.redactor
                    self._use(session if redactor is None else redactor.session(session), use)
            if self._stopped is not None:
                raise self._stopped
        for (noun, why), number in self._left_out.items():
            print_note(f"{LeftOut(noun, why, number)}.")

    def _use(self, session: Session, use: Callable[[Session], None]) -> None:
        try:
            use(session)
        except EmptyContextError as error:
            if self._args.sessions:
                raise
            print_note(f"Left out: {error}.")

    def _sessions(self, item: Chosen) -> Iterator[Session]:
        """Load a session and the sub-agents in the same file. A request contains only the session that was named."""
        args = self._args
        found = item.catalog.load_all(item.ref, args.tip, args.branches, args.orphans)
        if self._format.is_request and len(args.sessions) == 1:
            found = islice(found, 1)
        return filter(self._keep.takes_session, found)


def _document(writer: Writer, session: Session) -> Iterator[bytes]:
    yield writer.begin(session)
    yield from writer.session(session)
    yield writer.end()


class _Roots:
    """Finds the main session of a sub-agent, even if another sub-agent started it."""

    def __init__(self) -> None:
        self.catalog: Catalog | None = None
        self._parents: dict[str, str | None] | None = None

    def root_of(self, session: Session) -> str:
        """Return the id of the main session."""
        name, parent = session.id, session.info.parent
        seen = {name}
        while parent is not None and parent not in seen:
            seen.add(parent)
            name, parent = parent, self._parent(parent)
        return name

    def _parent(self, id: str) -> str | None:
        if self._parents is None:
            refs = self.catalog.refs() if self.catalog is not None else ()
            self._parents = {ref.id: ref.parent for ref in refs}
        return self._parents.get(id)
