"""The cost of a request at the list prices of the day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

from ..core import model as m
from ..store.locate import data_folder
from ..usage.cost import TokenCount, cost_of
from ..usage.prices import load_prices, request_size

CostOf = Callable[[str | None, datetime | None, m.Usage], float | None]


def make_cost_of() -> CostOf:
    """A function that returns the cost of a request, with the prices of this user."""
    prices = load_prices(data_folder())
    is_known = lru_cache(lambda model, day, size: prices.price(model, day, size) is not None)

    def compute(model: str | None, at: datetime | None, usage: m.Usage) -> float | None:
        if model is None or at is None:
            return None
        given = {name: getattr(usage, name) or 0 for name in m.Usage.__struct_fields__}
        tokens = TokenCount(**given)
        size = request_size(tokens.all_input)
        if not is_known(model, at.date(), size):
            return None
        try:
            return cost_of(prices, model, at.date(), tokens, size).usd
        except OverflowError:
            return None

    return compute
