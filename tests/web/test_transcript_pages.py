"""Pages of a transcript show what the record holds, whatever their size."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.core.session import Session
from unspool.render.transcript import Entry, Transcript
from unspool.store import Store
from unspool.web.session_query import SessionQuery
from unspool.web.transcript_pages import TranscriptPages

from .conftest import session_rows


def _whole(session: Session, branch: int) -> Iterator[Entry]:
    agent = AGENTS[session.agent]
    transcript = Transcript(session, agent.describe, results=agent)
    yield from transcript.root_forks()
    on_path = _path(session, branch)
    for message in session.messages:
        if message.index in on_path:
            yield from transcript.entries_of(message)
    yield from transcript.unmentioned_subagents()


def _path(session: Session, branch: int) -> set[int]:
    """The messages of a branch by definition: its own, and those up to the message it forked from."""
    own = {message.index for message in session.branch(branch)}
    found = next((other for other in session.branches if other.id == branch), None)
    if found is None or found.parent_index is None:
        return own
    above = session.messages[found.parent_index].branch
    return own | {index for index in _path(session, above) if index <= found.parent_index}


def test_pages_together_are_the_transcript(store: Store) -> None:
    branches = 0
    for row in session_rows(store):
        query, session = SessionQuery(store, row), store.messages.load_session(row.id)
        transcript = TranscriptPages(query)
        for branch in (0, *(branch.id for branch in session.branches)):
            branches += branch > 0
            pages = [transcript.page(number, branch) for number in range(query.pages(branch))]
            shown = [entry for page in pages for entry in page.entries if entry.kind != "problem"]
            assert msgspec.json.encode(shown) == msgspec.json.encode(list(_whole(session, branch)))
    assert branches > 10


def test_every_problem_is_on_one_page(store: Store) -> None:
    seen = 0
    for row in session_rows(store):
        query = SessionQuery(store, row)
        pages = [TranscriptPages(query).page(number) for number in range(query.pages())]
        shown = [entry.key for page in pages for entry in page.entries if entry.kind == "problem"]
        if not query.head.branches:
            assert sorted(shown) == sorted(f"problem{number}" for number in range(len(query.head.problems)))
        seen += len(shown)
    assert seen > 0


def test_keys_are_unique(store: Store) -> None:
    for row in session_rows(store):
        query = SessionQuery(store, row)
        transcript = TranscriptPages(query)
        keys = [entry.key for number in range(query.pages()) for entry in transcript.page(number).entries]
        assert len(keys) == len(set(keys))
        assert all(keys)


def test_results_return_the_entries_of_their_calls(store: Store) -> None:
    """A later result also returns the entry of its call."""
    calls = 0
    for row in session_rows(store):
        query = SessionQuery(store, row)
        pages = TranscriptPages(query)
        for index in range(row.messages):
            message = query.message(index)
            results = [block for block in message.blocks if isinstance(block, m.ToolResult)]
            if not results or message.branch:
                continue
            entries = pages.new_entries(index, index + 1)
            answered = {entry.call.id for entry in entries if entry.call is not None and entry.call.result is not None}
            known = {block.call_id for block in results} & _calls_before(query, index)
            assert known <= answered
            calls += len(known)
    assert calls > 20


def _calls_before(query: SessionQuery, index: int) -> set[str]:
    messages = query.messages(0, index)
    return {block.id for message in messages for block in message.blocks if isinstance(block, m.ToolCall)}
