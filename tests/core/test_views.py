"""Views: without the lines that were left, without or with results for calls that never finished."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from unspool.core import model as m
from unspool.core.session import Session
from unspool.core.stream import collect
from unspool.core.views import Branches, OrphanMode, View
from unspool.library import Library
from unspool.testing import ClaudeLog, call, texts

from ..recordings import recordings
from ..validation import check_session


def branched() -> ClaudeLog:
    """Two branches, each with a rejection, an error and an unfinished call."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    for line in ("dead", "alive"):
        log.user(line, parent="started")
        log.model(f"{line} answer", call(f"{line} failed", command="false"))
        log.result(f"{line} failed", "Exit code 1", error=True)
        log.model(call(f"{line} open", command="make"), call(f"{line} done", command="ls"))
        log.result(f"{line} done", "files")
        log.model(f"{line} end", name=f"{line} end")
    return log


def places(value: Any) -> Iterator[int]:
    """Every index in a record."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith(("_index", "_indices")) or name in ("tip", "reply"):
                yield from [inner] if isinstance(inner, int) else inner or ()
            elif name not in ("input", "raw", "record"):
                yield from places(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from places(inner)


def assert_sound(session: Session) -> None:
    """A view is a record like any other."""
    check_session(session)
    record = json.loads(msgspec.json.encode(session))
    assert [message.index for message in session.messages] == list(range(len(session.messages)))
    assert all(0 <= place < len(session.messages) for place in places(record))
    for message in session.messages:
        assert message.parent_index is None or message.parent_index < len(session.messages)
    for reply in session.replies():
        session.context_at(reply.message_indices[0])


def test_the_active_path_alone(tmp_path: Path) -> None:
    """Only what is alive is left, events of the dead line are gone, and all places are right."""
    log = branched()
    whole, active = log.load(tmp_path), log.load(tmp_path, branches="active")
    assert_sound(active)
    assert texts(active) == texts(whole, whole.active_path())
    assert active.branches == []
    assert [failure.tool_use_id for failure in active.errors] == ["alive failed"]
    assert [orphan.tool_use_id for orphan in active.orphans] == ["alive open"]
    assert [failure.tool_use_id for failure in whole.errors] == ["dead failed", "alive failed"]
    (failure,) = active.errors
    (block,) = active.messages[failure.message_index].blocks
    assert isinstance(block, m.ToolResult)
    assert block.call_id == "alive failed"
    assert active.info.tip == len(active.messages) - 1
    (rollback,) = active.rollbacks
    assert rollback.message_index is not None
    assert texts(active, [rollback.message_index]) == ["alive"]
    assert rollback.dropped_message_indices == []


def test_events_keep_their_messages(tmp_path: Path) -> None:
    """Every event of the active path points at the same messages as before; those of dead ones are gone."""
    whole = branched().load(tmp_path)
    dead = [message.index for message in whole.messages if message.branch]
    first, last = dead[0], len(whole.messages) - 1
    for place in (first, last):
        whole.compaction.boundaries.append(
            m.Boundary(
                after_message_index=place - 1,
                message_index=place,
                trigger=None,
                summary_message_index=place,
                replaced_message_indices=[0, *dead, last],
                preserved_message_indices=[last],
            )
        )
        whole.context_clears.append(m.ContextClear(after_message_index=place, evidence="history", confidence=1.0))
        whole.interruptions.append(
            m.Interruption(
                message_index=place, interrupted_message_index=place, type="user", during="tool", evidence="x"
            )
        )
        whole.rejections.append(
            m.Rejection(
                message_index=place, tool_use_id=None, tool_name=None, rejection_type="edit", by="user", evidence="x"
            )
        )
        whole.subagents.append(m.Subagent(message_index=place, tool_use_id=None, agent_id=None, session=None))
        whole.resumes.append(m.Resume(message_index=place, lost_message_indices=[first, last], evidence="x"))
    active = View(whole, dead, "active").whole()
    assert_sound(active)
    end = len(active.messages) - 1
    assert texts(active, [end]) == texts(whole, [last])
    (boundary,) = active.compaction.boundaries
    assert (boundary.after_message_index, boundary.message_index, boundary.summary_message_index) == (end - 1, end, end)
    assert (boundary.replaced_message_indices, boundary.preserved_message_indices) == ([0, end], [end])
    assert [clear.after_message_index for clear in active.context_clears] == [first - 1, end]
    (stop,) = active.interruptions
    assert (stop.message_index, stop.interrupted_message_index) == (end, end)
    (resume,) = active.resumes
    assert (resume.message_index, resume.lost_message_indices) == (end, [end])
    assert [event.message_index for event in active.rejections] == [end]
    assert [event.message_index for event in active.subagents] == [end]


@pytest.mark.parametrize("after", range(8))
def test_contexts_are_those_of_the_record(tmp_path: Path, after: int) -> None:
    """Also if the context was cleared on a branch that the view leaves out."""
    whole = branched().load(tmp_path)
    whole.context_clears.append(m.ContextClear(after_message_index=after, evidence="history", confidence=1.0))
    active = View(whole, [message.index for message in whole.messages if message.branch], "active").whole()
    for message, same in zip(whole.active_path(), active.messages, strict=True):
        before = texts(whole, whole.context_at(message.index).message_indices)
        assert texts(active, active.context_at(same.index).message_indices) == before


def test_a_clear_before_all_messages_of_a_view_has_no_message(tmp_path: Path) -> None:
    whole = branched().load(tmp_path)
    whole.context_clears.append(m.ContextClear(after_message_index=1, evidence="history", confidence=1.0))
    (clear,) = View(whole, [0, 1], "active").whole().context_clears
    assert clear.after_message_index is None


def test_all_is_the_record_itself(tmp_path: Path) -> None:
    """Nothing is changed unless it is asked for."""
    log = branched()
    assert log.load(tmp_path, branches="all", orphans="mark") == log.load(tmp_path)


def test_orphans_are_marked(tmp_path: Path) -> None:
    """By default the calls are shown and listed."""
    session = branched().load(tmp_path)
    assert [orphan.tool_use_id for orphan in session.orphans] == ["dead open", "alive open"]
    assert {"dead open", "alive open"} <= set(calls(session))


def test_orphans_are_hidden(tmp_path: Path) -> None:
    """Neither the calls nor the list of them; the calls beside them stay."""
    session = branched().load(tmp_path, orphans="hide")
    assert_sound(session)
    assert session.orphans == []
    assert calls(session) == ["dead failed", "dead done", "alive failed", "alive done"]


def test_results_are_synthesized(tmp_path: Path) -> None:
    """Right behind each call that has none, marked as made up, and nowhere else."""
    session = branched().load(tmp_path, orphans="synthesize")
    assert_sound(session)
    made_up = [
        (message.index, place, block.call_id, block.outcome)
        for message in session.messages
        for place, block in enumerate(message.blocks)
        if isinstance(block, m.ToolResult) and block.synthetic
    ]
    assert [entry[2:] for entry in made_up] == [("dead open", "unknown"), ("alive open", "unknown")]
    for index, place, call_id, _ in made_up:
        before = session.messages[index].blocks[place - 1]
        assert isinstance(before, m.ToolCall)
        assert before.id == call_id
    assert sorted(calls(session)) == sorted(results(session))


def calls(session: Session) -> list[str]:
    return [b.id for message in session.messages for b in message.blocks if isinstance(b, m.ToolCall)]


def results(session: Session) -> list[str]:
    return [b.call_id for message in session.messages for b in message.blocks if isinstance(b, m.ToolResult)]


@pytest.mark.parametrize(
    ("tip", "end"),
    [("agent", "alive end"), ("newest", "alive end"), ("longest", "long end"), ("4", "dead"), ("id", "dead")],
)
def test_tips(tip: str, end: str, tmp_path: Path) -> None:
    """The tip decides which line is alive; the view follows it."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("long one", name="long one")
    log.model("long two")
    log.model("long end", name="long end")
    log.user("dead", "dead", parent="start")
    log.user("alive", parent="start")
    log.model("alive end")
    active = log.load(tmp_path, tip=log.id("dead") if tip == "id" else tip, branches="active")
    assert_sound(active)
    assert texts(active)[-1] == end
    assert active.info.tip == len(active.messages) - 1
    whole = log.load(tmp_path, tip=log.id("dead") if tip == "id" else tip)
    assert texts(whole, whole.active_path()) == texts(active)
    assert len(whole.messages) == 7


@pytest.mark.parametrize("orphans", ["hide", "mark", "synthesize"])
@pytest.mark.parametrize("branches", ["active", "all"])
def test_views_of_recordings_are_valid(branches: Branches, orphans: OrphanMode) -> None:
    """Every view of every sample, and of recordings in which sessions were rewound or killed, validates."""
    homes = [unspool.samples(), *(recording.home for recording in rewound())]
    for home in homes:
        library = Library(home)
        for ref in library.refs():
            for session in library.load_all(ref, "agent", branches, orphans):
                assert_sound(session)


@pytest.mark.parametrize("orphans", ["hide", "mark", "synthesize"])
@pytest.mark.parametrize("branches", ["active", "all"])
def test_streams_show_the_same_view(branches: Branches, orphans: OrphanMode) -> None:
    """Message by message or whole: the same record."""
    for home in (unspool.samples(), *(recording.home for recording in rewound()[:3])):
        library = Library(home)
        for ref in library.refs():
            streamed = list(collect(library.stream(ref, "agent", branches, orphans)))
            assert streamed == list(library.load_all(ref, "agent", branches, orphans))


def rewound() -> list[Any]:
    found = [
        *recordings("claude", "2.1.325", "rewind*"), *recordings("claude", "2.1.325", "orphan"),
        *recordings("claude", "1.0.60", "subagent"), *recordings("codex", "0.166.0", "backtrack"),
        *recordings("gemini", "0.61.0", "rewind"), *recordings("gemini", "0.61.0", "kill-shell"),
    ]  # fmt: skip
    assert len(found) >= 6
    return found
