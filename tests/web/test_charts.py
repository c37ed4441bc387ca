"""The charts are well-formed, escaped, and show the given numbers, however many there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from unspool.store.stats import Day, Tokens, Tool
from unspool.usage.cost import Cost
from unspool.web.charts import (
    DayCost,
    activity_chart,
    buckets_of,
    compact,
    cost_chart,
    heatmap,
    stop_chart,
    ticks_up_to,
    token_chart,
    tool_chart,
)

BEGIN = date(2026, 1, 30)
SVG = re.compile(r"<(?:[a-z]+)(?: [a-zA-Z0-9-]+=\"[^\"<>]*\")*>")
ATTRIBUTES = {
    "class", "viewBox", "role", "aria-labelledby", "aria-describedby", "id", "x", "y", "width", "height", "x1", "y1",
    "x2", "y2", "text-anchor", "href", "aria-label", "tabindex",
}  # fmt: skip


def days(count: int) -> list[Day]:
    """Days on end, each with numbers of its own."""
    return [
        Day(
            day=(BEGIN + timedelta(days=number)).isoformat(),
            sessions=1 + number % 3,
            turns=number % 7,
            calls=number * 11 % 400,
            rejections=number % 2,
            interruptions=number % 5 == 0,
        )
        for number in range(count)
    ]


def tokens(count: int) -> list[Tokens]:
    """Tokens of two models on each day."""
    return [
        Tokens(
            day=(BEGIN + timedelta(days=number)).isoformat(),
            model=model,
            replies=1,
            input=number,
            output=2 * number,
            cache_read=50 * number,
            cache_write=3,
            reasoning=0,
        )
        for number in range(count)
        for model in ("one", "two")
    ]


def tool(name: str, calls: int, failed: int = 0, rejected: int = 0, interrupted: int = 0) -> Tool:
    return Tool(name=name, calls=calls, failed=failed, rejected=rejected, interrupted=interrupted)


def parse(plot: Markup) -> ElementTree.Element:
    """The picture; everything in it is of the few kinds that pages have classes for."""
    root = ElementTree.fromstring(str(plot))
    for element in root.iter():
        assert element.tag in {"svg", "title", "desc", "rect", "line", "text", "a"}
        assert set(element.attrib) <= ATTRIBUTES
        if element.tag in {"rect", "line", "text"}:
            assert re.fullmatch(r"bar-[1-6]|heat-[0-4]|hit|grid|axis|tick", element.attrib["class"])
    # What is inside of an image cannot be focused.
    assert root.attrib["role"] == ("group" if any(root.iter("a")) else "img")
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for bar in root.iter("rect"):
        x, y = float(bar.attrib["x"]), float(bar.attrib["y"])
        assert left <= x <= x + float(bar.attrib["width"]) <= width
        assert top <= y <= y + float(bar.attrib["height"]) <= height + 0.2
    return root


def shown(plot: Markup, name: str) -> int:
    """What the bars of one kind add up to, by their titles."""
    titles = [title.text or "" for bar in parse(plot).iter("rect") for title in bar.iter("title")]
    values = (re.fullmatch(rf".*: ([\d,]+) {name}", text) for text in titles)
    return sum(int(found[1].replace(",", "")) for found in values if found)


@pytest.mark.parametrize("count", [0, 1, 2, 92, 93, 400, 800, 3000, 40_000])
def test_bars_show_the_sums(count: int) -> None:
    """Whether a bar is a day, a week, a month or years: nothing is lost, and there are not too many of them."""
    given, used = days(count), tokens(count)
    plot = activity_chart(given)
    assert shown(plot, "turns") == sum(day.turns for day in given)
    assert shown(plot, "calls") == sum(day.calls for day in given)
    assert shown(plot, "sessions(?: per day, added up)?") == sum(day.sessions for day in given)
    assert shown(stop_chart(given), "rejections") == sum(day.rejections for day in given)
    assert shown(stop_chart(given), "interruptions") == sum(day.interruptions for day in given)
    assert shown(token_chart(used), "cache read") == sum(entry.cache_read for entry in used)
    assert shown(token_chart(used), "input") == sum(entry.input for entry in used)
    assert len(buckets_of(day.day for day in given)) <= 92


@pytest.mark.parametrize("count", [1, 92, 400])
def test_bars_lead_to_their_time(count: int) -> None:
    """Every day is behind exactly one link of a chart."""
    plot = activity_chart(days(count), lambda first, after: f"/stats?after={first}&before={after}")
    found = [link.attrib["href"] for link in parse(plot).iter("a")]
    spans = sorted({tuple(map(date.fromisoformat, re.findall(r"\d{4}-\d\d-\d\d", address))) for address in found})
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    for number in range(count):
        day = BEGIN + timedelta(days=number)
        assert sum(first <= day < after for first, after in spans) == 1
    assert "&amp;before" in plot


def test_costs_are_stacked_by_model() -> None:
    """The sums are exact to the cent; the cheapest models share a colour, and models without a price have none."""
    costs = [
        DayCost(entry.day, f"model {number}", Cost(usd=1.25 * number))
        for entry in tokens(30)[::2]
        for number in range(9)
    ]
    plot = cost_chart([*costs, DayCost("2026-02-01", "free", Cost(unpriced_tokens=7)), DayCost("?", "a", Cost(usd=1))])
    titles = [title.text or "" for bar in parse(plot).iter("rect") for title in bar.iter("title")]
    found = [re.fullmatch(r".*: \$([\d,.]+) (.*)", title) for title in titles]
    by_name: dict[str, float] = {}
    for bar in found:
        assert bar is not None
        by_name[bar[2]] = by_name.get(bar[2], 0) + float(bar[1].replace(",", ""))
    assert by_name["model 8"] == pytest.approx(30 * 10)
    assert by_name["3 other models"] == pytest.approx(30 * 1.25 * (1 + 2 + 3))
    assert "free" not in plot
    assert "No data" in cost_chart([DayCost("2026-02-01", "free", Cost(unpriced_tokens=7))])


def test_the_calendar_has_every_day_of_a_year() -> None:
    """A day with sessions leads to them, in one of four shades by its turns."""
    last = BEGIN + timedelta(days=399)
    plot = heatmap(days(400), last, lambda first, after: f"/stats?after={first}&before={after}")
    cells = list(parse(plot).iter("rect"))
    assert 52 * 7 < len(cells) <= 53 * 7
    assert len(list(parse(plot).iter("a"))) == len(cells)
    assert {cell.attrib["class"] for cell in cells} == {"heat-1", "heat-2", "heat-3", "heat-4"}
    empty = heatmap([], last, lambda *_: "")
    assert {cell.attrib["class"] for cell in parse(empty).iter("rect")} == {"heat-0"}


def test_empty_charts_say_so() -> None:
    """Without numbers there is a picture that says so."""
    for plot in (activity_chart([]), token_chart([]), stop_chart([]), tool_chart([])):
        assert [text.text for text in parse(plot).iter("text")] == ["No data in this period."]


def test_days_without_sessions_are_drawn() -> None:
    """The axis is time, not a list of the days there happen to be."""
    buckets = buckets_of(["2026-02-27", "2026-03-02"])
    assert [bucket.label for bucket in buckets] == ["27 Feb", "28 Feb", "1 Mar", "2 Mar"]


@given(st.lists(st.dates(), min_size=1, max_size=20))
@settings(deadline=None, max_examples=200)
def test_every_day_is_in_one_interval(dates: list[date]) -> None:
    """Even those of clocks that are wrong by centuries."""
    buckets = buckets_of(day.isoformat() for day in dates)
    assert len(buckets) <= 92
    assert all(one.last < two.first for one, two in pairwise(buckets))
    for day in dates:
        assert sum(bucket.first <= day <= bucket.last for bucket in buckets) == 1


@given(st.integers(0, 10**15))
def test_ticks_are_few_round_and_enough(most: int) -> None:
    """The last one is not below the greatest value, and not far above it."""
    ticks = ticks_up_to(most)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 5
    assert ticks[-1] >= most
    assert ticks[-2] < max(most, 1)
    assert str(ticks[1]).rstrip("0") in {"1", "2", "5"}


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (950, "950"), (1500, "1.5k"), (20_000, "20k"), (3 * 10**6, "3M"), (10**12, "1T")]
)
def test_numbers_on_axes_are_short(value: int, text: str) -> None:
    """Three digits and a letter."""
    assert compact(value) == text


def test_tools_show_how_their_calls_ended() -> None:
    """The parts of a bar are the parts of its calls; further tools are counted."""
    tools = [tool("Bash", 1000, 200, 1, 3), tool("Edit", 40, 4, 9)] + [tool(f"tool {n}", 5) for n in range(20)]
    plot = tool_chart(tools)
    assert shown(plot, "failed") == 204
    assert shown(plot, "rejected") == 10
    assert shown(plot, "interrupted") == 3
    assert shown(plot, "succeeded") == 1040 - 204 - 10 - 3 + 13 * 5
    assert "and 7 more with 35 calls" in plot
    thin = next(bar for bar in parse(plot).iter("rect") if "1 rejected" in "".join(bar.itertext()))
    assert float(thin.attrib["width"]) >= 1


@pytest.mark.parametrize("name", ['<script>alert(1)</script>"', "a\x1b[31mb\x00\u202ec", "x" * 5000, "</svg>&<", "é\n"])
def test_tool_names_are_escaped(name: str) -> None:
    """A tool may be called anything."""
    plot = tool_chart([tool(name, 3)])
    parse(plot)
    assert "<script" not in plot
    assert not re.search(r"[\x00-\x08\x1b\u202e]", plot)
    assert len(plot) < 5000


@pytest.mark.parametrize("draw", [activity_chart, stop_chart])
def test_no_style_of_its_own(draw: Callable[[list[Day]], Markup]) -> None:
    """The content security policy would block it."""
    assert "style" not in draw(days(30))
