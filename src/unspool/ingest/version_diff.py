"""Compares two versions of a file, as a diff of their lines.

Lines of logs may have megabytes, so only the part of a line that differs is shown, with some characters around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

import msgspec

from ..io.sources import COMPRESSED
from ..store import Store
from .history import FileState

_MOST_BYTES = 1 << 18
"""Number of bytes of each version that are compared line by line, beginning with the first line that differs."""
_MOST_LINES = 400
_AROUND = 60
"""Characters that are shown before and after a difference within a line."""
_LONGEST = 600


class VersionDiff(msgspec.Struct, kw_only=True):
    """The difference between two versions of a file."""

    path: str
    line: int = 0
    """The first line that differs, counted from 1."""
    text: str = ""
    """A unified diff; empty if the file is compressed."""
    is_cut: bool = False
    """Whether there may be more differences than those that are shown."""


class _Window(msgspec.Struct):
    """Some lines of a version."""

    lines: list[str]
    is_cut: bool


def diff_versions(store: Store, before: FileState | None, after: FileState) -> VersionDiff:
    """Compare two versions of a file; `before` is None if there was no file."""
    path = after.path
    if path.endswith(COMPRESSED):
        return VersionDiff(path=path)
    start, line = _common(store, before, after)
    old, new = _window(store, before, start), _window(store, after, start)
    return VersionDiff(
        path=path, line=line + 1, text="".join(_hunks(old.lines, new.lines, line)), is_cut=old.is_cut or new.is_cut
    )


def _common(store: Store, before: FileState | None, after: FileState) -> tuple[int, int]:
    """Return the offset of the first line that differs, and the number of lines before it."""
    if before is None:
        return 0, 0
    start = lines = offset = 0
    for old, new in zip(_bytes(store, before), _bytes(store, after), strict=False):
        length = min(len(old), len(new))
        is_same = old[:length] == new[:length]
        end = length if is_same else _first_difference(old, new, length)
        found = old.rfind(b"\n", 0, end) + 1
        lines += old.count(b"\n", 0, end)
        start = offset + found if found else start
        offset += length
        if not is_same or len(old) != len(new):
            break
    return start, lines


def _first_difference(old: bytes, new: bytes, length: int) -> int:
    """Return the index of the first byte that differs, by binary search: comparing single bytes would be slow."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        if old[low : middle + 1] == new[low : middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


def _window(store: Store, state: FileState | None, start: int) -> _Window:
    """Return the lines of a version from an offset on."""
    data = bytearray()
    if state is not None and start < state.size:
        skip = start - store.files.chunk_start(state.id, start)
        for chunk in store.files.chunks(state.id, start):
            data += chunk[skip:]
            skip = 0
            if len(data) > _MOST_BYTES:
                break
        del data[state.size - start :]
    lines = bytes(data[:_MOST_BYTES]).decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return _Window(lines[:_MOST_LINES], len(data) > _MOST_BYTES or len(lines) > _MOST_LINES)


def _bytes(store: Store, state: FileState) -> Iterator[bytes]:
    left = state.size
    for chunk in store.files.chunks(state.id):
        yield chunk[:left]
        left -= len(chunk)
        if left <= 0:
            return


def _hunks(old: list[str], new: list[str], line: int) -> Iterator[str]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(1):
        _, first_old, _, first_new, _ = group[0]
        _, _, last_old, _, last_new = group[-1]
        sizes = f"-{line + first_old + 1},{last_old - first_old} +{line + first_new + 1},{last_new - first_new}"
        yield f"@@ {sizes} @@\n"
        for kind, from_old, to_old, from_new, to_new in group:
            if kind == "equal":
                yield from (f" {_shortened(text)}\n" for text in old[from_old:to_old])
            else:
                yield from _changed(old[from_old:to_old], new[from_new:to_new])


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    """Iterate over replaced lines, then over their replacements. They are compared in pairs, in order."""
    pairs = [_excerpts(before, after) for before, after in zip_longest(old, new)]
    yield from (f"-{before}\n" for before, _ in pairs if before is not None)
    yield from (f"+{after}\n" for _, after in pairs if after is not None)


def _excerpts(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    if before is None or after is None:
        return before and _shortened(before), after and _shortened(after)
    if max(len(before), len(after)) <= _LONGEST:
        return before, after
    length = min(len(before), len(after))
    first = next((index for index in range(length) if before[index] != after[index]), length)
    last = next(
        (index for index in range(1, length - first + 1) if before[-index] != after[-index]), length - first + 1
    )
    start = max(0, first - _AROUND)
    end = last - 1 - _AROUND
    return _cut(before, start, len(before) - end), _cut(after, start, len(after) - end)


def _cut(text: str, start: int, end: int) -> str:
    return ("..." if start else "") + _shortened(text[start:end]) + ("..." if end < len(text) else "")


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 100]}... ({len(text) - _LONGEST:,} more characters) ...{text[-100:]}"
