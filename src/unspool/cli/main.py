"""The `unspool` command: finds the subcommand, runs it, and prints errors as one clear line."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import NoReturn

from .._version import __version__

_COMMAND_GROUPS = {
    "Read sessions": {
        "ls": "list the sessions on this computer",
        "show": "show a session in the terminal",
        "context": "show the model's context at a message",
        "explain": "explain how the record of a message was derived: by which rules, from which lines",
        "events": "list events across sessions: rejections, interruptions and others",
        "export": "export sessions as NDJSON, Markdown, HTML, tables, or in formats of other tools",
        "pairs": "write rejected actions and what was accepted instead as preference data",
        "share": "write a session as a page without secrets",
        "secrets": "list the secrets in sessions, where they are and since when",
        "schema": "print the JSON Schema of exported records, or validate a file",
        "doctor": "report damaged, unknown and unfinished records, file by file",
        "repair": "write a repaired copy of a damaged session that its agent can resume",
        "completion": "print a script that completes commands and options in a shell",
    },
    "Search and keep": {
        "serve": "start the web app to read, search and follow every session",
        "sync": "import new and changed sessions into the store",
        "watch": "keep the store up to date while agents work, and print what happens",
        "search": "search all sessions for what was said, done or printed",
        "stats": "show sessions, turns, tools, rejections and tokens over time",
        "usage": "show tokens and their cost by day, model, project, agent or session",
        "sql": "query all sessions with SQL",
        "lake": "keep tables of all sessions in a lake that other programs can query",
        "lineage": "show how sessions are related: forks, clears, plans, sub-agents",
        "archive": "show sessions the agents are about to delete, and ones only unspool still has",
        "history": "list the versions of a session's files that the store has",
        "restore": "write the original files of a session from the store",
        "forget": "remove a session from the store permanently",
        "push": "copy the sessions of this computer to another store, such as a team's",
        "mcp": "let agents look up earlier sessions of the project they work in",
    },
    "Run agents": {
        "run": "start an agent under the server, or resume or fork a session",
        "ps": "list running agents; those that need you come first",
        "attach": "watch a running agent, send prompts and answer its requests",
        "approve": "show a request of an agent, and allow it",
        "deny": "show a request of an agent, and deny it, optionally with a reason",
        "answer": "answer a question of an agent",
        "interrupt": "interrupt the current turn of a running agent",
        "stop": "stop a running agent",
        "rules": "suggest rules from your decisions: what to allow always, what to tell the model",
        "verify": "check the integrity of the store and of your decisions; repair the store",
    },
}
"""The commands that have their own module. `command_groups` adds those that list one kind of event."""
_INTERRUPTED = 130
_WRONG_CHOICE = re.compile(r"argument .*: invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
EXIT_CODES = {
    0: "success, also if the program that reads the output closes the pipe early",
    1: "something failed, could not be read or is damaged; a search found nothing",
    2: "invalid usage: an unknown option, an invalid value, or a name that matches several sessions",
    _INTERRUPTED: "interrupted with Ctrl-C; no incomplete files are left behind",
}
_COLUMNS = 78
"""The width of the help."""


def command_groups() -> dict[str, dict[str, str]]:
    """Return all commands and their descriptions, by topic."""
    from ..core.events import LISTED_KINDS

    lists = {kind.plural: kind.listing.command for kind in LISTED_KINDS if kind.listing and kind.listing.command}
    groups: dict[str, dict[str, str]] = {}
    for group, commands in _COMMAND_GROUPS.items():
        groups[group] = {}
        for name, text in commands.items():
            groups[group] |= {name: text, **lists} if name == "search" else {name: text}
    return groups


def commands() -> dict[str, str]:
    """Return all commands and their descriptions."""
    return _flat(command_groups())


def _flat(groups: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: text for group in groups.values() for name, text in group.items()}


_OWN_COMMANDS = _flat(_COMMAND_GROUPS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code, one of `EXIT_CODES`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in arguments if not word.startswith("-")), None)
    if name is None or (name not in _OWN_COMMANDS and name not in commands()):
        return _without_command(arguments)
    _accept_any_text()
    arguments.remove(name)
    # Intermixed: `export a --format stream b` names two sessions.
    args = command_parser(name).parse_intermixed_args(arguments)
    return _run(_module(name), args)


def _module(name: str) -> ModuleType:
    return import_module(f".commands.{name if name in _OWN_COMMANDS else 'event_list'}", __package__)


def _accept_any_text() -> None:
    """Print a question mark for characters that the terminal cannot show, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _without_command(arguments: list[str]) -> int:
    """Print the help, the version, or an error for an unknown command. None of these needs the agents' parsers."""
    groups = command_groups()
    parser = _Parser(
        prog="unspool",
        description="Read, search and supervise the sessions of your coding agents.",
        formatter_class=_formatter,
        epilog="\n\n".join(
            (
                *(_listed(*group) for group in groups.items()),
                "Run `unspool COMMAND --help` for the options of a command.",
            )
        ),
    )
    parser.add_argument("--version", action="version", version=f"unspool {__version__}")
    parser.add_argument("command", metavar="COMMAND")
    if not arguments:
        parser.print_help()
        return 0
    # Ignore the rest: only the command knows its arguments.
    unknown = parser.parse_known_args(arguments)[0].command
    near = _did_you_mean(unknown, _flat(groups)) or "; `unspool --help` lists all commands"
    return parser.error(f"unknown command {unknown!r}{near}")


class _Parser(argparse.ArgumentParser):
    """A parser that suggests corrections for misspelled options."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        what, _, names = message.partition(": ")
        if what == "unrecognized arguments":
            wrong = names.split()[0]
            if wrong.startswith("-"):
                message += _did_you_mean(wrong.partition("=")[0], self._option_string_actions)
        elif found := _WRONG_CHOICE.fullmatch(message):
            message += _did_you_mean(found[1], found[2].replace("'", "").split(", "))
        super().error(message)


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    # Imported late: most runs have nothing misspelled.
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=2, cutoff=0.6)
    return f", did you mean {' or '.join(near)}?" if near else ""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter with a fixed width: to find that of the terminal, argparse would import `shutil`."""
    return argparse.RawDescriptionHelpFormatter(prog, width=_COLUMNS)


def _listed(group: str, names: dict[str, str]) -> str:
    return "\n".join((f"{group.lower()}:", *(f"  {name:<15}{text}" for name, text in names.items())))


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    module = _module(name)
    text = _OWN_COMMANDS.get(name) or commands()[name]
    parser = _Parser(
        prog=f"unspool {name}",
        description=text[0].upper() + text[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=getattr(module, "EXAMPLES", None),
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    module.configure(parser)
    parser.set_defaults(command=name)
    return parser


def _run(module: ModuleType, args: argparse.Namespace) -> int:
    from ..core.errors import AmbiguousError, UnspoolError, UsageError

    try:
        with ExitStack() as args.on_exit:
            if "home" in args:
                from ._shared.selection import prepare

                prepare(args)
            code: int = module.run(args)
        if code == 0 and "is_incomplete" in args:
            # A part of what the command reads could not be read, which has been reported.
            code = 1
        sys.stdout.flush()
    except (UsageError, AmbiguousError) as error:
        return _fail(args, str(error), 2)
    except UnspoolError as error:
        from ._shared.output_file import OutputError

        if isinstance(error, OutputError) and error.is_standard_output:
            _discard_output()
        return _fail(args, str(error), 1)
    except BrokenPipeError:
        # The program that reads the output closed the pipe.
        _discard_output()
        return 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _discard_output()
        return _INTERRUPTED
    except OSError as error:
        from ..io.faults import WRITE_ERRNOS, describe_fault

        if error.errno not in WRITE_ERRNOS or error.filename:
            return _fail(args, describe_fault(error), 1)
        _discard_output()
        return _fail(args, f"the output cannot be written: {error.strerror}", 1)
    except Exception as error:
        return _fail(args, f"{type(error).__name__}: {error} (a bug in unspool; --debug shows the traceback)", 1)
    return code


def _discard_output() -> None:
    """Discard what is left: Python would flush it at exit, which may fail again, or block on a stalled reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(args: argparse.Namespace, text: str, code: int) -> int:
    from ._shared.output import print_error

    if args.debug:
        raise
    print_error(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
