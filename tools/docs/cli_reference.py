"""Generates the reference of the command line from its parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from unspool.cli.main import EXIT_CODES, command_groups, command_parser

_COMMON = ("help", "debug")


def page() -> str:
    """Return the page: all commands with their options and examples."""
    return "\n".join(_lines()) + "\n"


def commands() -> list[str]:
    """Return the names of all commands."""
    return [name for group in command_groups().values() for name in group]


def unexplained() -> list[str]:
    """Return the options without a help text."""
    return [f"{name} {_names(action)}" for name in commands() for action in _options(name) if not action.help]


def _options(name: str) -> list[argparse.Action]:
    actions = command_parser(name)._actions
    return [action for action in actions if action.dest not in _COMMON and action.help != argparse.SUPPRESS]


def _lines() -> Iterator[str]:
    yield "# Command line"
    yield ""
    yield "`unspool COMMAND --help` and `man unspool-COMMAND` show the same text. Every command also takes `--debug`,"
    yield "which shows the traceback of an error."
    yield ""
    yield "| exit code | |"
    yield "|---|---|"
    yield from (f"| {code} | {text} |" for code, text in EXIT_CODES.items())
    yield ""
    for group, names in command_groups().items():
        yield f"**{group}.** " + " · ".join(f"[{name}](#{name})" for name in names)
        yield ""
    for group, names in command_groups().items():
        yield f"## {group}"
        yield ""
        for name in names:
            yield from _command(name)


def _command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    yield f"### {name}"
    yield ""
    yield parser.description or ""
    yield ""
    yield from fenced(parser.format_usage().removeprefix("usage: ").rstrip())
    if options := _options(name):
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| {_names(action)} | {_escaped(help_of(action))} |" for action in options)
        yield ""
    if parser.epilog:
        yield from fenced(parser.epilog % {"prog": parser.prog})


def _names(action: argparse.Action) -> str:
    value = metavar_of(action)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{name} {value}`" if value else f"`{name}`" for name in action.option_strings)


def metavar_of(action: argparse.Action) -> str:
    """Return the placeholder for the value of an option; empty if it takes none."""
    if action.option_strings and action.nargs == 0:
        return ""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return r"{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def help_of(action: argparse.Action) -> str:
    """Return the help text of an option."""
    return (action.help or "") % {"default": action.default}


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def fenced(text: str) -> Iterator[str]:
    """Yield a block of preformatted text."""
    yield "```text"
    yield from text.splitlines()
    yield "```"
    yield ""
