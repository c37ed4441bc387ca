"""The beginning of a long text, and how much of it there is."""

from __future__ import annotations

from typing import NamedTuple

_LINES = 40
_LONGEST_LINE = 8_192
_LONGEST = 65_536


class Cut(NamedTuple):
    """What is shown of a text at first."""

    text: str
    lines: int
    """Of the whole text."""
    length: int
    """Of the whole text, in characters."""
    is_cut: bool

    @property
    def whole(self) -> str:
        """How much there is, in words."""
        if self.lines > 1:
            return f"{self.lines:,} lines"
        return f"{self.length:,} characters"


def cut(text: str, lines: int = _LINES) -> Cut:
    """The first lines of a text, and of lines without end their beginnings."""
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
    """The first paragraphs of a very long text."""
    count = text.count("\n") + 1
    if len(text) <= most:
        return Cut(text, count, len(text), False)
    end = text.rfind("\n\n", most // 2, most)
    return Cut(text[: end if end > 0 else most], count, len(text), True)
