"""The cost of tokens: each kind at its own price, and nothing that is unknown is free."""

from __future__ import annotations

from datetime import date

import pytest

from unspool.usage.cost import Cost, TokenCount, cost_of, dollars, total_cost
from unspool.usage.prices import shipped_prices

DAY = date(2026, 3, 1)
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("tokens", "usd"),
    [
        (TokenCount(), 0),
        (TokenCount(input=MILLION), 5),
        (TokenCount(output=MILLION, reasoning=MILLION), 25),
        (TokenCount(cache_read=MILLION), 0.5),
        (TokenCount(cache_write=MILLION), 6.25),
        (TokenCount(cache_write=MILLION, cache_write_1h=MILLION), 10),
        (TokenCount(input=1000, output=200, cache_read=50_000, cache_write=4000, cache_write_1h=1000), 0.06375),
    ],
)
def test_each_kind_of_token_has_its_price(tokens: TokenCount, usd: float) -> None:
    """What is part of another number is not paid twice."""
    assert cost_of(shipped_prices(), "claude-opus-4-6", DAY, tokens).usd == pytest.approx(usd)


def test_unknown_models_are_counted_apart() -> None:
    """Their tokens are named, and the rest keeps its cost."""
    tokens = TokenCount(input=10, output=5, cache_read=3, cache_write=2, cache_write_1h=2, reasoning=5)
    unknown = cost_of(shipped_prices(), "house-model", DAY, tokens)
    assert unknown == Cost(unpriced_tokens=20)
    assert total_cost([unknown, Cost(usd=1.5)]) == Cost(usd=1.5, unpriced_tokens=20)


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), "$0.00"),
        (Cost(usd=0.004), "<$0.01"),
        (Cost(usd=1234.567), "$1,234.57"),
        (Cost(usd=1.5, unpriced_tokens=9), "$1.50+"),
        (Cost(unpriced_tokens=9), "no price known"),
    ],
)
def test_costs_in_words(cost: Cost, text: str) -> None:
    """A price that is not known is not shown as zero."""
    assert dollars(cost) == text
