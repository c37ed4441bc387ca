"""Creates the entries of the change log for a session, by comparing its state before and after a change.

| kind | data |
|---|---|
| `session.created` | `agent`, `name`, and `count` of its messages |
| `messages.appended` | `first`, `count` |
| `messages.superseded` | `first`, `last` (the first unchanged one; null: to the end) |
| `branches.changed` | `tip`; messages moved to another branch, or are no longer in context |
| `subagents.changed` | |
| `events.found` | `events`: `kind` and `message_index` of each |
| `session.changed` | the changed fields among `status`, `title`, `counts`, `project` and others |
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
"""The kind of a change, and its data."""

_OWN_ROWS = ("branch", "subagent")
_LIVE = ("running", "waiting")
_DONE = ("complete", "interrupted")
_RUNNING_CALL = b'"reason":"running"'
_MAX_RUNS = 20
_MAX_EVENTS = 500


class StoredState(NamedTuple):
    """The parts of a stored session whose changes are recorded."""

    messages: int
    columns: dict[str, object]
    counts: dict[str, int]
    events: list[StoredEvent]
    patches: MessagePatches
    is_gone: bool = False


class Comparison(NamedTuple):
    """The result of comparing the messages that were just read with the stored ones."""

    same: int
    """Number of messages at the start that were not replaced by others, though their content may have changed."""
    changed: list[int]
    """The indices of messages that changed, apart from patches."""
    tip: int | None


def stored_state(store: Store, agent: str, name: str) -> StoredState | None:
    """Return the stored state of a session of this machine; None if it is not stored."""
    found = store.sessions.summary(agent, name)
    if found is None:
        return None
    events, patches = store.events.of_session(found.id), store.messages.patches(found.id)
    return StoredState(found.messages, found.columns, found.counts, events, patches, found.is_gone)


def created(agent: str, name: str, messages: int) -> Row:
    """Return the entry for a new session."""
    return "session.created", {"agent": agent, "name": name, "count": messages}


def appended(first: int, last: int) -> Iterator[Row]:
    """Yield the entry for new messages at the end."""
    if last > first:
        yield "messages.appended", {"first": first, "count": last - first}


def superseded(changed: Iterable[int]) -> Iterator[Row]:
    """Yield an entry for each run of rewritten messages; many runs are merged into one."""
    runs: list[list[int]] = []
    for index in sorted(set(changed)):
        if runs and runs[-1][1] == index:
            runs[-1][1] = index + 1
        else:
            runs.append([index, index + 1])
    if len(runs) > _MAX_RUNS:
        runs = [[runs[0][0], runs[-1][1]]]
    for first, last in runs:
        yield "messages.superseded", {"first": first, "last": last}


def differences(before: StoredState, now: StoredState, compared: Comparison) -> Iterator[Row]:
    """Yield the entries for a session that was stored before; none if nothing changed."""
    same = min(compared.same, before.messages)
    yield from superseded(
        index for index in {*compared.changed, *corrected(before.patches, now.patches)} if index < same
    )
    if same < before.messages:
        yield "messages.superseded", {"first": same, "last": None}
    else:
        yield from appended(same, now.messages)
    if _of_kind("branch", before) != _of_kind("branch", now) or not _same_positions(before.patches, now.patches, same):
        yield "branches.changed", {"tip": compared.tip}
    if _of_kind("subagent", before) != _of_kind("subagent", now):
        yield "subagents.changed", {}
    yield from _found(before.events, now.events)
    yield from _summary(before, now)


# --- messages --------------------------------------------------------------------------------------------------------


def corrected(before: MessagePatches, now: MessagePatches) -> set[int]:
    """Return the indices of messages whose author, outcome, content or usage was changed by later lines."""
    found = {
        *_differing(before.authors, now.authors), *_differing(before.outcomes, now.outcomes),
        *_differing(before.rewritten, now.rewritten),
    }  # fmt: skip
    # The usage of a response is on its last record; when it moves to a new record, that one is reported anyway.
    found.update(index for index in _differing(before.usages, now.usages) if now.usages.get(index) is not None)
    return found


def _differing(before: Mapping[int, object], now: Mapping[int, object]) -> Iterator[int]:
    return (key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _same_positions(before: MessagePatches, now: MessagePatches, count: int) -> bool:
    """Whether the first `count` messages are on the same branches and have the same context state."""
    return _clipped(before.spans, count) == _clipped(now.spans, count)


def _clipped(spans: list[Span], count: int) -> list[tuple[int, int, int, str]]:
    return [(span.first, min(span.last, count - 1), span.branch, span.context) for span in spans if span.first < count]


# --- events ----------------------------------------------------------------------------------------------------------


def _of_kind(kind: str, state: StoredState) -> list[bytes]:
    return [event[2] for event in state.events if event[0] == kind]


def _found(before: list[StoredEvent], now: list[StoredEvent]) -> Iterator[Row]:
    """Yield the entries for new events."""
    left = Counter(_names(before))
    new = []
    for name in _names(now):
        if left[name]:
            left[name] -= 1
        else:
            new.append({"kind": name[0], "message_index": name[1]})
    for start in range(0, len(new), _MAX_EVENTS):
        yield "events.found", {"events": new[start : start + _MAX_EVENTS]}


def _names(events: list[StoredEvent]) -> Iterator[tuple[str, int | None]]:
    for kind, message, data in events:
        # A running call is not an event yet.
        if kind not in _OWN_ROWS and not (kind == "orphan" and _RUNNING_CALL in data):
            yield kind, message


# --- the session -----------------------------------------------------------------------------------------------------


def _summary(before: StoredState, now: StoredState) -> Iterator[Row]:
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
    """Whether a session has ended.

    If the agent keeps a list of open sessions, a session ends when it leaves the list. A session of another agent looks
    killed in the middle of its turn as long as the turn runs, so only the end of the turn counts.
    """
    return now not in _LIVE and (before in _LIVE or (now in _DONE and before not in _DONE))
