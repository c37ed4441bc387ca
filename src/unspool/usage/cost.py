"""The cost of tokens at the prices of the API.

A subscription is not billed by tokens: its cost only shows how much it was used.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import msgspec

from .prices import Price, PriceTable

COST_NOTE = (
    "What the API would have charged at list prices. With a subscription you pay a fixed price instead. Fees for web "
    "searches, and surcharges or discounts for other speeds and regions, are not included."
)


class TokenCount(msgspec.Struct):
    """Tokens of some requests. Input is split: `input` is neither read from the cache nor written to it."""

    input: int = 0
    output: int = 0
    """Includes `reasoning`."""
    cache_read: int = 0
    cache_write: int = 0
    """Includes `cache_write_1h`."""
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All tokens, each once."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def all_input(self) -> int:
        """All input tokens, cached or not."""
        return self.input + self.cache_read + self.cache_write

    def add(self, other: TokenCount) -> None:
        """Add other counts."""
        # Written out for speed: pages add up thousands of them.
        self.input += other.input
        self.output += other.output
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.cache_write_1h += other.cache_write_1h
        self.reasoning += other.reasoning


TOKEN_NAMES = TokenCount.__struct_fields__


class Cost(msgspec.Struct, kw_only=True):
    """The cost of some tokens, as far as prices are known."""

    usd: float = 0.0
    unpriced_tokens: int = 0
    """Tokens of models without a known price; they are not in `usd`."""

    @property
    def is_known(self) -> bool:
        """Whether any tokens have a price, or there are none."""
        return self.usd > 0 or not self.unpriced_tokens

    def add(self, other: Cost) -> None:
        """Add another cost."""
        self.usd += other.usd
        self.unpriced_tokens += other.unpriced_tokens


def cost_of(prices: PriceTable, model: str, day: date, tokens: TokenCount, size: int = 0) -> Cost:
    """The cost of the tokens of one model on one day, in requests of one size (see `PriceTable.price`)."""
    price = prices.price(model, day, size)
    if price is None:
        return Cost(unpriced_tokens=tokens.total)
    return Cost(usd=usd_at(price, tokens))


def usd_at(price: Price, tokens: TokenCount) -> float:
    """The cost of tokens at a price, in US dollars."""
    input, output, read, write, write_1h = price.rates
    long = min(tokens.cache_write_1h, tokens.cache_write)
    usd = (
        tokens.input * input
        + tokens.output * output
        + tokens.cache_read * read
        + (tokens.cache_write - long) * write
        + long * write_1h
    )
    return usd / 1e6


def total_cost(costs: Iterable[Cost]) -> Cost:
    """The sum of some costs."""
    total = Cost()
    for cost in costs:
        total.add(cost)
    return total


def dollars(cost: Cost) -> str:
    """Format a cost. An unknown price is not shown as free."""
    if not cost.is_known:
        return "no price known"
    more = "+" if cost.unpriced_tokens else ""
    return f"${cost.usd:,.2f}{more}" if cost.usd >= 0.005 or not cost.usd else f"<$0.01{more}"
