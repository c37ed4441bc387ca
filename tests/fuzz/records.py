"""Every field of every known record: the fields of the schemas and those that recordings have."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from unspool.agents import AGENTS
from unspool.agents.claude import schema as claude
from unspool.agents.codex import schema as codex
from unspool.agents.gemini import schema as gemini

from ..recordings import recordings
from .values import EXTREME_TIMES, VALUES

Field = tuple[str | int, ...]
"""The keys and indexes that lead to a value in a record."""

_SCHEMAS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "claude": (claude.HeadRecord,),
    "codex": (codex.CodexRecord, codex.BareRecord, codex.MetaRecord),
    "gemini": (gemini.GeminiRecord, gemini.TailRecord),
}
_DEPTH = 6
_BEFORE, _AFTER = 24, 8
"""Lines around a record that are kept, so that it is read in its surroundings."""
_LONG = 3_000
_PLACEHOLDER = "the value under test"
_TIME_FIELD = re.compile(r"^timestamp$|Time$|_time$|Updated$|_at(_ms)?$")


class Seed(NamedTuple):
    """A record of some kind, in the log in which it was recorded."""

    agent: str
    kind: str
    path: Path
    lines: list[bytes]
    position: int

    @property
    def is_document(self) -> bool:
        """Whether the log is one JSON document instead of lines."""
        return self.path.suffix == ".json"

    def record(self) -> Any:
        """The record, decoded."""
        return json.loads(self.lines[self.position])

    def fields(self) -> list[Field]:
        """The fields that the record has, and those that the schema knows."""
        found = dict.fromkeys(field for field in _fields_in(self.record()) if len(field) <= _DEPTH)
        for schema in () if self.is_document else _SCHEMAS[self.agent]:
            found.update(dict.fromkeys(_fields_of(schema)))
        return list(found)

    def mutated(self, field: Field, value: bytes) -> bytes:
        """The log, with another value in the field."""
        indent = 2 if self.is_document else None
        record = json.dumps(_with(self.record(), field, _PLACEHOLDER), indent=indent).encode()
        lines = [*self.lines]
        lines[self.position] = record.replace(f'"{_PLACEHOLDER}"'.encode(), value)
        return b"\n".join(lines) + b"\n"


class Mutation(NamedTuple):
    """One value in one field of one record."""

    seed: Seed
    field: Field
    value: str

    @property
    def data(self) -> bytes:
        """The log."""
        return self.seed.mutated(self.field, VALUES[self.value])

    def __str__(self) -> str:
        field = ".".join(map(str, self.field))
        return f"{self.seed.agent} {self.seed.kind}: {field} = {self.value}"


@cache
def seeds(agent: str) -> list[Seed]:
    """One record of each kind, from the shortest log that has it."""
    found: dict[str, Seed] = {}
    logs = {path for recording in recordings(agent) for path in recording.logs()}
    for path in sorted(logs, key=lambda path: (path.stat().st_size, path)):
        if path.suffix == ".json":
            found.setdefault("document", Seed(agent, "document", path, [path.read_bytes()], 0))
        elif path.suffix == ".jsonl":
            lines = [line for line in path.read_bytes().split(b"\n") if line]
            for position, line in enumerate(lines):
                kind = _kind(agent, line)
                if kind is not None and kind not in found:
                    found[kind] = Seed(agent, kind, path, *_window(lines, position))
    return list(found.values())


def _window(lines: list[bytes], position: int) -> tuple[list[bytes], int]:
    """The first line, and those around a position that are not too long; and the new position."""
    first = max(0, position - _BEFORE)
    chosen = [0, *range(max(1, first), min(len(lines), position + _AFTER))]
    chosen = [number for number in chosen if number in (0, position) or len(lines[number]) < _LONG]
    return [lines[number] for number in chosen], chosen.index(position)


def random_field(seed: Seed, chance: random.Random) -> Field:
    """Some field of a record."""
    return chance.choice(_known_fields(seed.agent, seed.kind))


def random_mutation(agent: str, chance: random.Random) -> Mutation:
    """Some value in some field; rare kinds of records are as frequent as others."""
    seed = chance.choice(seeds(agent))
    return Mutation(seed, random_field(seed, chance), chance.choice(list(VALUES)))


def time_mutations(agent: str) -> Iterator[Mutation]:
    """The first and the last time in every field of every known record that has a time."""
    for seed in seeds(agent):
        for field in _known_fields(agent, seed.kind):
            if _TIME_FIELD.search(str(field[-1])):
                yield from (Mutation(seed, field, name) for name in EXTREME_TIMES)


@cache
def _known_fields(agent: str, kind: str) -> list[Field]:
    return next(seed.fields() for seed in seeds(agent) if seed.kind == kind)


def _kind(agent: str, line: bytes) -> str | None:
    try:
        record = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    if not isinstance(record, dict):
        return None
    return " ".join((*AGENTS[agent].record_kind(record), *sorted(_parts_of(record))))


def _parts_of(record: dict[str, Any]) -> set[str]:
    """What a message consists of: a record with a call is of another kind than one with a text."""
    body = next((record[key] for key in ("message", "payload") if isinstance(record.get(key), dict)), record)
    content = body.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    found = {str(part.get("type") or min(part, default="")) for part in parts}
    return found | {key for key in ("toolUseResult", "toolCalls", "toolDenialKind") if record.get(key)}


def _fields_in(value: Any, above: Field = ()) -> Iterator[Field]:
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from _fields_in(inner, (*above, key))


def _fields_of(kind: type[msgspec.Struct], above: Field = (), outer: tuple[Any, ...] = ()) -> Iterator[Field]:
    """The fields of a schema; of a list, those of its first element."""
    for field in msgspec.structs.fields(kind):
        path = (*above, field.encode_name)
        yield path
        for inner, step in _structs_in(field.type):
            if inner not in outer:
                yield from _fields_of(inner, (*path, *step), (*outer, kind))


def _structs_in(kind: Any, step: Field = ()) -> Iterator[tuple[type[msgspec.Struct], Field]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind, step
    for part in get_args(kind):
        yield from _structs_in(part, (0,) if getattr(kind, "__origin__", None) is list else step)


def _with(value: Any, field: Field, new: Any) -> Any:
    """A copy of a value with another one in a field; what leads there is made if it is missing."""
    if not field:
        return new
    step, *rest = field
    if isinstance(step, int):
        items = [*value] if isinstance(value, list) else []
        items[step : step + 1] = [_with(items[step] if step < len(items) else None, tuple(rest), new)]
        return items
    members = dict(value) if isinstance(value, dict) else {}
    members[step] = _with(members.get(step), tuple(rest), new)
    return members
