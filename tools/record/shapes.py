"""What is different in the records of a new version: kinds and fields that are new, or gone. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from unspool.agents.base import Agent
from unspool.agents.shapes import Json, Shape

_USUAL = 0.9
"""A field is missed when so large a part of the older records of its kind has it, and none of the new ones does."""
_COMMON = 0.5
"""A kind is missed when so large a part of the older recordings has it, and none of the new ones does."""


class RecordingsShape(Shape):
    """The shape of the records of some recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.recordings = 0
        self.seen_in: Counter[str] = Counter()
        """In how many recordings each kind occurs."""

    def add_recording(self, agent: Agent, records: Iterable[Json]) -> None:
        """Count the records of one recording."""
        self.recordings += 1
        self.seen_in.update({self.add(agent, record) for record in records})


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
    shape: RecordingsShape


def compare(agent: str, version: str, new: RecordingsShape, older: Mapping[str, RecordingsShape]) -> Difference:
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


def _is_common(kind: str, shape: RecordingsShape) -> bool:
    return shape.seen_in[kind] >= _COMMON * shape.recordings


def _gone_fields(new: RecordingsShape, last: RecordingsShape) -> Iterator[tuple[str, list[str]]]:
    for kind in sorted(new.records.keys() & last.records.keys()):
        usual = {path for path, count in last.fields[kind].items() if count >= _USUAL * last.records[kind]}
        if gone := sorted(usual - new.fields[kind].keys()):
            yield kind, gone
