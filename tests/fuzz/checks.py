"""What has to hold for every home, whatever its files contain."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from litestar import Litestar
from litestar.testing import TestClient

from unspool.agents import AGENTS, SessionRef
from unspool.core.errors import UnspoolError
from unspool.core.stream import collect
from unspool.ingest.sync import Syncer
from unspool.library import Library, without_conversation
from unspool.repair import repair_session
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
from unspool.web.app import create_app
from unspool.web.session_list import url_name
from unspool.web.settings import Settings
from unspool.web.templating import address

from ..cli.run import call_main
from ..store.contents import MACHINE, contents, difference, fresh, new_store
from ..validation import check_session

_COMMANDS = (
    ("ls", "--events", "--kind", "all", "--json"),
    ("ls", "--all", "--since", "1d"),
    ("events",),
    ("doctor", "--all"),
    ("doctor", "--summary"),
    ("export", "--format", "stream"),
    ("export", "--format", "markdown"),
)
_STORE_COMMANDS = (("search", "the"), ("stats",), ("rejections",))
_PAGES = ("/", "/search?q=the", "/events/rejections", "/stats", "/agents", "/api/sessions")
_PORT = 8377
_encode = msgspec.json.Encoder().encode


class CheckFailedError(Exception):
    """Something does not hold."""


class HomeCheck:
    """Checks one home, and collects what fails."""

    def __init__(self, home: Path) -> None:
        self.failures: list[str] = []
        """Each says what failed, at which session, with the end of the traceback."""
        self._home = home
        self._library = Library(home)
        self._refs: list[SessionRef] = []

    def run(self, *, whole: bool) -> list[str]:
        """Read every session; if it is the `whole` check, also use all commands, the store and the pages."""
        self._attempt("discovery", self._list)
        for ref in self._refs:
            self._attempt(f"read {ref.path}", self._read, ref)
        if whole:
            with TemporaryDirectory() as folder:
                self._use(Path(folder))
        return self.failures

    def _use(self, folder: Path) -> None:
        for ref in self._refs:
            self._attempt(f"repair {ref.path}", self._repair, ref, folder)
            self._attempt(f"context {ref.path}", _command, "context", str(ref.path), "--at", "0")
            self._attempt(f"show {ref.path}", _command, "show", str(ref.path), "--branches", "all")
        for arguments in _COMMANDS:
            self._attempt(arguments[0], _command, *arguments, "--home", str(self._home))
        place = folder / "store.db"
        self._attempt("sync", self._sync, place)
        for arguments in _STORE_COMMANDS:
            self._attempt(arguments[0], _command, *arguments, "--store", str(place), "--no-sync")
        self._attempt("serve", self._serve, place)
        self._attempt("grow", self._grow, folder)

    def _attempt(self, what: str, check: Callable[..., Any], *arguments: Any) -> None:
        try:
            check(*arguments)
        except Exception as error:
            trace = "".join(traceback.format_exception(error)[-4:])
            self.failures.append(f"{what}: {type(error).__name__}: {str(error)[:300]}\n{trace[-1500:]}")

    def _list(self) -> None:
        """Every log is part of a session, or is known to be without a conversation."""
        self._refs += self._library.refs()
        known = {path for ref in self._refs for path in (ref.path, *ref.more)}
        known |= {path for _, path in without_conversation(self._library)}
        for name, root in self._library.homes():
            found = {source.path for source in AGENTS[name].logs(root)}
            lost = [path for path in found - known if path.suffix == ".jsonl" and path.parent != root]
            if lost:
                raise CheckFailedError(f"neither listed nor left out: {lost[0]}")

    def _read(self, ref: SessionRef) -> None:
        self._library.peek(ref)
        sessions = list(self._library.load_all(ref))
        for session in sessions:
            check_session(session)
            # What is exported can be read by other programs.
            json.loads(session.to_json())
            for reply in session.replies():
                session.context_at(reply.message_indices[0])
        for session, other in zip(sessions, collect(self._library.stream(ref)), strict=True):
            _equal("load and stream", _encode(session), _encode(other))

    def _repair(self, ref: SessionRef, folder: Path) -> None:
        with contextlib.suppress(UnspoolError):
            repair_session(self._library, ref, folder / "repaired")

    def _sync(self, place: Path) -> None:
        store = new_store(place)
        try:
            for name, reason in Syncer(store, self._home).run().failures.items():
                self.failures.append(f"sync {name}: {reason}")
            stored = {row.name for row in store.sessions.select()}
            if missing := {ref.id for ref in self._refs} - stored:
                raise CheckFailedError(f"not in the store: {sorted(missing)}")
            for ref in self._refs:
                self._attempt(f"stored {ref.path}", self._compare_stored, store, ref)
        finally:
            store.close()

    def _grow(self, folder: Path) -> None:
        """A store that saw half of each log, and then all of it, is like one that saw it at once."""
        home = folder / "home"
        shutil.copytree(self._home, home)
        logs = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
        for path, data in logs.items():
            path.write_bytes(data[: data.rfind(b"\n", 0, len(data) // 2) + 1])
        store = new_store(folder / "grown.db")
        try:
            Syncer(store, home).run()
            for path, data in logs.items():
                path.write_bytes(data)
            Syncer(store, home).run()
            if found := difference(contents(store), fresh(folder, home)):
                raise CheckFailedError(f"differs: {found[:1500]}")
        finally:
            store.close()

    def _compare_stored(self, store: Store, ref: SessionRef) -> None:
        stored = store.sessions.from_source(ref.agent, ref.id)
        for session in self._library.load_all(ref):
            again = store.messages.load_session(stored[session.id].id)
            _equal("store and load", _encode(again.messages), _encode(session.messages))

    def _serve(self, place: Path) -> None:
        app = create_app(Settings(token="token", store=str(place), port=_PORT, follows=False))
        store = Store(SqliteDatabase(place, machine=MACHINE, read_only=True))
        names = [url_name(row) for row in store.sessions.select()]
        store.close()
        with TestClient(app, base_url=f"http://127.0.0.1:{_PORT}", raise_server_exceptions=False) as client:
            client.headers.update({"authorization": "Bearer token"})
            for path in (*_PAGES, *map(address, names)):
                self._attempt(path, _get, client, path)


def _command(*arguments: str) -> None:
    """Run a command, which must neither fail nor complain."""
    output, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = call_main(arguments)
    complaint = errors.getvalue()
    # There may be nothing to find, show or list, which is no failure.
    is_wrong = code != 0 and arguments[0] not in ("context", "search")
    if is_wrong or any(words in complaint for words in ("a bug in unspool", "cannot be", "cannot read")):
        raise CheckFailedError(f"exit code {code}: {complaint[-2000:]}")


def _get(client: TestClient[Litestar], path: str) -> None:
    answer = client.get(path)
    if answer.status_code != 200:
        raise CheckFailedError(f"{answer.status_code}: {answer.text[:300]}")


def _equal(what: str, left: bytes, right: bytes) -> None:
    if left != right:
        place = next((n for n, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
        around = slice(max(0, place - 100), place + 100)
        raise CheckFailedError(f"{what} differ: {left[around]!r} and {right[around]!r}")
