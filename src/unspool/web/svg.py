"""Drawings of one session: its branches as a tree, and a gauge of the messages that were in context."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from ..core import model as m
from ..render.event_text import fork_label
from .views import ContextSpan

_WIDTH = 440
_LANE = 26
_TOP = 16
_MOST_LANES = 60
_LEAST = 14.0
"""The minimum width of a branch, so that it can be clicked."""
_GAP = 26.0
_THIN = 1.5


class _DrawnBranch(NamedTuple):
    """A branch with its lane and its horizontal extent."""

    branch: m.Branch
    lane: int
    start: float
    end: float


def tree(branches: list[m.Branch], messages: int, address: str) -> Markup:
    """Draw the active branch with all others below it. Each links to its page."""
    drawn = _lay_out(branches, messages)
    lanes = {one.branch.id: one.lane for one in drawn}
    height = _TOP * 2 + _LANE * max((one.lane for one in drawn), default=0)
    end = float(_WIDTH - 60)
    parts = [
        Markup('<a href="{}"><title>active branch</title><path class="line-alive" d="M8 {}H{:.1f}"/>').format(
            address, _TOP, end
        ),
        Markup('<circle class="tip alive" cx="{:.1f}" cy="{}" r="4"/></a>').format(end, _TOP),
    ]
    owners = {branch.id: branch for branch in branches}
    for one in drawn:
        parent = _owner(one.branch, owners)
        parts.append(_draw(one, _TOP + _LANE * lanes.get(parent, 0), messages, address))
    label = Markup('<svg viewBox="0 0 {} {}" role="group" aria-label="Branches">{}</svg>')
    return label.format(_WIDTH, height, Markup("").join(parts))


def _draw(one: _DrawnBranch, from_y: float, messages: int, address: str) -> Markup:
    branch = one.branch
    y = _TOP + _LANE * one.lane
    fork = _x(branch.parent_index if branch.parent_index is not None else 0, messages)
    curve = f"C{fork + 8:.1f} {from_y:.1f} {one.start - 8:.1f} {y} {one.start:.1f} {y}"
    path = f"M{fork:.1f} {from_y:.1f}{curve}H{one.end:.1f}"
    return Markup(
        '<a href="{}?branch={}"><title>{}</title><path class="hit" d="{}"/><path class="line-old" d="{}"/>'
        '<circle class="tip" cx="{:.1f}" cy="{}" r="4"/><text x="{:.1f}" y="{}">{}</text></a>'
    ).format(address, branch.id, fork_label(branch), path, path, one.end, y, one.end + 9, y + 4, branch.id)


def _lay_out(branches: list[m.Branch], messages: int) -> list[_DrawnBranch]:
    """Place each branch on the first lane that is free."""
    free: list[float] = []
    found = []
    for branch in sorted(branches, key=lambda branch: (branch.root_index, branch.id)):
        start = _x(branch.parent_index if branch.parent_index is not None else 0, messages) + 20
        end = min(max(start + _LEAST, _x(branch.tip_index, messages)), _WIDTH - 40.0)
        start = min(start, end)
        lane = next((number for number, until in enumerate(free) if until <= start - 20), len(free))
        lane = min(lane, _MOST_LANES)
        if lane == len(free):
            free.append(0.0)
        if lane < len(free):
            free[lane] = end + _GAP
        found.append(_DrawnBranch(branch, lane + 1, start, end))
    return found


def _x(index: int, messages: int) -> float:
    return 8 + (_WIDTH - 68) * index / max(1, messages - 1)


def _owner(branch: m.Branch, owners: dict[int, m.Branch]) -> int:
    """Return the branch that another forked from: the shortest one whose range contains its parent."""
    parent = branch.parent_index
    if parent is None:
        return 0
    fits = [
        other for other in owners.values() if other.id != branch.id and other.root_index <= parent <= other.tip_index
    ]
    return min(fits, key=lambda other: other.tip_index - other.root_index).id if fits else 0


def gauge(spans: list[ContextSpan]) -> Markup:
    """Draw all messages of a session in a row, coloured by their state."""
    total = max(1, sum(span.last - span.first + 1 for span in spans))
    parts, x = [], 0.0
    for span in spans:
        width = 1000 * (span.last - span.first + 1) / total
        title = f"#{span.first}–{span.last}: {span.why}"
        parts.append(
            Markup('<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="10"><title>{}</title></rect>').format(
                span.state, x, max(_THIN, width), title
            )
        )
        x += width
    svg = '<svg class="gauge" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    return Markup(svg).format(_describe_spans(spans), Markup("").join(parts))


def _describe_spans(spans: list[ContextSpan]) -> str:
    counts: dict[str, int] = {}
    for span in spans:
        counts[span.why] = counts.get(span.why, 0) + span.last - span.first + 1
    return ", ".join(f"{count:,} {why}" for why, count in counts.items())
