"""Find in session finds what the transcript shows, on the branch that is shown, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from unspool.store import Store
from unspool.testing import ClaudeLog, call
from unspool.web import session_find
from unspool.web.session_find import FoundInSession, find_in_session
from unspool.web.session_query import SessionQuery

from ..store.contents import new_store, synced
from .conftest import session_rows
from .finding_home import LONG, NEEDLE, long_session


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionQuery]:
    folder = tmp_path_factory.mktemp("find")
    with closing(new_store(folder / "sessions.db")) as store:
        long_session().write(folder / "home")
        synced(store, folder / "home")
        yield SessionQuery(store, store.sessions.find(LONG))


def kinds(found: FoundInSession) -> list[str]:
    return [entry.kind for entry in found.entries]


def test_every_kind_of_entry_is_found(query: SessionQuery) -> None:
    """In the order of the branch, a result where its call is."""
    found = find_in_session(query, NEEDLE)
    assert kinds(found) == ["thinking", "answer", "call", "thinking", "answer"]
    assert [entry.at for entry in found.entries] == sorted(entry.at for entry in found.entries)
    assert found.is_complete
    assert all(entry.snippet.marks for entry in found.entries)
    for entry in found.entries:
        ((start, end),) = entry.snippet.marks
        assert entry.snippet.text[start:end].lower() == NEEDLE.lower()


def test_only_the_branch_is_searched(query: SessionQuery) -> None:
    branches = [branch.id for branch in query.head.branches]
    found = [kinds(find_in_session(query, "on another branch", branch)) for branch in branches]
    assert found.count(["prompt"]) == 1
    assert found.count([]) == len(branches) - 1
    assert find_in_session(query, "on another branch").entries == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("LIGHTHOUSE", 5),
        ("  lighthouse \n needs", 2),
        ("lamp src/a.py:", 1),
        ("tower.py", 1),
        ("", 0),
        ("  ", 0),
        ("(", 0),
        ("no such thing", 0),
        ("question 69", 1),
        ("grep -r", 1),
        ("light", 6),
    ],
)
def test_case_and_white_space_do_not_matter(query: SessionQuery, text: str, count: int) -> None:
    assert len(find_in_session(query, text).entries) == count


def test_the_number_of_matches_is_limited(query: SessionQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_find, "_MOST_MESSAGES", 3)
    found = find_in_session(query, "question")
    assert len(found.entries) >= 3
    assert not found.is_complete


def test_a_result_far_from_its_call_is_found_at_the_call(tmp_path: Path) -> None:
    """They are on different pages, and in different blocks of the store."""
    log = ClaudeLog("far")
    log.user("begin")
    log.model(call("slow", command="sleep 1"), call("quick", command="true"))
    for number in range(150):
        log.model(f"meanwhile {number}")
    log.result("slow", "the tide is high")
    log.write(tmp_path / "home")
    with closing(new_store(tmp_path / "sessions.db")) as store:
        synced(store, tmp_path / "home")
        (entry,) = find_in_session(SessionQuery(store, store.sessions.find("latest")), "tide is").entries
        assert (entry.kind, entry.index) == ("call", 1)


def test_every_prompt_and_answer_of_the_recordings_is_found(store: Store) -> None:
    """By its first words."""
    for row in session_rows(store)[::7]:
        query = SessionQuery(store, row)
        for message in query.messages(0, row.messages):
            is_note = message.author not in ("human", "model") or (message.author == "model") == (
                message.role == "user"
            )
            if message.branch or is_note or not message.text.strip():
                continue
            found = find_in_session(query, " ".join(message.text.split())[:60])
            assert message.index in [entry.index for entry in found.entries], (row.name, message.index)
            break
