"""Responses keep their budget, whatever is put into them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.core.errors import UsageError
from unspool.mcp.response import MAX_BUDGET, MIN_BUDGET, Part, Quoted, ToolResponse, check_budget
from unspool.mcp.tokens import estimate

PARTS = st.lists(
    st.one_of(
        st.text(max_size=40).map(lambda text: text.replace("\n", " ")),
        st.builds(Quoted, st.text(max_size=400), st.one_of(st.none(), st.integers(1, 300))),
    ),
    max_size=6,
)


@settings(max_examples=50)
@given(st.lists(PARTS, max_size=12), st.integers(MIN_BUDGET, 1500))
def test_a_response_keeps_its_budget(items: list[list[Part]], budget: int) -> None:
    response = ToolResponse(budget, "Headline:")
    for item in items:
        response.add(item)
    assert (
        estimate(response.text("what_was_refused", "999999999.999999.9999999999", note="A note of some words."))
        <= budget
    )


def test_the_first_item_is_shortened_and_the_next_one_waits() -> None:
    response = ToolResponse(MIN_BUDGET, "Headline:")
    assert response.add(["first", Quoted("word " * 5000)])
    assert not response.add(["second", Quoted("word " * 5000)])
    text = response.text("search", "1")
    assert "first" in text
    assert "word word" in text
    assert "second" not in text
    assert text.endswith('More: call search again with the same arguments and cursor="1"')


def test_a_quotation_says_how_much_of_the_text_it_has() -> None:
    response = ToolResponse(MIN_BUDGET, "Headline:")
    assert response.quote("short") == 5
    text = "word " * 5000
    shown = response.quote(text)
    assert 0 < shown < len(text)
    assert f"{text[:shown]}…\n" in response.text("search")
    assert response.quote(text) == 0


@pytest.mark.parametrize("most", [10, 39, 40, 41, 100])
def test_the_beginning_of_a_long_text_is_quoted(most: int) -> None:
    """However little of it is wanted."""
    response = ToolResponse(MIN_BUDGET, "Headline:")
    assert 0 < response.quote("word " * 5000, most) <= 5 * most


@pytest.mark.parametrize("budget", [0, -1, MIN_BUDGET - 1, MAX_BUDGET + 1, 10**9, 10**30])
def test_a_budget_that_makes_no_sense_is_an_error(budget: int) -> None:
    with pytest.raises(UsageError, match="between 500 and 20,000 tokens"):
        check_budget(budget)
