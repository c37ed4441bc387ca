"""Compares the records of a new version with older ones: kinds and fields that are new or gone. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from unspool.agents.base import Agent
from unspool.agents.shapes import Json, Shape

_USUAL = 0.9
"""A field is reported as gone if at least this share of the older records had it, and no new one does."""
_COMMON = 0.5
"""A kind is reported as gone if at least this share of the older recordings had it, and no new one does."""


class RecordingsShape(Shape):
    """The shape of the records in several recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.recordings = 0
        self.seen_in: Counter[str] = Counter()
        """The number of recordings in which each kind occurs."""

    def add_recording(self, agent: Agent, records: Iterable[Json]) -> None:
        """Count the records of one recording."""
        self.recordings += 1
        self.seen_in.update({self.add(agent, record) for record in records})


class Difference(msgspec.Struct, kw_only=True):
    """The differences of one version's new recordings."""

    agent: str
    version: str
    compared_with: str | None
    """The newest older version, in which gone kinds and fields occur. New ones occur in no older version."""
    new_kinds: list[str] = []
    new_fields: dict[str, list[str]] = {}
    """New fields by kind of record."""
    gone_kinds: dict[str, str] = {}
    """Gone kinds, with the last version that has them."""
    gone_fields: dict[str, list[str]] = {}


class _Last(NamedTuple):
    version: str
    shape: RecordingsShape


def compare(agent: str, version: str, new: RecordingsShape, older: Mapping[str, RecordingsShape]) -> Difference:
    """Compare new recordings with older ones. `older` is sorted by version, the oldest first."""
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
