"""The estimate is never below what public tokenizers count, and a cut text fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.mcp.tokens import estimate, prefix_length

MEASURED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("measured_tokens.json").read_text("utf-8"))
"""Texts, and the most tokens that cl100k_base, o200k_base and two tokenizers of other providers count in them."""
MARGIN = 1.1
"""The newest models count more than the public tokenizers."""


@pytest.mark.parametrize("name", MEASURED)
def test_the_estimate_is_careful(name: str) -> None:
    assert estimate(MEASURED[name]["text"]) >= MEASURED[name]["tokens"] * MARGIN


@pytest.mark.parametrize("name", MEASURED)
def test_the_estimate_is_of_use(name: str) -> None:
    """An answer that used a small part of its budget would be of no use."""
    assert estimate(MEASURED[name]["text"]) <= MEASURED[name]["tokens"] * 3


@settings(max_examples=50)
@given(st.text(), st.integers(0, 40))
def test_a_cut_text_fits(text: str, tokens: int) -> None:
    end = prefix_length(text, tokens)
    assert estimate(text[:end]) <= tokens
    assert end == len(text) or estimate(text[: end + 8]) > tokens - 4


@settings(max_examples=50)
@given(st.text(), st.text())
def test_parts_cost_no_less_than_the_whole(one: str, other: str) -> None:
    """Answers are put together from parts that were counted one by one, with a line break between them."""
    assert estimate(f"{one}\n{other}") <= estimate(one) + 1 + estimate(other)


@settings(max_examples=50)
@given(st.text(), st.integers(0, 40))
def test_counting_can_end_early(text: str, most: int) -> None:
    assert (estimate(text, most) > most) == (estimate(text) > most)
