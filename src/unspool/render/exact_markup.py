"""Exact text as HTML. The text content of the elements is the shown text, from which the input can be read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import msgspec
from markupsafe import Markup

from ..core.proposed_actions import lines_of
from .exact import Segment, exact
from .sanitize import pretty

_SURROGATE = re.compile("[\ud800-\udfff]")
_TITLE_END = 30


def exact_inline(text: str, prose: bool = False) -> Markup:
    """A text with every character in sight; its line breaks are those of the text."""
    return Markup("").join(map(_element, exact(text, prose=prose).segments))


def exact_rows(text: str, first: int | None = None, prose: bool = False) -> Markup:
    """A text with every character in sight, one element a line; `first` is the number of its first line.

    Lines that are too long are wrapped, and their numbers show where a line really begins.
    """
    rows: list[list[Markup]] = [[]]
    for segment in exact(text, prose=prose).segments:
        for piece in _pieces(segment):
            rows[-1].append(_element(piece))
            if piece.shown.endswith("\n"):
                rows.append([])
    if not rows[-1]:
        rows.pop()
    numbers: Iterable[int | str] = range(first, first + len(rows)) if first is not None else [""] * len(rows)
    row = Markup('<span class="row" data-line="{}">{}</span>')
    return Markup("").join(
        row.format(number, Markup("").join(parts)) for number, parts in zip(numbers, rows, strict=True)
    )


def exact_title(text: str, width: int = 100) -> Markup:
    """A text on one line; of a long one the beginning and the end, and how much is between them."""
    if len(text) <= width:
        return exact_inline(text.replace("\n", " ⏎ ") if "\n" in text else text)
    hidden = len(text) - width
    head, tail = (exact_title(part) for part in (text[: width - _TITLE_END], text[-_TITLE_END:]))
    return Markup('{} <i class="omitted">… {:,} characters …</i> {}').format(head, hidden, tail)


def json_text(text: str) -> str:
    """A text as JSON, for an attribute of an element: as it is, HTML would change some of its control characters."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def exact_json(raw: msgspec.Raw) -> str:
    """An input as JSON over several lines, in which every character that could hide is escaped."""
    segments = exact(pretty(raw)).segments
    return "".join(each.source if each.kind in ("plain", "space") else _escaped(each.source) for each in segments)


def _escaped(text: str) -> str:
    if text.isspace() and text.isascii():
        return text  # A long run of blanks.
    return "".join(json.dumps(each)[1:-1] if each > "\x7f" else f"\\u{ord(each):04x}" for each in text)


def _pieces(segment: Segment) -> Iterable[Segment]:
    """A segment, cut after each of its line breaks."""
    return [segment._replace(shown=line) for line in lines_of(segment.shown)]


def _element(segment: Segment) -> Markup:
    if segment.kind == "plain":
        return Markup.escape(segment.shown)
    if segment.kind == "rtl":
        return Markup('<bdi title="{}">{}</bdi>').format(segment.note, segment.shown)
    return Markup('<span class="token {}" title="{}">{}</span>').format(segment.kind, segment.note, segment.shown)
