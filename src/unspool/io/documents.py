"""Splits logs that are a single JSON document instead of lines into the elements of their one long list.

The agents that write such documents indent them by two spaces, so every element of the list begins and ends on lines
of its own, and all complete elements of a torn document can be recovered. A document on one line is decoded whole.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from .decode import Damage, Location, decode_any, json_kind

_ELEMENT = b"\n    {"
_ELEMENT_END = b"\n    }"
_LIST_END = b"\n  ]"
_COMMA = ord(",")
_NEWLINE = re.compile(rb"\n")
_SCALAR = re.compile(rb'^  "(\w+)": ("(?:[^"\\]|\\.)*"|-?\d+|true|false|null),?$', re.MULTILINE)


class Element(NamedTuple):
    """One object of the list."""

    data: bytes
    location: Location


class Document(NamedTuple):
    """A document, split into its list and the rest."""

    head: dict[str, Any]
    """The other fields of the document."""
    elements: list[Element]
    damages: list[Damage]
    lines: int


class _Lines:
    """Counts lines up to increasing positions, so that every byte is only looked at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._number = 1

    def number(self, position: int) -> int:
        """The number of the line at a position."""
        # Many times faster than `count`, which looks at each byte.
        self._number += len(_NEWLINE.findall(self._data, self._position, position))
        self._position = position
        return self._number


def split_document(data: bytes, key: str) -> Document:
    """Split a document into the objects of its list `key` and the rest."""
    opening = re.search(rb'^  "' + key.encode() + rb'": \[', data, re.MULTILINE)
    if opening is None:
        return _whole(data, key)
    lines = _Lines(data)
    elements, damages, end = _elements(data, opening.end(), lines)
    outer = data[: opening.start()] + data[end:]
    head = {name.decode(): decode_any(value) for name, value in _SCALAR.findall(outer)}
    session = re.search(rb'^  "session": (\{.*?^  \})', data[: opening.start()], re.MULTILINE | re.DOTALL)
    if session is not None:
        head["session"] = decode_any(session[1])
    closing = re.compile(rb"^\}", re.MULTILINE).search(data, end)
    leftover = data[closing.end() :].strip() if closing is not None else b""
    if closing is None:
        damages.append(_damage(data, len(data), "torn", "the document ends before its closing brace"))
    elif leftover:
        detail = f"{len(leftover)} bytes after the end of the document"
        damages.append(_damage(data, closing.end(), "leftover", detail))
    return Document(head, elements, damages, lines.number(len(data)))


def _elements(data: bytes, start: int, lines: _Lines) -> tuple[list[Element], list[Damage], int]:
    found: list[Element] = []
    position = start
    while (begin := _find_element(data, position)) is not None:
        offset, stop = begin
        if data.find(_LIST_END, position, offset) >= 0:
            break
        if stop == offset + 1:
            stop = _find_end(data, stop)
        if stop < 0:
            location = Location(lines.number(offset), offset, len(data) - offset)
            return found, [Damage("torn", "an incomplete element", location, lost=True)], len(data)
        position = stop
        stop -= data[stop - 1] == _COMMA
        found.append(Element(data[offset:stop], Location(lines.number(offset), offset, stop - offset)))
    return found, [], position


# Documents are megabytes of indented lines: `find` searches them many times faster than a regular expression.


def _find_element(data: bytes, position: int) -> tuple[int, int] | None:
    """Return where the next element begins, and where its first line ends, which may contain all of it."""
    while (begin := data.find(_ELEMENT, position)) >= 0:
        rest = begin + len(_ELEMENT)
        stop = _line_end(data, rest)
        if stop == rest or data.endswith((b"}", b"},"), rest, stop):
            return rest - 1, stop
        position = rest
    return None


def _find_end(data: bytes, position: int) -> int:
    """Return where the last line of an element ends; -1 if it has no end."""
    while (begin := data.find(_ELEMENT_END, position)) >= 0:
        rest = begin + len(_ELEMENT_END)
        stop = _line_end(data, rest)
        if data[rest:stop] in (b"", b","):
            return stop
        position = rest
    return -1


def _line_end(data: bytes, position: int) -> int:
    end = data.find(b"\n", position)
    return end if end >= 0 else len(data)


def _whole(data: bytes, key: str) -> Document:
    """Decode a document with another layout. If it is damaged, nothing can be recovered."""
    lines = data.count(b"\n") + 1
    value = decode_any(data)
    if not isinstance(value, dict):
        return Document({}, [], [_damage(data, 0, "not-json", "neither a JSON document nor JSON lines")], lines)
    items = value.pop(key, None)
    location = Location(1, 0, len(data))
    listed = items if isinstance(items, list) else []
    elements = [Element(msgspec.json.encode(item), location) for item in listed if isinstance(item, dict)]
    damages = []
    if items is not None and not isinstance(items, list):
        damages.append(_damage(data, 0, "unknown-shape", f"{key}: {json_kind(items)} instead of an array"))
    if lost := len(listed) - len(elements):
        damages.append(_damage(data, 0, "not-a-record", f"{lost} of {len(listed)} elements of {key} are not objects"))
    return Document(value, elements, damages, lines)


def _damage(data: bytes, offset: int, reason: str, detail: str) -> Damage:
    return Damage(reason, detail, Location(data.count(b"\n", 0, offset) + 1, offset, len(data) - offset), lost=False)
