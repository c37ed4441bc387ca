"""The one way into the store: new sessions, sessions that grew, and sessions that are rewritten."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unspool.core import model as m
from unspool.ingest.session import SessionIngest, WriteQueue, remove_session
from unspool.ingest.transactions import Pipeline
from unspool.store import Store

from ..core.test_sinks import fill


def ingest(store: Store, count: int, *, grew: bool = False) -> str:
    """Store a session of some messages; returns the mode."""
    stored = store.sessions.from_source("claude", "s1").get("s1")
    session = SessionIngest(store, "claude", "s1", "s1", stored, grew)
    works: list[Callable[[], None]] = []
    writer = session.writer(lambda piece: works.append(lambda: session.write(piece)))
    fill(writer.builder("claude", "s1", "main"), count)
    ending = writer.finish()
    with store.transaction():
        session.begin()
        for work in works:
            work()
        session.finish(ending, "", [])
    return session.mode


def messages(store: Store) -> list[m.Message]:
    (row,) = store.sessions.select()
    return list(store.messages.read(row.id))


def changes(store: Store, since: int = 0) -> list[tuple[str, object]]:
    return [(entry.kind, msgspec.json.decode(entry.data).get("count")) for entry in store.changes.since(since)]


def test_every_mode_stores_what_was_read(store: Store) -> None:
    """And the change log has what is different."""
    assert ingest(store, 4) == "new"
    assert [message.index for message in messages(store)] == [0, 1, 2, 3]
    assert changes(store)[0] == ("session.created", 4)
    last = store.changes.last_seq()
    assert ingest(store, 6, grew=True) == "append"
    assert [message.index for message in messages(store)] == [0, 1, 2, 3, 4, 5]
    assert ("messages.appended", 2) in changes(store, last)
    last = store.changes.last_seq()
    assert ingest(store, 2) == "rewrite"
    assert [message.index for message in messages(store)] == [0, 1]
    assert "messages.superseded" in [kind for kind, _ in changes(store, last)]


def test_an_unchanged_session_has_no_changes(store: Store) -> None:
    """However it is written."""
    ingest(store, 4)
    last = store.changes.last_seq()
    ingest(store, 4)
    ingest(store, 4, grew=True)
    assert changes(store, last) == []


def test_a_growing_session_is_written_before_its_end(store: Store) -> None:
    """As often as messages are appended."""
    ingest(store, 4)
    stored = store.sessions.from_source("claude", "s1")["s1"]
    session = SessionIngest(store, "claude", "s1", "s1", stored, grew=True)
    waiting: list[object] = []
    writer = session.writer(waiting.append)
    builder = writer.builder("claude", "s1", "main")
    fill(builder, 4)
    written = 4
    for _ in range(2):
        last = store.changes.last_seq()
        builder.add("user", "human", [m.Text("more")], m.Source(0, 9, 0, 1), None, len(builder) - 1, None)
        with store.transaction():
            written = session.write_so_far(writer, waiting, written)  # type: ignore[arg-type]
        assert len(messages(store)) == written == len(builder)
        assert changes(store, last) == [("messages.appended", 1)]


def test_a_session_that_is_gone_from_its_file_is_removed(store: Store) -> None:
    """With an entry in the change log."""
    ingest(store, 2)
    with store.transaction():
        remove_session(store, "claude", store.sessions.from_source("claude", "s1")["s1"].id, "s1")
    assert list(store.sessions.select()) == []
    assert changes(store)[-1] == ("session.forgotten", None)


def test_writes_wait_until_the_file_is_read(store: Store) -> None:
    """Unless they are too many; then those that follow are done at once."""
    done: list[int] = []
    queue = WriteQueue(Pipeline(store))
    queue.add(lambda: done.append(1), 10)
    assert done == []
    queue.add(lambda: done.append(2), 17 << 20)
    assert done == [1, 2]
    queue.add(lambda: done.append(3))
    assert done == [1, 2, 3]
    queue.flush()
    assert done == [1, 2, 3]
