"""Converts terminal colours in program output to CSS classes; all other control sequences are removed.

All colours are mapped to sixteen, whose look is decided by the theme of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from markupsafe import Markup

from .sanitize import harmless

_MOST_CHANGES = 20_000
"""After this many colour changes, the rest is plain: hostile input must not produce a page fifty times its size."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_STEPS = (0, 95, 135, 175, 215, 255)
_BASIC = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255),
    (255, 255, 255),
)  # fmt: skip


class _AnsiStyle(NamedTuple):
    """The style of a run of text."""

    ink: int | None = None
    ground: int | None = None
    bold: bool = False
    italic: bool = False
    underlined: bool = False

    @property
    def classes(self) -> str:
        """The CSS classes for this style; empty for plain text."""
        parts = (
            f"ink-{self.ink}" if self.ink is not None else "",
            f"ground-{self.ground}" if self.ground is not None else "",
            "bold" if self.bold else "", "italic" if self.italic else "", "underlined" if self.underlined else "",
        )  # fmt: skip
        return " ".join(part for part in parts if part)


_PLAIN = _AnsiStyle()


def coloured(text: str) -> Markup:
    """Return the output of a program as escaped HTML, with its colours."""
    # Show every version of a line that the program has overwritten.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" not in text:
        return Markup.escape(harmless(text))
    pieces = []
    for look, run in _runs(text):
        escaped = Markup.escape(harmless(run))
        pieces.append(f'<span class="{look.classes}">{escaped}</span>' if escaped and look != _PLAIN else str(escaped))
    return Markup("".join(pieces))


def _runs(text: str) -> Iterator[tuple[_AnsiStyle, str]]:
    """Yield runs of text that have the same style."""
    look, begin, kept = _PLAIN, 0, ""
    for changes, found in enumerate(_SGR.finditer(text)):
        after = _changed(look, found[1]) if changes < _MOST_CHANGES else _PLAIN
        kept += text[begin : found.start()]
        begin = found.end()
        if after != look:
            yield look, kept
            look, kept = after, ""
        if changes >= _MOST_CHANGES:
            break
    yield look, kept + text[begin:]


def _changed(look: _AnsiStyle, codes: str) -> _AnsiStyle:
    numbers = _numbers(codes)
    for code in numbers:
        if code == 0:
            look = _PLAIN
        elif code in (1, 22):
            look = look._replace(bold=code == 1)
        elif code in (3, 23):
            look = look._replace(italic=code == 3)
        elif code in (4, 24):
            look = look._replace(underlined=code == 4)
        elif code in (38, 48):
            colour = _extended(numbers)
            look = look._replace(ink=colour) if code == 38 else look._replace(ground=colour)
        else:
            look = _basic(look, code)
    return look


def _basic(look: _AnsiStyle, code: int) -> _AnsiStyle:
    if code == 39:
        return look._replace(ink=None)
    if code == 49:
        return look._replace(ground=None)
    for first, shift in ((30, 0), (90, 8)):
        if first <= code < first + 8:
            return look._replace(ink=code - first + shift)
        if first + 10 <= code < first + 18:
            return look._replace(ground=code - first - 10 + shift)
    return look


def _numbers(codes: str) -> Iterator[int]:
    """Yield the numbers of a sequence; -1 for one that is too large to be valid."""
    # `38:2::1:2:3` has an empty field for the colour space.
    for code in re.split("[;:]", codes.replace("::", ":")):
        yield (int(code) if code else 0) if len(code) < 4 else -1


def _extended(numbers: Iterator[int]) -> int | None:
    form = next(numbers, None)
    if form == 5:
        return _nearest(_of_palette(next(numbers, -1)))
    if form == 2:
        red, green, blue = (next(numbers, -1) for _ in range(3))
        return _nearest((red, green, blue))
    return None


def _of_palette(number: int) -> tuple[int, int, int]:
    """Return a colour of the 256-colour palette."""
    if not 0 <= number < 256:
        return (-1, -1, -1)
    if number < 16:
        return _BASIC[number]
    if number < 232:
        number -= 16
        return _STEPS[number // 36], _STEPS[number // 6 % 6], _STEPS[number % 6]
    return (8 + (number - 232) * 10,) * 3


def _nearest(colour: tuple[int, int, int]) -> int | None:
    """Return the nearest of the sixteen colours; None if the values are not a colour."""
    if not all(0 <= part < 256 for part in colour):
        return None
    red, green, blue = (part // 8 * 8 for part in colour) if colour not in _BASIC else colour
    return _closest(red, green, blue)


@cache
def _closest(red: int, green: int, blue: int) -> int:
    distances = [(red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2 for r, g, b in _BASIC]
    return distances.index(min(distances))
