"""Charts as SVG, coloured by CSS classes.

They need no script: each bar has its value in a `<title>` and may link to the sessions it counts, and the page has the
same numbers as a table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from markupsafe import Markup, escape

from ..render.sanitize import one_line
from ..store.stats import Day, Tokens, Tool
from ..usage.cost import Cost, dollars

WIDTH = 720
_LEFT, _RIGHT = 56, 12
_PANEL = 84
_TALL = 200
_HEADING = 24
_FOOT = 24
_GAP = 14
_ROW = 22
_LINE = 18
_NAMES = 148
_NUMBERS = 64
_MOST_TOOLS = 15
_MOST_DAYS = 92
_MOST_WEEKS = 78
_MOST_MONTHS = 60
_MOST_YEARS = 60
_LABELS = 8
_NARROWEST = 1.5
"""One rejection among a thousand calls must still be visible."""
_MOST_SERIES = 6
_CENTS = 10_000
"""Units per dollar: costs are drawn as whole numbers."""
_WEEKS = 53
_CELL = 12
_SQUARE = {"width": 10, "height": 10}
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Bucket(NamedTuple):
    """The time span of one bar."""

    first: date
    last: date
    label: str
    """The short name, for the axis."""
    name: str
    """The full name."""


Link = Callable[[date, date], str]
"""Returns the address of the page about a period, given its first day and the day after its last."""


class Series(NamedTuple):
    """A series of values in one colour, one value per bucket."""

    name: str
    colour: int
    values: list[int]


class Scale(NamedTuple):
    """The format of values."""

    full: Callable[[int], str]
    short: Callable[[int], str]
    """The format on the axis."""


class DayCost(NamedTuple):
    """The cost of one model on one day."""

    day: str
    model: str
    cost: Cost


# --- the charts ------------------------------------------------------------------------------------------------------


def activity_chart(days: Sequence[Day], link: Link | None = None) -> Markup:
    """Sessions, turns and calls over time, in separate panels because their scales differ."""
    buckets = buckets_of(day.day for day in days)
    sessions = "sessions" if _are_days(buckets) else "sessions per day, added up"
    panels = [
        [Series(sessions, 1, _sums(buckets, ((day.day, day.sessions) for day in days)))],
        [Series("turns", 2, _sums(buckets, ((day.day, day.turns) for day in days)))],
        [Series("calls", 3, _sums(buckets, ((day.day, day.calls) for day in days)))],
    ]
    return _over_time("activity", "Activity", buckets, panels, _PANEL, link)


def token_chart(tokens: Sequence[Tokens], link: Link | None = None) -> Markup:
    """Tokens over time, by kind. The cache has its own panel: it is read so often that it would hide the rest."""
    tokens = [entry for entry in tokens if is_date(entry.day)]
    buckets = buckets_of(entry.day for entry in tokens)
    kinds: tuple[tuple[str, Callable[[Tokens], int]], ...] = (
        ("input", lambda entry: entry.input), ("output", lambda entry: entry.output),
        ("cache read", lambda entry: entry.cache_read), ("cache write", lambda entry: entry.cache_write),
    )  # fmt: skip
    series = [
        Series(name, colour, _sums(buckets, ((entry.day, value(entry)) for entry in tokens)))
        for colour, (name, value) in enumerate(kinds, 1)
    ]
    return _over_time("tokens", "Tokens", buckets, [series[:2], series[2:]], _TALL - 60, link)


def cost_chart(costs: Sequence[DayCost], link: Link | None = None) -> Markup:
    """Cost over time, by model; the cheapest models share a colour."""
    costs = [entry for entry in costs if is_date(entry.day)]
    buckets = buckets_of(entry.day for entry in costs)
    by_model: dict[str, float] = {}
    for entry in costs:
        by_model[entry.model] = by_model.get(entry.model, 0) + entry.cost.usd
    paid = sorted((model for model, usd in by_model.items() if usd), key=lambda model: (-by_model[model], model))
    named = paid if len(paid) <= _MOST_SERIES else paid[: _MOST_SERIES - 1]
    groups = [(_short(model), {model}) for model in named]
    if len(paid) > len(named):
        groups.append((f"{len(paid) - len(named)} other models", {*paid} - {*named}))
    stacked = [
        Series(
            name,
            colour,
            _sums(buckets, ((e.day, round(e.cost.usd * _CENTS)) for e in costs if e.model in models)),
        )
        for colour, (name, models) in enumerate(groups, 1)
    ]
    return _over_time("cost", "Cost", buckets if stacked else [], [stacked] if stacked else [], _TALL, link, _MONEY)


def stop_chart(days: Sequence[Day], link: Link | None = None) -> Markup:
    """Rejections and interruptions over time."""
    buckets = buckets_of(day.day for day in days)
    stacked = [
        Series("rejections", 1, _sums(buckets, ((day.day, day.rejections) for day in days))),
        Series("interruptions", 2, _sums(buckets, ((day.day, day.interruptions) for day in days))),
    ]
    return _over_time("stops", "Rejections and interruptions", buckets, [stacked], _TALL - 60, link)


def heatmap(days: Sequence[Day], today: date, link: Link) -> Markup:
    """The days of the last year, one column per week, coloured by number of turns. Each day links to its sessions."""
    counts = {day.day: day for day in days}
    monday = today - timedelta(days=today.weekday(), weeks=_WEEKS - 1)
    shown = [monday + timedelta(days=number) for number in range((today - monday).days + 1)]
    turns = [counts[day.isoformat()].turns for day in shown if day.isoformat() in counts]
    steps = _levels(turns)
    parts = [_text(name, _LEFT - 6, _HEADING + row * _CELL + 10, "end") for row, name in enumerate(_WEEKDAYS) if name]
    for number, day in enumerate(shown):
        week, row = divmod(number, 7)
        x, y = _LEFT + week * _CELL, _HEADING + row * _CELL
        if row == 0 and day.day <= 7:
            parts.append(_text(_MONTHS[day.month - 1], x, _HEADING - 8, "start"))
        parts.append(_heat_cell(day, counts.get(day.isoformat()), steps, x, y, link))
    days_used = sum(count > 0 for count in turns)
    description = f"{sum(turns):,} turns on {days_used:,} days, at most {max(turns, default=0):,} on one day"
    return _picture("heat", "Turns per day in the last year", description, _HEADING + 7 * _CELL + 4, parts, bool(turns))


def _heat_cell(day: date, counted: Day | None, steps: list[int], x: float, y: float, link: Link) -> Markup:
    name = _day(day).name
    if counted is None:
        return _element("rect", _element("title", f"{name}: no activity"), class_="heat-0", x=_n(x), y=_n(y), **_SQUARE)
    title = f"{name}: {counted.turns:,} turns, {counted.calls:,} calls in {counted.sessions:,} sessions"
    level = 1 + bisect_right(steps, counted.turns)
    cell = _element("rect", _element("title", title), class_=f"heat-{level}", x=_n(x), y=_n(y), **_SQUARE)
    return _link(link(day, day + timedelta(days=1)), title, cell)


def _levels(values: list[int]) -> list[int]:
    """Return thresholds that divide the values above 0 into four groups of about the same size."""
    used = sorted(value for value in values if value)
    return [used[len(used) * part // 4] for part in (1, 2, 3)] if used else [1, 2, 3]


def tool_chart(tools: Sequence[Tool]) -> Markup:
    """The most frequently called tools, by the outcome of their calls."""
    shown, rest = tools[:_MOST_TOOLS], tools[_MOST_TOOLS:]
    names = ("succeeded", "failed", "rejected", "interrupted")
    parts = [_legend(list(zip(names, range(1, 5), strict=True)))[0]] if shown else []
    most = max((tool.calls for tool in shown), default=0)
    for number, tool in enumerate(shown):
        parts += _tool_row(tool, most, _HEADING + number * _ROW)
    height = _HEADING + len(shown) * _ROW
    if rest:
        calls = sum(tool.calls for tool in rest)
        text = f"and {len(rest):,} more with {calls:,} calls"
        parts.append(_text(text, _NAMES, height + 15, "start"))
        height += _ROW
    description = "; ".join(
        f"{_short(tool.name)} {tool.calls:,}, {tool.failed:,} failed and {tool.rejected:,} rejected" for tool in shown
    )
    return _picture("tools", "Tools by calls", description, height + 8, parts)


def _tool_row(tool: Tool, most: int, top: float) -> list[Markup]:
    succeeded = max(0, tool.calls - tool.failed - tool.rejected - tool.interrupted)
    values = (
        ("succeeded", succeeded),
        ("failed", tool.failed),
        ("rejected", tool.rejected),
        ("interrupted", tool.interrupted),
    )
    width_of_all = WIDTH - _NAMES - _NUMBERS - _RIGHT
    parts = [_text(_short(tool.name), _NAMES - 8, top + 14, "end")]
    left = float(_NAMES)
    for colour, (what, value) in enumerate(values, 1):
        if value:
            width = max(_NARROWEST, value / most * width_of_all)
            title = f"{_short(tool.name)}: {value:,} {what}"
            parts.append(_bar(colour, left, top + 3, width, _ROW - 6, title))
            left += width
    parts.append(_text(f"{tool.calls:,}", left + 6, top + 14, "start"))
    return parts


def _short(name: str) -> str:
    return one_line(name, 22)


# --- bars over time --------------------------------------------------------------------------------------------------


def _over_time(
    key: str,
    title: str,
    buckets: list[Bucket],
    panels: list[list[Series]],
    tall: int,
    link: Link | None,
    scale: Scale | None = None,
) -> Markup:
    """Panels with stacked bars, one above the other, over one time axis."""
    scale = scale or _COUNTS
    parts: list[Markup] = []
    top = 0.0
    for stacked in panels if buckets else []:
        legend, top = _legend([(series.name, series.colour) for series in stacked], top)
        parts.append(legend)
        parts += _panel(buckets, stacked, top, tall, link, scale)
        top += tall + _GAP
    if buckets:
        parts += _time_axis(buckets, top - _GAP)
    descriptions = [
        f"{scale.full(sum(series.values))} {series.name}, at most {scale.full(max(series.values))} "
        f"in one {_unit(buckets)}"
        for stacked in panels
        for series in stacked
        if series.values
    ]
    when = (
        f", {buckets[0].name} to {buckets[-1].name}"
        if len(buckets) > 1
        else f", {buckets[0].name}"
        if descriptions
        else ""
    )
    return _picture(key, title + when, "; ".join(descriptions), top - _GAP + _FOOT, parts, link is not None)


def _panel(
    buckets: list[Bucket], stacked: list[Series], top: float, tall: int, link: Link | None, scale: Scale
) -> list[Markup]:
    most = max(sum(values) for values in zip(*(series.values for series in stacked), strict=True))
    ticks = ticks_up_to(most)
    unit = tall / ticks[-1]
    foot = top + tall
    parts = []
    for value in ticks:
        y = foot - value * unit
        name = "axis" if value == 0 else "grid"
        parts.append(_element("line", class_=name, x1=_LEFT, y1=_n(y), x2=WIDTH - _RIGHT, y2=_n(y)))
        parts.append(_text(scale.short(value), _LEFT - 6, y + 4, "end"))
    step, width = _band(len(buckets))
    for number, bucket in enumerate(buckets):
        bars = []
        y = foot
        for series in stacked:
            if value := series.values[number]:
                height = value * unit
                y -= height
                title = f"{bucket.name}: {scale.full(value)} {series.name}"
                bars.append(_bar(series.colour, _LEFT + number * step + (step - width) / 2, y, width, height, title))
        if link is not None and bars:
            # The whole column is clickable: a low bar would be hard to hit.
            hit = _element(
                "rect",
                _element("title", bucket.name),
                class_="hit",
                x=_n(_LEFT + number * step),
                y=_n(top),
                width=_n(step),
                height=_n(tall),
            )
            after = bucket.last + min(timedelta(days=1), date.max - bucket.last)
            bars = [_link(link(bucket.first, after), f"Sessions: {bucket.name}", Markup("").join([hit, *bars]))]
        parts += bars
    return parts


def _time_axis(buckets: list[Bucket], foot: float) -> list[Markup]:
    step, _ = _band(len(buckets))
    every = -(-len(buckets) // _LABELS)
    return [
        _text(bucket.label, _LEFT + (number + 0.5) * step, foot + 16, "middle")
        for number, bucket in enumerate(buckets)
        if number % every == 0
    ]


def _band(count: int) -> tuple[float, float]:
    """Return the horizontal space for each bar, and its width, which is limited if there are few bars."""
    step = (WIDTH - _LEFT - _RIGHT) / count
    return step, min(48.0, step * 0.8)


# --- time spans ------------------------------------------------------------------------------------------------------


def buckets_of(days: Iterable[str]) -> list[Bucket]:
    """Return all days from the first to the last; weeks, months or years if there are too many to draw."""
    known = sorted(date.fromisoformat(day) for day in set(days))
    if not known:
        return []
    first, last = known[0], known[-1]
    if (last - first).days < _MOST_DAYS:
        return [_day(first + timedelta(days=number)) for number in range((last - first).days + 1)]
    monday = first - timedelta(days=min(first.weekday(), first.toordinal() - 1))
    weeks = (last - monday).days // 7 + 1
    if weeks <= _MOST_WEEKS:
        return [_week(monday + timedelta(weeks=number)) for number in range(weeks)]
    begin, end = first.year * 12 + first.month - 1, last.year * 12 + last.month - 1
    if end - begin < _MOST_MONTHS:
        return [_month(number) for number in range(begin, end + 1)]
    step = -(-(last.year - first.year + 1) // _MOST_YEARS)
    return [_years(year, step) for year in range(first.year, last.year + 1, step)]


def _day(day: date) -> Bucket:
    label = f"{day.day} {_MONTHS[day.month - 1]}"
    return Bucket(day, day, label, f"{label} {day.year}")


def _week(monday: date) -> Bucket:
    label = f"{monday.day} {_MONTHS[monday.month - 1]}"
    # The last week of the calendar has no Sunday.
    last = monday + min(timedelta(days=6), date.max - monday)
    return Bucket(monday, last, label, f"the week of {label} {monday.year}")


def _month(number: int) -> Bucket:
    first = date(number // 12, number % 12 + 1, 1)
    last = date(first.year, 12, 31) if first.month == 12 else first.replace(month=first.month + 1) - timedelta(days=1)
    label = f"{_MONTHS[first.month - 1]} {first.year}"
    return Bucket(first, last, label, label)


def _years(year: int, step: int) -> Bucket:
    last = min(year + step - 1, date.max.year)
    return Bucket(date(year, 1, 1), date(last, 12, 31), str(year), str(year) if step == 1 else f"{year}–{last}")


def is_date(day: str) -> bool:
    """Whether a day is a date, and not unknown."""
    return day[:1].isdigit()


def _are_days(buckets: list[Bucket]) -> bool:
    return all(bucket.first == bucket.last for bucket in buckets)


def _unit(buckets: list[Bucket]) -> str:
    length = (buckets[0].last - buckets[0].first).days
    return "day" if length == 0 else "week" if length < 7 else "month" if length < 31 else "year"


def _sums(buckets: list[Bucket], values: Iterable[tuple[str, int]]) -> list[int]:
    sums = [0] * len(buckets)
    starts = [bucket.first for bucket in buckets]
    for day, value in values:
        sums[bisect_right(starts, date.fromisoformat(day)) - 1] += value
    return sums


# --- scales ----------------------------------------------------------------------------------------------------------


def ticks_up_to(most: int) -> list[int]:
    """Return round whole numbers from 0 to at least the greatest value, in up to four steps."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            step = factor * size
            if most <= step * 4:
                return list(range(0, max(-(-most // step), 1) * step + 1, step))
        size *= 10


def compact(value: int) -> str:
    """Shorten a number for an axis: 1,500 becomes 1.5k."""
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return str(value)


_COUNTS = Scale("{:,}".format, compact)
_MONEY = Scale(lambda value: dollars(Cost(usd=value / _CENTS)), lambda value: f"${value / _CENTS:,.10g}")


# --- SVG -------------------------------------------------------------------------------------------------------------


def _picture(
    key: str, title: str, description: str, height: float, parts: list[Markup], has_links: bool = False
) -> Markup:
    tall = height if parts else 48
    inner = [
        _element("title", title, id=f"plot-{key}-title"),
        _element("desc", description or "No data in this period.", id=f"plot-{key}-desc"),
        *(parts or [_text("No data in this period.", WIDTH / 2, 28, "middle")]),
    ]
    return _element(
        "svg",
        Markup("").join(inner),
        class_=f"plot plot-{key}",
        viewBox=f"0 0 {WIDTH} {_n(tall)}",
        role="group" if has_links and parts else "img",
        aria_labelledby=f"plot-{key}-title",
        aria_describedby=f"plot-{key}-desc",
    )


def _legend(entries: Sequence[tuple[str, int]], top: float = 0.0) -> tuple[Markup, float]:
    """Return the legend, in as many lines as it needs, and the y coordinate below it."""
    parts = []
    left = float(_LEFT)
    for name, colour in entries:
        width = 15 + len(name) * 7 + 18
        if left > _LEFT and left + width > WIDTH:
            left, top = float(_LEFT), top + _LINE
        parts.append(_element("rect", class_=f"bar-{colour}", x=_n(left), y=_n(top + 4), width=10, height=10))
        parts.append(_text(name, left + 15, top + 13, "start"))
        left += width
    return Markup("").join(parts), top + _HEADING


def _bar(colour: int, x: float, y: float, width: float, height: float, title: str) -> Markup:
    inner = _element("title", title)
    return _element("rect", inner, class_=f"bar-{colour}", x=_n(x), y=_n(y), width=_n(width), height=_n(height))


def _link(address: str, name: str, inner: Markup) -> Markup:
    """Return a link that the tab key skips: the table below the chart has the same links."""
    return _element("a", inner, href=address, aria_label=name, tabindex=-1)


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return _element("text", text, class_="tick", x=_n(x), y=_n(y), text_anchor=anchor)


def _element(tag: str, inner: str | Markup = "", **attributes: object) -> Markup:
    """Return an element. Text that is not markup is escaped."""
    given = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{given}>{escape(inner)}</{tag}>")


def _n(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
