"""Printing: JSON for programs, tables for people, plain columns for pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..render.plain import one_line
from .options import is_terminal

_encoder = msgspec.json.Encoder()


def print_json(value: Any) -> None:
    """One value on one line."""
    sys.stdout.buffer.write(_encoder.encode(value) + b"\n")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], wrap: int) -> None:
    """A table on a terminal, columns with tabs between them elsewhere. Column `wrap` takes what room is left."""
    if not is_terminal():
        print("\t".join(headers))
        for row in rows:
            print("\t".join(one_line(cell, 400) for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, header in enumerate(headers):
        table.add_column(header, no_wrap=True, overflow="ellipsis", ratio=1 if place == wrap else None)
    for row in rows:
        # Text, not markup: a title may hold anything.
        table.add_row(*(Text(one_line(cell, 400)) for cell in row))
    Console().print(table)
