"""Sub-agents of Codex CLI: how the parent names them, and which lines of their files are copied from the parent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import AGENTS
from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import CodexLog, texts

from ..work import lines_per_pair

PARENT = "01a1e48f-9b51-7973-a314-273d698da5d4"
CHILD = "01a1e48f-a942-7592-86d9-412fcc6abdfe"
SIBLING = "01a1e48f-aa6d-7f12-bfca-a1c495ea55ef"
OLD_TURN = "01a1e48f-a0c4-7341-a25c-8cf0470f5232"
OWN_TURN = "01a1e48f-a960-7b52-b686-e7d28e4572ef"
TASK = "Count the files."
FORKED = "You are the newly spawned agent. The prior conversation history was forked from your parent agent."


def thread(id: str, version: str = "0.118.0", **meta: Any) -> CodexLog:
    """A log that begins with the description of a thread."""
    log = CodexLog(version=version)
    log.lines, log.thread = [], id
    log.envelope(
        "session_meta",
        id=id,
        cwd="/home/dev/demo",
        cli_version=version,
        **({"source": "cli", "timestamp": "2026-03-01T09:00:00Z"} | meta),
    )
    return log


def child(version: str, **meta: Any) -> CodexLog:
    """The log of a sub-agent that was forked from the parent."""
    spawn = {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}
    return thread(CHILD, version, source={"subagent": spawn}, forked_from_id=PARENT, **meta)


def user(log: CodexLog, text: str) -> None:
    log.item("message", role="user", content=[{"type": "input_text", "text": text}])
    log.event("user_message", message=text)


def answer(log: CodexLog, text: str) -> None:
    log.item("message", role="assistant", content=[{"type": "output_text", "text": text}])


def tokens(log: CodexLog, total: int, last: int) -> None:
    counts = {"total_token_usage": total, "last_token_usage": last}
    log.event("token_count", info={name: {"input_tokens": n, "output_tokens": n // 10} for name, n in counts.items()})


def own_turn(log: CodexLog, total: int) -> None:
    log.event("task_started", turn_id=OWN_TURN)
    user(log, TASK)
    answer(log, "Three files.")
    tokens(log, total, 30)
    log.event("task_complete")


def inherited(session: Session) -> list[str]:
    return texts(session, [message for message in session.messages if message.inherited])


def test_a_forked_subagent_inherits_what_it_copied(tmp_path: Path) -> None:
    """0.118 copies the parent up to the call that started it, with another result; the parent need not be there."""
    log = child("0.118.0")
    log.envelope("session_meta", id=PARENT, timestamp="2026-03-01T08:00:00Z", cli_version="0.118.0", source="cli")
    log.event("task_started", turn_id=OLD_TURN)
    user(log, "Do it all.")
    answer(log, "I start an agent.")
    log.call("call-1", "spawn_agent", message=TASK)
    tokens(log, 100, 100)
    log.output("call-1", FORKED)
    own_turn(log, 130)
    session = log.load(tmp_path)
    assert inherited(session) == ["Do it all.", "I start an agent."]
    assert session.info.usage is not None
    assert session.info.usage.input == 30
    assert session.subagents == []
    assert session.info.title == TASK
    prompts = [message.author for message in session.messages if "Do it all." in texts(session, [message])]
    assert prompts == ["human"]
    assert "Do it all." in texts(session, session.context_now().message_indices)


def test_a_copy_without_replies_costs_nothing(tmp_path: Path) -> None:
    """0.145 copies the token counts of the parent, but not its replies."""
    log = child("0.145.0", parent_thread_id=PARENT)
    log.envelope("session_meta", id=PARENT, timestamp="2026-03-01T08:00:00Z", cli_version="0.145.0", source="cli")
    log.event("task_started", turn_id=OLD_TURN)
    user(log, "Do it all.")
    tokens(log, 100, 100)
    own_turn(log, 130)
    session = log.load(tmp_path)
    assert session.info.usage is not None
    assert session.info.usage.input == 30
    assert inherited(session) == ["Do it all."]


def test_a_copy_that_starts_in_the_middle(tmp_path: Path) -> None:
    """0.145 can copy only the last turn, without the parent's description; a sibling's activity is in it too."""
    log = child("0.145.0", parent_thread_id=PARENT)
    user(log, "And now the rest.")
    log.event("sub_agent_activity", event_id="call-0", agent_thread_id=SIBLING, agent_path="/root/a", kind="started")
    own_turn(log, 30)
    session = log.load(tmp_path)
    assert inherited(session) == ["And now the rest."]
    assert session.subagents == []


def test_turns_without_a_time_in_their_id_are_its_own(tmp_path: Path) -> None:
    """Nothing shows that such lines were copied."""
    log = child("0.118.0")
    log.event("task_started", turn_id="1")
    user(log, TASK)
    assert inherited(log.load(tmp_path)) == []


def test_activity_events_name_the_subagents(tmp_path: Path) -> None:
    """0.145 records neither the id in the result nor an item; the event has the id of the call."""
    log = thread(PARENT, "0.145.0")
    log.call("call-1", "spawn_agent", message="encrypted")
    for kind in ("started", "interacted", "completed"):
        log.event(
            "sub_agent_activity",
            event_id="call-1",
            agent_thread_id=CHILD,
            agent_path="/root/a",
            kind=kind,
            occurred_at_ms=1_794_836_669_000,
        )
    log.output("call-1", '{"task_name":"/root/a"}')
    (found,) = log.load(tmp_path).subagents
    assert (found.agent_id, found.tool_use_id, found.status) == (CHILD, "call-1", "completed")
    assert found.linked_by == "activity event"


def test_a_status_may_be_an_object(tmp_path: Path) -> None:
    """Events about sub-agents have the last answer in it; no line is damaged or unknown."""
    log = thread(PARENT)
    for kind in ("collab_agent_interaction_end", "collab_close_end"):
        log.event(kind, call_id="call-1", receiver_thread_id=CHILD, status={"completed": "Three files."})
    log.turn("hello", "hi")
    session = log.load(tmp_path)
    assert session.problems == []
    assert texts(session) == ["hello", "hi"]


def test_the_list_has_the_task_of_a_forked_subagent(tmp_path: Path) -> None:
    """Not the prompt of its parent, which is copied before it."""
    log = child("0.118.0")
    log.event("task_started", turn_id=OLD_TURN)
    user(log, "Do it all.")
    own_turn(log, 30)
    log.write(tmp_path)
    library = Library(tmp_path)
    (ref,) = library.refs()
    assert library.peek(ref).title == TASK


def test_finding_reviews_takes_no_work_for_pairs_of_threads(tmp_path: Path) -> None:
    """The threads of all reviews are looked up once, not once for each thread."""

    def work(count: int) -> None:
        source = AGENTS["codex"].open(tmp_path / str(count) / ".codex")
        for ref in list(source.refs()):
            source.fingerprint(ref)

    for count in (20, 40, 60):
        for number in range(count):
            is_review = number % 2 == 1
            log = thread(CodexLog(f"thread {number}").thread, source={"subagent": "review"} if is_review else "cli")
            user(log, f"prompt {number}")
            log.write(tmp_path / str(count))
        work(count)
    assert lines_per_pair(work, 20) < 0.25


def review(name: str, timestamp: str, **meta: Any) -> CodexLog:
    """The log of a review."""
    log = thread(CodexLog(name).thread, source={"subagent": "review"}, timestamp=timestamp, **meta)
    user(log, "Review it.")
    return log


def test_reviews_are_linked_by_their_parent_or_their_time(tmp_path: Path) -> None:
    """Each only once; a review that names no thread may have started at the time, or be the next after the thread."""
    parent, other = thread(PARENT), thread(CHILD, timestamp="2026-03-01T09:30:00Z")
    for time in ("10:00:00", "11:00:00", "12:00:00", "12:00:00"):
        parent.event("entered_review_mode")
        parent.lines[-1] = json.dumps(json.loads(parent.lines[-1]) | {"timestamp": f"2026-03-01T{time}Z"}).encode()
    at_once = review("at once", "2026-03-01T11:00:04Z")
    named = review("named", "2026-03-02T09:00:00Z", parent_thread_id=PARENT)
    next_start = review("next", "2026-03-01T09:10:00Z")
    elsewhere = review("elsewhere", "2026-03-01T11:30:00Z")
    for log in (parent, other, at_once, named, next_start, elsewhere):
        log.write(tmp_path)
    library = Library(tmp_path)
    session = library.load(next(ref for ref in library.refs() if ref.id == PARENT))
    assert [(link.message_index, link.session, link.linked_by) for link in session.subagents] == [
        (0, next_start.thread, "time"),
        (1, at_once.thread, "time"),
        (2, named.thread, "parent id"),
    ]


@pytest.mark.parametrize(("time", "is_during"), [("10:00:01", True), ("12:00:00", False)])
def test_a_review_that_appears_later_changes_the_fingerprint(tmp_path: Path, time: str, is_during: bool) -> None:
    """Also that of a thread which is not the last one before the review, if the review started during it."""
    parent, other = thread(PARENT), thread(CHILD, timestamp="2026-03-01T09:30:00Z")
    parent.event("entered_review_mode")
    parent.lines[-1] = json.dumps(json.loads(parent.lines[-1]) | {"timestamp": "2026-03-01T10:00:00Z"}).encode()
    parent.write(tmp_path)
    other.write(tmp_path)

    def read() -> tuple[str, list[str | None]]:
        source = AGENTS["codex"].open(tmp_path / ".codex")
        (ref,) = (ref for ref in source.refs() if ref.id == PARENT)
        return source.fingerprint(ref), [link.session for link in Library(tmp_path).load(ref).subagents]

    before = read()
    late = review("late", f"2026-03-01T{time}Z")
    late.write(tmp_path)
    after = read()
    assert after[1] == ([late.thread] if is_during else [])
    assert (after[0] != before[0]) == is_during


def test_linking_reviews_takes_no_work_for_pairs_of_them(tmp_path: Path) -> None:
    """A thread may start many reviews, which name it, and there may be as many that name no thread."""

    def work(count: int) -> None:
        source = AGENTS["codex"].open(tmp_path / str(count) / ".codex")
        (ref,) = (ref for ref in source.refs() if ref.id == PARENT)
        library = Library(tmp_path / str(count))
        assert len(library.load(ref).subagents) == count

    for count in (20, 40, 60):
        parent = thread(PARENT)
        for number in range(count):
            parent.event("entered_review_mode")
            review(f"named {number}", "2026-03-01T09:00:00Z", parent_thread_id=PARENT).write(tmp_path / str(count))
            review(f"other {number}", f"2025-03-01T09:{number:02}:00Z").write(tmp_path / str(count))
        parent.write(tmp_path / str(count))
    assert lines_per_pair(work, 20) < 0.25
