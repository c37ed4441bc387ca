"""Resuming a session whose log the store does not have, or not completely: the run log knows where it worked."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.core.errors import NotFoundError, UsageError
from unspool.ingest.sync import Syncer
from unspool.library import Library
from unspool.runs.protocol import ForkReach, RunSpec
from unspool.store import Store
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.run_log import RunLog
from unspool.web.api.run_schemas import StartBody
from unspool.web.api.runs import plan
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ..store.homes import AGENTS, write_home
from ..waiting import wait_until
from .scripted import install

each_agent = pytest.mark.parametrize("agent", AGENTS)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    log = RunLog(tmp_path / "supervisor.db")
    yield log
    log.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(SqliteDatabase(tmp_path / "sessions.db", machine=("tests", "tests")))
    yield store
    store.close()


def anywhere(_: str) -> ForkReach:
    """An agent that can fork after any message."""
    return "message"


def worked(log: RunLog, agent: str, session: str, folder: str, run: str = "run") -> None:
    """An agent is started, says which session it works on, and ends."""
    log.start_run(run, agent, None, folder, RunSpec(folder=folder))
    log.set_session(run, session)
    log.end_run(run, "failed")


# --- what is planned -------------------------------------------------------------------------------------------------


@each_agent
@pytest.mark.parametrize("forks", [False, True])
def test_a_session_that_the_store_does_not_have_yet(
    agent: str, forks: bool, tmp_path: Path, store: Store, log: RunLog
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    body = StartBody(session="new", fork=forks)
    with pytest.raises(NotFoundError):
        plan(store, body, (str(home),), log, anywhere)
    worked(log, agent, "new", "/first", "one")
    worked(log, agent, "new", "/second", "two")
    worked(log, agent, "other", "/third", "three")
    planned = plan(store, body, (str(home),), log, anywhere)
    assert (planned.agent, planned.ref) == (agent, None)
    assert planned.spec == RunSpec(folder="/second", session="new", fork=forks, home=str(home))
    named = StartBody(session="new", fork=forks, folder="/named")
    assert plan(store, named, (str(home),), log, anywhere).spec.folder == "/named"
    # Which message that would be is only known with the log.
    with pytest.raises(NotFoundError):
        plan(store, StartBody(session="new", at=3), (str(home),), log, anywhere)


@each_agent
def test_the_log_of_a_session_that_the_store_does_not_have_yet_is_found(
    agent: str, tmp_path: Path, store: Store, log: RunLog
) -> None:
    """So another program that writes to it is noticed."""
    home = tmp_path / "home"
    path = write_home(home)[agent]
    name = Library(home).ref_of(path).id
    worked(log, agent, name, "/first")
    planned = plan(store, StartBody(session=name), (str(home),), log, anywhere)
    assert planned.ref is not None
    assert (planned.ref.agent, planned.ref.id, planned.ref.path) == (agent, name, path)


@each_agent
@pytest.mark.parametrize("project", [None, "1f0c9a"])
@pytest.mark.parametrize("forks", [False, True])
def test_a_session_whose_log_has_no_folder_yet(
    agent: str, project: str | None, forks: bool, tmp_path: Path, store: Store, log: RunLog
) -> None:
    """It was read while its first line was being written; or it has only a name of the folder."""
    home = tmp_path / "home"
    write_home(home)
    Syncer(store, home).run()
    with sqlite3.connect(tmp_path / "sessions.db") as database:
        database.execute("UPDATE session SET project = ?", (project,))
    name = store.sessions.select(SessionFilter(agent=agent))[0].name
    body = StartBody(session=name, fork=forks)
    with pytest.raises(UsageError, match=r"folder of session .* is not known"):
        plan(store, body, (str(home),), log, anywhere)
    worked(log, agent, name, "/first")
    planned = plan(store, body, (str(home),), log, anywhere)
    assert (planned.agent, planned.spec.folder, planned.spec.session) == (agent, "/first", name)
    assert planned.ref is not None
    with sqlite3.connect(tmp_path / "sessions.db") as database:
        database.execute("UPDATE session SET project = '/moved'")
    assert plan(store, body, (str(home),), log, anywhere).spec.folder == "/moved"


@each_agent
@pytest.mark.parametrize("at", [None, 0])
def test_a_fork_that_the_agent_cannot_do_is_rejected_before_it_is_started(
    agent: str, at: int | None, tmp_path: Path, store: Store, log: RunLog
) -> None:
    """With the same sentence that the page shows."""
    home = tmp_path / "home"
    write_home(home)
    Syncer(store, home).run()
    name = store.sessions.select(SessionFilter(agent=agent))[0].name
    with pytest.raises(UsageError, match="cannot fork a session, so you cannot continue from here"):
        plan(store, StartBody(session=name, folder="/demo", fork=True, at=at), (str(home),), log, lambda _: "none")


# --- with a server that reads no logs --------------------------------------------------------------------------------


Client = TestClient[Litestar]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    for name in ("home", "data", "project"):
        (tmp_path / name).mkdir()
    install(tmp_path, monkeypatch)
    settings = Settings(
        token="token",
        store=str(tmp_path / "sessions.db"),
        homes=(str(tmp_path / "home"),),
        follows=False,
        data=str(tmp_path / "data"),
    )
    with TestClient(create_app(settings), base_url=settings.address) as client:
        client.headers["authorization"] = "Bearer token"
        yield client


def until_in(client: Client, run: str, *states: str) -> Any:
    def seen() -> Any:
        view = client.get(f"/api/runs/{run}").json()
        return view if view["state"] in states else None

    return wait_until(seen, f"agent {run} to be {' or '.join(states)}")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the scripted agent is a shell script")
def test_a_killed_agent_is_resumed_before_its_log_is_read(client: Client, tmp_path: Path) -> None:
    project = str(tmp_path / "project")
    body = {"agent": "gemini", "folder": project, "prompt": "say first"}
    first = client.post("/api/runs", json=body).json()["run"]["id"]
    view = until_in(client, first, "idle")
    session = view["session"]
    refused = client.post("/api/runs", json={"session": session})
    assert (refused.status_code, "is already working on this session" in refused.text) == (409, True)
    os.kill(view["pid"], signal.SIGKILL)
    until_in(client, first, "ended")
    answer = client.post("/api/runs", json={"session": session, "prompt": "say second"})
    assert answer.status_code == 201, answer.text
    view = until_in(client, answer.json()["run"]["id"], "idle")
    assert (view["session"], view["folder"], view["error"]) == (session, project, None)
