"""Exact text as HTML. The text content of the elements is the shown text, which can be converted back to the input."""

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
    """Make every character of a text visible, and keep its line breaks."""
    return Markup("").join(map(_element, exact(text, prose=prose).segments))


def exact_rows(text: str, first: int | None = None, prose: bool = False) -> Markup:
    """Make every character of a text visible, with one element per line; `first` is the number of the first line.

    Long lines are wrapped, and the numbers show where a line really begins.
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
    """Return a text on one line. The middle of a long one is replaced with the number of omitted characters."""
    if len(text) <= width:
        return exact_inline(text.replace("\n", " ⏎ ") if "\n" in text else text)
    hidden = len(text) - width
    head, tail = (exact_title(part) for part in (text[: width - _TITLE_END], text[-_TITLE_END:]))
    return Markup('{} <i class="omitted">… {:,} characters …</i> {}').format(head, hidden, tail)


def json_text(text: str) -> str:
    """Encode a text as JSON for an attribute: HTML would change some control characters of the text itself."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def exact_json(raw: msgspec.Raw) -> str:
    """Format an input as indented JSON in which every character that could hide is escaped."""
    segments = exact(pretty(raw)).segments
    return "".join(each.source if each.kind in ("plain", "space") else _escaped(each.source) for each in segments)


def _escaped(text: str) -> str:
    if text.isspace() and text.isascii():
        return text  # A long run of spaces or line breaks.
    return "".join(json.dumps(each)[1:-1] if each > "\x7f" else f"\\u{ord(each):04x}" for each in text)


def _pieces(segment: Segment) -> Iterable[Segment]:
    """Split a segment after each of its line breaks."""
    return [segment._replace(shown=line) for line in lines_of(segment.shown)]


def _element(segment: Segment) -> Markup:
    if segment.kind == "plain":
        return Markup.escape(segment.shown)
    if segment.kind == "rtl":
        return Markup('<bdi title="{}">{}</bdi>').format(segment.note, segment.shown)
    return Markup('<span class="token {}" title="{}">{}</span>').format(segment.kind, segment.note, segment.shown)
