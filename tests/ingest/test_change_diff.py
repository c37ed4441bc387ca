"""The change log records each change once, with the right kind, and nothing if nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.ingest.change_diff import Comparison, StoredState, differences, superseded
from unspool.ingest.push import push_archived
from unspool.ingest.sync import Syncer
from unspool.ingest.tail import SessionTail
from unspool.store.message_patches import MessagePatches, Span
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call

from ..store.contents import new_store
from ..store.homes import claude_log, codex_log, gemini_log, put

Told = list[tuple[str, dict[str, Any]]]


class Journal:
    """A store, and the new entries of its change log."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.store = new_store(folder / "sessions.db")
        self._seen = 0

    def after_sync(self) -> Told:
        """Bring the store up to date; returns the new entries."""
        assert Syncer(self.store, self.home).run().failures == {}
        return self.told()

    def told(self) -> Told:
        entries = self.store.changes.since(self._seen)
        numbers = [entry.seq for entry in entries]
        assert numbers == sorted(set(numbers))
        self._seen = numbers[-1] if numbers else self._seen
        return [(entry.kind, msgspec.json.decode(entry.data)) for entry in entries]

    def live(self, agent: str) -> SessionTail:
        """The only session, stored line by line."""
        opened = AGENTS[agent].open(self.home / f".{agent}")
        (ref,) = opened.refs()
        return SessionTail(self.store, opened, ref, self.store.sessions.from_source(agent, ref.id)[ref.id])

    def ingest(self, live: SessionTail, path: Path, data: bytes) -> Told:
        """Append to a file, and store that at once."""
        with open(path, "ab") as file:
            file.write(data)
        with self.store.transaction():
            live.ingest()
        return self.told()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path)
    yield made
    made.store.close()


def of_kind(told: Told, kind: str) -> list[dict[str, Any]]:
    return [data for name, data in told if name == kind]


# --- whole sessions ---------------------------------------------------------------------------------------------------


def test_a_new_session_is_one_entry(journal: Journal) -> None:
    """However much is in it."""
    log = claude_log(40)
    log.write(journal.home)
    assert journal.after_sync() == [
        ("session.created", {"agent": "claude", "name": log.session, "count": 160}),
    ]
    assert journal.after_sync() == []


@pytest.mark.parametrize("make", [claude_log, codex_log, gemini_log])
def test_appended_messages_are_recorded(
    make: Callable[[int], ClaudeLog | CodexLog | GeminiLog], journal: Journal
) -> None:
    """With the index of the first message and the number of messages."""
    make(2).write(journal.home)
    ((_, made),) = journal.after_sync()
    make(4).write(journal.home)
    (new,) = of_kind(journal.after_sync(), "messages.appended")
    (row,) = journal.store.sessions.select()
    assert new == {"first": made["count"], "count": row.messages - made["count"]}
    assert journal.after_sync() == []


def test_a_rewritten_file_is_recorded_from_the_first_difference(journal: Journal) -> None:
    """Messages before it need not be loaded again."""
    path = claude_log(5).write(journal.home)
    journal.after_sync()
    put(path, path.read_bytes().replace(b"number 2", b"figure 2"))
    assert journal.after_sync() == [("messages.superseded", {"first": 8, "last": None})]
    put(path, path.read_bytes().replace(b"number 0", b"figure 0"))
    told = journal.after_sync()
    assert told[0] == ("messages.superseded", {"first": 0, "last": None})
    assert told[1:] == [("session.changed", {"title": "please do session figure 0"})]


def test_a_file_that_became_shorter(journal: Journal) -> None:
    """Messages and events that are gone are recorded."""
    path = claude_log(5).write(journal.home)
    journal.after_sync()
    put(path, claude_log(2).data)
    assert journal.after_sync() == [
        ("messages.superseded", {"first": 8, "last": None}),
        ("session.changed", {"counts": {"error": 0}}),
    ]


def test_a_second_file_of_a_session_adds_to_it(journal: Journal) -> None:
    """Everything is read again, but the existing messages are the same."""
    first, second = ClaudeLog("one", version="1.0.60"), ClaudeLog("one", version="1.0.60")
    first.user("hello", "a")
    first.model("good day", name="b")
    second.user("and more", "c", parent="b")
    second.model("yes", name="d", reply="second")
    path = first.write(journal.home)
    journal.after_sync()
    path.with_name(f"{second.id('two')}.jsonl").write_bytes(second.data)
    assert journal.after_sync() == [("messages.appended", {"first": 2, "count": 2})]


def test_a_rewind_changes_branches(journal: Journal) -> None:
    """Messages that were live are on a branch now."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    log.user("first try", "first")
    log.model("first answer")
    log.write(journal.home)
    journal.after_sync()
    log.user("second try", "second", parent="started")
    log.model("second answer")
    log.write(journal.home)
    assert journal.after_sync() == [
        ("messages.appended", {"first": 4, "count": 2}),
        ("branches.changed", {"tip": 5}),
        ("events.found", {"events": [{"kind": "rollback", "message_index": 4}]}),
        ("session.changed", {"counts": {"rollback": 1, "branch": 1}}),
    ]


def test_events_are_found_once(journal: Journal) -> None:
    """Each with its kind and message."""
    log = ClaudeLog()
    log.user("hello")
    log.model(call("c1", command="false"))
    log.write(journal.home)
    journal.after_sync()
    log.result("c1", "Exit code 1", error=True)
    log.model("it failed")
    log.write(journal.home)
    told = journal.after_sync()
    assert of_kind(told, "events.found") == [{"events": [{"kind": "error", "message_index": 2}]}]
    assert of_kind(told, "session.changed") == [{"status": "complete", "counts": {"error": 1, "orphan": 0}}]
    assert of_kind(told, "session.ended") == [{"status": "complete"}]
    log.user("go on")
    log.model("yes")
    log.write(journal.home)
    assert journal.after_sync() == [("messages.appended", {"first": 4, "count": 2})]


def test_a_new_subagent_is_recorded_for_its_parent(journal: Journal) -> None:
    """It is a session of its own, and the other one has it now."""
    log, agent = ClaudeLog(), ClaudeLog(agent="a1")
    log.user("hello")
    log.model(call("c1", "Task", prompt="look", description="look", subagent_type="explorer"))
    log.write(journal.home)
    journal.after_sync()
    agent.user("look")
    agent.model("looking")
    agent.write(journal.home)
    told = journal.after_sync()
    assert of_kind(told, "session.created") == [{"agent": "claude", "name": f"{log.session}/a1", "count": 2}]
    assert of_kind(told, "subagents.changed") == [{}]
    assert of_kind(told, "messages.appended") == []


def test_a_later_line_that_changes_an_early_message(journal: Journal) -> None:
    """An early message gets another text."""
    log = GeminiLog()
    log.user("u", "hello")
    log.model("g", "first words")
    for turn in range(100):
        log.user(f"u{turn}", f"prompt {turn}")
        log.model(f"g{turn}", f"answer {turn}")
    log.write(journal.home)
    journal.after_sync()
    log.model("g", "other words")
    log.write(journal.home)
    assert journal.after_sync()[0] == ("messages.superseded", {"first": 1, "last": 2})
    assert journal.after_sync() == []


def test_a_deleted_file_that_returns(journal: Journal) -> None:
    """A session that returns is unchanged."""
    path = claude_log(2).write(journal.home)
    journal.after_sync()
    data = path.read_bytes()
    path.unlink()
    assert journal.after_sync() == [("session.gone", {})]
    put(path, data)
    assert journal.after_sync() == [("session.changed", {"gone_at": None})]


def test_the_same_session_in_another_folder_is_not_new(journal: Journal, tmp_path: Path) -> None:
    """Another home has it too, with more messages."""
    claude_log(2).write(journal.home)
    journal.after_sync()
    claude_log(3).write(tmp_path / "elsewhere")
    Syncer(journal.store, tmp_path / "elsewhere").run()
    assert journal.told()[0] == ("messages.appended", {"first": 8, "count": 4})


def test_a_session_that_is_pushed_is_new(journal: Journal, tmp_path: Path) -> None:
    """In the store that did not have it."""
    path = claude_log(2).write(journal.home)
    journal.after_sync()
    path.unlink()
    journal.after_sync()
    (tmp_path / "other").mkdir()
    target = Journal(tmp_path / "other")
    assert push_archived(journal.store, target.store) == 1
    assert [kind for kind, _ in target.told()] == ["session.created"]
    target.store.close()


# --- line by line -----------------------------------------------------------------------------------------------------


def test_appended_lines_are_not_recorded_again(journal: Journal) -> None:
    """Reading the whole session adds what only it can find, and then nothing."""
    log = claude_log(30)
    lines = [line + b"\n" for line in log.lines]
    path = claude_log(1).write(journal.home)
    journal.after_sync()
    live = journal.live("claude")
    for number, line in enumerate(lines[4:], 4):
        told = journal.ingest(live, path, line)
        assert of_kind(told, "messages.appended") == [{"first": number, "count": 1}]
        assert of_kind(told, "messages.superseded") == []
    told = journal.after_sync()
    assert {kind for kind, _ in told} == {"events.found", "session.changed"}
    assert journal.after_sync() == []
    assert journal.ingest(live, path, b"") == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [claude_log, codex_log, gemini_log])
def test_changes_add_up_to_the_record(
    make: Callable[[int], ClaudeLog | CodexLog | GeminiLog], journal: Journal
) -> None:
    """A client that applies the changes, and loads what was superseded, has what the store has."""
    path = make(1).write(journal.home)
    journal.after_sync()
    (row,) = journal.store.sessions.select()
    mine = [_said(message) for message in journal.store.messages.read(row.id)]
    live = journal.live(row.agent)
    before = make(1).data
    for number, line in enumerate(make(45).data[len(before) :].splitlines(keepends=True)):
        told = journal.ingest(live, path, line)
        if number % 25 == 24:
            told += journal.after_sync()
            (stored,) = journal.store.sessions.from_source(row.agent, row.ref).values()
            live = live if live.settled(stored) else journal.live(row.agent)
        for kind, data in told:
            if kind == "messages.appended":
                assert data["first"] == len(mine)
                mine += [_said(x) for x in journal.store.messages.read(row.id, len(mine), len(mine) + data["count"])]
            elif kind == "messages.superseded":
                first, last = data["first"], data["last"]
                mine[first:last] = [_said(x) for x in journal.store.messages.read(row.id, first, last)]
    journal.after_sync()
    assert mine == [_said(message) for message in journal.store.messages.read(row.id)]


def _said(message: m.Message) -> bytes:
    return msgspec.json.encode((message.index, message.author, message.blocks, message.timestamp))


def test_a_repeated_message_is_stored_at_once(journal: Journal) -> None:
    """Without a new one: the text of the last message changed."""
    log = GeminiLog()
    log.user("u", "hello")
    log.model("g", "first words")
    path = log.write(journal.home)
    journal.after_sync()
    live = journal.live("gemini")
    length = len(log.data)
    log.model("g", "other words")
    assert journal.ingest(live, path, log.data[length:]) == [("messages.superseded", {"first": 1, "last": 2})]
    (row,) = journal.store.sessions.select()
    assert b"other words" in msgspec.json.encode(journal.store.messages.read(row.id))
    assert of_kind(journal.after_sync(), "messages.superseded") == []


# --- the comparison ---------------------------------------------------------------------------------------------------


def stored_state(messages: int = 10, status: str = "complete", **more: Any) -> StoredState:
    columns = dict.fromkeys(("title", "parent", "origin", "project")) | {"status": status}
    return StoredState(
        messages, columns, {"messages": messages}, more.get("events", []), more.get("patches", MessagePatches())
    )


def told(before: StoredState, now: StoredState, changed: list[int] | None = None, same: int = 10) -> Told:
    return list(differences(before, now, Comparison(same, changed or [], now.messages - 1)))


def test_runs_of_changed_messages_are_one_entry() -> None:
    """And very many runs as one."""
    assert [data for _, data in superseded([3, 1, 2, 2, 7])] == [{"first": 1, "last": 4}, {"first": 7, "last": 8}]
    assert [data for _, data in superseded(range(0, 100, 2))] == [{"first": 0, "last": 99}]
    assert list(superseded([])) == []


def test_only_old_messages_can_be_superseded() -> None:
    """Changes to messages that are new in the same read are part of those messages."""
    patches = MessagePatches(outcomes={3: {"c": "ok"}, 12: {"d": "ok"}}, usages={4: None, 5: m.Usage(1)})
    assert told(stored_state(), stored_state(20, patches=patches), [8]) == [
        ("messages.superseded", {"first": 3, "last": 4}),
        ("messages.superseded", {"first": 5, "last": 6}),
        ("messages.superseded", {"first": 8, "last": 9}),
        ("messages.appended", {"first": 10, "count": 10}),
    ]


def test_a_branch_that_only_grew_is_not_a_branch_change() -> None:
    """Runs are compared up to the number of messages before."""
    before, now = (MessagePatches(spans=[Span(0, last, 0, "compacted")]) for last in (9, 15))
    assert told(stored_state(patches=before), stored_state(patches=now)) == []
    assert told(stored_state(), stored_state(patches=before)) == [("branches.changed", {"tip": 9})]


@pytest.mark.parametrize(
    ("before", "now", "ends"),
    [
        ("running", "complete", True),
        ("waiting", "killed", True),
        ("running", "waiting", False),
        ("killed", "complete", True),
        ("complete", "killed", False),
        ("complete", "interrupted", False),
        ("empty", "killed", False),
        ("complete", "running", False),
        ("empty", "interrupted", True),
    ],
)
def test_when_a_session_ends(before: str, now: str, ends: bool) -> None:
    """When the agent has closed it; where that is not known, when its turn is over."""
    kinds = [kind for kind, _ in told(stored_state(status=before), stored_state(status=now))]
    assert kinds == ["session.changed", *(["session.ended"] if ends else [])]


def test_a_running_call_is_not_an_event() -> None:
    """Only when it turns out to be unfinished."""
    running, killed = (
        ("orphan", 4, msgspec.json.encode(m.Orphan(message_index=4, tool_use_id="c", tool_name="Bash", reason=reason)))
        for reason in ("running", "killed")
    )
    assert told(stored_state(), stored_state(events=[running])) == []
    found = [("events.found", {"events": [{"kind": "orphan", "message_index": 4}]})]
    assert told(stored_state(events=[running]), stored_state(events=[killed])) == found
    assert told(stored_state(events=[killed]), stored_state(events=[killed])) == []


def test_many_events_are_split() -> None:
    """An entry stays small."""
    events = [("problem", None, b"{}")] * 1200
    assert [len(data["events"]) for _, data in told(stored_state(), stored_state(events=events))] == [500, 500, 200]
