"""Tokens and cost of listed sessions, if they are in the store."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ...core.errors import NotFoundError, UnspoolError
from ...store import Store, open_store
from ...store.filters import SessionFilter
from ...store.locate import data_folder
from ...store.session_facts import SessionFacts, session_facts
from ...usage.cost import dollars
from ...usage.prices import PriceTable, load_prices_if_readable
from .output import print_error
from .records import SessionItem


def readable_prices(args: argparse.Namespace) -> PriceTable:
    """Return the prices. If the user's file cannot be read, report it, and return a table without prices."""
    prices = load_prices_if_readable(data_folder())
    if prices.error is not None:
        _report(args, prices.error)
    return prices


def add_costs(items: Iterable[SessionItem], args: argparse.Namespace) -> list[str]:
    """Add tokens and cost to sessions, and return each cost as text; empty for sessions that are not in the store."""
    try:
        store = open_store(args.store, read_only=True)
    except UnspoolError as error:
        if not isinstance(error, NotFoundError):
            _report(args, str(error))
        return ["" for _ in items]
    try:
        prices = readable_prices(args)
        return [_add_cost(store, prices, item) for item in items]
    finally:
        store.close()


def _report(args: argparse.Namespace, reason: str) -> None:
    print_error(f"no costs are shown: {reason}")
    args.is_incomplete = True


def _add_cost(store: Store, prices: PriceTable, item: SessionItem) -> str:
    facts = _facts(store, prices, item)
    if facts is None:
        return ""
    item.tokens = facts.tokens.total
    item.cost_usd = facts.cost.usd if facts.cost.is_known else None
    return dollars(facts.cost)


def _facts(store: Store, prices: PriceTable, item: SessionItem) -> SessionFacts | None:
    rows = store.sessions.select(SessionFilter(agent=item.agent, name=item.name), limit=1)
    return session_facts(store.database, prices, [rows[0].id])[rows[0].id] if rows else None
