"""The shapes of records: which kinds an agent writes, and the fields of each kind by their JSON paths.

Names of kinds and fields are the agent's own and never content: a key that does not look like a name, such as a path or
the id of a model, becomes `*`. So shapes can be published even if the sessions cannot.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from ..core import typed_json
from ..io.decode import RecordDecoder, decode_any
from ..io.files import log_of, read_batches
from ..io.sources import JsonDocument, LogSource
from .base import Agent

Json = dict[str, Any]
KNOWN = "known_shapes.json"
"""The shapes of all recordings that the readers are tested with, in this package."""

_DEEPEST = 8
_ANY = "*"
_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z_]{0,60}(?:[0-9]{0,2}[A-Za-z_]*)?\Z")
_KIND = re.compile(r"[$A-Za-z_][A-Za-z0-9_-]{0,60}\Z")
_OPAQUE = frozenset((
    "input", "args", "arguments", "action", "parameters", "input_schema", "schema", "tools", "shape", "params",
    "modelUsage", "trackedFileBackups", "answers", "annotations", "originalFile", "changes", "statuses", "state",
    "response", "metrics",
))  # fmt: skip
"""Fields whose content is up to a tool, a model or a person."""
WITHOUT_OUTPUTS = _OPAQUE | {"toolUseResult", "structuredContent", "mcpMeta", "result", "output"}
"""Also without tool results, in which a tool may choose its own names."""
_RECORDS: RecordDecoder[Json] = RecordDecoder(dict, lambda _: True)


class Shape:
    """The kinds of some records, and the number of records that have each field."""

    def __init__(self, opaque: frozenset[str] = _OPAQUE) -> None:
        """Fields below the `opaque` ones are not counted."""
        self._opaque = opaque
        self.records: Counter[str] = Counter()
        self.fields: dict[str, Counter[str]] = {}

    def add(self, agent: Agent, record: Json) -> str:
        """Count a record, and return its kind."""
        kind = "/".join(word if _KIND.match(word) else _ANY for word in agent.record_kind(record)) or "?"
        self.records[kind] += 1
        self.fields.setdefault(kind, Counter()).update(set(paths_in(record, self._opaque)))
        return kind


class NewShape(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Kinds and fields that no recording has, and the number of records that have each."""

    kinds: dict[str, int] = {}
    fields: dict[str, dict[str, int]] = {}
    """By the kind of record."""


def new_in(shape: Shape, known: dict[str, set[str]]) -> NewShape:
    """Return the kinds and fields of a shape that are not known."""
    found = NewShape()
    for kind, count in sorted(shape.records.items()):
        if kind not in known:
            found.kinds[kind] = count
        elif fields := {path: times for path, times in sorted(shape.fields[kind].items()) if path not in known[kind]}:
            found.fields[kind] = fields
    return found


@cache
def known_shapes() -> dict[str, dict[str, set[str]]]:
    """By agent: the kinds of records that are known, and the fields of each."""
    data = resources.files(__package__).joinpath(KNOWN).read_bytes()
    return typed_json.decode(data, type=dict[str, dict[str, set[str]]])


def paths_in(value: object, opaque: frozenset[str] = _OPAQUE, path: str = "", depth: int = 0) -> Iterator[str]:
    """The paths of all fields in a value; a list is `[]`, and a key that is no name is `*`."""
    if depth >= _DEEPEST:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            name = key if _NAME.match(key) else _ANY
            below = f"{path}.{name}" if path else name
            yield below
            if key not in opaque:
                yield from paths_in(inner, opaque, below, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from paths_in(inner, opaque, f"{path}[]", depth + 1)


def records_of(log: LogSource) -> Iterator[Json]:
    """The intact records of a log. For a document: its other fields as one record, then the elements of its lists."""
    if isinstance(log, JsonDocument):
        with log.open() as file:
            document = decode_any(file.read())
        if isinstance(document, dict):
            lists = [value for value in document.values() if isinstance(value, list)]
            yield {key: value for key, value in document.items() if not isinstance(value, list)}
            yield from (element for each in lists for element in each if isinstance(element, dict))
        return
    for batch in read_batches(log, _RECORDS, log_of(log.path)):
        yield from batch.records
