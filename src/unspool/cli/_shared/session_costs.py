"""Tokens and cost of listed sessions, if they are in the store."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.errors import NotFoundError, UnspoolError
from ...store import Store, open_store
from ...store.filters import SessionFilter
from ...store.locate import data_folder
from ...store.session_facts import SessionFacts, session_facts
from ...usage.cost import dollars
from ...usage.prices import load_prices
from .output import print_error
from .records import SessionItem


def add_costs(items: Iterable[SessionItem], location: str | None) -> list[str]:
    """Add tokens and cost to sessions, and return each cost as text; empty for sessions that are not in the store."""
    try:
        store = open_store(location, read_only=True)
    except UnspoolError as error:
        if not isinstance(error, NotFoundError):
            print_error(f"no costs are shown: {error}")
        return ["" for _ in items]
    try:
        return [_add_cost(store, item) for item in items]
    finally:
        store.close()


def _add_cost(store: Store, item: SessionItem) -> str:
    facts = _facts(store, item)
    if facts is None:
        return ""
    item.tokens = facts.tokens.total
    item.cost_usd = facts.cost.usd if facts.cost.is_known else None
    return dollars(facts.cost)


def _facts(store: Store, item: SessionItem) -> SessionFacts | None:
    rows = store.sessions.select(SessionFilter(agent=item.agent, name=item.name), limit=1)
    return session_facts(store.database, load_prices(data_folder()), [rows[0].id])[rows[0].id] if rows else None
