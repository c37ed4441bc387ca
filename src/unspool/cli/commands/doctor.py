"""`unspool doctor`: the state of the files, with the location of every problem."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..._version import __version__
from ...agents import agent_named
from ...core import model as m
from ...core.plural import counted
from ...core.session import Session
from ...io.faults import collect_faults
from ...io.files import name_of
from ...library import Library, Unlisted, not_listed, without_conversation
from ...render.sanitize import harmless, one_line
from .._shared.failures import Failures
from .._shared.format_summary import FormatSummary
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_json, print_note
from .._shared.progress import with_progress
from .._shared.records import SessionName, session_name
from .._shared.selection import Chosen, Filter, choose

EXAMPLES = """examples:
  unspool doctor
  unspool doctor ./3fc8837a-….jsonl
  unspool doctor --json | jq 'select(.damaged > 0)'
  unspool doctor --summary"""


class FileReport(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The state of one file."""

    path: str
    agent: str
    session: SessionName | None
    """None if no session could be read from it."""
    lines: int
    damaged: int
    """Lines that are not intact records."""
    problems: dict[str, int]
    """The number of problems of each kind: torn, salvaged, unknown-record, missing-parent, …"""
    orphans: int
    places: list[m.Problem]
    records: dict[str, int]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions, files or directories to check instead of everything")
    add_source(parser)
    add_filters(parser)
    add_limit(parser, "check only the newest N sessions")
    parser.add_argument("--all", action="store_true", help="include files without problems")
    parser.add_argument(
        "--summary",
        action="store_true",
        help="count the record types and fields that unspool has not seen before, by agent and version; "
        "names and counts only, for a bug report",
    )
    add_json(parser, "one JSON object per file")


def run(args: argparse.Namespace) -> int:
    """Report on the files."""
    if args.summary:
        return _summarize(args)
    total: Counter[str] = Counter()
    failures = Failures(args.debug)
    with collect_faults() as faults:
        _report_all(args, failures, total)
        left_out = 0 if args.json or args.sessions else len(list(without_conversation(Library(*args.home))))
    failures.add_faults(faults)
    if not args.json:
        _print_summary(total, failures.count, left_out)
    return failures.exit_code


def _report_all(args: argparse.Namespace, failures: Failures, total: Counter[str]) -> None:
    for report in with_progress(_reports(args, failures), "files"):
        total["files"] += 1
        total["lines"] += report.lines
        total["damaged"] += report.damaged
        total["orphans"] += report.orphans
        total.update({f"problem {reason}": count for reason, count in report.problems.items()})
        if args.json:
            print_json(report)
        elif args.all or report.problems or report.orphans:
            _print(report)


def _print_summary(total: Counter[str], unreadable: int, left_out: int) -> None:
    problems = ", ".join(f"{count} {key[8:]}" for key, count in sorted(total.items()) if key.startswith("problem "))
    summary = [
        counted(total["files"], "file"), counted(total["lines"], "line"), f"{total['damaged']:,} damaged",
        counted(total["orphans"], "unfinished call"),
    ]  # fmt: skip
    if unreadable:
        summary.append(f"{unreadable:,} not readable")
    if left_out:
        summary.append(f"{counted(left_out, 'file')} without a conversation (`unspool ls --all`)")
    print(", ".join(summary) + (f"; {problems}" if problems else ""))


def _summarize(args: argparse.Namespace) -> int:
    summary, failures = FormatSummary(), Failures(args.debug)
    for catalog, ref in with_progress(failures.listing(Filter(args).apply(_on_disk(args))), "sessions", collects=True):
        with failures.skipping(ref):
            for session in catalog.load_all(ref):
                summary.add(session)
    if not args.json:
        print(f"unspool {__version__}")
    for version in summary.versions():
        if args.json:
            print_json(version)
        else:
            print("\n".join(version.lines()))
    return failures.exit_code


def _on_disk(args: argparse.Namespace) -> Iterator[Chosen]:
    """Yield the sessions with files to check. `unspool verify` checks sessions that are only in the store."""
    for item in choose(args):
        if not item.ref.stored:
            yield item
        elif args.sessions:
            why = "no longer has files" if item.ref.gone else "has files that cannot be read"
            print_note(f"{item.ref.id} {why}; `unspool verify` checks the stored copy")


def _reports(args: argparse.Namespace, failures: Failures) -> Iterator[FileReport]:
    keep = Filter(args)
    for catalog, ref in keep.apply(_on_disk(args)):
        with failures.skipping(ref):
            for session in filter(keep.takes_session, catalog.load_all(ref)):
                for index, file in enumerate(session.info.files):
                    if file.role == "log":
                        yield _report(session, index, file)
    if not args.sessions:
        yield from (_unlisted(found) for found in not_listed(Library(*args.home)))


def _unlisted(found: Unlisted) -> FileReport:
    """Return the report on a path that is not listed as a session."""
    problem = m.Problem(reason=found.reason, detail=found.detail)
    return FileReport(
        path=name_of(found.path),
        session=None,
        agent=found.agent,
        lines=0,
        damaged=0,
        problems={problem.reason: 1},
        orphans=0,
        places=[problem],
        records={},
    )


def _report(session: Session, index: int, file: m.LogFile) -> FileReport:
    problems = [problem for problem in session.problems if _file_of(problem, session) == index]
    problems.sort(key=lambda problem: problem.source.offset if problem.source is not None else 0)
    where = {message.index for message in session.messages if message.source.file == index}
    return FileReport(
        path=file.path,
        session=session_name(session.agent, session.id),
        agent=session.agent,
        lines=file.lines,
        damaged=file.damaged,
        problems=dict(Counter(problem.reason for problem in problems)),
        orphans=sum(orphan.message_index in where for orphan in session.orphans),
        places=problems,
        records=file.records,
    )


def _file_of(problem: m.Problem, session: Session) -> int:
    """Return the index of the file of a problem: that of its line or message, or the first one."""
    if problem.source is not None:
        return problem.source.file
    return session.messages[problem.message_index].source.file if problem.message_index is not None else 0


def _print(report: FileReport) -> None:
    print(harmless(report.path))
    calls = counted(report.orphans, "unfinished call")
    print(f"  {counted(report.lines, 'line')}, {report.damaged:,} damaged, {calls}")
    log = agent_named(report.agent).log(Path(report.path))
    for problem in report.places:
        at = log.position(problem.source.line, problem.source.offset) if problem.source is not None else "?"
        if problem.message_index is not None:
            at = f"message {problem.message_index}"
        print(f"  {problem.reason:<18} {at:<28} {one_line(problem.detail, 120)}")
