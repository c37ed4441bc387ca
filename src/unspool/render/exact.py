"""Text that a person decides on, shown exactly: nothing is removed, and nothing can hide.

Every character that is invisible, changes how others are drawn, or passes for another one becomes a visible token such
as `⟨ESC⟩` or `⟨U+202E⟩`. `original` turns the shown text back into the input, whatever that was. Transcripts, which
nobody decides on, use `sanitize.harmless` instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from .lookalikes import find_lookalikes

Kind = Literal["plain", "space", "control", "direction", "invisible", "lookalike", "unknown", "repeated", "rtl"]
"""`space` is white space that would be ambiguous; `rtl` are letters that are read from right to left."""

_OPEN, _CLOSE = "⟨", "⟩"
_SHORT_NAMES = {"\0": "NUL", "\b": "BS", "\r": "CR", "\x1b": "ESC", "\x7f": "DEL"}
_MARKS = {"\n": "¶", "\t": "›", " ": "·"}
"""Visible white space, in characters that every font has; those of line breaks and tabs are followed by a real one."""
_NAMED = {name: character for character, name in _SHORT_NAMES.items()}
_MARKED = {mark: character for character, mark in _MARKS.items()}
_RESERVED = frozenset((_OPEN, _CLOSE, *_MARKED))
"""Characters that tokens are made of. In the input they become tokens themselves, so that a token is never forged."""
_TOKEN = re.compile(
    rf"{_OPEN}(?:U\+(10[0-9A-F]{{4}}|[0-9A-F]{{4,5}})(?:×([0-9]{{1,9}}))?|({'|'.join(_NAMED)})){_CLOSE}(\n?)"
    rf"|([{''.join(_MARKED)}])([\n\t]?)"
)
_CHUNK = re.compile(r"(?P<plain>[!-~]+)|(?P<breaks>\n+)|(?P<blanks> +)|(?P<other>.)", re.DOTALL)
_LONG_SPACE = 16
_LONG_INDENT = 80
_LONG_BREAK = 6
"""Runs of white space that are longer than this could move the rest out of sight."""
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
"""Characters that draw nothing although their category does not say so."""
_MOST_MARKS = 2
"""Accents on one letter; more of them cover what is around."""
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


class Segment(NamedTuple):
    """A stretch of the input, and how it is shown."""

    kind: Kind
    shown: str
    source: str
    note: str = ""
    """What it is; empty for text that is shown as it is."""


class Finding(NamedTuple):
    """What a reader should know about a text before deciding on it."""

    kind: Kind
    times: int
    characters: tuple[str, ...]
    """The different ones, by name."""

    @property
    def text(self) -> str:
        """The finding in words."""
        one, many = _TITLES[self.kind]
        named = ", ".join(self.characters[:_MOST_NAMED])
        more = f" and {len(self.characters) - _MOST_NAMED} others" if len(self.characters) > _MOST_NAMED else ""
        return f"{self.times:,} {one if self.times == 1 else many}: {named}{more}"


class Exact(NamedTuple):
    """A text as it is shown, in segments."""

    segments: list[Segment]

    @property
    def shown(self) -> str:
        """What is shown, as one text."""
        return "".join(segment.shown for segment in self.segments)

    @property
    def findings(self) -> list[Finding]:
        """What the text contains that a reader would not expect, by kind."""
        found = [segment for segment in self.segments if segment.kind in _TITLES]
        counts = Counter(segment.kind for segment in found)
        return [
            Finding(kind, counts[kind], tuple(dict.fromkeys(each.note for each in found if each.kind == kind)))
            for kind in _TITLES
            if kind in counts
        ]


def exact(text: str, *, prose: bool = False) -> Exact:
    """A text with every character in sight. In `prose`, typographic quotes and dashes are shown as they are."""
    segments: list[Segment] = []
    for segment in _Scanner(text, prose).segments():
        last = segments[-1] if segments else None
        if last is not None and last.kind == segment.kind and segment.kind in ("plain", "rtl"):
            segments[-1] = last._replace(shown=last.shown + segment.shown, source=last.source + segment.source)
        else:
            segments.append(segment)
    return Exact(segments)


def exact_text(text: str, *, prose: bool = False) -> str:
    """A text with every character in sight, as plain text."""
    return exact(text, prose=prose).shown


def exact_line(text: str) -> str:
    """A text with every character in sight, on one line."""
    mark = _MARKS["\n"]
    return without_tabs(exact_text(text)).replace(f"{mark}\n", mark).replace("\n", mark)


def without_tabs(shown: str) -> str:
    """A shown text with visible tabs only: how far a real one moves depends on the terminal."""
    return shown.replace("\t", "")


def findings_in(*texts: str, prose: bool = False) -> list[Finding]:
    """What several texts together contain that a reader would not expect."""
    return Exact([segment for text in texts for segment in exact(text, prose=prose).segments]).findings


def original(shown: str) -> str:
    """The input that is shown as this text."""
    return _TOKEN.sub(_source_of, shown)


def _source_of(found: re.Match[str]) -> str:
    code, times, name, line_break, mark, layout = found.groups(default="")
    character = _MARKED[mark] if mark else _NAMED[name] if name else chr(int(code, 16))
    # A visible line break or tab is followed by a real one, which only lays the text out.
    after = layout or line_break
    return character * int(times or 1) + (after if after != character else "")


class _Scanner:
    """Splits one text into segments."""

    def __init__(self, text: str, prose: bool) -> None:
        self._text = text
        self._twins = dict(find_lookalikes(text, prose=prose))
        self._marks = 0
        self._is_rtl = False

    def segments(self) -> Iterator[Segment]:
        """The segments in order; together their sources are the text."""
        for found in _CHUNK.finditer(self._text):
            chunk = found[0]
            if found.lastgroup == "other":
                yield self._other(chunk, found.start())
                continue
            self._marks, self._is_rtl = 0, False
            if found.lastgroup == "plain":
                yield Segment("plain", chunk, chunk)
            elif found.lastgroup == "breaks":
                is_edge = found.start() == 0 or found.end() == len(self._text)
                yield _breaks(chunk, is_edge=is_edge)
            else:
                starts_line = found.start() == 0 or self._text[found.start() - 1] == "\n"
                ends_line = found.end() == len(self._text) or self._text[found.end()] == "\n"
                yield _blanks(chunk, starts_line=starts_line, ends_line=ends_line)

    def _other(self, character: str, index: int) -> Segment:
        """A character that is neither printable ASCII nor a blank."""
        if character == "\t":
            self._marks, self._is_rtl = 0, False
            return Segment("space", _MARKS["\t"] + "\t", character, "tab")
        category = unicodedata.category(character)
        self._marks = self._marks + 1 if category == "Mn" else 0
        kind = self._kind(character, category, index)
        if kind == "rtl" or (kind == "plain" and category == "Mn" and self._is_rtl):
            self._is_rtl = True
            return Segment("rtl", character, character, "right-to-left script")
        self._is_rtl = False
        if kind == "plain":
            return Segment(kind, character, character)
        return _token(kind, character, self._twins.get(index, ""))

    def _kind(self, character: str, category: str, index: int) -> Kind:
        if character in _RESERVED:
            return "lookalike"
        if category == "Cc":
            return "control"
        if _DIRECTION.match(character):
            return "direction"
        if category in ("Cf", "Zl", "Zp", "Zs", "Me") or _IGNORABLE.match(character) or self._hides(index):
            return "invisible"
        if category in ("Cs", "Co", "Cn"):
            return "unknown"
        if index in self._twins:
            return "lookalike"
        return "rtl" if unicodedata.bidirectional(character) in ("R", "AL") else "plain"

    def _hides(self, index: int) -> bool:
        """Whether an accent is on nothing, or one of too many."""
        if not self._marks:
            return False
        return self._marks > _MOST_MARKS or index == 0 or unicodedata.category(self._text[index - 1])[0] not in "LM"


def _breaks(run: str, *, is_edge: bool) -> Segment:
    if len(run) > _LONG_BREAK:
        return _repeated(run, "\n")
    return (
        Segment("space", f"{_MARKS[run[0]]}\n" * len(run), run, "line break") if is_edge else Segment("plain", run, run)
    )


def _blanks(run: str, *, starts_line: bool, ends_line: bool) -> Segment:
    if len(run) > (_LONG_INDENT if starts_line and not ends_line else _LONG_SPACE):
        return _repeated(run)
    return Segment("space", _MARKS[" "] * len(run), run, "space") if ends_line else Segment("plain", run, run)


def _repeated(run: str, layout: str = "") -> Segment:
    shown = f"{_OPEN}{_code(run[0])}×{len(run)}{_CLOSE}{layout}"
    return Segment("repeated", shown, run, f"{len(run):,} × {_name(run[0])}")


def _token(kind: Kind, character: str, twin: str) -> Segment:
    shown = f"{_OPEN}{_SHORT_NAMES.get(character) or _code(character)}{_CLOSE}"
    note = _name(character) + (f" (looks like {twin})" if twin else "")
    return Segment(kind, shown, character, note)


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _name(character: str) -> str:
    name = _CONTROL_NAMES.get(character) or unicodedata.name(character, "")
    return f"{_code(character)} {name}".rstrip()
