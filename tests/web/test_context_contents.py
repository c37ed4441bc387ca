"""What a context is made of adds up, and its difference to another one is what came in and what left."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from unspool.store import Store
from unspool.testing import ClaudeLog, call
from unspool.web.context_contents import context_difference, gone_files, measure
from unspool.web.context_index import context_index, context_view
from unspool.web.session_query import SessionQuery

from ..store.contents import new_store, synced
from .conftest import session_rows


def test_parts_add_up_and_the_largest_come_first(store: Store) -> None:
    kinds = set()
    for row in session_rows(store):
        query = SessionQuery(store, row)
        contents = measure(query, range(row.messages))
        assert sum(part.tokens for part in contents.parts) == contents.tokens
        sizes = [item.tokens for item in contents.largest]
        assert sizes == sorted(sizes, reverse=True)
        parts = [part.tokens for part in contents.parts]
        assert parts == sorted(parts, reverse=True)
        kinds |= {part.kind for part in contents.parts}
    assert kinds >= {"prompts", "prose", "thinking", "files", "tool output", "calls", "summaries"}


def test_files_that_left_the_context_are_listed(tmp_path: Path) -> None:
    """With the last message that had them, unless they were read again."""
    log = ClaudeLog()
    log.user("Read both")
    for id, path in (("a", "/p/gone.py"), ("b", "/p/again.py")):
        log.model(call(id, "Read", file_path=path))
        log.result(id, "content")
    log.boundary(trigger="auto", preTokens=100)
    log.user("Continue")
    log.model(call("c", "Read", file_path="/p/again.py"))
    log.result("c", "content")
    log.model("Done.")
    log.write(tmp_path / "home")
    with closing(new_store(tmp_path / "sessions.db")) as store:
        synced(store, tmp_path / "home")
        (row,) = store.sessions.select()
        query = SessionQuery(store, row)
        index = row.messages - 1
        still = measure(query, context_index(query).context(index).message_indices).files
        assert still == ["/p/again.py"]
        gone = gone_files(query, context_view(query, index), still)
        assert [(file.path, file.index) for file in gone] == [("/p/gone.py", 1)]


def test_a_difference_is_what_came_in_and_what_left(store: Store) -> None:
    left = 0
    for row in session_rows(store):
        query = SessionQuery(store, row)
        difference = context_difference(query, 0, row.messages - 1)
        context = context_index(query).context
        before, after = len(context(0).message_indices), len(context(row.messages - 1).message_indices)
        assert before + difference.added_count - difference.removed_count == after
        middle = context_difference(query, row.messages // 2, row.messages - 1)
        left += middle.removed_count
    assert left > 0
