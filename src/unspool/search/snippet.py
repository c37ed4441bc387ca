"""Snippets of hits: one line of the text, around the part with the most words of the query."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from .query import Node, Words, sought
from .tokenizer import divide, fold_ascii, word_pattern

NARROWEST = 20
_PIECE = 1 << 20
"""Long texts are searched in pieces of this size, until enough is found."""
_OVERLAP = 1 << 12
"""How much of the next piece is searched with each; a longer phrase may be missed at the boundary."""
_MOST_MATCHES = 200
_MOST_TRIES = 300_000
"""For each search. The letters of a short word such as `a` occur nearly everywhere, but are rarely a word."""
_AROUND = (2, 8)
"""How much text before and after a match is considered, in widths: the larger number if so much whitespace is collapsed
that the smaller is not enough."""
_ALSO_ASCII = "\u017f\u212a"
"""The long s and the Kelvin sign: the only characters outside ASCII that fold to ASCII letters."""
_NOISE = re.compile(
    r"(?P<nothing>\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069])"
    r"|(?P<unknown>[\ud800-\udfff])"
    r"|[\s\x00-\x1f\x7f-\x9f]+"
)
"""Escape sequences, bidirectional marks, unpaired surrogates, whitespace, control characters."""


class Snippet(msgspec.Struct, frozen=True):
    """Part of a text on one line, and the positions of the matched words in it."""

    text: str
    marks: list[tuple[int, int]] = []


class _Match(NamedTuple):
    """An occurrence of the words of a query."""

    start: int
    end: int
    which: Words
    words: tuple[tuple[int, int], ...]
    """The start and end of each word."""


def snippet(text: str, node: Node | None, width: int = 160) -> Snippet:
    """Return the part of a text that best shows why it matches, in at most `width` characters (at least 20).

    Without a match, or without a query, the beginning of the text.
    """
    width = max(width, NARROWEST)
    matches = _find(text, sought(node)) if node is not None else []
    cluster = _densest(matches, width)
    start, end = (cluster[0].start, cluster[-1].end) if cluster else (0, 0)
    first, last, line = _around(text, start, end, width)
    marks = [line.moved(max(a, first) - first, b - first) for match in matches for a, b in match.words if b > first]
    middle = line.moved(start - first, end - first)
    return _cut(line.text, _merged(marks), middle, width, (first > 0, last < len(text)))


def _around(text: str, start: int, end: int, width: int) -> tuple[int, int, _Line]:
    """Return where the text around a range begins and ends, and the line that it becomes."""
    for widths in _AROUND:
        first, last = max(0, start - widths * width), min(len(text), start + widths * width)
        line = _Line(text[first:last])
        before, after = line.moved(start - first, end - first)
        if (first == 0 or before >= width) and (last == len(text) or len(line.text) - after >= width):
            break
    return first, last, line


# --- finding ---


class _Search:
    """Searches for some words in the pieces of a text."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.found: list[_Match] = []
        self._tries = _MOST_TRIES

    @property
    def is_done(self) -> bool:
        """Whether enough was found or tried."""
        return len(self.found) >= _MOST_MATCHES or self._tries <= 0

    def search(self, divided: str, start: int, end: int, offset: int) -> None:
        """Find the matches that begin in a range. `offset` is the position of the piece in the text."""
        first = self.words.words[0]
        at = divided.find(first, start, end + len(first) - 1)
        while at >= 0 and not self.is_done:
            self._tries -= 1
            if spans := self._at(divided, at):
                moved = tuple((a + offset, b + offset) for a, b in spans)
                self.found.append(_Match(moved[0][0], moved[-1][1], self.words, moved))
            at = divided.find(first, at + 1, end + len(first) - 1)

    def _at(self, divided: str, at: int) -> list[tuple[int, int]]:
        """Return the positions of all words if they match here, else an empty list."""
        if at and word_pattern().fullmatch("x" + divided[at - 1]):
            return []
        spans: list[tuple[int, int]] = []
        found = word_pattern().match(divided, at)
        last = len(self.words.words) - 1
        for number, word in enumerate(self.words.words):
            if found is None or not (
                found[0].startswith(word) if self.words.prefix and number == last else found[0] == word
            ):
                return []
            spans.append(found.span())
            found = word_pattern().search(divided, found.end()) if number < last else None
        return spans


def _find(text: str, sought_for: Iterable[Words]) -> list[_Match]:
    """Find the first matches of each of the words."""
    searches = [_Search(words) for words in dict.fromkeys(sought_for)]
    for base in range(0, len(text), _PIECE):
        unfinished = [search for search in searches if not search.is_done]
        if not unfinished:
            break
        before = 1 if base else 0  # the character before shows whether a word begins
        piece = text[base - before : base + _PIECE + _OVERLAP]
        if promising := _sieve(piece, unfinished):
            divided = divide(piece)
            for search in promising:
                search.search(divided, before, before + _PIECE, base - before)
    return sorted((match for search in searches for match in search.found), key=lambda match: match[:2])


def _sieve(piece: str, searches: list[_Search]) -> list[_Search]:
    """Return the searches that may succeed at all: a cheap test that avoids folding most long texts."""
    if piece.isascii() or any(sign in piece for sign in _ALSO_ASCII):
        return searches
    rough = fold_ascii(piece)
    firsts = ((search, search.words.words[0]) for search in searches)
    return [search for search, first in firsts if first in rough or not first.isascii()]


def _densest(matches: list[_Match], width: int) -> list[_Match]:
    """Return the first group of matches within the width that has the most words, and the most matches."""
    best: tuple[int, int] = (0, 0)
    chosen = (0, 0)
    inside: Counter[Words] = Counter()
    first = 0
    for last, match in enumerate(matches):
        inside[match.which] += 1
        while first < last and match.end - matches[first].start > width - 2:
            inside[matches[first].which] -= 1
            first += 1
        score = (sum(count > 0 for count in inside.values()), last - first)
        if score > best:
            best, chosen = score, (first, last + 1)
    return matches[chosen[0] : chosen[1]] if best > (0, 0) else []


# --- showing ---


class _Line:
    """A text on one line without terminal control sequences, and a mapping of positions."""

    def __init__(self, raw: str) -> None:
        self._starts: list[int] = []
        self._ends: list[tuple[int, int]] = []
        pieces: list[str] = []
        length = at = 0
        has_space = True
        for noise in _NOISE.finditer(raw):
            if noise.start() > at:
                pieces.append(raw[at : noise.start()])
                length += noise.start() - at
                has_space = False
            at = noise.end()
            replacement = _replacement(noise, has_space)
            pieces.append(replacement)
            length += len(replacement)
            has_space = replacement == " " or (has_space and not replacement)
            self._starts.append(noise.start())
            self._ends.append((at, length))
        pieces.append(raw[at:])
        self.text = "".join(pieces).rstrip()

    def moved(self, start: int, end: int) -> tuple[int, int]:
        """Return the new position of a range of the text."""
        return self._moved(start), self._moved(end)

    def _moved(self, position: int) -> int:
        number = bisect_right(self._starts, position - 1) - 1
        if number >= 0:
            end, new_end = self._ends[number]
            position = new_end + max(0, position - end)
        return min(position, len(self.text))


def _replacement(noise: re.Match[str], has_space: bool) -> str:
    if noise["unknown"]:
        return "\ufffd"
    return "" if noise["nothing"] or has_space else " "


def _merged(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort marks, drop empty ones and merge overlapping ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def _cut(
    text: str, marks: list[tuple[int, int]], middle: tuple[int, int], width: int, has_more: tuple[bool, bool]
) -> Snippet:
    """Cut the text around the middle to the width, between words, with an ellipsis where text is left out."""
    start, end = 0, len(text)
    if end + sum(has_more) > width:
        room = width - 2
        lead = max(0, room - (middle[1] - middle[0])) // 2
        start = max(0, min(middle[0] - lead, end - room))
        end = min(end, start + room)
    is_cut = start > 0 or has_more[0], end < len(text) or has_more[1]
    if is_cut[0]:
        start = _word_start(text, start, middle[0])
    if is_cut[1]:
        end = _word_end(text, end, max(middle[1], start + (end - start) // 2))
    before = "…" * is_cut[0]
    shift = len(before) - start
    kept = [(max(a, start) + shift, min(b, end) + shift) for a, b in marks if a < end and b > start]
    return Snippet(before + text[start:end] + "…" * is_cut[1], kept)


def _word_start(text: str, start: int, limit: int) -> int:
    """Return the next beginning of a word, if there is one before the limit."""
    space = text.find(" ", max(0, start - 1), limit)
    return space + 1 if space >= 0 else start


def _word_end(text: str, end: int, limit: int) -> int:
    """Return the previous end of a word, if there is one after the limit."""
    space = text.rfind(" ", limit, end + 1)
    return space if space >= 0 else end
