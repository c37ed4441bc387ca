"""The price list is complete and plausible, dated, and can be replaced by the user's own."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from unspool.core.errors import UnspoolError
from unspool.usage.prices import FILE_NAME, REQUEST_SIZES, bare_name, load_prices, request_size, shipped_prices

TODAY = date(2026, 11, 6)
OWN = """
[[model]]
names = ["claude-opus-4-5", "house-model"]
prices = [{ input = 1, output = 2 }, { from = 2026-06-01, input = 3, output = 4 }]
"""


@pytest.mark.parametrize("model", shipped_prices().models)
def test_prices_are_plausible(model: str) -> None:
    """Output costs more than input, and the cache is cheaper to read and dearer to write, at every size."""
    before = (0.0, 0.0)
    for size in range(len(REQUEST_SIZES) + 1):
        price = shipped_prices().price(model, TODAY, size)
        assert price is not None
        input, output, read, write, write_1h = price.rates
        assert 0 < read <= input <= write <= write_1h <= output
        assert (input, output) >= before
        before = (input, output)


def test_a_price_has_a_first_day() -> None:
    """And what was used before costs what it cost then."""
    prices = shipped_prices()
    before, after = (prices.price("claude-sonnet-5-5", date(2026, 10, day)) for day in (6, 7))
    assert before is not None
    assert after is not None
    assert (before.cache_read, after.cache_read) == (0.2, 0.1)


def test_large_requests_may_cost_more() -> None:
    """Only those that are larger than the limit of the model."""
    prices = shipped_prices()
    costs = [prices.price("claude-sonnet-4-5", TODAY, request_size(n)) for n in (200_000, 200_001, 900_000)]
    assert [price.input for price in costs if price is not None] == [3, 6, 6]


def test_unknown_models_have_no_price() -> None:
    """Nothing is guessed from a similar name."""
    for model in ("", "?", "claude-opus", "claude-opus-99", "gpt-5-codex-ultra", "<synthetic>"):
        assert shipped_prices().price(model, TODAY) is None, model


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("anthropic/claude-opus-5", "claude-opus-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("codex-mini-latest", "codex-mini"),
        ("GPT-5.1-Codex", "gpt-5.1-codex"),
    ],
)
def test_names_as_they_are_recorded(recorded: str, name: str) -> None:
    """The provider, the date of a snapshot and the size of the context window do not change the price."""
    assert bare_name(recorded) == name
    assert shipped_prices().price(recorded, TODAY) == shipped_prices().price(name, TODAY) is not None


def test_a_users_own_prices(tmp_path: Path) -> None:
    """They replace those of the same model, add others, and are read again when the file has changed."""
    assert load_prices(tmp_path, {}).price("house-model", TODAY) is None
    path = tmp_path / FILE_NAME
    path.write_text(OWN)
    for prices in (load_prices(tmp_path, {}), load_prices(Path("/nowhere"), {"UNSPOOL_PRICES": str(path)})):
        assert str(path) in prices.source
        for model in ("house-model", "claude-opus-4-5-20251101"):
            earlier, later = prices.price(model, date(2026, 5, 31)), prices.price(model, date(2026, 6, 1))
            assert earlier is not None
            assert later is not None
            assert (earlier.output, later.output) == (2, 4)
        assert prices.price("claude-opus-4-6", TODAY) == shipped_prices().price("claude-opus-4-6", TODAY)


@pytest.mark.parametrize(
    "text",
    [
        "[[model]",
        '[[model]]\nnames = ["a"]',
        '[[model]]\nnames = ["a"]\nprices = [{ input = "1", output = 2 }]',
        '[[model]]\nnames = ["a"]\nprices = [{ input = -1, output = 2 }]',
        '[[model]]\nnames = ["a"]\nprices = [{ input = nan, output = 2 }]',
        '[[model]]\nnames = ["a"]\nprices = [{ from = 2026-01-01, input = 1, output = 2 }]',
        '[[model]]\nnames = ["a"]\nprices = [{ input = 1, output = 2 }, { over = 5, input = 1, output = 2 }]',
        '[[model]]\nnames = ["a"]\nprices = [{ input = 1, output = 2, cash = 3 }]',
        "\ufffd = 1",
    ],
)
def test_a_wrong_file_is_named(text: str, tmp_path: Path) -> None:
    """Silently ignoring it would give other costs than the user expects."""
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(UnspoolError, match=FILE_NAME):
        load_prices(tmp_path, {})


def test_a_missing_file_that_was_asked_for(tmp_path: Path) -> None:
    """It is an error; a missing one in the data directory is not."""
    with pytest.raises(UnspoolError, match="UNSPOOL_PRICES"):
        load_prices(tmp_path, {"UNSPOOL_PRICES": str(tmp_path / "absent.toml")})


def test_no_name_is_too_long() -> None:
    """A log may have any text as the name of a model; one that is too long has no decorations."""
    name = "/[" * 500_000 + "\n"
    assert bare_name(name) == name
    assert shipped_prices().price(name, date(2026, 3, 1)) is None
