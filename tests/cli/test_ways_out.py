"""Every way out of the machine: with planted secrets, none is in the bytes that leave when redaction is asked for.

A new format of `unspool export` is found by itself. Another way out is one line in `WAYS`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.cli.commands import export
from unspool.web.api.params import Endpoint
from unspool.web.api.routes import ENDPOINTS
from unspool.web.app import create_app
from unspool.web.settings import Settings
from unspool.web.templating import EXPORTS

from ..redact.leaky import PLANTED, contents, leaked, write_leaky_home
from .run import Run

Client = TestClient[Litestar]
TOKEN, PORT = "the-token-of-the-tests", 8378
MANY = 50
"""How many of the kinds are in something that has all of the session."""


class Sender:
    """Sends the leaky session somewhere."""

    def __init__(self, run: Run, folder: Path, clients: Clients) -> None:
        self.run = run
        self.folder = folder
        self.clients = clients
        self.home = str(write_leaky_home(folder / "home"))

    def command(self, *arguments: str) -> str:
        """Run a command that has to succeed; returns what it printed."""
        done = self.run(*arguments, "--home", self.home)
        assert done.code == 0, done.err
        assert leaked(done.err.encode()) == []
        return done.out

    def written(self, *arguments: str, to: str) -> bytes:
        """What a command writes to a folder, a file or a store."""
        printed = self.command(*arguments)
        return printed.encode() + contents(self.folder / to)


def _export(format: str) -> Callable[[Sender, list[str]], bytes]:
    return lambda sender, options: sender.written(
        "export", "--format", format, "-o", f"{sender.folder}/out/", *options, to="out"
    )


def _share(sender: Sender, options: list[str]) -> bytes:
    return sender.written("share", "-o", f"{sender.folder}/pages/", *options, to="pages")


def _push(sender: Sender, options: list[str]) -> bytes:
    return sender.written("push", f"{sender.folder}/team.db", *options, to="team.db")


def _lake(sender: Sender, options: list[str]) -> bytes:
    return sender.written("lake", "sync", f"{sender.folder}/lake", *options, to="lake")


def _sql(sender: Sender, options: list[str]) -> bytes:
    return sender.command("sql", "--json", "select * from blocks", *options).encode()


class Clients:
    """One client of an app for all ways through the web: what it redacts depends on the request."""

    def __init__(self, folder: Path) -> None:
        self.store = str(folder / "sessions.db")
        self.stack = ExitStack()
        self.client: Client | None = None

    def get(self, sender: Sender) -> Client:
        """The client, whose store the first sender fills."""
        if self.client is None:
            sender.command("sync", "--store", self.store)
            app = create_app(Settings(token=TOKEN, store=self.store, port=PORT, follows=False))
            self.client = self.stack.enter_context(TestClient(app, base_url=f"http://127.0.0.1:{PORT}"))
            self.client.headers.update({"authorization": f"Bearer {TOKEN}"})
        return self.client


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Made by the first test that needs it."""
    clients = Clients(tmp_path_factory.mktemp("web"))
    with clients.stack:
        yield clients


def _api(sender: Sender, options: list[str]) -> bytes:
    """All endpoints, one after the other."""
    client = sender.clients.get(sender)
    key = client.get("/api/sessions").json()["sessions"][0]["row"]["name"]
    answers = [client.get(_address(endpoint, key), params=_params(endpoint, options)) for endpoint in ENDPOINTS]
    for endpoint, answer in zip(ENDPOINTS, answers, strict=True):
        assert answer.status_code == 200 or endpoint.path.endswith("{agent_id}"), (endpoint.path, answer.text)
    return b"\n".join(answer.content for answer in answers)


def _address(endpoint: Endpoint, key: str) -> str:
    values = {"key": key, "index": "2", "kind": "rejections", "project": "demo", "agent_id": "none"}
    return "/api" + endpoint.path.format_map(values)


def _params(endpoint: Endpoint, options: list[str]) -> dict[str, str]:
    query = {"q": "printed"} if endpoint.path == "/search" else {}
    return query | ({"redact": "1"} if options else {})


def _download(format: str) -> Callable[[Sender, list[str]], bytes]:
    def download(sender: Sender, options: list[str]) -> bytes:
        client = sender.clients.get(sender)
        key = client.get("/api/sessions").json()["sessions"][0]["row"]["name"]
        answer = client.get(f"/sessions/{key}/export/{format}", params={"redact": "1"} if options else {})
        assert answer.status_code == 200
        file = sender.folder / "downloaded"
        file.write_bytes(answer.content)
        return contents(file)

    return download


def _formats() -> list[str]:
    """The formats of `unspool export`, as its help lists them."""
    parser = argparse.ArgumentParser()
    export.configure(parser)
    (choices,) = [action.choices for action in parser._actions if "--format" in action.option_strings]
    assert choices is not None
    return list(choices)


WAYS: dict[str, Callable[[Sender, list[str]], bytes]] = {
    **{f"export {format}": _export(format) for format in _formats()},
    **{f"download {format}": _download(format) for format in EXPORTS},
    "share": _share,
    "push": _push,
    "lake": _lake,
    "sql": _sql,
    "api": _api,
}
REDACTED_BY_DEFAULT = {"share": "--with-secrets"}
"""Ways that need an option to leave secrets in."""


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_leaves(run: Run, tmp_path: Path, clients: Clients, way: str) -> None:
    """Without the option they do, so that the test is known to see them."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    plain = [REDACTED_BY_DEFAULT[way]] if way in REDACTED_BY_DEFAULT else []
    redacted = [] if way in REDACTED_BY_DEFAULT else ["--redact"]
    assert leaked(WAYS[way](Sender(run, tmp_path / "one", clients), plain))
    sent = WAYS[way](Sender(run, tmp_path / "other", clients), redacted)
    assert leaked(sent) == []
    assert "‹github-token:".encode() in sent


def test_the_planted_secrets_are_of_many_kinds() -> None:
    assert len({one.kind for one in PLANTED}) >= MANY
