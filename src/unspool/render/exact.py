"""Shows text that a person decides on exactly: nothing is removed, and nothing can hide.

Every character that is invisible, changes how others are drawn, or looks like another one becomes a visible token such
as `⟨ESC⟩` or `⟨U+202E⟩`. `original` turns the shown text back into the input, whatever that was. Transcripts, which
nobody decides on, use `sanitize.harmless` instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

from .lookalikes import find_lookalikes

Kind = Literal["plain", "space", "control", "direction", "invisible", "lookalike", "unknown", "repeated", "rtl"]
"""`space` is ambiguous white space, such as a tab or trailing spaces; `rtl` are letters of right-to-left scripts."""

_OPEN, _CLOSE = "⟨", "⟩"
_SHORT_NAMES = {"\0": "NUL", "\b": "BS", "\r": "CR", "\x1b": "ESC", "\x7f": "DEL"}
_MARKS = {"\n": "¶", "\t": "›", " ": "·"}
"""Visible white space, in characters that every font has. Marks for line breaks and tabs are followed by a real one."""
_NAMED = {name: character for character, name in _SHORT_NAMES.items()}
_MARKED = {mark: character for character, mark in _MARKS.items()}
_RESERVED = frozenset((_OPEN, _CLOSE, *_MARKED))
"""Characters used in tokens. In the input they become tokens themselves, so that tokens cannot be forged."""
_TOKEN = re.compile(
    rf"{_OPEN}(?:U\+(10[0-9A-F]{{4}}|[0-9A-F]{{4,5}})(?:×([0-9]{{1,9}}))?|({'|'.join(_NAMED)})){_CLOSE}(\n?)"
    rf"|([{''.join(_MARKED)}])([\n\t]?)"
)
_ORDINARY = (
    " -~\n\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u0482\u048a-\u052f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
    "\uac00-\ud7a3"
)
"""Characters that are shown unchanged unless they look like another one. Most texts have no others."""
_NOTABLE = re.compile(rf"(?P<breaks>\n{{7,}}|\A\n+|\n+\Z)|(?P<blanks> +(?=\n|\Z)| {{17,}})|(?P<others>[^{_ORDINARY}]+)")
"""Matches everything that may not be shown unchanged."""
_OTHER = re.compile(rf"[^{_ORDINARY}]")
_LONG_SPACE = 16
_LONG_INDENT = 80
_LONG_BREAK = 6
"""Longer runs of white space could move the rest of the text out of view."""
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
"""Invisible characters whose Unicode category does not say so."""
_MOST_MARKS = 2
"""Maximum number of combining marks on one letter; more of them could cover the text around it."""
_CONTROL_NAMES = {
    "\0": "NULL", "\a": "BELL", "\b": "BACKSPACE", "\v": "LINE TABULATION", "\f": "FORM FEED", "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE", "\x7f": "DELETE", "\x85": "NEXT LINE", "\x90": "DEVICE CONTROL STRING", "\x9b": "CSI",
    "\x9d": "OPERATING SYSTEM COMMAND", "\n": "LINE FEED",
}  # fmt: skip
_TITLES: dict[Kind, tuple[str, str]] = {
    "control": ("control character", "control characters"),
    "direction": ("character that changes the direction of text", "characters that change the direction of text"),
    "invisible": ("invisible character", "invisible characters"),
    "lookalike": ("character that looks like another one", "characters that look like others"),
    "unknown": ("character without a known shape", "characters without a known shape"),
    "repeated": ("long run of white space", "long runs of white space"),
    "rtl": ("word that is read from right to left", "words that are read from right to left"),
}
_MOST_NAMED = 6

_kind = attrgetter("kind")


class Segment(NamedTuple):
    """A part of the input, and how it is shown."""

    kind: Kind
    shown: str
    source: str
    note: str = ""
    """A description; empty for text that is shown unchanged."""


class Finding(NamedTuple):
    """Something unexpected in a text that a reader should know before deciding on it."""

    kind: Kind
    times: int
    characters: tuple[str, ...]
    """The distinct characters, by name."""

    @property
    def text(self) -> str:
        """A description of the finding."""
        one, many = _TITLES[self.kind]
        named = ", ".join(self.characters[:_MOST_NAMED])
        more = f" and {len(self.characters) - _MOST_NAMED} others" if len(self.characters) > _MOST_NAMED else ""
        return f"{self.times:,} {one if self.times == 1 else many}: {named}{more}"


class Exact(NamedTuple):
    """A text as it is shown, in segments."""

    segments: list[Segment]

    @property
    def shown(self) -> str:
        """The shown text."""
        return "".join(segment.shown for segment in self.segments)

    @property
    def findings(self) -> list[Finding]:
        """Unexpected characters in the text, by kind."""
        found = [segment for segment in self.segments if segment.kind in _TITLES]
        counts = Counter(segment.kind for segment in found)
        return [
            Finding(kind, counts[kind], tuple(dict.fromkeys(each.note for each in found if each.kind == kind)))
            for kind in _TITLES
            if kind in counts
        ]


def exact(text: str, *, prose: bool = False) -> Exact:
    """Make every character of a text visible. In `prose`, typographic quotes and dashes are shown unchanged."""
    segments: list[Segment] = []
    end = 0
    for start, segment in sorted(_Scanner(text, prose).notable()):
        if start > end:
            segments.append(Segment("plain", text[end:start], text[end:start]))
        end = start + len(segment.source)
        segments.append(segment)
    if end < len(text):
        segments.append(Segment("plain", text[end:], text[end:]))
    return Exact(list(_with_whole_words(segments)))


def _with_whole_words(segments: list[Segment]) -> Iterator[Segment]:
    """Yield segments, with the letters and marks of a right-to-left word as one."""
    for kind, group in groupby(segments, _kind):
        if kind == "rtl":
            yield _rtl("".join(segment.source for segment in group))
        else:
            yield from group


def exact_text(text: str, *, prose: bool = False) -> str:
    """Make every character of a text visible, and return it as plain text."""
    return exact(text, prose=prose).shown


def exact_line(text: str) -> str:
    """Make every character of a text visible, and return it on one line."""
    mark = _MARKS["\n"]
    return without_tabs(exact_text(text)).replace(f"{mark}\n", mark).replace("\n", mark)


def without_tabs(shown: str) -> str:
    """Remove real tabs from a shown text, but not their marks: the width of a tab depends on the terminal."""
    return shown.replace("\t", "")


def findings_in(*texts: str, prose: bool = False) -> list[Finding]:
    """Return the unexpected characters in several texts together."""
    return Exact([segment for text in texts for segment in exact(text, prose=prose).segments]).findings


def original(shown: str) -> str:
    """Return the input that is shown as this text."""
    return _TOKEN.sub(_source_of, shown)


def _source_of(found: re.Match[str]) -> str:
    code, times, name, line_break, mark, layout = found.groups(default="")
    character = _MARKED[mark] if mark else _NAMED[name] if name else chr(int(code, 16))
    # The mark of a line break or tab is followed by a real one, which is only there for layout.
    after = layout or line_break
    return character * int(times or 1) + (after if after != character else "")


class _Scanner:
    """Finds the parts of a text that are not shown unchanged."""

    def __init__(self, text: str, prose: bool) -> None:
        self._text = text
        self._twins = dict(find_lookalikes(text, prose=prose))
        self._marks = (-1, 0)
        """The index of the last combining mark, and the number of marks on its letter."""
        self._rtl_end = -1

    def notable(self) -> Iterator[tuple[int, Segment]]:
        """Yield the segments that are not plain, each with its index."""
        for index, twin in self._twins.items():
            if not _OTHER.match(self._text, index):
                yield index, _token("lookalike", self._text[index], twin)
        for found in _NOTABLE.finditer(self._text):
            start, chunk = found.start(), found[0]
            if found.lastgroup == "others":
                yield from self._others(chunk, start)
                continue
            if found.lastgroup == "breaks":
                segment = _breaks(chunk)
            else:
                starts_line = start == 0 or self._text[start - 1] == "\n"
                ends_line = found.end() == len(self._text) or self._text[found.end()] == "\n"
                segment = _blanks(chunk, starts_line=starts_line, ends_line=ends_line)
            if segment.kind != "plain":
                yield start, segment

    def _others(self, run: str, start: int) -> Iterator[tuple[int, Segment]]:
        """Yield the segments of characters that are not in `_ORDINARY`."""
        for kind, group in groupby(map(_kind_of, run)):
            end = start + len(list(group))
            if kind in ("plain", "rtl"):
                yield from self._letters(kind, start, end)
            elif kind == "mark":
                yield from self._combining(start, end)
            else:
                for index in range(start, end):
                    yield index, _token(kind, self._text[index], self._twins.get(index, ""))
            start = end

    def _letters(self, kind: Kind, start: int, end: int) -> Iterator[tuple[int, Segment]]:
        """Yield the lookalikes in a run of letters and symbols, and the letters of right-to-left scripts."""
        twins = [index for index in range(start, end) if index in self._twins] if self._twins else []
        for index in (*twins, end):
            if kind == "rtl" and index > start:
                self._rtl_end = index
                yield start, _rtl(self._text[start:index])
            if index < end:
                yield index, _token("lookalike", self._text[index], self._twins[index])
            start = index + 1

    def _combining(self, start: int, end: int) -> Iterator[tuple[int, Segment]]:
        """Yield the combining marks that hide something, look like something else or belong to a right-to-left word."""
        for index in range(start, end):
            character = self._text[index]
            last, before = self._marks
            self._marks = (index, before + 1 if last == index - 1 else 1)
            if self._hides(index):
                yield index, _token("invisible", character, self._twins.get(index, ""))
            elif index in self._twins:
                yield index, _token("lookalike", character, self._twins[index])
            elif self._rtl_end == index:
                self._rtl_end = index + 1
                yield index, _rtl(character)

    def _hides(self, index: int) -> bool:
        """Whether a combining mark is not on a letter, or is one of too many."""
        if self._marks[1] > _MOST_MARKS or index == 0:
            return True
        return unicodedata.category(self._text[index - 1])[0] not in "LM"


@lru_cache(8192)
def _kind_of(character: str) -> Kind | Literal["mark"]:
    """Return the kind of a character. That of a combining mark depends on the text before it, so it is only `mark`."""
    category = unicodedata.category(character)
    if character == "\t":
        return "space"
    if character in _RESERVED:
        return "lookalike"
    if category == "Cc":
        return "control"
    if _DIRECTION.match(character):
        return "direction"
    if category in ("Cf", "Zl", "Zp", "Zs", "Me") or _IGNORABLE.match(character):
        return "invisible"
    if category in ("Cs", "Co", "Cn"):
        return "unknown"
    if category == "Mn":
        return "mark"
    return "rtl" if unicodedata.bidirectional(character) in ("R", "AL") else "plain"


def _breaks(run: str) -> Segment:
    """Return the segment of many line breaks, or of those at either end of the text."""
    if len(run) > _LONG_BREAK:
        return _repeated(run, "\n")
    return Segment("space", f"{_MARKS[run[0]]}\n" * len(run), run, "line break")


def _blanks(run: str, *, starts_line: bool, ends_line: bool) -> Segment:
    if len(run) > (_LONG_INDENT if starts_line and not ends_line else _LONG_SPACE):
        return _repeated(run)
    return Segment("space", _MARKS[" "] * len(run), run, "space") if ends_line else Segment("plain", run, run)


def _repeated(run: str, layout: str = "") -> Segment:
    shown = f"{_OPEN}{_code(run[0])}×{len(run)}{_CLOSE}{layout}"
    return Segment("repeated", shown, run, f"{len(run):,} × {_name(run[0])}")


def _rtl(letters: str) -> Segment:
    return Segment("rtl", letters, letters, "right-to-left script")


@lru_cache(4096)
def _token(kind: Kind, character: str, twin: str) -> Segment:
    if kind == "space":
        return Segment("space", _MARKS["\t"] + "\t", character, "tab")
    shown = f"{_OPEN}{_SHORT_NAMES.get(character) or _code(character)}{_CLOSE}"
    note = _name(character) + (f" (looks like {twin})" if twin else "")
    return Segment(kind, shown, character, note)


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _name(character: str) -> str:
    name = _CONTROL_NAMES.get(character) or unicodedata.name(character, "")
    return f"{_code(character)} {name}".rstrip()
