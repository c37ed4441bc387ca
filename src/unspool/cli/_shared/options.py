"""Options shared by several commands. An option means the same in each of them."""

from __future__ import annotations

import argparse
import sys

from ...agents import AGENTS
from ...core.errors import UsageError
from ...core.events import EVENT_NAMES, find_kind

SESSION_HELP = "an id, the start of one, a file, or `latest`"


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the names of sessions; filters may be among them."""
    parser.add_argument(
        "sessions",
        nargs="*",
        metavar="SESSION",
        help=f"{what}: an id, the start of one, a file, a directory, or `latest`; also filters such as agent:NAME, "
        "project:TEXT, since:TIME, until:TIME, kind:KIND and has:EVENT",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add the name of one session."""
    parser.add_argument("sessions", nargs=1, metavar="SESSION", help=SESSION_HELP)


def add_source(parser: argparse.ArgumentParser, *, syncs: bool = False) -> None:
    """Add the options for where the sessions are: on disk, and in the store if their files are gone."""
    folders = ", ".join(agent.info.folder for agent in AGENTS.values())
    group = parser.add_argument_group("where the sessions are")
    group.add_argument(
        "--home",
        action="append",
        default=[],
        metavar="DIR",
        help=f"a home directory that contains {folders} (default: yours); may be repeated",
    )
    group.add_argument(
        "--store",
        metavar="STORE",
        help="the store, which also has sessions whose files are gone: a file or postgresql://… (default: "
        "$UNSPOOL_STORE, or a file in your data directory)",
    )
    group.add_argument("--samples", action="store_true", help="use the bundled sample sessions, in a separate store")
    if syncs:
        group.add_argument("--no-sync", action="store_true", help="do not import changed sessions first")


def add_filters(parser: argparse.ArgumentParser, *, of_events: bool = True) -> None:
    """Add the filters for sessions."""
    group = parser.add_argument_group("filters")
    group.add_argument(
        "--agent",
        choices=list(AGENTS),
        action="append",
        default=[],
        help="only sessions of this agent; may be repeated",
    )
    group.add_argument("--project", metavar="TEXT", help="only projects with TEXT in their path")
    group.add_argument(
        "--since",
        metavar="TIME",
        help="at TIME or later: 2026-11-01, 2026-11-01T14:30, 7d, 12h, today",
    )
    group.add_argument("--until", metavar="TIME", help="before TIME")
    if not of_events:
        return
    group.add_argument(
        "--kind", choices=("main", "subagent", "all"), default=None, help="main sessions, sub-agents, or both"
    )
    group.add_argument(
        "--has",
        metavar="EVENT",
        action="append",
        default=[],
        type=event_name,
        help=f"only sessions with this event, also written has:EVENT; one of {', '.join(EVENT_NAMES)}",
    )


def add_limit(parser: argparse.ArgumentParser, what: str, default: int | None = None) -> None:
    """Add the option for the maximum number of results."""
    text = f"{what} (default: {default})" if default is not None else what
    parser.add_argument("-n", "--limit", type=_count, metavar="N", default=default, help=text)


def add_json(parser: argparse._ActionsContainer, what: str = "one JSON object per line") -> None:
    """Add the option for machine-readable output."""
    parser.add_argument("--json", action="store_true", help=f"print {what}; see `unspool schema --output`")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def event_name(word: str) -> str:
    """Return the canonical name of the kind of event that an option names."""
    try:
        return find_kind(word).name
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_view(parser: argparse.ArgumentParser, branches: str) -> None:
    """Add the options for which parts of a session to show."""
    parser.add_argument("--branches", choices=("active", "all"), default=branches, help=f"default: {branches}")
    parser.add_argument(
        "--orphans",
        choices=("hide", "mark", "synthesize"),
        default="mark",
        help="unfinished calls: hide them, mark them, or add a synthetic result (default: mark)",
    )
    parser.add_argument(
        "--tip",
        default="agent",
        metavar="RULE",
        help="the end of the active path: agent (the agent's own rule, default), newest, longest, or a message id",
    )


def is_terminal() -> bool:
    """Return whether the output goes to a terminal."""
    return sys.stdout.isatty()
