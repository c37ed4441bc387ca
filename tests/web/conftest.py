"""Servers and stores for the tests of the web app."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.rows import SessionRow
from unspool.store.store import Store
from unspool.web.app import create_app
from unspool.web.settings import Settings

CORPUS = Path(__file__).parents[1] / "corpus"
TOKEN = "the-token-of-the-tests"
PORT = 8377


def recordings() -> list[Path]:
    """Homes of recordings of the newest version of each agent."""
    found = []
    for agent in ("claude", "codex", "gemini"):
        newest = max((CORPUS / agent).iterdir(), key=lambda path: [int(part) for part in path.name.split(".")])
        found += sorted(newest.glob("*/home"))
    return found


def put_together(homes: list[Path], target: Path) -> Path:
    """One home with the sessions of many."""
    for home in homes:
        for folder in home.iterdir():
            if folder.is_dir():
                shutil.copytree(folder, target / folder.name, dirs_exist_ok=True)
    return target


SCENARIOS = {
    "claude": (
        "normal", "rewind", "compact", "clear", "reject", "subagent", "image", "int_bash", "orphan", "apierr", "misc",
        "fork",
    ),
    "codex": (
        "normal", "backtrack", "compact", "subagents", "patch_reject", "interrupt_cmd", "errors", "kill_running_cmd",
    ),
    "gemini": (
        "normal", "rewind", "compress", "subagent", "tool-rejected-no", "edit-rejected", "interrupt-shell",
        "api-error", "kill-shell",
    ),
}  # fmt: skip
"""Recordings in which everything happens once; with all of them every page would list some two hundred sessions."""


def home_of_recordings(folder: Path) -> Path:
    """A home directory with recordings of the newest version of each agent."""
    chosen = [home for home in recordings() if home.parent.name in SCENARIOS[home.parents[2].name]]
    return put_together(chosen, folder / "home")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with recordings of all agents; not to be changed."""
    return put_together(recordings(), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def store_path(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all of them."""
    path = tmp_path_factory.mktemp("store") / "sessions.db"
    store = Store(SqliteDatabase(path, machine=("tests", "tests")))
    report = Syncer(store, home).run()
    assert not report.failures
    store.close()
    return path


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    """The same, opened."""
    store = Store(SqliteDatabase(store_path, machine=("tests", "tests"), read_only=True))
    yield store
    store.close()


@pytest.fixture(scope="session")
def app(store_path: Path) -> Litestar:
    """An application that shows that store, and does not follow anything."""
    return create_app(Settings(token=TOKEN, store=str(store_path), port=PORT, follows=False))


@pytest.fixture(scope="session")
def client(app: Litestar) -> Iterator[TestClient[Litestar]]:
    """A client that knows the token."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update(headers)
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium. While it runs no other event loop can, so it is not kept beyond a module."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    from .browser import CHROMIUM, chromium

    if CHROMIUM is None:
        pytest.skip("there is no Chromium on the PATH")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def visitors(browser: Any) -> Any:
    """Browser contexts that tests share."""
    from .browser import Visitors

    return Visitors(browser)


@pytest.fixture
def visitor(visitors: Any, server: Any) -> Iterator[Any]:
    """A browser context at the server of a module."""
    with visitors.visit(server) as visitor:
        yield visitor


def session_rows(store: Store) -> list[SessionRow]:
    """All sessions of the recordings."""
    rows = store.sessions.select()
    assert len(rows) > 50
    return rows
