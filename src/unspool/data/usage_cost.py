"""The cost of a request at the list prices of the day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter

from ..core import model as m
from ..store.locate import data_folder
from ..usage.cost import TOKEN_NAMES, TokenCount, usd_at
from ..usage.prices import load_prices, request_size

_COUNTS = attrgetter(*TOKEN_NAMES)
CostOf = Callable[[str | None, datetime | None, m.Usage], float | None]


def make_cost_of() -> CostOf:
    """Return a function that computes the cost of a request at this user's prices."""
    prices = load_prices(data_folder())

    def compute(model: str | None, at: datetime | None, usage: m.Usage) -> float | None:
        if model is None or at is None:
            return None
        tokens = TokenCount(*[count or 0 for count in _COUNTS(usage)])
        price = prices.price(model, at.date(), request_size(tokens.all_input))
        if price is None:
            return None
        try:
            return usd_at(price, tokens)
        except OverflowError:
            return None

    return compute
