"""The beginning and the end of a long text: what comes last is as much in sight as what comes first."""

from __future__ import annotations

from typing import NamedTuple

_LINES = 24
_CHARACTERS = 2_400
"""At most this much is shown of a text, half of it from its end."""


class Excerpt(NamedTuple):
    """A text in three parts. Together they are the text; the middle is not shown at first."""

    head: str
    middle: str
    tail: str

    @property
    def hidden(self) -> str:
        """How much is not shown, in words; empty if all of it is."""
        if not self.middle:
            return ""
        return sizes(self.middle)

    @property
    def tail_line(self) -> int:
        """The number of the line in which the tail begins, counted from 1."""
        return self.head.count("\n") + self.middle.count("\n") + 1

    @property
    def middle_line(self) -> int:
        """The number of the line in which the middle begins."""
        return self.head.count("\n") + 1


def excerpt(text: str, lines: int = _LINES, characters: int = _CHARACTERS) -> Excerpt:
    """The first and the last lines of a text, and of lines without end their beginning and end."""
    if len(text) <= characters and text.count("\n") < lines:
        return Excerpt(text, "", "")
    head_end = _head_end(text, lines // 2, characters // 2)
    tail_start = max(head_end, _tail_start(text, lines // 2, characters // 2))
    return Excerpt(text[:head_end], text[head_end:tail_start], text[tail_start:])


def sizes(text: str) -> str:
    """How long a text is, in words."""
    lines = text.count("\n")
    characters = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
    return f"{characters} in {lines + 1:,} lines" if lines else characters


def split_end(text: str, lines: int, characters: int) -> tuple[str, str]:
    """A text without its last lines, and these."""
    start = _tail_start(text, lines, characters)
    return text[:start], text[start:]


def _head_end(text: str, lines: int, characters: int) -> int:
    """Where the first lines end, or as many characters if that is less."""
    end = 0
    for _ in range(lines):
        end = text.find("\n", end, characters) + 1
        if not end:
            return min(characters, len(text))
    return end


def _tail_start(text: str, lines: int, characters: int) -> int:
    """Where the last lines start, or as many characters from the end if that is less."""
    earliest = max(0, len(text) - characters)
    start = len(text.removesuffix("\n"))
    for _ in range(lines):
        start = text.rfind("\n", earliest, start)
        if start < 0:
            return earliest
    return start + 1
