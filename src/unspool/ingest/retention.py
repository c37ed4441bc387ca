"""When the agents will delete their logs, according to their own settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from ..agents import AGENTS
from ..library import Library
from ..store import Store
from ..store.filters import SessionFilter


class Fate(msgspec.Struct, kw_only=True):
    """What happens to the files of a session."""

    agent: str
    session: str
    title: str | None
    project: str | None
    last: datetime | None
    gone: bool
    """The files are gone; only the store has the session."""
    deleted_at: datetime | None
    """When the agent may delete it, at its next start after that."""

    def is_near(self, days: int) -> bool:
        """Whether the files are gone, or will be deleted within some days."""
        return self.gone or (self.deleted_at is not None and self.deleted_at < datetime.now(UTC) + timedelta(days=days))


def fates(store: Store, homes: list[str] | list[Path]) -> Iterator[Fate]:
    """Return every main session of this machine, the next to be deleted first."""
    spans = {agent: AGENTS[agent].retention(root) for agent, root in Library(*homes).homes()}
    found = []
    for row in store.sessions.select(SessionFilter(machine=store.machine, kind="main")):
        span = spans.get(row.agent)
        deleted = row.ended_at + span if row.ended_at is not None and span is not None and not row.gone_at else None
        found.append(
            Fate(
                agent=row.agent, session=row.name, title=row.title, project=row.project, last=row.ended_at,
                gone=row.gone_at is not None, deleted_at=deleted,
            )
        )  # fmt: skip
    yield from sorted(
        found, key=lambda fate: (not fate.gone, fate.deleted_at is None, fate.deleted_at or datetime.now(UTC))
    )
