"""What lists show of sessions: titles without the marks of Markdown, and names that tell projects apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.store.locate import data_folder, machine_identity
from unspool.testing import ClaudeLog, call
from unspool.web.app import create_app
from unspool.web.session_list import distinct_names
from unspool.web.settings import Settings

from ...cli.run import run_captured
from ...store.contents import new_store, synced
from ..conftest import PORT, TOKEN
from ..finding_home import LogIn
from .helpers import Client, page

MARKED = "## Fix `__init__` of **snake_case** in `*.py`"
PLAIN = "Fix __init__ of snake_case in *.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions in folders with the same name, one with marks in its title, and a sub-agent without its session."""
    folder = tmp_path_factory.mktemp("titles") / "home"
    log = LogIn("marked", "/home/dev/one/boat")
    log.user(MARKED)
    log.model({"type": "thinking", "thinking": "The **mast** comes first", "signature": "s"}, "answer")
    log.model(call("fail", command="make mast"))
    log.result("fail", "no wood", error=True)
    log.user("And the *sail*?")
    log.model("That, too")
    log.write(folder)
    other = LogIn("other", "/home/dev/two/boat/.worktrees/3")
    other.user("Another mast")
    other.write(folder)
    lonely = ClaudeLog("lonely")
    lonely.user("explore the harbour", "task", isSidechain=True, agentId="a1")
    lonely.model("found a lighthouse", isSidechain=True, agentId="a1")
    lonely.write(folder)
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[Client]:
    with closing(new_store(home.parent / "store.db", machine_identity(data_folder()))) as store:
        synced(store, home)
        app = create_app(Settings(token=TOKEN, store=store.location, port=PORT, follows=False))
        with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
            client.headers.update({"authorization": f"Bearer {TOKEN}"})
            yield client


def words_of(client: Client, url: str) -> str:
    return " ".join(page(client, url).words.split())


def test_titles_are_plain_text(client: Client) -> None:
    """In lists, in the outline, as the heading; only the record itself keeps what was typed."""
    session = LogIn("marked", "").session
    for url in ("/", "/?flat=1", "/search?q=wood", "/events/errors", f"/sessions/{session}"):
        words = words_of(client, url)
        assert PLAIN in words, url
        assert MARKED not in words, url
    assert "And the sail?" in words_of(client, f"/sessions/{session}/rail")
    assert "And the sail?" in words_of(client, "/"), "the last prompt"
    assert "The mast comes first" in words_of(client, f"/sessions/{session}")
    assert f"<title>{PLAIN} · unspool</title>" in client.get(f"/sessions/{session}").text
    listed = next(one for one in client.get("/api/sessions").json()["sessions"] if one["row"]["name"] == session)
    assert (listed["shown_title"], listed["row"]["title"]) == (PLAIN, MARKED)


def test_titles_in_exports_and_in_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The heading of a Markdown file keeps marks, because they mean something there."""
    export = ("export", LogIn("marked", "").session, "--home", home, "--format")
    assert PLAIN in run_captured(capsys, ("ls", "--home", home)).out
    assert f"<title>{PLAIN}</title>" in run_captured(capsys, (*export, "html")).out
    assert run_captured(capsys, (*export, "markdown")).out.startswith(f"# {MARKED.removeprefix('## ')}\n")


def test_projects_with_the_same_name_are_told_apart(client: Client) -> None:
    assert "two/boat" in words_of(client, "/")
    facets = words_of(client, "/search?q=mast")
    assert "one/boat" in facets
    assert "two/boat · 3" in facets


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([], []),
        (["/home/dev/boat", "/home/dev/ship"], ["boat", "ship"]),
        (["/a/boat", "/b/boat", "/b/ship"], ["a/boat", "b/boat", "ship"]),
        (["/x/a/boat", "/y/a/boat", "/b/boat"], ["x/a/boat", "y/a/boat", "b/boat"]),
        (["/boat", "boat"], ["/boat", "boat"]),
        ([r"C:\a\boat", "/"], ["boat", "/"]),
    ],
)
def test_names_of_projects(paths: list[str], names: list[str]) -> None:
    assert list(distinct_names(paths).values()) == names


def test_a_sub_agent_without_its_session_is_named_as_one(client: Client) -> None:
    """It has no turns of a person, and "0 turns" would say that nothing happened."""
    words = words_of(client, "/")
    assert "sub-agent" in words
    assert "0 turns" not in words


def test_a_short_message_of_an_error_is_shown_once(client: Client) -> None:
    assert words_of(client, "/events/errors").count("no wood") == 1


def test_a_single_event_is_counted_in_the_singular(client: Client) -> None:
    """Both in the list and in the groups."""
    assert "1 error " in words_of(client, "/events/errors")
    assert "in 1 failure " in words_of(client, "/events/errors?view=groups")
