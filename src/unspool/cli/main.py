"""The `unspool` command: finds the subcommand and runs it; all errors end here, as one clear line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType

from .._version import __version__

COMMANDS = {
    "serve": "open the web app: read, search and follow every session",
    "ls": "list the sessions on this computer",
    "show": "read a session in the terminal",
    "export": "write sessions as NDJSON, stream, Markdown or HTML",
    "context": "tell what the model had in its context at a message",
    "events": "list what happened across sessions: rejections, interruptions, …",
    "schema": "print the JSON Schema of the export, or check a file against it",
    "doctor": "tell what is damaged, salvaged, unknown or unfinished, file by file",
    "repair": "write a copy of a damaged session that its agent can go on with",
    "sync": "take everything new into the store, where it stays and can be searched",
    "watch": "keep the store up to date while agents work, and tell what happens",
    "search": "find what was said, done or printed, in all sessions",
    "stats": "count sessions, turns, tools, refusals and tokens over time",
    "archive": "tell what the agents will delete, and what is already only here",
    "restore": "write the files of a session back as they were",
    "forget": "remove a session from the store for good",
    "push": "give this computer's sessions to a team's store",
    "run": "start an agent under the server, or resume a session",
    "ps": "list running agents, those that need you first",
    "attach": "watch a running agent, send it messages and answer its requests",
    "approve": "allow a request of an agent",
    "deny": "deny a request of an agent, with or without a reason",
    "interrupt": "stop the current turn of an agent",
    "stop": "stop a running agent",
}
_INTERRUPTED = 130


def commands() -> dict[str, str]:
    """All commands and what they do, with those that list one kind of event."""
    from ..core.events import LISTED_KINDS

    lists = {kind.plural: kind.listing.command for kind in LISTED_KINDS if kind.listing and kind.listing.command}
    found: dict[str, str] = {}
    for name, about in COMMANDS.items():
        found |= {name: about, **lists} if name == "events" else {name: about}
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 ok, 1 failed, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in arguments if not word.startswith("-")), None)
    if name is None or (name not in COMMANDS and name not in commands()):
        return _without_command(arguments)
    _accept_any_text()
    module = import_module(f".commands.{name if name in COMMANDS else 'event_list'}", __package__)
    parser = _command_parser(name, COMMANDS.get(name) or commands()[name], module)
    arguments.remove(name)
    # Intermixed: `export a --format stream b` names two sessions.
    args = parser.parse_intermixed_args(arguments)
    return _run(module, args)


def _accept_any_text() -> None:
    """Logs hold signs that not every terminal can show; a question mark is better than an end."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _without_command(arguments: list[str]) -> int:
    """Show the help or the version, or say which commands there are; no reader is loaded for that."""
    parser = argparse.ArgumentParser(
        prog="unspool",
        description="Read the sessions of Claude Code, Codex CLI and Gemini CLI, and see what really happened.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:<15}{text}" for name, text in commands().items())
        + "\n\n`unspool COMMAND --help` tells more.",
    )
    parser.add_argument("--version", action="version", version=f"unspool {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=commands())
    if not arguments:
        parser.print_help()
        return 0
    parser.parse_args(arguments)
    return 2


def _command_parser(name: str, about: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"unspool {name}",
        description=about[0].upper() + about[1:] + ".",
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
        code: int = module.run(args)
        sys.stdout.flush()
    except (UsageError, AmbiguousError) as error:
        return _fail(args, str(error), 2)
    except UnspoolError as error:
        return _fail(args, str(error), 1)
    except BrokenPipeError:
        # The reader has seen enough.
        _forget_output()
        return 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _forget_output()
        return _INTERRUPTED
    except OSError as error:
        return _fail(args, f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    return code


def _forget_output() -> None:
    """Python writes what is left when it ends: that may fail once more, or wait for a reader who does not read."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(args: argparse.Namespace, what: str, code: int) -> int:
    from ._shared.output import complain

    if args.debug:
        raise
    complain(what)
    return code


if __name__ == "__main__":
    sys.exit(main())
