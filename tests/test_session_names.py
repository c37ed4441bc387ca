"""A session has the same names everywhere: in the library, the store, the API, the pages and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import unspool
from unspool.agents import AGENTS
from unspool.core.errors import AmbiguousError, NotFoundError, UnspoolError
from unspool.library import Library
from unspool.store import open_store
from unspool.testing import ClaudeLog, CodexLog
from unspool.web.pages.session_fragments import query_of
from unspool.web.session_list import find

from .cli.run import call_main
from .store.contents import synced

Resolve = Callable[[str], str]
"""Returns the id of the session that a name means, or fails with a sentence."""
TWINS = tuple(f"77777777-0000-4000-8000-00000000000{number}" for number in range(2))


class Names:
    """A home with a few sessions, and the user's own store of it."""

    def __init__(self, home: Path) -> None:
        log = ClaudeLog("names")
        log.user("hello")
        self.id, self.path = log.session, log.write(home)
        child = ClaudeLog("names", agent="a1b2c3")
        child.user("look", "look")
        child.write(home)
        self.child = f"{log.session}/a1b2c3"
        for number, id in enumerate(TWINS):
            twin = ClaudeLog(f"twin {number}")
            twin.session = id
            twin.user("hello", f"hello {number}")
            twin.write(home)
        newest = CodexLog("newest")
        for turn in range(9):
            newest.turn(f"hello {turn}", "yes")
        path = newest.write(home)
        os.utime(path, (4e9, 4e9))
        self.newest = newest.load(home).id
        os.utime(path, (4e9, 4e9))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "own"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    for agent in AGENTS.values():
        monkeypatch.delenv(agent.info.variable, raising=False)
    return place


@pytest.fixture
def names(home: Path) -> Names:
    return Names(home)


@pytest.fixture(params=["library", "load", "store", "address", "page", "command"])
def resolve(
    request: pytest.FixtureRequest, names: Names, home: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Resolve]:
    """Every way from a name to a session."""
    if request.param == "library":
        yield lambda name: Library().find(name).id
    elif request.param == "load":
        yield lambda name: unspool.load(name).id
    elif request.param == "command":
        yield lambda name: _shown(name, capsys)
    else:
        store = open_store()
        synced(store, home)
        yield {
            "store": lambda name: store.sessions.find(name).name,
            "address": lambda name: find(store, name).name,
            "page": lambda name: query_of(store, name).row.name,
        }[request.param]
        store.close()


def _shown(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `unspool show` shows; its errors as they are raised in a program."""
    capsys.readouterr()
    code = call_main(("show", name, "--json"))
    out, err = capsys.readouterr()
    if code:
        raise {1: NotFoundError, 2: AmbiguousError}[code](err.removeprefix("unspool: ").rstrip("\n"))
    id: str = json.loads(out.splitlines()[0])["session"]["id"]
    return id


def test_names_of_a_session(resolve: Resolve, names: Names) -> None:
    """Its id and beginnings of it, in any case, and the path of its file."""
    for name in (names.id, names.id.upper(), names.id[:6], names.id[:6].upper(), str(names.path)):
        assert resolve(name) == names.id, name


def test_names_of_a_sub_agent(resolve: Resolve, names: Names) -> None:
    """Its whole id, the last part of it, and beginnings of these or of each part."""
    short = f"{names.id[:13]}/a1b2"
    for name in (names.child, names.child.upper(), names.child[:-2], "a1b2c3", "A1B2", short, short.upper()):
        assert resolve(name) == names.child, name


def test_the_latest_session(resolve: Resolve, names: Names) -> None:
    """The main session that was written to last."""
    assert resolve("latest") == names.newest


def test_a_name_of_several_sessions(resolve: Resolve) -> None:
    """They are listed."""
    with pytest.raises(AmbiguousError) as caught:
        resolve(TWINS[0][:-1])
    shown = sorted(str(caught.value).split(": ", 1)[1].split(", "))
    assert str(caught.value).split(": ", 1)[0] == f"'{TWINS[0][:-1]}' matches 2 sessions"
    assert shown == list(TWINS)


def test_a_name_of_no_session(resolve: Resolve) -> None:
    """It says what to try."""
    with pytest.raises(UnspoolError) as caught:
        resolve("nothing-like-this")
    assert isinstance(caught.value, NotFoundError)
    assert str(caught.value) == "no session 'nothing-like-this' among 5; `unspool ls` lists them"
