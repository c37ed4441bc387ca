"""An agent that nothing in unspool names: registering it is enough for everything that is done with sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

import unspool
from unspool.agents import AGENTS, agent_named
from unspool.core import model as m
from unspool.core.errors import AmbiguousError, UsageError
from unspool.ingest.restore import restore_session
from unspool.ingest.sync import Report, Syncer
from unspool.ingest.watch import Watcher
from unspool.library import Library
from unspool.repair import repair_session
from unspool.store import Store, open_store
from unspool.testing import ClaudeLog, check_home, registered
from unspool.web.app import create_app
from unspool.web.settings import Settings

from ..cli.run import Done, Run, call_main
from ..waiting import wait_until
from .fourth.acme_unspool import AcmeAgent, DeskAgent
from .fourth.logs import AcmeLog, DeskLog

TOKEN = "the-token-of-the-tests"
PORT = 8391
LOGS: dict[str, type[AcmeLog]] = {"acme": AcmeLog, "acme-desk": DeskLog}

each_agent = pytest.mark.parametrize("agent", LOGS)


def built(agent: str, session: str) -> AcmeLog:
    """A session with a turn and a command that was refused."""
    log = LOGS[agent](session)
    log.turn(f"launch the {session} rocket", "Ignition.")
    log.refusal("rm -rf stage", "not that stage")
    return log


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two sessions of each of the made-up agents, and one of a known agent, in the user's home."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("UNSPOOL_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("COLUMNS", "120")
    for variable in (agent.info.variable for agent in AGENTS.values()):
        monkeypatch.delenv(variable, raising=False)
    with registered(AcmeAgent(), DeskAgent()):
        for agent in LOGS:
            for session in ("red", "blue"):
                built(agent, f"{agent}-{session}").write(place)
        known = ClaudeLog()
        known.user("launch a known rocket")
        known.model("Done.")
        known.write(place)
        yield place


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process."""

    def run_command(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = call_main(arguments)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run_command


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Iterator[Store]:
    """A store with everything in the home."""
    store = open_store(str(tmp_path / "store.db"))
    assert not sync(store).failures
    yield store
    store.close()


def sync(store: Store) -> Report:
    return Syncer(store).run()


# --- the library and the command line --------------------------------------------------------------------------------


@each_agent
def test_it_is_listed_and_filtered(agent: str, run: Run) -> None:
    """Sessions are found in the user's home, and by agent, project and event."""
    names = {f"{agent}-red", f"{agent}-blue"}
    assert names < {record["name"] for record in run("ls", "--json").records}
    assert {record["name"] for record in run("ls", "--json", "--agent", agent).records} == names
    found = run("ls", "--json", "--agent", agent, "--project", "rocket", "has:rejection").records
    assert {record["name"] for record in found} == names
    assert run("ls", "--json", "--agent", agent, "has:compaction").records == []


@each_agent
def test_it_is_shown_and_exported(agent: str, run: Run, home: Path) -> None:
    """As text, Markdown, HTML and JSON, with what its tool would have done."""
    shown = run("show", f"{agent}-red")
    assert shown.code == 0
    assert f"launch the {agent}-red rocket" in shown.out
    assert "rm -rf stage" in shown.out
    for form in ("markdown", "html", "ndjson", "stream"):
        exported = run("export", f"{agent}-red", "--format", form)
        assert exported.code == 0
        assert "not that stage" in exported.out
    session = unspool.load(f"{agent}-red")
    assert (session.agent, len(session.messages), len(session.rejections)) == (agent, 4, 1)


@each_agent
def test_it_keeps_the_promises_of_a_reader(agent: str, home: Path) -> None:
    """The conformance runner finds nothing wrong with it."""
    folder = AGENTS[agent].info.folder
    assert check_home(home / folder) == []


@each_agent
def test_it_is_found_by_path(agent: str, home: Path) -> None:
    """Its log is as good a name as its id, and the newest session is the latest."""
    log = built(agent, f"{agent}-red")
    log.turn("and once more", "Again.")
    path = log.write(home)
    assert Library().find(str(path)).id == f"{agent}-red"
    assert Library(home / AGENTS[agent].info.folder).find("latest").id == f"{agent}-red"
    assert len(unspool.load(path).messages) == 6


def test_a_database_is_a_place_with_sessions(home: Path) -> None:
    """All sessions in it are listed; where one is wanted, the error names them."""
    database = home / ".acme-desk" / "desk.db"
    assert [ref.id for ref in unspool.sessions(database)] == ["acme-desk-blue", "acme-desk-red"]
    with pytest.raises(AmbiguousError, match="matches 2 sessions: acme-desk-blue, acme-desk-red"):
        unspool.load(database)


def test_reading_a_database_leaves_no_trace(home: Path, store: Store) -> None:
    """The agents' folders are only ever read; SQLite would put files beside a database if it was let."""
    assert [path.name for path in (home / ".acme-desk").iterdir()] == ["desk.db"]


@pytest.mark.parametrize(("agent", "place"), [("acme", "line 6, byte"), ("acme-desk", "row 6")])
def test_doctor_tells_where_something_is_wrong(agent: str, place: str, run: Run, home: Path) -> None:
    """In the words that fit where the log is kept."""
    log = built(agent, f"{agent}-red")
    log.add("dance", text="unheard of")
    log.write(home)
    told = run("doctor", f"{agent}-red")
    assert "unknown-record" in told.out
    assert place in told.out


def test_what_cannot_be_repaired_is_refused(home: Path) -> None:
    """An agent without a repair strategy says so."""
    library = Library()
    with pytest.raises(UsageError, match="cannot repair sessions of Acme Coder"):
        repair_session(library, library.find("acme-red"), home / "copy")


# --- the store -------------------------------------------------------------------------------------------------------


@each_agent
def test_it_is_searched_and_counted(agent: str, run: Run, store: Store) -> None:
    """Searches, ledgers and statistics take its name as a filter."""
    found = run("search", "--json", f"agent:{agent}", "launch").records
    assert {record["session"]["name"] for record in found} == {f"{agent}-red", f"{agent}-blue"}
    assert len(run("rejections", "--agent", agent, "--json").records) == 2
    (counted,) = run("stats", "--agent", agent, "--json").records
    assert counted["sessions"] == {agent: 2}
    refused = run("search", "agent:nobody", "launch")
    assert refused.code == 2
    assert "choose from claude, codex, gemini, acme, acme-desk" in refused.err


@each_agent
def test_only_what_changed_is_read_again(agent: str, store: Store, home: Path) -> None:
    """Also when both sessions are in one file."""
    assert (sync(store).changed, sync(store).new) == (0, 0)
    log = built(agent, f"{agent}-red")
    log.turn("now land it", "Touchdown.")
    log.write(home)
    report = sync(store)
    assert (report.new, report.changed, report.gone, report.failures) == (0, 1, 0, {})
    assert len(store.messages.load_session(store.sessions.find(f"{agent}-red").id).messages) == 6


@each_agent
def test_it_is_followed_while_it_works(agent: str, store: Store, home: Path) -> None:
    """What it adds to a session reaches the store, whatever the session is kept in."""
    watcher = Watcher(store)
    log = built(agent, f"{agent}-red")
    log.turn("now land it", "Touchdown.")
    path = log.write(home)
    watcher.ingest({path if path.is_file() else path.parent})

    def is_there() -> bool:
        watcher.ingest(set())
        return len(store.messages.load_session(store.sessions.find(f"{agent}-red").id).messages) == 6

    wait_until(is_there, "the new turn is in the store")
    assert watcher.failures == {}


@each_agent
def test_its_bytes_are_archived_and_restored(agent: str, store: Store, home: Path, tmp_path: Path) -> None:
    """Also after the agent has deleted the session."""
    source = AGENTS[agent].log(built(agent, f"{agent}-red").write(home))
    with source.open() as stream:
        data = stream.read()
    if agent == "acme":
        source.path.unlink()
    else:
        with closing(sqlite3.connect(home / ".acme-desk" / "desk.db")) as database, database:
            database.execute("DELETE FROM message WHERE session = 'acme-desk-red'")
            database.execute("DELETE FROM session WHERE id = 'acme-desk-red'")
    assert sync(store).gone == 1
    row = store.sessions.find(f"{agent}-red")
    assert row.gone_at is not None
    ((path, _, _),) = restore_session(store, row, tmp_path / "restored")
    assert path.read_bytes() == data
    assert path.relative_to(tmp_path / "restored").parts[0] == AGENTS[agent].info.folder


def test_a_database_that_cannot_be_read_loses_nothing(
    store: Store, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported as a failure; its sessions are not gone, and the other agents are read."""
    database = home / ".acme-desk" / "desk.db"
    data = database.read_bytes()
    database.write_bytes(data[:100] + b"\0" * 900)
    built("acme", "acme-green").write(home)
    report = sync(store)
    assert (report.new, report.gone) == (1, 0)
    assert list(report.failures) == [str(home / ".acme-desk")]
    assert {ref.agent for ref in Library().refs()} == {"claude", "acme"}
    assert f"Sessions in {home / '.acme-desk'} cannot be listed" in caplog.text
    database.write_bytes(data)
    assert not sync(store).failures


def test_sessions_stay_when_the_agent_is_uninstalled(store: Store, home: Path) -> None:
    """They are read from the store; only what its tools do is no longer known."""
    row = store.sessions.find("acme-red")
    AGENTS.unregister("acme")
    try:
        session = store.messages.load_session(row.id)
        blocks = [block for message in session.messages for block in message.blocks]
        (call,) = [block for block in blocks if isinstance(block, m.ToolCall)]
        assert agent_named(session.agent).info.title == "acme"
        assert agent_named(session.agent).describe(call.name, call.raw_input).command is None
    finally:
        AGENTS.register(AcmeAgent())


# --- the web ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient[Any]]:
    """A server that shows the store."""
    app = create_app(Settings(token=TOKEN, store=str(tmp_path / "store.db"), port=PORT, follows=False))
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield client


@each_agent
def test_it_is_served_as_pages(agent: str, client: TestClient[Any]) -> None:
    """In lists, filters and the transcript, with its letter, title and colour."""
    info = AGENTS[agent].info
    page = client.get("/").text
    assert f'class="agent {agent}" title="{info.title}"' in page
    assert f"launch the {agent}-red rocket" in page
    assert f"launch the {agent}-red rocket" in client.get("/", params={"agent": agent}).text
    assert "a known rocket" not in client.get("/", params={"agent": agent}).text
    assert "rm -rf stage" in client.get(f"/sessions/{agent}-red").text
    assert "not that stage" in client.get("/events/rejections", params={"agent": agent}).text
    styles = client.get("/agents.css")
    assert styles.headers["content-type"] == "text/css; charset=utf-8"
    assert f"--agent-{agent}: {info.colour.light};" in styles.text
    assert f"--agent-{agent}: {info.colour.dark};" in styles.text
    assert '<link rel="stylesheet" href="/agents.css?v=' in page


@each_agent
def test_it_is_served_as_json(agent: str, client: TestClient[Any]) -> None:
    """The API filters by it, gives its messages and the bytes of each, and says that there is such an agent."""
    found = client.get("/api/sessions", params={"agent": agent}).json()
    assert {row["row"]["name"] for row in found["sessions"]} == {f"{agent}-red", f"{agent}-blue"}
    messages = client.get(f"/api/sessions/{agent}-red/messages").json()["messages"]
    assert [message["author"] for message in messages] == ["human", "model", "model", "harness"]
    raw = json.loads(client.get(f"/api/sessions/{agent}-red/raw/3").text)
    assert (raw["kind"], raw["text"]) == ("refused", "not that stage")
    described = client.get("/api/openapi.json").json()["paths"]["/api/sessions"]["get"]["parameters"]
    (parameter,) = [parameter for parameter in described if parameter["name"] == "agent"]
    assert parameter["schema"]["enum"] == list(AGENTS)
    refused = client.get("/api/sessions", params={"agent": "nobody"})
    assert refused.status_code == 400
    assert agent in refused.text


def test_an_unknown_agent_is_shown_by_its_name(client: TestClient[Any]) -> None:
    """A store may hold sessions of an agent that is not installed here."""
    AGENTS.unregister("acme")
    try:
        page = client.get("/sessions/acme-red")
        assert page.status_code == 200
        assert 'class="agent acme" title="acme"' in page.text
    finally:
        AGENTS.register(AcmeAgent())


def test_the_record_is_of_the_published_form(home: Path) -> None:
    """The record has the agent's name, and survives JSON."""
    session = unspool.load("acme-red")
    again = msgspec.json.decode(msgspec.json.encode(session), type=type(session))
    assert again.agent == "acme"
