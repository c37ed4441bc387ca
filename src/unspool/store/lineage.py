"""The graph of the sessions in a store. Only sessions that are connected with others are decoded."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import model as m
from ..core import typed_json
from ..core.lineage import Lineage, SessionKey
from .filters import EventFilter
from .rows import SessionRow
from .store import Store

_Links = dict[SessionKey, list[SessionKey]]


def load_lineage(store: Store, row: SessionRow | None = None) -> Lineage:
    """Load the sessions connected with one session, or all that are connected with any other session."""
    with store.snapshot():
        # A session that exists on several machines counts as one, with its most recent row.
        rows = {_key(each): each for each in reversed(store.sessions.select())}
        links = _links(store, rows.values())
        return _load(store, rows, links, links if row is None else (_key(row),))


def _load(store: Store, rows: dict[SessionKey, SessionRow], links: _Links, start: Iterable[SessionKey]) -> Lineage:
    lineage = Lineage()
    left = list(start)
    seen = set(left)
    while left:
        key = left.pop()
        named = links.get(key, [])
        if (row := rows.get(key)) is not None:
            for head in store.messages.load_heads([row.id]):
                named = named + lineage.add(head)
        left += dict.fromkeys(each for each in named if each not in seen)
        seen.update(named)
    return lineage


def _links(store: Store, rows: Iterable[SessionRow]) -> _Links:
    """The connections between sessions, in both directions, that are known without decoding their records."""
    pairs = [(_key(row), name) for row in rows for name in (row.origin, row.parent)]
    clears = store.events.select(EventFilter(kinds=("clear",)))
    pairs += [(_key(row.session), typed_json.decode(row.event, type=m.ContextClear).next_session) for row in clears]
    links: _Links = {}
    for key, name in pairs:
        if name is not None and name != key.id:
            other = SessionKey(key.agent, name)
            links.setdefault(key, []).append(other)
            links.setdefault(other, []).append(key)
    return links


def _key(row: SessionRow) -> SessionKey:
    return SessionKey(row.agent, row.name)
