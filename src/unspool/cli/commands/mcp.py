"""`unspool mcp`: a server that lets agents look up earlier sessions."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from ...agents import AGENTS, McpConnection
from ...core import typed_json
from ...core.errors import NotWritableError, UsageError
from ...mcp.instructions import instructions
from ...mcp.scope import ProjectScope
from ...redact import Redactor
from ...store import open_store
from ...store.redaction_key import make_redactor
from .._shared.client import server_address
from .._shared.options import add_source
from .._shared.output import print_note
from .._shared.store import open_synced_store

TOKEN_VARIABLE = "UNSPOOL_TOKEN"
_NAME = "unspool"

EXAMPLES = """The agent starts it, in the directory of the project. Print the settings that
make it do so, and the text that tells it when to ask:

examples:
  unspool mcp --print-config AGENT
  unspool mcp --print-config AGENT --http
  unspool mcp --instructions >> AGENTS.md
  unspool mcp --call what_was_refused '{"since": "30d"}'

tools:
  search, read_session, what_was_refused, context_at, history_of_file,
  recent_work"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_source(parser, syncs=True)
    group = parser.add_argument_group("answers")
    group.add_argument(
        "--directory",
        metavar="DIR",
        help="answer about the project of this directory: its repository and its worktrees (default: the "
        "current directory)",
    )
    group.add_argument("--all-projects", action="store_true", help="answer about all projects")
    group.add_argument("--with-secrets", action="store_true", help="do not replace secrets with placeholders")
    group = parser.add_argument_group("set up")
    group.add_argument(
        "--print-config",
        metavar="AGENT",
        choices=list(AGENTS),
        help=f"print the settings that connect an agent ({', '.join(AGENTS)}), and exit",
    )
    group.add_argument(
        "--http",
        action="store_true",
        help=f"with --print-config: connect to the running `unspool serve`; its token must be in ${TOKEN_VARIABLE}",
    )
    group.add_argument(
        "--call",
        nargs=2,
        metavar=("TOOL", "JSON"),
        help="print the answer of a tool to these arguments, and exit",
    )
    group.add_argument(
        "--instructions",
        action="store_true",
        help="print a text for AGENTS.md that says when to use the tools, and exit",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the agent closes the connection."""
    if args.directory and args.all_projects:
        raise UsageError("--directory and --all-projects cannot be used together")
    if args.directory and not os.path.isdir(args.directory):
        raise UsageError(f"{args.directory} is not a directory")
    if args.http and not args.print_config:
        raise UsageError("--http needs --print-config; `unspool serve` itself answers at /mcp")
    if args.instructions:
        print(instructions(), end="")
    elif args.print_config:
        _print_config(args)
    elif args.call:
        _call(args, *args.call)
    else:
        _serve(args)
    return 0


def _scope(args: argparse.Namespace) -> ProjectScope:
    return ProjectScope(None if args.all_projects else os.path.abspath(args.directory or os.getcwd()))


def _redactor(args: argparse.Namespace) -> Redactor | None:
    return None if args.with_secrets else make_redactor(personal=False)


def _call(args: argparse.Namespace, tool: str, arguments: str) -> None:
    from ...mcp.request import ToolRequest
    from ...mcp.tool_table import call_tool

    try:
        given = typed_json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(
            f'the arguments of a tool must be a JSON object, such as {{"budget": 1000}}: {error}'
        ) from error
    with open_synced_store(args) as store, store.snapshot():
        print(call_tool(ToolRequest(store, _scope(args), (), _redactor(args)), tool, given))


def _serve(args: argparse.Namespace) -> None:
    from ...mcp.extra import check_extra

    check_extra()
    from ...mcp.stdio import StdioServer, StdioSettings

    if not args.no_sync:
        with suppress(NotWritableError):
            # Create and migrate it before it is opened read-only.
            open_store(args.store).close()
    if sys.stdin.isatty():
        print_note("Waiting for an agent on standard input. Agents start this command themselves; see --print-config.")
    settings = StdioSettings(
        scope=_scope(args), store=args.store, homes=tuple(args.home), syncs=not args.no_sync, redactor=_redactor(args)
    )
    StdioServer(settings).run()


def _print_config(args: argparse.Namespace) -> None:
    connection = _http(args) if args.http else McpConnection(name=_NAME, command=("unspool", "mcp", *_options(args)))
    settings = AGENTS[args.print_config].mcp_settings(connection)
    if settings is None:
        raise UsageError(f"{AGENTS[args.print_config].info.title} has no settings for MCP servers known to unspool")
    print_note(f"For {settings.file}:")
    print(settings.text)


def _http(args: argparse.Namespace) -> McpConnection:
    from ...web.settings import Settings

    address = server_address() or Settings().address
    project = os.path.abspath(args.directory or os.getcwd())
    scope = "all-projects=1" if args.all_projects else f"project={quote(project)}"
    return McpConnection(name=_NAME, url=f"{address}/mcp?{scope}", token_variable=TOKEN_VARIABLE)


def _options(args: argparse.Namespace) -> list[str]:
    """Return the options of this command that the agent should also use."""
    flags = ("samples", "no_sync", "all_projects", "with_secrets")
    found = [f"--{flag.replace('_', '-')}" for flag in flags if getattr(args, flag)]
    if not args.samples:
        for home in args.home:
            found += ["--home", os.path.abspath(home)]
        if args.store:
            found += ["--store", args.store if "://" in args.store else os.path.abspath(args.store)]
    if args.directory:
        found += ["--directory", os.path.abspath(args.directory)]
    return found
