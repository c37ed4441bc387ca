"""Output: JSON for programs, tables for people, tab-separated columns for pipes."""

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
    """The console of rich. A pipe has no width, so it gets a fixed one."""
    # Imported late: tab-separated columns and JSON do not need rich.
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """The reader has seen enough, which is not a failure."""
            raise BrokenPipeError

    return Pipe(**({"highlight": False, "width": None if is_terminal() else _PIPE_WIDTH} | options))


def print_json(value: Any) -> None:
    """One value on one line."""
    sys.stdout.buffer.write(_encoder.encode(value) + b"\n")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], wrap: int, styles: Sequence[str] = ()) -> None:
    """A table on a terminal, tab-separated columns elsewhere. Column `wrap` takes the remaining width."""
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
        # Text, not markup: a title may contain anything.
        table.add_row(*(Text(one_line(cell, 400), style) for cell, style in zip_longest(row, styles, fillvalue="")))
    console().print(table)


def print_pieces(pieces: Iterable[RenderableType]) -> None:
    """Coloured text on a terminal; elsewhere, plain lines without trailing spaces."""
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
    """Enough of an id to find the session. A sub-agent is named by the end of its id, so that stays whole."""
    return id if "/" in id else id[:_SHORT]


def complain(text: str) -> None:
    """Print an error. Paths and ids in it are untrusted."""
    print(f"unspool: {harmless(text)}", file=sys.stderr)


def remark(text: str) -> None:
    """Print a remark for people, apart from the output."""
    from rich.text import Text

    console(stderr=True, width=None, soft_wrap=True).print(Text(text, "dim"))
