"""Small drawings about one session: its branches as a tree, and its messages as a gauge of what was in context."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from ..core import model as m
from ..render.event_text import fork_label
from .views import Stretch

_WIDTH = 440
_LANE = 26
_TOP = 16
_MOST_LANES = 60
_LEAST = 14.0
"""So long is a branch drawn at least, that one can point at it."""
_GAP = 26.0
_THIN = 1.5


class _Arm(NamedTuple):
    """A branch, and where it is drawn."""

    branch: m.Branch
    lane: int
    start: float
    end: float


def tree(branches: list[m.Branch], messages: int, address: str) -> Markup:
    """The active line with all that was left beside it; each branch leads to itself."""
    arms = _arms(branches, messages)
    lanes = {arm.branch.id: arm.lane for arm in arms}
    height = _TOP * 2 + _LANE * max((arm.lane for arm in arms), default=0)
    end = float(_WIDTH - 60)
    parts = [
        Markup('<a href="{}"><title>active line</title><path class="line-alive" d="M8 {}H{:.1f}"/>').format(
            address, _TOP, end
        ),
        Markup('<circle class="tip alive" cx="{:.1f}" cy="{}" r="4"/></a>').format(end, _TOP),
    ]
    owners = {branch.id: branch for branch in branches}
    for arm in arms:
        parent = _owner(arm.branch, owners)
        parts.append(_drawn(arm, _TOP + _LANE * lanes.get(parent, 0), messages, address))
    label = Markup('<svg viewBox="0 0 {} {}" role="group" aria-label="Branches">{}</svg>')
    return label.format(_WIDTH, height, Markup("").join(parts))


def _drawn(arm: _Arm, from_y: float, messages: int, address: str) -> Markup:
    branch = arm.branch
    y = _TOP + _LANE * arm.lane
    fork = _x(branch.parent_index if branch.parent_index is not None else 0, messages)
    curve = f"C{fork + 8:.1f} {from_y:.1f} {arm.start - 8:.1f} {y} {arm.start:.1f} {y}"
    path = f"M{fork:.1f} {from_y:.1f}{curve}H{arm.end:.1f}"
    return Markup(
        '<a href="{}?branch={}"><title>{}</title><path class="hit" d="{}"/><path class="line-dead" d="{}"/>'
        '<circle class="tip" cx="{:.1f}" cy="{}" r="4"/><text x="{:.1f}" y="{}">{}</text></a>'
    ).format(address, branch.id, fork_label(branch), path, path, arm.end, y, arm.end + 9, y + 4, branch.id)


def _arms(branches: list[m.Branch], messages: int) -> list[_Arm]:
    """Each on the first lane where there is room."""
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
        found.append(_Arm(branch, lane + 1, start, end))
    return found


def _x(index: int, messages: int) -> float:
    return 8 + (_WIDTH - 68) * index / max(1, messages - 1)


def _owner(branch: m.Branch, owners: dict[int, m.Branch]) -> int:
    """The line that a branch left: the one whose messages its parent is among, as far as their ends tell."""
    place = branch.parent_index
    if place is None:
        return 0
    fits = [
        other for other in owners.values() if other.id != branch.id and other.root_index <= place <= other.tip_index
    ]
    return min(fits, key=lambda other: other.tip_index - other.root_index).id if fits else 0


def gauge(stretches: list[Stretch]) -> Markup:
    """All messages of a session in a row, each stretch in the colour of its fate."""
    total = max(1, sum(stretch.last - stretch.first + 1 for stretch in stretches))
    parts, left = [], 0.0
    for stretch in stretches:
        width = 1000 * (stretch.last - stretch.first + 1) / total
        title = f"#{stretch.first}–{stretch.last}: {stretch.why}"
        parts.append(
            Markup('<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="10"><title>{}</title></rect>').format(
                stretch.state, left, max(_THIN, width), title
            )
        )
        left += width
    svg = '<svg class="gauge" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    return Markup(svg).format(_in_words(stretches), Markup("").join(parts))


def _in_words(stretches: list[Stretch]) -> str:
    counts: dict[str, int] = {}
    for stretch in stretches:
        counts[stretch.why] = counts.get(stretch.why, 0) + stretch.last - stretch.first + 1
    return ", ".join(f"{count:,} {why}" for why, count in counts.items())
