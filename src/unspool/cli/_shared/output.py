"""Printing: JSON for programs, tables for people, plain columns for pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from ...render.sanitize import harmless, one_line
from .options import is_terminal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIPE_WIDTH = 120
_SHORT = 13
_encoder = msgspec.json.Encoder()


def console(**options: Any) -> Console:
    """Where people read. A pipe has no width: lines are long there, but not endless."""
    # rich is loaded where something is drawn: a table in a pipe, or JSON, should not wait for it.
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """The reader has seen enough; rich would call that a failure."""
            raise BrokenPipeError

    return Pipe(**({"highlight": False, "width": None if is_terminal() else _PIPE_WIDTH} | options))


def print_json(value: Any) -> None:
    """One value on one line."""
    sys.stdout.buffer.write(_encoder.encode(value) + b"\n")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], wrap: int, styles: Sequence[str] = ()) -> None:
    """A table on a terminal, columns with tabs between them elsewhere. Column `wrap` takes what room is left."""
    if not is_terminal():
        print("\t".join(headers))
        for row in rows:
            print("\t".join(one_line(cell, 400) for cell in row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, header in enumerate(headers):
        table.add_column(header, no_wrap=True, overflow="ellipsis", ratio=1 if place == wrap else None)
    for row in rows:
        # Text, not markup: a title may hold anything.
        table.add_row(*(Text(one_line(cell, 400), style) for cell, style in zip_longest(row, styles, fillvalue="")))
    console().print(table)


def print_pieces(pieces: Iterable[RenderableType]) -> None:
    """Text in colour on a terminal; elsewhere without the blanks that fill up its lines."""
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
    """Enough of an id to find the session by; what names a sub-agent stands at its end."""
    return id if "/" in id else id[:_SHORT]


def complain(text: str) -> None:
    """Say what went wrong. Paths and ids in it come from others."""
    print(f"unspool: {harmless(text)}", file=sys.stderr)


def remark(text: str) -> None:
    """A remark for people, out of the way of the output."""
    from rich.text import Text

    console(stderr=True, width=None, soft_wrap=True).print(Text(text, "dim"))
