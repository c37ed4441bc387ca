"""Tables for narrow terminals: some columns are never cut, others shrink, and some can be omitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...render.sanitize import one_line
from .options import is_terminal
from .output import console

_GAP = 2
_LONGEST = 400
"""The maximum number of characters in a cell, also in a pipe."""


class Column(NamedTuple):
    """A column of a table."""

    header: str
    style: str = ""
    shrinks_to: int | None = None
    """Its minimum width; None if it is never cut."""
    drop: int = 0
    """Columns with a number are omitted if the others do not fit, the lowest number first."""
    right: bool = False
    """Whether its cells are right-aligned, like numbers."""


AGENT = Column("agent", "cyan")
SESSION = Column("session")
LAST_ACTIVE = Column("last active", "dim")
TIME = Column("time", "dim")
MESSAGE = Column("message", "dim", drop=1)
PROJECT = Column("project", "green", shrinks_to=8, drop=1)
TITLE = Column("title", shrinks_to=12)
DESCRIPTION = Column("description", shrinks_to=24)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on a terminal, and tab-separated columns elsewhere."""
    cells = ([one_line(cell, _LONGEST) for cell in row] for row in rows)
    if is_terminal():
        _draw(columns, list(cells))
        return
    print("\t".join(column.header for column in columns))
    for row in cells:
        print("\t".join(row))


def _draw(columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    out = console()
    headers = [column.header for column in columns]
    widths = [max(map(cell_len, texts)) for texts in zip(headers, *rows, strict=True)]
    shown = fit(columns, widths, out.width)
    for number, row in enumerate([headers, *rows]):
        line = Text()
        for index, width in shown.items():
            # Text, not markup: a title may contain anything.
            cell = Text(row[index], columns[index].style if number else "bold")
            cell.truncate(width, overflow="ellipsis")
            cell.align("right" if columns[index].right else "left", width)
            line.append_text(cell).append(" " * _GAP)
        line.rstrip()
        # Text that still does not fit wraps to the next line, so nothing is lost.
        out.print(line, soft_wrap=True)


def fit(columns: Sequence[Column], widths: Sequence[int], available: int) -> dict[int, int]:
    """Return the columns to show, by index, with their widths."""
    narrow = [
        width if column.shrinks_to is None else min(width, max(column.shrinks_to, len(column.header)))
        for column, width in zip(columns, widths, strict=True)
    ]
    droppable = sorted((p for p, column in enumerate(columns) if column.drop), key=lambda p: columns[p].drop)
    shown = dict(enumerate(narrow))
    while sum(shown.values()) + _GAP * (len(shown) - 1) > available and droppable:
        del shown[droppable.pop(0)]
    spare = max(0, available - sum(shown.values()) - _GAP * (len(shown) - 1))
    # Narrow columns get their width first, so that a long title does not cut a short project.
    wanting = sorted(shown, key=lambda index: widths[index] - shown[index])
    for left, index in zip(range(len(wanting), 0, -1), wanting, strict=True):
        more = min(widths[index] - shown[index], spare // left)
        shown[index] += more
        spare -= more
    return shown
