"""The sessions directly related to a session: those it originates from, and those that originate from it."""

from __future__ import annotations

import msgspec

from ..core.lineage import Lineage, LineageEdge, SessionKey
from ..core.session import Session
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow

_MOST = 5
"""Maximum number of sessions in `Relatives.after`."""


class Relative(msgspec.Struct, kw_only=True):
    """A session directly related to another one, and the relation."""

    name: str
    row: SessionRow | None
    """None if the session is not in the store."""
    edge: LineageEdge


class Relatives(msgspec.Struct, kw_only=True):
    """The sessions directly related to a session, except sub-agents, which pages list elsewhere."""

    before: list[Relative]
    after: list[Relative]
    left_out: int
    """The number of sessions after it that are not listed."""


def find_relatives(store: Store, row: SessionRow, head: Session) -> Relatives:
    """Find the sessions directly related to a session. Sessions further away are not read."""
    followers = store.sessions.select(SessionFilter(agent=row.agent, origin=row.name, kind="main"), order="oldest")
    lineage = Lineage([head, *store.messages.load_heads(each.id for each in followers[:_MOST])])
    key = SessionKey(row.agent, row.name)
    before = [edge for edge in lineage.edges_to(key) if edge.kind != "subagent"]
    after = [edge for edge in lineage.edges_from(key) if edge.kind != "subagent"]
    names = {edge.target for edge in after} | {each.name for each in followers}
    return Relatives(
        before=[_relative(store, edge, edge.source) for edge in before],
        after=[_relative(store, edge, edge.target) for edge in after[:_MOST]],
        left_out=len(names) - len(after[:_MOST]),
    )


def _relative(store: Store, edge: LineageEdge, name: str) -> Relative:
    rows = store.sessions.select(SessionFilter(agent=edge.agent, name=name), limit=1)
    return Relative(name=name, row=rows[0] if rows else None, edge=edge)
