"""Marks and outlines of a timeline are on its branch, and complete."""

from __future__ import annotations

import pytest

from unspool.store import Store
from unspool.web import session_query, timeline
from unspool.web.session_query import SessionQuery
from unspool.web.timeline import OutlineTurn, outline, timeline_marks

from .conftest import session_rows


def test_marks_are_on_the_branch(store: Store) -> None:
    kinds = set()
    for row in session_rows(store):
        query = SessionQuery(store, row)
        for mark in timeline_marks(query):
            assert 0 <= mark.at <= 1
            assert mark.index in query.path()
            kinds.add(mark.kind)
    assert kinds >= {"turn", "compaction", "interruption", "rejection", "error", "rewind"}


def _events(turns: list[OutlineTurn]) -> list[tuple[str, int]]:
    return sorted((cluster.kind, index) for turn in turns for cluster in turn.clusters for index in cluster.indices)


def test_outlines_have_every_prompt_and_every_event(store: Store) -> None:
    """Each event is beneath the prompt that it followed."""
    most = 0
    for row in session_rows(store):
        query = SessionQuery(store, row)
        turns = outline(query)
        assert [turn.index for turn in turns if turn.is_prompt] == query.turn_starts()
        assert _events(turns) == sorted(
            (mark.kind, mark.index) for mark in timeline_marks(query) if mark.kind != "turn"
        )
        ends = [*(turn.index for turn in turns[1:]), row.messages]
        for turn, end in zip(turns, ends, strict=True):
            assert turn.words
            for cluster in turn.clusters:
                assert turn.index <= cluster.indices[0] <= cluster.indices[-1] < end or turn is turns[0]
                most = max(most, len(cluster.indices))
    assert most > 1


def test_a_line_of_a_long_outline_is_for_several_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn and no event is lost."""
    query = max((SessionQuery(store, row) for row in session_rows(store)), key=lambda query: len(query.prompts))
    turns, events = len(query.turn_starts()), _events(outline(query))
    monkeypatch.setattr(timeline, "_MOST_TURNS", 2)
    timeline._outlines.clear()
    found = [turn for turn in outline(query) if turn.is_prompt]
    assert len(found) == 2
    assert sum(turn.more + 1 for turn in found) == turns > 3
    assert _events(outline(query)) == events
    timeline._outlines.clear()


def test_an_outline_shows_whether_calls_are_running_now(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether another program's agent is at work changes with the time alone."""
    are_different = False
    for row in session_rows(store):
        found = []
        for answer in (True, False):
            monkeypatch.setattr(session_query, "is_live", lambda _, answer=answer: answer)
            query = SessionQuery(store, row)
            found.append(outline(query))
            assert found[-1] == timeline._outline(query, 0), "what was cached in the other state is shown"
        are_different = are_different or found[0] != found[1]
    assert are_different
