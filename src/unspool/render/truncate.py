"""Truncates long texts for display."""

from __future__ import annotations

from typing import NamedTuple

_LINES = 40
_LONGEST_LINE = 8_192
_LONGEST = 65_536


class Cut(NamedTuple):
    """The part of a text that is shown at first."""

    text: str
    lines: int
    """Of the whole text."""
    length: int
    """Of the whole text, in characters."""
    is_cut: bool

    @property
    def whole(self) -> str:
        """The size of the whole text, such as `300 lines`."""
        if self.lines > 1:
            return f"{self.lines:,} lines"
        return f"{self.length:,} characters"


def cut(text: str, lines: int = _LINES) -> Cut:
    """Truncate a text to its first lines, and very long lines to their beginnings."""
    text = text.rstrip("\n")
    count = text.count("\n") + 1
    head = text[: lines * _LONGEST_LINE * 2] if count > lines or len(text) > _LONGEST_LINE else text
    shown, room = [], _LONGEST
    for line in head.split("\n", lines)[:lines]:
        most = min(_LONGEST_LINE, room)
        shown.append(line if len(line) <= most else line[:most] + "…")
        room -= len(line)
        if room <= 0:
            break
    kept = "\n".join(shown)
    return Cut(kept, count, len(text), kept != text)


def cut_prose(text: str, most: int = 24_000) -> Cut:
    """Truncate a very long text, at the end of a paragraph if possible."""
    count = text.count("\n") + 1
    if len(text) <= most:
        return Cut(text, count, len(text), False)
    end = text.rfind("\n\n", most // 2, most)
    return Cut(text[: end if end > 0 else most], count, len(text), True)
