"""Records and fields that unspool has not seen before, by agent version: names and counts, never content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..._version import __version__
from ...agents import agent_named
from ...agents.shapes import WITHOUT_OUTPUTS, NewShape, Shape, known_shapes, new_in, records_of
from ...core.plural import counted
from ...core.session import Session


class VersionSummary(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The files that one version of an agent wrote."""

    unspool: str = __version__
    agent: str
    version: str | None
    sessions: int = 0
    records: int = 0
    damaged: int = 0
    """Lines that are not intact records."""
    problems: dict[str, int] = {}
    """The number of problems of each kind."""
    new_kinds: dict[str, int] = {}
    """Record types that occur in no recording."""
    new_fields: dict[str, dict[str, int]] = {}
    """Fields that occur in no recording, by record type."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary for people."""
        counts = (counted(self.sessions, "session"), counted(self.records, "record"), f"{self.damaged:,} damaged")
        yield f"{self.agent} {self.version or '(unknown version)'}: {', '.join(counts)}"
        for reason, count in sorted(self.problems.items()):
            yield f"  problem    {count:>7,}  {reason}"
        for kind, count in self.new_kinds.items():
            yield f"  new kind   {count:>7,}  {kind}"
        for kind, fields in self.new_fields.items():
            for field, count in fields.items():
                yield f"  new field  {count:>7,}  {kind}: {field}"


class _Version:
    def __init__(self) -> None:
        self.shape = Shape(WITHOUT_OUTPUTS)
        self.sessions = 0
        self.damaged = 0
        self.problems: Counter[str] = Counter()


class FormatSummary:
    """Collects the record types and fields of many sessions."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], _Version] = {}
        self._read: set[str] = set()

    def add(self, session: Session) -> None:
        """Count the records in a session's logs, for the last version that wrote to it."""
        versions = session.info.versions
        version = self._versions.setdefault((session.agent, versions[-1] if versions else ""), _Version())
        version.sessions += 1
        version.problems.update(problem.reason for problem in session.problems)
        agent = agent_named(session.agent)
        for file in session.info.files:
            if file.role != "log" or file.path in self._read:
                continue
            self._read.add(file.path)
            version.damaged += file.damaged
            for record in records_of(agent.log(Path(file.path))):
                version.shape.add(agent, record)

    def versions(self) -> Iterator[VersionSummary]:
        """Yield the summaries, by agent and version."""
        for (agent, version), found in sorted(self._versions.items()):
            known = known_shapes().get(agent)
            new = new_in(found.shape, known) if known is not None else NewShape()
            yield VersionSummary(
                agent=agent,
                version=version or None,
                sessions=found.sessions,
                records=found.shape.records.total(),
                damaged=found.damaged,
                problems=dict(sorted(found.problems.items())),
                new_kinds=new.kinds,
                new_fields=new.fields,
            )
