"""Generates manual pages from the parsers of the commands: `man unspool`, `man unspool-ls`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from unspool import __version__
from unspool.cli.main import EXIT_CODES, command_groups, command_parser

from .cli_reference import commands, help_of, metavar_of

FOLDER = Path(__file__).parents[2] / "docs" / "man"


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    found = {"unspool.1": "\n".join(_overview()) + "\n"}
    return found | {f"unspool-{name}.1": "\n".join(_command(name)) + "\n" for name in commands()}


def write() -> None:
    """Write the pages, and remove those of commands that no longer exist."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for path in FOLDER.glob("*.1"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _overview() -> Iterator[str]:
    yield from _head("unspool", "read, search and supervise the sessions of coding agents", "unspool COMMAND [OPTIONS]")
    for group, names in command_groups().items():
        yield f".SH {group.upper()}"
        for name, text in names.items():
            yield ".TP"
            yield f".BR unspool\\-{_text(name)} (1)"
            yield _text(text)
    yield from _exit_status()


def _command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield from _head(f"unspool-{name}", (parser.description or "").rstrip("."), usage)
    yield ".SH OPTIONS"
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield ".TP"
            yield _option(action)
            yield _text(help_of(action))
    if parser.epilog:
        yield ".SH EXAMPLES AND NOTES"
        yield ".nf"
        yield from (_text(line) for line in (parser.epilog % {"prog": parser.prog}).splitlines())
        yield ".fi"
    yield from _exit_status()
    yield ".SH SEE ALSO"
    yield ".BR unspool (1)"


def _head(name: str, text: str, usage: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "unspool {__version__}" "unspool"'
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(text[:1].lower() + text[1:])}"
    yield ".SH SYNOPSIS"
    yield _text(usage)


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, text in EXIT_CODES.items():
        yield ".TP"
        yield f".B {code}"
        yield _text(text)


def _option(action: argparse.Action) -> str:
    value = metavar_of(action)
    if not action.option_strings:
        return f".I {_text(value)}"
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
    return f"{names} \\fI{_text(value)}\\fR" if value else names


def _text(text: str) -> str:
    """Escape text for troff."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
