"""Output: JSON for programs, coloured text for people; errors and remarks go to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ...render.sanitize import harmless, harmless_json
from .options import is_terminal
from .output_types import type_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIPE_WIDTH = 120
_SHORT = 13
_encoder = msgspec.json.Encoder()


def console(**options: Any) -> Console:
    """Return a rich console. A pipe has no width, so it gets a fixed one."""
    # Imported late: tab-separated columns and JSON do not need rich.
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """Exit without an error: the program that reads the output closed the pipe."""
            raise BrokenPipeError

    return Pipe(**({"highlight": False, "width": None if is_terminal() else _PIPE_WIDTH} | options))


def print_json(value: Any) -> None:
    """Print an object on one line."""
    write_json(json_line(value))


def write_json(line: bytes) -> None:
    """Write a line of JSON to standard output."""
    sys.stdout.buffer.write(harmless_json(line) if is_terminal() else line)


def json_line(value: Any) -> bytes:
    """Encode an object as a line, with its `type` first. Session records and server responses already have one."""
    data = _encoder.encode(value)
    kind = type_of(value)
    if kind is not None:
        data = b'{"type":"' + kind.encode() + (b'",' if len(data) > len("{}") else b'"') + data[1:]
    return data + b"\n"


def print_pieces(pieces: Iterable[RenderableType]) -> None:
    """Print coloured text on a terminal, and plain lines without trailing spaces elsewhere."""
    out = console()
    for piece in pieces:
        if is_terminal():
            out.print(piece)
            continue
        with out.capture() as drawn:
            out.print(piece)
        for line in drawn.get().split("\n")[:-1]:
            print(line.rstrip())


def short_id(id: str) -> str:
    """Shorten an id so that it still identifies the session. The last part of a sub-agent's id is not shortened."""
    first, *own = id.split("/")
    # Some ids begin with a time, so sessions of the same minute share their first digits.
    return "/".join((first[:_SHORT], *own))


def print_error(text: str) -> None:
    """Print an error. Paths and ids in it are untrusted."""
    print(f"unspool: {harmless(text)}", file=sys.stderr)


def print_note(text: str) -> None:
    """Print a remark for people on standard error."""
    from rich.text import Text

    console(stderr=True, width=None, soft_wrap=True).print(Text(text, "dim"))
