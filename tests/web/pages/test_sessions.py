"""The list of sessions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.store.locate import data_folder, machine_identity
from unspool.store.stats import compute_activity
from unspool.testing import ClaudeLog
from unspool.web.app import create_app
from unspool.web.pages import sessions
from unspool.web.settings import Settings

from ...store.contents import new_store, synced
from ..conftest import PORT, TOKEN
from .helpers import Client, page


def test_session_list_filters(client: Client, store: Store) -> None:
    """They narrow it, can be combined and taken back."""
    everything = page(client, "/list")
    only = page(client, "/list?agent=codex&has=rejection")
    agents = set(only.all("data-agent"))
    assert agents == {"codex"}
    assert len(only.all("data-agent")) < len(everything.all("data-agent"))
    assert "/?has=rejection" in only.all("href")
    assert page(client, "/list?agent=codex&has=rejected").words == only.words
    assert "No sessions match" in page(client, "/list?q=nothing-is-called-so").words


def test_why_updates_are_slow_is_on_every_page(tmp_path: Path) -> None:
    """Until the process that reads the files starts again."""
    store = new_store(tmp_path / "store.db", machine_identity(data_folder()))
    app = create_app(Settings(token=TOKEN, store=store.location, port=PORT, follows=False))
    state = app.state["app_state"]
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        for report, is_hidden in ({"slow": "of <a> limit"}, False), ({"ready": True}, True):
            state._on_report(report)
            for path in ("/", "/search?q=a", "/stats", "/rules"):
                (notice,) = (facts for _, facts in page(client, path).tags if "data-delay" in facts)
                assert ("hidden" in notice) == is_hidden, path
                assert ("because of <a> limit." in " ".join(page(client, path).words.split())) != is_hidden
    store.close()


def test_what_could_not_be_read_is_listed(tmp_path: Path) -> None:
    """With the reason, and what to do."""
    store = new_store(tmp_path / "store.db", machine_identity(data_folder()))
    store.files.set_unreadable([], {"/home/dev/.claude/projects/p/<odd>.jsonl": "Permission denied"}, 1.0)
    app = create_app(Settings(token=TOKEN, store=store.location, port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        words = page(client, "/").words
        assert "1 file or folder could not be read" in words
        assert "/home/dev/.claude/projects/p/<odd>.jsonl Permission denied" in words
        store.files.set_unreadable(list(store.files.unreadable()), {}, 2.0)
        assert "could not be read" not in page(client, "/").words
    store.close()


def test_the_list_and_the_statistics_count_the_same_sessions(tmp_path: Path) -> None:
    """A sub-agent is none, also where it is listed by itself, and neither is a session without messages."""
    alone = ClaudeLog("alone")
    alone.user("explore the harbour", "task", isSidechain=True, agentId="a1")
    alone.model("found a lighthouse", isSidechain=True, agentId="a1")
    whole = ClaudeLog("whole")
    whole.user("count the boats")
    for log in (alone, whole):
        log.write(tmp_path / "home")
    store = new_store(tmp_path / "store.db", machine_identity(data_folder()))
    synced(store, tmp_path / "home")
    assert store.sessions.count(SessionFilter(is_empty=True)) == 1
    app = create_app(Settings(token=TOKEN, store=store.location, port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        words = " ".join(page(client, "/").words.split())
    assert "Sessions 1 session 1 sub-agent without the session that started it sorted by" in words
    found = compute_activity(store.database, SessionFilter())
    assert (found.sessions, found.subagents) == ({"claude": 1}, 1)
    store.close()


def test_headings_count_sessions_on_other_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worktree belongs to its repository, and the open session is listed in any case."""
    monkeypatch.setattr(sessions, "_PAGE_SIZE", 2)
    for number in range(5):
        folder = "/home/dev/boats/.claude/worktrees/sail" if number == 4 else "/home/dev/boats"
        log = ClaudeLog(f"boat {number}")
        log.user(f"count the boats of harbour {number}", cwd=folder)
        log.write(tmp_path / "home")
    store = new_store(tmp_path / "store.db", machine_identity(data_folder()))
    synced(store, tmp_path / "home")
    ids = [row.id for row in store.sessions.select(order="oldest")]
    app = create_app(Settings(token=TOKEN, store=store.location, port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        for path, listed in ("/", 2), ("/?page=2", 1), (f"/list?here={ids[0]}", 3), ("/?q=harbour+1", 1):
            text = client.get(path).text
            assert text.count("data-agent=") == listed, path
            assert re.findall(r'class="count">(.*?)</span></h2>', text) == ["1" if "q=" in path else "5"], path
    store.close()
