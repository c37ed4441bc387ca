"""Shows the beginning and the end of a long text, so that the end is as visible as the beginning."""

from __future__ import annotations

from typing import NamedTuple

_LINES = 24
_CHARACTERS = 2_400
"""At most this much of a text is shown, half of it from its end."""


class Excerpt(NamedTuple):
    """A text in three parts. Together they are the text; the middle is not shown at first."""

    head: str
    middle: str
    tail: str

    @property
    def hidden(self) -> str:
        """The size of the middle, such as `300 characters`; empty if nothing is hidden."""
        if not self.middle:
            return ""
        return sizes(self.middle)

    @property
    def tail_line(self) -> int:
        """The number of the line in which the tail begins, starting from 1."""
        return self.head.count("\n") + self.middle.count("\n") + 1

    @property
    def middle_line(self) -> int:
        """The number of the line in which the middle begins, starting from 1."""
        return self.head.count("\n") + 1


def excerpt(text: str, lines: int = _LINES, characters: int = _CHARACTERS) -> Excerpt:
    """Split a text into its first lines, its middle and its last lines. Very long lines are split by characters."""
    if len(text) <= characters and text.count("\n") < lines:
        return Excerpt(text, "", "")
    head_end = _head_end(text, lines // 2, characters // 2)
    tail_start = max(head_end, _tail_start(text, lines // 2, characters // 2))
    return Excerpt(text[:head_end], text[head_end:tail_start], text[tail_start:])


def sizes(text: str) -> str:
    """Describe the size of a text, such as `1,200 characters in 30 lines`."""
    lines = text.count("\n")
    characters = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
    return f"{characters} in {lines + 1:,} lines" if lines else characters


def split_end(text: str, lines: int, characters: int) -> tuple[str, str]:
    """Split a text into the part before its last lines, and its last lines."""
    start = _tail_start(text, lines, characters)
    return text[:start], text[start:]


def _head_end(text: str, lines: int, characters: int) -> int:
    """Return the end of the first `lines` lines, but at most `characters`."""
    end = 0
    for _ in range(lines):
        end = text.find("\n", end, characters) + 1
        if not end:
            return min(characters, len(text))
    return end


def _tail_start(text: str, lines: int, characters: int) -> int:
    """Return the start of the last `lines` lines, but at most `characters` before the end."""
    earliest = max(0, len(text) - characters)
    start = len(text.removesuffix("\n"))
    for _ in range(lines):
        start = text.rfind("\n", earliest, start)
        if start < 0:
            return earliest
    return start + 1
