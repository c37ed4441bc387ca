"""A unified diff as rows to draw: the kind of each line, its line numbers if known, and its colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import msgspec
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from .exact_markup import exact_inline
from .sanitize import harmless

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_HIGHLIGHT_LIMIT = 60_000
_LONGEST_LINE = 2_000
"""Colouring a longer line takes too long, and nobody reads it."""
_NULL_PATH = "/dev/null"

Kind = Literal["add", "del", "same", "hunk", "file", "remark"]
_KINDS: dict[str, Kind] = {"+": "add", "-": "del", " ": "same", "": "same", "\\": "remark"}
_SIGNS: dict[Kind, str] = {"add": "+", "del": "−", "same": " "}


class Row(NamedTuple):
    """A line of a diff."""

    kind: Kind
    old: int | None
    new: int | None
    sign: str
    text: Markup


class Change(NamedTuple):
    """The number of lines that a diff adds and removes."""

    added: int
    removed: int


class FileChange(msgspec.Struct):
    """The number of lines that a diff adds to and removes from one file."""

    path: str
    added: int = 0
    removed: int = 0


class _Line(NamedTuple):
    kind: Kind
    old: int | None
    new: int | None
    text: str


def count_changes(diff: str) -> Change:
    """Count the added and removed lines, without file headers."""
    kinds = [line.kind for line in _lines(diff)]
    return Change(kinds.count("add"), kinds.count("del"))


def changed_files(diff: str, path: str | None = None) -> list[FileChange]:
    """Return the files that a diff changes; `path` names the file of a diff without file headers."""
    found: list[FileChange] = []
    old = ""
    for line in _lines(diff):
        if line.kind == "file":
            name = line.text[4:]
            if line.text.startswith("--- "):
                old = name
            elif line.text.startswith("+++ "):
                found.append(FileChange(old if name == _NULL_PATH else name))
        elif line.kind in ("add", "del"):
            if not found:
                found.append(FileChange(path or ""))
            found[-1].added += line.kind == "add"
            found[-1].removed += line.kind == "del"
    return found


def classified_lines(diff: str) -> list[tuple[Kind, str]]:
    """Return every line of a diff unchanged, with its kind."""
    given = _split(diff)
    return [(line.kind, text) for line, text in zip(_Reader(given).every_line(), given, strict=True)]


def diff_rows(diff: str, path: str | None = None) -> list[Row]:
    """Return the rows of a diff, with syntax highlighting unless the diff is too large for it."""
    lines = list(_lines(harmless(diff)))
    lexer = _lexer((path or "").rsplit("/", 1)[-1]) if _is_cheap(lines) else None
    old_side = iter(_coloured([line.text for line in lines if line.kind in ("same", "del")], lexer))
    new_side = iter(_coloured([line.text for line in lines if line.kind in ("same", "add")], lexer))
    rows = []
    for line in lines:
        text = Markup.escape(line.text)
        if line.kind in ("same", "del"):
            text = next(old_side)
        if line.kind in ("same", "add"):
            text = next(new_side)
        rows.append(Row(line.kind, line.old, line.new, _SIGNS.get(line.kind, ""), text))
    return list(_worth_showing(rows))


def exact_diff_rows(diff: str) -> ExactRows:
    """Return all rows of a diff that a person decides on, with every character visible and no colours to hide one."""
    return ExactRows(list(_lines(diff)))


class ExactRows:
    """Rows that are rendered on demand, because a diff may be long."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, part: slice) -> ExactRows:
        return ExactRows(self._lines[part])

    def __iter__(self) -> Iterator[Row]:
        for line in self._lines:
            yield Row(line.kind, line.old, line.new, _SIGNS.get(line.kind, ""), exact_inline(line.text))


def _worth_showing(rows: list[Row]) -> Iterator[Row]:
    """Yield rows without the header of a single file, which is shown elsewhere, and without an empty first hunk."""
    has_files = sum(row.text.startswith("+++ ") for row in rows if row.kind == "file") > 1
    is_first = True
    for row in rows:
        if row.kind == "file":
            is_first = True
            if not has_files or not row.text.startswith("+++ "):
                continue
            row = row._replace(text=row.text[4:])
        elif row.kind == "hunk":
            if not row.text and is_first:
                continue
            row = row._replace(text=row.text or Markup("⋯"))
        else:
            is_first = False
        yield row


def _lines(diff: str) -> Iterator[_Line]:
    return _Reader(_split(diff)).lines()


def _split(diff: str) -> list[str]:
    return diff.rstrip("\n").split("\n")


class _Reader:
    """Reads a diff and numbers its lines.

    A diff rebuilt from a replacement has the same name twice, and its line numbers count from the start of the
    replaced part, not of the file. They are omitted.
    """

    def __init__(self, lines: list[str]) -> None:
        self._given = lines
        self._old = self._new = 0
        self._old_left = self._new_left = 0
        self._numbers_old = self._numbers_new = False

    def lines(self) -> Iterator[_Line]:
        """Yield the lines that say something about the file."""
        for text, line in zip(self._given, self.every_line(), strict=True):
            # Whether the replaced part ends with a newline says nothing about the file.
            if not text.startswith("\\") or self._numbers_old or self._numbers_new:
                yield line

    def every_line(self) -> Iterator[_Line]:
        """Yield each line with its kind and its line numbers."""
        skipped = False
        for index, text in enumerate(self._given):
            is_inside = self._old_left > 0 or self._new_left > 0
            if skipped:
                skipped = False
                yield _Line("file", None, None, text)
            elif not is_inside and self._is_head(index):
                self._begin_file(index)
                skipped = True
                yield _Line("file", None, None, text)
            elif not is_inside and text.startswith("@@"):
                yield self._hunk(text)
            elif not is_inside and text.startswith(("Index: ", "=====", "diff --git ", "index ")):
                yield _Line("file", None, None, text)
            else:
                yield self._line(text)

    def _is_head(self, index: int) -> bool:
        following = self._given[index + 1] if index + 1 < len(self._given) else ""
        return self._given[index].startswith("--- ") and following.startswith("+++ ")

    def _begin_file(self, index: int) -> None:
        old, new = self._given[index][4:], self._given[index + 1][4:]
        self._old, self._new = (1, 1)
        self._numbers_old = self._numbers_new = old != new
        if _NULL_PATH in (old, new):
            self._numbers_old, self._numbers_new = new == _NULL_PATH, old == _NULL_PATH

    def _hunk(self, text: str) -> _Line:
        found = _HUNK.match(text)
        if found is None:
            self._old_left = self._new_left = 0
            is_start = (self._old, self._new) == (1, 1)
            self._numbers_old, self._numbers_new = self._numbers_old and is_start, self._numbers_new and is_start
            return _Line("hunk", None, None, text.replace("@@ @@", "").strip())
        self._old, self._new = int(found[1]), int(found[3])
        self._old_left, self._new_left = int(found[2] or 1), int(found[4] or 1)
        has_numbers = self._numbers_old and self._numbers_new
        return _Line("hunk", None, None, text if has_numbers else text[found.end() :].strip())

    def _line(self, text: str) -> _Line:
        kind = _KINDS.get(text[:1], "remark")
        old = self._old if self._numbers_old and kind in ("same", "del") else None
        new = self._new if self._numbers_new and kind in ("same", "add") else None
        if kind in ("same", "del"):
            self._old += 1
            self._old_left -= 1
        if kind in ("same", "add"):
            self._new += 1
            self._new_left -= 1
        if kind == "remark":
            return _Line(kind, None, None, text.lstrip("\\ "))
        return _Line(kind, old, new, text[1:])


def _is_cheap(lines: list[_Line]) -> bool:
    longest = max((len(line.text) for line in lines), default=0)
    return longest <= _LONGEST_LINE and sum(len(line.text) for line in lines) <= _HIGHLIGHT_LIMIT


def _coloured(lines: list[str], lexer: Lexer | None) -> list[Markup]:
    """Return the highlighted lines of one side. Highlighting them together is needed for tokens of several lines."""
    if lexer is not None and lines:
        found = highlight("\n".join(lines), lexer, highlighter()).split("\n")
        if len(found) == len(lines) + 1 and not found[-1]:
            found.pop()
        if len(found) == len(lines):
            return [Markup(line) for line in found]
    return [Markup.escape(line) for line in lines]


@cache
def highlighter() -> HtmlFormatter[str]:
    """Return a formatter that writes colours as CSS classes. Cached, because creating one is slow."""
    return HtmlFormatter(nowrap=True)


@lru_cache(256)
def _lexer(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name[-100:], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
