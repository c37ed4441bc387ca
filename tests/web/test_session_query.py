"""What pages are made of has to be what the record says, however it was read."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.core.session import Session
from unspool.render.transcript import Entry, Transcript
from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.store.rows import SessionRow
from unspool.web.session_list import find, list_projects, list_sessions, url_name
from unspool.web.session_query import PAGE, SessionQuery
from unspool.web.views import Filter


def _rows(store: Store) -> list[SessionRow]:
    rows = store.sessions.select()
    assert len(rows) > 50
    return rows


def _whole(session: Session, branch: int) -> Iterator[Entry]:
    transcript = Transcript(session, AGENTS[session.agent].describe)
    yield from transcript.beginning()
    on_path = _path(session, branch)
    for message in session.messages:
        if message.index in on_path:
            yield from transcript.of(message)
    yield from transcript.without_place()


def _path(session: Session, branch: int) -> set[int]:
    """The messages of a line, by its own definition: the branch, and what comes before the message it hangs on."""
    own = {message.index for message in session.branch(branch)}
    found = next((other for other in session.branches if other.id == branch), None)
    if found is None or found.parent_index is None:
        return own
    above = session.messages[found.parent_index].branch
    return own | {index for index in _path(session, above) if index <= found.parent_index}


def test_pages_together_are_the_transcript(store: Store) -> None:
    branches = 0
    for row in _rows(store):
        reader, session = SessionQuery(store, row), store.messages.load_session(row.id)
        for branch in (0, *(branch.id for branch in session.branches)):
            branches += branch > 0
            pages = [reader.page(number, branch) for number in range(reader.pages(branch))]
            shown = [entry for page in pages for entry in page.entries if entry.kind != "problem"]
            assert msgspec.json.encode(shown) == msgspec.json.encode(list(_whole(session, branch)))
    assert branches > 10


def test_every_problem_is_on_one_page(store: Store) -> None:
    seen = 0
    for row in _rows(store):
        reader = SessionQuery(store, row)
        pages = [reader.page(number) for number in range(reader.pages())]
        shown = [entry.key for page in pages for entry in page.entries if entry.kind == "problem"]
        if not reader.head.branches:
            assert sorted(shown) == sorted(f"problem{number}" for number in range(len(reader.head.problems)))
        seen += len(shown)
    assert seen > 0


def test_keys_are_unique(store: Store) -> None:
    for row in _rows(store):
        reader = SessionQuery(store, row)
        keys = [entry.key for number in range(reader.pages()) for entry in reader.page(number).entries]
        assert len(keys) == len(set(keys))
        assert all(keys)


def test_contexts_are_those_of_the_record(store: Store) -> None:
    for row in _rows(store):
        reader, session = SessionQuery(store, row), store.messages.load_session(row.id)
        for index in range(0, len(session.messages), 3):
            assert reader.skeleton().context(index) == session.context_at(index)


def test_stretches_cover_everything_and_agree(store: Store) -> None:
    states = set()
    for row in _rows(store):
        reader = SessionQuery(store, row)
        for index in range(0, row.messages, 5):
            view = reader.context(index)
            covered = [place for part in view.stretches for place in range(part.first, part.last + 1)]
            assert covered == list(range(row.messages))
            parts = [part for part in view.stretches if part.state == "in"]
            inside = {place for part in parts for place in range(part.first, part.last + 1)}
            assert inside == set(reader.skeleton().context(index).message_indices)
            states |= {part.state for part in view.stretches}
    assert states >= {"in", "summarised", "rewound", "after"}


def test_positions_and_pages_lead_back(store: Store) -> None:
    for row in _rows(store):
        reader = SessionQuery(store, row)
        trail = reader.trail()
        for position in range(len(trail)):
            index = trail.index_at(position)
            assert index in trail
            assert trail.position_of(index) == position
            assert reader.page_of(index) == position // PAGE


def test_marks_lie_on_the_trail(store: Store) -> None:
    kinds = set()
    for row in _rows(store):
        reader = SessionQuery(store, row)
        for mark in reader.marks():
            assert 0 <= mark.at <= 1
            assert mark.index in reader.trail()
            kinds.add(mark.kind)
    assert kinds >= {"turn", "compaction", "interruption", "rejection", "error", "rewind"}


def test_raw_records_are_the_lines_of_the_log(store: Store) -> None:
    checked = 0
    for row in _rows(store):
        reader = SessionQuery(store, row)
        for index in range(0, row.messages, 7):
            source = reader.message(index).source
            raw = reader.raw(index)
            assert len(raw) == source.length
            path = reader.head.info.files[source.file].path
            if path.endswith(".jsonl"):
                with open(path, "rb") as file:
                    assert file.read().splitlines()[source.line - 1][: len(raw)] == raw
                    checked += 1
    assert checked > 100


def test_a_session_is_found_by_its_names(store: Store) -> None:
    for row in store.sessions.select(SessionFilter(kind="main")):
        assert find(store, url_name(row)).id == row.id
        assert find(store, str(row.id)).id == row.id


def test_every_session_is_listed_once(store: Store) -> None:
    found = list_sessions(store, Filter(limit=1000))
    listed = [row.id for item in found.sessions for row in (item.row, *item.subagents)]
    assert sorted(listed) == sorted(row.id for row in store.sessions.select(SessionFilter(is_empty=False)))
    assert any(item.subagents for item in found.sessions)


@pytest.mark.parametrize("kind", ["rejection", "interruption", "compaction", "error", "orphan"])
def test_lists_can_be_narrowed(store: Store, kind: str) -> None:
    found = list_sessions(store, Filter(has=kind))
    assert found.total
    assert all(item.row.counts[kind] for item in found.sessions)


def test_projects(store: Store) -> None:
    assert sum(row.sessions for row in list_projects(store)) == sum(
        row.project is not None for row in store.sessions.select(SessionFilter(kind="main"))
    )


def test_news_of_the_last_messages(store: Store) -> None:
    """A result that comes later gives the entry of its call anew."""
    calls = 0
    for row in _rows(store):
        reader = SessionQuery(store, row)
        for index in range(row.messages):
            message = reader.message(index)
            results = [block for block in message.blocks if isinstance(block, m.ToolResult)]
            if not results or message.branch:
                continue
            entries = reader.news(index, index + 1)
            answered = {entry.call.id for entry in entries if entry.call is not None and entry.call.result is not None}
            known = {block.call_id for block in results} & _calls_before(reader, index)
            assert known <= answered
            calls += len(known)
    assert calls > 20


def _calls_before(reader: SessionQuery, index: int) -> set[str]:
    messages = reader.messages(0, index)
    return {block.id for message in messages for block in message.blocks if isinstance(block, m.ToolCall)}
