"""Logs that are one JSON document instead of lines: splits its one long list into elements.

The agents that write such documents indent them by two spaces, so every element of the list begins and ends on lines
of its own, and all complete elements of a torn document can be recovered. A document on one line is decoded whole.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from .decode import Damage, Location, decode_any, json_kind

_ELEMENT = re.compile(rb"^    \{(?:$|.*\},?$)", re.MULTILINE)
_ELEMENT_END = re.compile(rb"^    \},?$", re.MULTILINE)
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


def take_apart(data: bytes, key: str) -> Document:
    """Split a document into the objects of its list `key` and the rest."""
    opening = re.search(rb'^  "' + key.encode() + rb'": \[', data, re.MULTILINE)
    if opening is None:
        return _whole(data, key)
    elements, damages, end = _elements(data, opening.end())
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
    return Document(head, elements, damages)


def _elements(data: bytes, start: int) -> tuple[list[Element], list[Damage], int]:
    found: list[Element] = []
    damages: list[Damage] = []
    position, line, counted = start, 0, 0
    listed = data.find(b"\n  ]", start)
    while (begin := _ELEMENT.search(data, position)) is not None and (listed < 0 or begin.start() < listed):
        offset = begin.start() + 4
        end = begin if begin[0].rstrip(b",").endswith(b"}") else _ELEMENT_END.search(data, begin.end())
        line += data.count(b"\n", counted, offset)
        counted = offset
        if end is None:
            damages.append(
                Damage("torn", "an unfinished element", Location(line + 1, offset, len(data) - offset), lost=True)
            )
            return found, damages, len(data)
        stop = end.end() - (1 if end[0].endswith(b",") else 0)
        found.append(Element(data[offset:stop], Location(line + 1, offset, stop - offset)))
        position = end.end()
        if listed >= 0 and listed < position:
            listed = data.find(b"\n  ]", position)
    return found, damages, position


def _whole(data: bytes, key: str) -> Document:
    """Decode a document with another layout, which is all or nothing."""
    value = decode_any(data)
    if not isinstance(value, dict):
        return Document({}, [], [_damage(data, 0, "not-json", "neither a document nor lines")])
    items = value.pop(key, None)
    location = Location(1, 0, len(data))
    listed = items if isinstance(items, list) else []
    elements = [Element(msgspec.json.encode(item), location) for item in listed if isinstance(item, dict)]
    damages = []
    if items is not None and not isinstance(items, list):
        damages.append(_damage(data, 0, "unknown-shape", f"{key}: {json_kind(items)} instead of an array"))
    if lost := len(listed) - len(elements):
        damages.append(_damage(data, 0, "not-a-record", f"{lost} of {len(listed)} elements of {key} are no objects"))
    return Document(value, elements, damages)


def _damage(data: bytes, offset: int, reason: str, detail: str) -> Damage:
    return Damage(reason, detail, Location(data.count(b"\n", 0, offset) + 1, offset, len(data) - offset), lost=False)
