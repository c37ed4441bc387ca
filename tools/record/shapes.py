"""The shapes of records: which kinds there are, and the fields of each by their JSON paths. No judgement, no I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]

_DEEPEST = 8
_ANY = "*"
_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z_]{0,60}(?:[0-9]{0,2}[A-Za-z_]*)?\Z")
"""What a field is called; other keys are data, such as paths, models and ids."""
_OPAQUE = frozenset((
    "input", "args", "arguments", "action", "parameters", "input_schema", "schema", "tools", "shape", "params",
    "modelUsage", "trackedFileBackups", "answers", "annotations", "originalFile", "changes", "statuses", "state",
    "response", "metrics",
))  # fmt: skip
"""Fields whose content is up to a tool, a model or a person."""
_USUAL = 0.9
"""A field is missed when so large a part of the older records of its kind has it, and none of the new ones does."""
_COMMON = 0.5
"""A kind is missed when so large a part of the older recordings has it, and none of the new ones does."""


class Shape:
    """The kinds of records in some recordings, with how often each field occurs in them."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.fields: dict[str, Counter[str]] = {}
        self.recordings = 0
        self.seen_in: Counter[str] = Counter()
        """In how many recordings each kind occurs."""

    def add(self, agent: str, recording: Iterable[Json]) -> None:
        """Take in the records of one recording."""
        found = set()
        for record in recording:
            kind = kind_of(agent, record)
            found.add(kind)
            self.records[kind] += 1
            self.fields.setdefault(kind, Counter()).update(set(paths_in(record)))
        self.recordings += 1
        self.seen_in.update(found)


class Difference(msgspec.Struct, kw_only=True):
    """What is different in new recordings of one version."""

    agent: str
    version: str
    compared_with: str | None
    """The newest older version; for what is gone. What is new is new to all."""
    new_kinds: list[str] = []
    new_fields: dict[str, list[str]] = {}
    """By the kind of record."""
    gone_kinds: dict[str, str] = {}
    """With the last version that has them."""
    gone_fields: dict[str, list[str]] = {}


class _Last(NamedTuple):
    version: str
    shape: Shape


def compare(agent: str, version: str, new: Shape, older: Mapping[str, Shape]) -> Difference:
    """Compare new recordings with those that are there; `older` are by version, the oldest first."""
    last = _Last(*list(older.items())[-1]) if older else None
    known: dict[str, set[str]] = {}
    for shape in older.values():
        for kind, fields in shape.fields.items():
            known.setdefault(kind, set()).update(fields)
    found = Difference(agent=agent, version=version, compared_with=last.version if last is not None else None)
    found.new_kinds = sorted(new.records.keys() - known.keys())
    for kind in sorted(new.records.keys() & known.keys()):
        if added := sorted(new.fields[kind].keys() - known[kind]):
            found.new_fields[kind] = added
    if last is not None:
        found.gone_fields = dict(_gone_fields(new, last.shape))
        gone = [kind for kind in sorted(last.shape.records.keys() - new.records.keys()) if _is_common(kind, last.shape)]
        found.gone_kinds = dict.fromkeys(gone, last.version)
    return found


def _is_common(kind: str, shape: Shape) -> bool:
    return shape.seen_in[kind] >= _COMMON * shape.recordings


def _gone_fields(new: Shape, last: Shape) -> Iterator[tuple[str, list[str]]]:
    for kind in sorted(new.records.keys() & last.records.keys()):
        usual = {path for path, count in last.fields[kind].items() if count >= _USUAL * last.records[kind]}
        if gone := sorted(usual - new.fields[kind].keys()):
            yield kind, gone


# --- one record -------------------------------------------------------------------------------------------------------


def kind_of(agent: str, record: Json) -> str:
    """What a record is, by the fields in which its agent says so."""
    if agent == "claude":
        steps = _words(record.get("type"), record.get("subtype"), _in(record, "attachment", "type"))
    elif agent == "codex":
        steps = _words(record.get("type"), _in(record, "payload", "type"), _in(record, "payload", "item", "type"))
    elif "$set" in record:
        steps = ["$set", *sorted(_keys(record["$set"]))]
    elif "$rewindTo" in record:
        steps = ["$rewindTo"]
    else:
        steps = _words(record.get("type")) or ["header"]
    return "/".join(steps) or "?"


def paths_in(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """The paths of all fields in a value; a list is `[]`, and a key that is no name is `*`."""
    if depth >= _DEEPEST:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            name = key if _NAME.match(key) else _ANY
            below = f"{path}.{name}" if path else name
            yield below
            if key not in _OPAQUE:
                yield from paths_in(inner, below, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from paths_in(inner, f"{path}[]", depth + 1)


def _words(*values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _in(record: object, *steps: str) -> object:
    for step in steps:
        record = record.get(step) if isinstance(record, dict) else None
    return record


def _keys(value: object) -> list[str]:
    return list(value) if isinstance(value, dict) else []
