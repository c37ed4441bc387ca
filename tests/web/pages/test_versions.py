"""The page with the versions of a session's files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from unspool.testing import ClaudeLog
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ...store.contents import new_store, synced
from ..conftest import PORT, TOKEN
from .helpers import Client, assert_valid_structure, page

LONG = "and longer " * 2000 + "in the middle" + " and on" * 2000


@pytest.fixture(scope="module")
def log() -> ClaudeLog:
    """A session with a long line, and one that looks like markup."""
    made = ClaudeLog()
    for text in ("begin", LONG, "end <b>of it</b>"):
        made.user(text)
    return made


@pytest.fixture(scope="module")
def rewritten(log: ClaudeLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server whose store has four versions of it: it grew, was edited and truncated."""
    folder = tmp_path_factory.mktemp("versions")
    store = new_store(folder / "store.db")
    path = log.write(folder / "home")
    path.write_bytes(log.lines[0] + b"\n" + log.lines[1] + b"\n")
    edited = log.data.replace(b"in the middle", b"IN THE MIDDLE")
    for data in (path.read_bytes(), log.data, edited, edited[: -len(log.lines[2]) - 1]):
        path.write_bytes(data)
        synced(store, folder / "home")
    store.close()
    app = create_app(Settings(token=TOKEN, store=str(folder / "store.db"), port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield client


def test_versions_are_listed_with_the_last_change(rewritten: Client, log: ClaudeLog) -> None:
    """The newest first, each with a link; the session links to the page."""
    url = f"/sessions/{log.session}/versions"
    assert f'href="{url}"' in rewritten.get(f"/sessions/{log.session}").text
    parsed = page(rewritten, url)
    assert_valid_structure(parsed)
    text = rewritten.get(url).text
    places = [text.index(f"{url}?version={number}") for number in (4, 3, 2, 1)]
    assert places == sorted(places)
    for change in ("created", "appended", "edited in place", "truncated"):
        assert f">{change}</span>" in text
    assert "From version 3 to version 4" in text
    assert f"unspool restore {log.session} --version 4 --to restored" in text


def test_a_difference_within_a_long_line(rewritten: Client, log: ClaudeLog) -> None:
    """Only what differs is shown, with a little around it."""
    text = rewritten.get(f"/sessions/{log.session}/versions?version=3").text
    assert "and longer in the middle and on" in text
    assert "and longer IN THE MIDDLE and on" in text
    assert "from line 2<" in text
    assert len(text) < 20_000


def test_appended_and_removed_lines(rewritten: Client, log: ClaudeLog) -> None:
    """They are shown as they are, and are no markup."""
    for number, kind in ((2, "add"), (4, "del")):
        text = rewritten.get(f"/sessions/{log.session}/versions?version={number}").text
        assert "end &lt;b&gt;of it&lt;/b&gt;" in text
        assert f'class="{kind}"' in text
        assert "from line 3<" in text


def test_the_first_version_and_one_that_does_not_exist(rewritten: Client, log: ClaudeLog) -> None:
    """There is nothing before the first."""
    url = f"/sessions/{log.session}/versions?version="
    assert "nothing to compare it with" in rewritten.get(f"{url}1").text
    for number in ("0", "5", "-1"):
        assert rewritten.get(url + number).status_code == 404
    assert rewritten.get(f"{url}x").status_code == 400
