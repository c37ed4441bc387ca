"""The entries of the change log for a session that changed: its state before and after is compared.

| kind | data |
|---|---|
| `session.created` | `agent`, `name`, and `count` of its messages |
| `messages.appended` | `first`, `count` |
| `messages.superseded` | `first`, `last` (the first that is as it was; null: to the end) |
| `branches.changed` | `tip`; messages are on another branch, or the model has them no more |
| `subagents.changed` | |
| `events.found` | `events`: `kind` and `message_index` of each |
| `session.changed` | what is different of `status`, `title`, `counts`, `project` and the like |
| `session.ended` | `status` |
| `session.gone` | |
| `session.forgotten` | `agent`, `name` |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..store import Store
from ..store.events import StoredEvent
from ..store.message_patches import MessagePatches, Span

Row = tuple[str, dict[str, object]]
"""A kind, and its data."""

_OWN_ROWS = ("branch", "subagent")
_LIVE = ("running", "waiting")
_DONE = ("complete", "interrupted")
_RUNNING_CALL = b'"reason":"running"'
_MOST_RUNS = 20
_MOST_EVENTS = 500


class Held(NamedTuple):
    """What a store holds of a session, as far as it is told when it changes."""

    messages: int
    columns: dict[str, object]
    counts: dict[str, int]
    events: list[StoredEvent]
    patches: MessagePatches
    is_gone: bool = False


class Compared(NamedTuple):
    """What a reading found out about the messages that had been there."""

    same: int
    """How many of the first ones are the same messages."""
    changed: list[int]
    """Those among them of which something is different now, apart from patches."""
    tip: int | None


def held(store: Store, agent: str, name: str) -> Held | None:
    """What a store holds of a session of this machine; None when it has no such session."""
    found = store.sessions.summary(agent, name)
    if found is None:
        return None
    events, patches = store.events.of_session(found.id), store.messages.patches(found.id)
    return Held(found.messages, found.columns, found.counts, events, patches, found.is_gone)


def created(agent: str, name: str, messages: int) -> Row:
    """A session that was not there."""
    return "session.created", {"agent": agent, "name": name, "count": messages}


def appended(first: int, last: int) -> Iterator[Row]:
    """Messages that came behind the others."""
    if last > first:
        yield "messages.appended", {"first": first, "count": last - first}


def superseded(changed: Iterable[int]) -> Iterator[Row]:
    """Messages that were written anew, those in a row together; very many rows would help nobody."""
    runs: list[list[int]] = []
    for index in sorted(set(changed)):
        if runs and runs[-1][1] == index:
            runs[-1][1] = index + 1
        else:
            runs.append([index, index + 1])
    if len(runs) > _MOST_RUNS:
        runs = [[runs[0][0], runs[-1][1]]]
    for first, last in runs:
        yield "messages.superseded", {"first": first, "last": last}


def differences(before: Held, now: Held, compared: Compared) -> Iterator[Row]:
    """What is to be told of a session that was there before; nothing when nothing is different."""
    same = min(compared.same, before.messages)
    yield from superseded(
        index for index in {*compared.changed, *corrected(before.patches, now.patches)} if index < same
    )
    if same < before.messages:
        yield "messages.superseded", {"first": same, "last": None}
    else:
        yield from appended(same, now.messages)
    if _of_kind("branch", before) != _of_kind("branch", now) or not _same_places(before.patches, now.patches, same):
        yield "branches.changed", {"tip": compared.tip}
    if _of_kind("subagent", before) != _of_kind("subagent", now):
        yield "subagents.changed", {}
    yield from _found(before.events, now.events)
    yield from _summary(before, now)


# --- messages --------------------------------------------------------------------------------------------------------


def corrected(before: MessagePatches, now: MessagePatches) -> set[int]:
    """Messages of which later lines told something else: who wrote them, how a call ended, what was said."""
    found = {
        *_differing(before.authors, now.authors), *_differing(before.outcomes, now.outcomes),
        *_differing(before.rewritten, now.rewritten),
    }  # fmt: skip
    # The tokens of a response stand on its last record: that they have moved on is told by that record.
    found.update(index for index in _differing(before.usages, now.usages) if now.usages.get(index) is not None)
    return found


def _differing(before: Mapping[int, object], now: Mapping[int, object]) -> Iterator[int]:
    return (key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _same_places(before: MessagePatches, now: MessagePatches, count: int) -> bool:
    """Whether the first messages are on the same branches, and in context as they were."""
    return _clipped(before.spans, count) == _clipped(now.spans, count)


def _clipped(spans: list[Span], count: int) -> list[tuple[int, int, int, str]]:
    return [(span.first, min(span.last, count - 1), span.branch, span.context) for span in spans if span.first < count]


# --- events ----------------------------------------------------------------------------------------------------------


def _of_kind(kind: str, held: Held) -> list[bytes]:
    return [event[2] for event in held.events if event[0] == kind]


def _found(before: list[StoredEvent], now: list[StoredEvent]) -> Iterator[Row]:
    """Events that were not there."""
    left = Counter(_names(before))
    new = []
    for name in _names(now):
        if left[name]:
            left[name] -= 1
        else:
            new.append({"kind": name[0], "message_index": name[1]})
    for start in range(0, len(new), _MOST_EVENTS):
        yield "events.found", {"events": new[start : start + _MOST_EVENTS]}


def _names(events: list[StoredEvent]) -> Iterator[tuple[str, int | None]]:
    for kind, message, data in events:
        # A call that still runs is no event yet.
        if kind not in _OWN_ROWS and not (kind == "orphan" and _RUNNING_CALL in data):
            yield kind, message


# --- the session -----------------------------------------------------------------------------------------------------


def _summary(before: Held, now: Held) -> Iterator[Row]:
    changed = {name: value for name, value in now.columns.items() if value != before.columns[name]}
    counts = {
        kind: count for kind, count in now.counts.items() if kind != "messages" and count != before.counts.get(kind)
    }
    if counts:
        changed["counts"] = counts
    if before.is_gone:
        changed["gone_at"] = None
    if changed:
        yield "session.changed", changed
    if "status" in changed and _has_ended(str(before.columns["status"]), str(now.columns["status"])):
        yield "session.ended", {"status": now.columns["status"]}


def _has_ended(before: str, now: str) -> bool:
    """Whether work on a session is over.

    Where the agent keeps a register of what is open, leaving it is the end. Other agents keep none; while such a
    session is worked on, it looks like one that was killed in the middle of its turn, so that only the end of a turn
    counts.
    """
    return now not in _LIVE and (before in _LIVE or (now in _DONE and before not in _DONE))
