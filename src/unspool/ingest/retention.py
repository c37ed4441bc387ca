"""When the agents will delete their logs, according to their own settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ..agents import AGENTS
from ..core.timestamps import from_seconds
from ..library import Library
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow


class SessionRetention(NamedTuple):
    """Whether the files of a session are gone, or when the agent will delete them."""

    session: SessionRow
    deleted_at: datetime | None
    """The time after which the agent may delete the files, at its next start; None if unknown or if they are gone."""

    @property
    def is_gone(self) -> bool:
        """Whether the files are gone, so that only the store has the session."""
        return self.session.gone_at is not None

    def is_near(self, days: int) -> bool:
        """Whether the files are gone, or may be deleted within some days."""
        if self.is_gone:
            return True
        # Any number of days can be compared, but not added to a time.
        return self.deleted_at is not None and (self.deleted_at - datetime.now(UTC)) / timedelta(days=1) < days


def session_retentions(
    store: Store, homes: list[str] | list[Path], filter: SessionFilter | None = None
) -> Iterator[SessionRetention]:
    """Iterate over the main sessions of this machine that match a filter: gone ones, then the next to be deleted."""
    spans = {agent: AGENTS[agent].retention(root) for agent, root in Library(*homes).homes()}
    found = []
    for row in store.sessions.select(replace(filter or SessionFilter(), machine=store.machine, kind="main")):
        span, deleted = spans.get(row.agent), None
        if row.ended_at is not None and span is not None and not row.gone_at:
            deleted = from_seconds(row.ended_at.timestamp() + span.total_seconds())
        found.append(SessionRetention(row, deleted))
    yield from sorted(
        found, key=lambda entry: (not entry.is_gone, entry.deleted_at is None, entry.deleted_at or datetime.now(UTC))
    )
