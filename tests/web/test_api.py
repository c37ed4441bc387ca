"""The API says what the records hold, in the form it has published, and explains what it does not take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.core import model as m
from unspool.core.session import Session
from unspool.ingest.sync import Syncer
from unspool.store import Store
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.filters import SessionFilter
from unspool.store.rows import SessionRow
from unspool.web.api.openapi import openapi
from unspool.web.api.params import find_endpoint
from unspool.web.api.routes import ENDPOINTS
from unspool.web.settings import Settings

from ..cli.run import call_main
from ..store import server
from .conftest import PORT, TOKEN

Client = TestClient[Litestar]
AGENTS = ("claude", "codex", "gemini")
LEDGERS = ("rejections", "interruptions", "compactions", "clears", "errors", "orphans")


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Tells whether an answer is of a published form."""
    described = openapi(ENDPOINTS)
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    )


def get(client: Client, address: str, **query: str | int) -> Any:
    """A good answer; whatever it is, it has the form that is published."""
    answer = client.get(address, params=query or None)
    assert answer.status_code == 200, answer.text
    endpoint, _ = find_endpoint(ENDPOINTS, address.encode())
    if endpoint.response is bytes:
        return answer.content
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    validator(endpoint.response.__name__).validate(found)
    return found


def address_of(row: SessionRow) -> str:
    return f"/api/sessions/{quote(row.name, safe='')}"


def plain(value: object) -> Any:
    """A value of the record as JSON."""
    return json.loads(msgspec.json.encode(value))


def rows_of(store: Store, agent: str) -> list[SessionRow]:
    return store.sessions.select(SessionFilter(agent=agent))


# --- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_sessions_are_told_as_the_record_has_them(client: Client, store: Store, agent: str) -> None:
    """Heads and messages of all recordings, the raw JSON in them included, are those of the record."""
    rows = rows_of(store, agent)
    assert len(rows) > 20
    for row in rows:
        record = plain(store.messages.load_session(row.id))
        head = get(client, address_of(row))
        assert {name: value for name, value in head.items() if name not in ("seq", "stored")} == {
            name: value for name, value in record.items() if name not in ("messages", "type")
        }
        assert head["stored"] == plain(row)
        told = get(client, f"{address_of(row)}/messages")
        assert told["messages"] == record["messages"]
        assert (told["first"], told["last"], told["total"]) == (0, row.messages, row.messages)


@pytest.mark.parametrize("agent", AGENTS)
def test_views_of_sessions_have_the_form_that_is_published(client: Client, store: Store, agent: str) -> None:
    """History, tree, events, contexts and raw records of every session."""
    for row in rows_of(store, agent):
        address = address_of(row)
        tree = get(client, f"{address}/tree")
        held = sorted(
            index for line in tree["lines"] for first, last in line["runs"] for index in range(first, last + 1)
        )
        assert held == list(range(row.messages))
        for line in tree["lines"]:
            get(client, f"{address}/history", branch=line["id"])
        events = get(client, f"{address}/events")["events"]
        assert len(events) == sum(count for kind, count in row.counts.items() if kind != "messages")
        if row.messages:
            context = get(client, f"{address}/context/{row.messages - 1}")
            expected = store.messages.load_session(row.id).context_at(row.messages - 1)
            assert context["count"] == len(expected.message_indices)
            assert get(client, f"{address}/raw/{row.messages - 1}")


def test_a_raw_record_is_the_bytes_of_the_log(client: Client, store: Store) -> None:
    """As they stand in the file, found by what the message says of its source."""
    row = next(row for row in rows_of(store, "claude") if row.kind == "main" and row.messages > 10)
    record = store.messages.load_session(row.id)
    for message in record.messages:
        raw = get(client, f"{address_of(row)}/raw/{message.index}")
        with open(record.info.files[message.source.file].path, "rb") as file:
            file.seek(message.source.offset)
            assert raw == file.read(message.source.length)


def test_names_with_slashes_are_taken_as_they_are(client: Client, store: Store) -> None:
    """Sub-agents are called after their session; escaped or not, by name or by number, it is the same one."""
    row = next(row for row in store.sessions.select() if "/" in row.name)
    for key in (quote(row.name, safe=""), row.name, str(row.id)):
        assert get(client, f"/api/sessions/{key}")["stored"]["id"] == row.id
        assert get(client, f"/api/sessions/{key}/messages", last=1)["total"] == row.messages


def test_sub_agents_are_found_by_project_and_id(client: Client, store: Store) -> None:
    """The whole record, whether the project is given by its path or its name."""
    rows = [row for row in store.sessions.select(SessionFilter(kind="subagent")) if row.project is not None]
    assert {row.agent for row in rows} >= {"claude", "codex"}
    for row in rows:
        project, agent_id = row.project or "", row.name.rsplit("/", 1)[-1]
        for name in (project, project.rsplit("/", 1)[-1]):
            found = get(client, f"/api/projects/{quote(name, safe='')}/agent-sessions/{quote(agent_id, safe='')}")
            assert found == plain(store.messages.load_session(row.id))


def test_projects_and_their_sessions(client: Client, store: Store) -> None:
    """Every main session is in one project, which is found by path and by name."""
    projects = get(client, "/api/projects")["projects"]
    assert sum(project["sessions"] for project in projects) == len(store.sessions.select(SessionFilter(kind="main")))
    for project in projects:
        for name in (project["path"], project["name"]):
            found = get(client, f"/api/projects/{quote(name, safe='')}/sessions", limit=500)
            assert found["total"] == len(found["sessions"]) > 0
            assert {listed["row"]["project"] for listed in found["sessions"]} == {project["path"]}


def test_sessions_can_be_chosen(client: Client, store: Store) -> None:
    """By agent, by what happened in them, by how they ended, by words."""
    assert {listed["row"]["agent"] for listed in get(client, "/api/sessions", agent="codex")["sessions"]} == {"codex"}
    refused = get(client, "/api/sessions", has="rejection", limit=500)
    assert all(listed["row"]["counts"]["rejection"] for listed in refused["sessions"])
    killed = get(client, "/api/sessions", status="killed")["sessions"]
    assert {listed["row"]["status"] for listed in killed} == {"killed"}
    name = store.sessions.select(SessionFilter(kind="main"))[0].name
    assert [listed["row"]["name"] for listed in get(client, "/api/sessions", q=name)["sessions"]] == [name]
    assert get(client, "/api/sessions", project="no such project")["total"] == 0


@pytest.mark.parametrize("word", ["rejections", "rejected", "Refused", "denial"])
def test_event_types_have_synonyms(client: Client, store: Store, word: str) -> None:
    """Wherever the API takes an event type."""
    assert get(client, "/api/sessions", has=word) == get(client, "/api/sessions", has="rejection")
    assert get(client, f"/api/events/{word}") == get(client, "/api/events/rejections")
    # Scores fall with time, so only what was found is compared.
    found = {
        query: get(client, "/api/search", q=query)["found"] for query in ("is:rejection", f"is:{word}", f"has:{word}")
    }
    hits = [[(one["session"]["id"], one["hits"], one["more"]) for one in each] for each in found.values()]
    assert hits[0]
    assert hits[0] == hits[1] == hits[2]
    row = next(row for row in store.sessions.select() if row.counts["rejection"])
    events = f"{address_of(row)}/events"
    assert get(client, events, kind=word) == get(client, events, kind="rejection")
    assert get(client, events, kind=word)["events"]


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["recent", "started", "messages", "title"])
def test_pages_of_sessions_are_the_whole_list(client: Client, sort: str) -> None:
    """Nothing twice, nothing left out."""
    whole = get(client, "/api/sessions", sort=sort, limit=500)
    pages = [
        get(client, "/api/sessions", sort=sort, limit=70, offset=offset)["sessions"]
        for offset in range(0, whole["total"] + 70, 70)
    ]
    assert [listed for page in pages for listed in page] == whole["sessions"]


@pytest.mark.parametrize("kind", LEDGERS)
def test_pages_of_ledgers_are_the_whole_ledger(client: Client, kind: str) -> None:
    """Nothing twice, nothing left out."""
    whole = get(client, f"/api/events/{kind}", limit=500)
    assert whole["total"] == len(whole["entries"])
    pages = [
        get(client, f"/api/events/{kind}", limit=7, offset=offset)["entries"]
        for offset in range(0, whole["total"] + 7, 7)
    ]
    assert [entry for page in pages for entry in page] == whole["entries"]


def test_pages_of_messages_are_all_messages(client: Client, store: Store) -> None:
    """From any place to any other; beyond the end there are none."""
    row = max(store.sessions.select(), key=lambda row: row.messages)
    address = f"{address_of(row)}/messages"
    whole = get(client, address)["messages"]
    for first in (0, 1, 63, 64, 65, row.messages - 1):
        assert get(client, address, first=first, last=first + 9)["messages"] == whole[first : first + 9]
    assert get(client, address, first=row.messages + 5)["messages"] == []


def without_place(item: dict[str, Any]) -> dict[str, Any]:
    """Some logs hold a result twice; which of the two is shown does not matter."""
    call = item.get("call") or {}
    places = ("result_index", "result_place", "seconds")
    return {**item, "call": {name: value for name, value in call.items() if name not in places}}


@pytest.mark.parametrize("agent", AGENTS)
def test_history_is_walked_backwards(client: Client, store: Store, agent: str) -> None:
    """Pages put together are the whole line, however long they are."""
    for row in rows_of(store, agent)[:25]:
        address = f"{address_of(row)}/history"
        whole = get(client, address, limit=200)
        assert whole["before"] is None
        items: list[Any] = []
        page = get(client, address, limit=3)
        while True:
            items = page["items"] + items
            if page["before"] is None:
                break
            page = get(client, address, limit=3, before=page["before"])
        assert list(map(without_place, items)) == list(map(without_place, whole["items"]))


# --- what a late joiner gets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_history_holds_the_conversation_and_nothing_else(client: Client, store: Store, agent: str) -> None:
    """The words of the active path, and every call of it once, with its result."""
    for row in rows_of(store, agent):
        record = store.messages.load_session(row.id)
        told = get(client, f"{address_of(row)}/history", limit=200)
        items = told["items"]
        assert told["length"] == len(record.active_path())
        assert len({item["key"] for item in items}) == len(items)
        assert all(record.messages[item["index"]].branch == 0 for item in items)
        assert [item["text"] for item in items if item["kind"] == "answer"] == list(_answers(record))
        calls = {item["call"]["id"]: item["call"] for item in items if item["kind"] == "call"}
        results = {
            block.call_id: plain(block)
            for message in record.active_path()
            for block in message.blocks
            if isinstance(block, m.ToolResult)
        }
        for message in record.active_path():
            for block in message.blocks:
                if isinstance(block, m.ToolCall):
                    result = calls[block.id]["result"]
                    assert (result or {}).get("content") == results.get(block.id, {}).get("content")


def _answers(record: Session) -> Iterator[str]:
    for message in record.active_path():
        if message.author == "model" and message.role == "assistant":
            yield from (b.text for b in message.blocks if isinstance(b, m.Text) and b.text.strip())


def test_history_leads_on_to_the_events(client: Client, store: Store) -> None:
    """Its number is the last change there was, so that nothing is missed and nothing comes twice."""
    row = store.sessions.select()[0]
    assert get(client, f"{address_of(row)}/history")["seq"] == store.changes.last_seq()


def test_pictures_have_an_address_of_their_own(client: Client, store: Store) -> None:
    """The bytes of pictures are not in the history."""
    seen = 0
    for row in store.sessions.select():
        for item in get(client, f"{address_of(row)}/history", limit=200)["items"]:
            if item["kind"] == "image":
                seen += 1
                assert "data" not in item["image"]
                assert item["image"].get("path", "/sessions/").startswith("/sessions/")
            for part in ((item.get("call") or {}).get("result") or {}).get("parts", ()):
                assert part.get("data") is None
    assert seen


# --- numbers and ledgers are those of the command line ---------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], command: str, store: Path, filter: dict[str, str]) -> list[Any]:
    """What a command prints as JSON."""
    names = {"after": "--since", "before": "--until"}
    options = [text for name, value in filter.items() for text in (names.get(name, f"--{name}"), value)]
    capsys.readouterr()
    assert call_main((command, "--json", "--store", store, "--no-sync", *options)) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("filter", [{}, {"agent": "codex"}, {"project": "demo"}, {"after": "2026-11-15T19:00"}])
def test_numbers_are_those_of_the_command(
    client: Client, store_path: Path, capsys: pytest.CaptureFixture[str], filter: dict[str, str]
) -> None:
    """`unspool stats --json` counts the same."""
    assert [get(client, "/api/stats", **filter)] == printed(capsys, "stats", store_path, filter)


@pytest.mark.parametrize("kind", ["rejections", "interruptions", "compactions", "clears"])
@pytest.mark.parametrize("filter", [{}, {"agent": "claude"}, {"tool": "bash"}, {"before": "2026-11-15T19:00"}])
def test_ledgers_are_those_of_the_command(
    client: Client, store_path: Path, capsys: pytest.CaptureFixture[str], kind: str, filter: dict[str, str]
) -> None:
    """The same events, told in the same words."""
    told = get(client, f"/api/events/{kind}", limit=500, **filter)["entries"]
    assert [(entry["session"]["name"], entry["message_index"], entry["text"], entry["event"]) for entry in told] == [
        (entry["session"], entry["message_index"], entry["text"], entry["event"])
        for entry in printed(capsys, kind, store_path, filter)
    ]


def test_events_without_a_time_count_for_when_their_session_ended(client: Client) -> None:
    """Calls that never finished are found by time too."""
    assert get(client, "/api/events/orphans", after="2026-11-01")["total"] > 0
    assert get(client, "/api/events/orphans", before="2026-11-01")["total"] == 0


# --- searching -------------------------------------------------------------------------------------------------------


def test_words_are_found(client: Client, store: Store) -> None:
    """With the filters of the command, and marks where they stand."""
    found = get(client, "/api/search", q="hello", limit=5)["found"]
    assert 0 < len(found) <= 5
    for entry in found:
        for hit in entry["hits"]:
            assert all(hit["snippet"]["text"][start:end].lower() == "hello" for start, end in hit["snippet"]["marks"])
    assert {entry["session"]["agent"] for entry in get(client, "/api/search", q="hello agent:codex")["found"]} == {
        "codex"
    }


def test_patterns_are_found(client: Client) -> None:
    """Exact code, grouped by session like all that is found."""
    answer = get(client, "/api/search", regex=r"h[a-z]llo\b", limit=3, hits=2)
    assert len(answer["found"]) == 3
    assert not answer["complete"]
    for entry in answer["found"]:
        assert 1 <= len(entry["hits"]) <= 2
        for hit in entry["hits"]:
            ((start, end),) = hit["snippet"]["marks"]
            assert hit["snippet"]["text"][start:end] == "hello"
    assert get(client, "/api/search", regex="no such thing at all") == {"found": [], "complete": True}


@pytest.mark.parametrize("pattern", ["(.|[a-z ])+$x", r"(\w*\s*)*~", r"\w*\w*\w*\w*\w*\w*\w*\w*\w*\w*\w*\w*~"])
def test_a_pattern_that_never_ends_is_ended(client: Client, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """It is said, and others are answered meanwhile."""
    monkeypatch.setattr("unspool.web.api.search.SECONDS", 1.0)
    monkeypatch.setattr("unspool.web.api.search._MORE_SECONDS", 0.0)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.get, "/api/search", params={"regex": pattern})
        while not asked.done():
            assert client.get("/api/health").status_code == 200
            # A pause between two questions, so that not all of the time is theirs.
            wait([asked], 0.1)
        answer = asked.result()
    assert answer.status_code == 400
    assert "after 1 s" in answer.json()["error"]["message"]


def test_the_time_of_a_pattern_begins_when_it_is_tried(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine that takes long to start a program does not make a pattern one that never ends."""
    tmp_path.joinpath("sitecustomize.py").write_text("import time\ntime.sleep(4)\n")  # longer than the limit
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("unspool.web.api.search.SECONDS", 3.0)
    monkeypatch.setattr("unspool.web.api.search._MORE_SECONDS", 0.0)
    assert len(get(client, "/api/search", regex="hello", limit=1)["found"]) == 1


@pytest.mark.parametrize("pattern", [r"def \w+\(", "(ab){2,5}", "(?:a+b?)?", r"[a-z]+\s*=\s*\d+", "a|b+"])
def test_ordinary_patterns_are_taken(client: Client, pattern: str) -> None:
    """They end in time."""
    get(client, "/api/search", regex=pattern, limit=1)


def test_calls_that_never_finished_are_told_as_one_likes(client: Client, store: Store) -> None:
    """As they are, not at all, or with a result that says of itself that it is made up."""
    key = next(row.id for row in store.sessions.select() if row.counts.get("orphan"))
    told = {
        mode: get(client, f"/api/sessions/{key}/history", orphans=mode, limit=200)["items"]
        for mode in ("mark", "hide", "synthesize")
    }
    marked = [item for item in told["mark"] if (item.get("call") or {}).get("orphan")]
    assert marked
    assert told["hide"] == [item for item in told["mark"] if item not in marked]
    made_up = [item for item in told["synthesize"] if (item.get("call") or {}).get("orphan")]
    assert [item["key"] for item in made_up] == [item["key"] for item in marked]
    assert all(item["call"]["result"]["synthetic"] for item in made_up)


# --- what is not answered --------------------------------------------------------------------------------------------

BAD = [
    ("/api/sessions?limit=0", "limit is a whole number from 1 to 500"),
    ("/api/sessions?limit=501", "from 1 to 500"),
    ("/api/sessions?limit=ten", "limit cannot be 'ten'"),
    ("/api/sessions?limit=", "limit cannot be ''"),
    ("/api/sessions?offset=-1", "offset is a whole number from 0"),
    (f"/api/sessions?offset={'9' * 40}", "offset is a whole number"),
    ("/api/sessions?sort=size", "one of messages, recent, started, title"),
    ("/api/sessions?agent=cursor", "one of claude, codex, gemini"),
    ("/api/sessions?colour=red", "Unknown parameter 'colour'"),
    ("/api/sessions?colour=red", "Allowed: q, agent, project"),
    ("/api/sessions?q=a&q=b", "q is given twice"),
    ("/api/sessions?q=%00", "NUL character"),
    ("/api/sessions?q=%FF", "not valid UTF-8"),
    ("/api/sessions/%FF", "not valid UTF-8"),
    ("/api/projects?limit=3", "Allowed: none"),
    ("/api/sessions/1/messages?first=5&last=4", "last must be at least first"),
    ("/api/sessions/1/messages?last=1001", "at most 1,000"),
    ("/api/sessions/1/context/first", "index is a whole number"),
    ("/api/sessions/1/history?limit=201", "from 1 to 200"),
    ("/api/sessions?has=fun", "Unknown event type 'fun'; choose from compaction, clear, interruption"),
    ("/api/sessions/1/events?kind=fun", "Unknown event type 'fun'; choose from compaction, clear, interruption"),
    ("/api/events/fun", "Unknown event type 'fun'; choose from rejections, interruptions"),
    ("/api/events/rollbacks", "Unknown event type 'rollbacks'; choose from rejections, interruptions"),
    ("/api/events/rejections?after=whenever", "is no time"),
    ("/api/stats?before=99999999999d", "is no time"),
    ("/api/search", "query is empty"),
    ("/api/search?q=%28", "at character"),
    ("/api/search?q=is:purple", "Unknown event type 'purple' at character 4; choose from compaction"),
    ("/api/search?regex=%28", "not a valid regular expression"),
    (f"/api/search?regex={'%28' * 400}", "not a valid regular expression"),
    ("/api/search?regex=a%7B99999999999%7D", "not a valid regular expression"),
    (f"/api/search?q={'x' * 3000}", "no longer than 2,000 characters"),
]
ABSENT = [
    ("/api/sessions/nothing-like-this", "no session"),
    ("/api/sessions/99999999999999999999", "no session"),
    ("/api/sessions/1/messages/7", "no session"),
    ("/api/sessions/1/context/100000", "there is no message 100000"),
    ("/api/sessions/1/raw/100000", "there is no message 100000"),
    ("/api/sessions/1/history?branch=99", "there is no branch 99"),
    ("/api/projects/nowhere/sessions", "no project 'nowhere'"),
    ("/api/projects/demo/agent-sessions/nobody", "no sub-agent"),
    ("/api/projects/demo", "nothing at"),
    ("/api/nothing", "nothing at"),
]


@pytest.mark.parametrize(("address", "words"), BAD)
def test_a_question_that_makes_no_sense_is_explained(client: Client, address: str, words: str) -> None:
    """What is wrong, and what is allowed."""
    answer = client.get(address)
    assert answer.status_code == 400, answer.text
    _expect(answer.json(), {"bad_request"}, words)


@pytest.mark.parametrize(("address", "words"), ABSENT)
def test_what_is_not_there_is_said_not_to_be(client: Client, address: str, words: str) -> None:
    """Sessions, messages, branches, projects, addresses."""
    answer = client.get(address)
    assert answer.status_code == 404, answer.text
    _expect(answer.json(), {"not_found"}, words)


def _expect(answer: dict[str, Any], codes: set[str], words: str) -> None:
    validator("ErrorBody").validate(answer)
    error = answer["error"]
    assert error["code"] in codes
    assert words in f"{error['message']} {error.get('try', '')}"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(client: Client, method: str) -> None:
    """The answer is JSON too."""
    answer = client.request(method, "/api/sessions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    _expect(answer.json(), {"method_not_allowed"}, "GET")


# --- what is known already -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["", "/messages", "/history", "/tree", "/events", "/context/0", "/raw/0"])
def test_what_is_known_is_not_sent_again(client: Client, tail: str) -> None:
    """Whoever has the answer gets none, with the same tag."""
    first = client.get(f"/api/sessions/1{tail}")
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = client.get(f"/api/sessions/1{tail}", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.get(f"/api/sessions/1{tail}", headers={"if-none-match": 'W/"other"'})
    assert other.content == first.content


@pytest.mark.parametrize("address", ["/api/projects", "/api/sessions", "/api/events/errors", "/api/stats"])
def test_lists_have_tags_too(client: Client, address: str) -> None:
    """They change when the list does."""
    tag = client.get(address).headers["etag"]
    assert client.get(address, headers={"if-none-match": tag}).status_code == 304


def test_sessions_have_different_tags(client: Client, store: Store) -> None:
    """A tag says which session it is of."""
    tags = [client.get(f"{address_of(row)}/tree").headers["etag"] for row in store.sessions.select()[:50]]
    assert len(set(tags)) == len(tags)


def test_the_server_says_that_it_is_well(client: Client, store: Store) -> None:
    """With its version and what it holds."""
    health = get(client, "/api/health")
    assert health["status"] == "ok"
    assert health["sessions"] == len(store.sessions.select())
    assert health["seq"] == store.changes.last_seq()


@pytest.mark.slow
def test_postgresql_gives_the_same_answers(client: Client, home: Path) -> None:
    """A store of a team is asked in the same way."""
    if server.programs() is None:
        pytest.skip(server.MISSING)
    from unspool.web.app import create_app

    with server.running() as address:
        store = Store(PostgresDatabase(address, machine=("tests", "tests")))
        assert not Syncer(store, home).run().failures
        names = [row.name for row in store.sessions.select(SessionFilter(kind="main"))[:20]]
        store.close()
        app = create_app(Settings(token=TOKEN, store=address, port=PORT, follows=False))
        with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as other:
            other.headers["authorization"] = f"Bearer {TOKEN}"
            tails = ("", "/messages", "/history", "/tree", "/events", "/context/0", "/raw/0")
            for question in (*SAME, *(f"/api/sessions/{name}{tail}" for name in names for tail in tails)):
                assert _without_numbers(get(other, question)) == _without_numbers(get(client, question)), question


SAME = [
    "/api/projects", "/api/sessions?limit=500", "/api/sessions?has=rejection&sort=title&limit=500",
    "/api/sessions?q=hello&limit=500", "/api/projects/demo/sessions?limit=500", "/api/stats",
    "/api/stats?project=DEMO&after=2026-11-15T19:00", "/api/search?q=hello&limit=100&hits=20",
    "/api/search?regex=h[a-z]llo&limit=100&hits=20",
    *(f"/api/events/{kind}?limit=500" for kind in LEDGERS),
    "/api/events/rejections?tool=BASH&after=2026-11-15&limit=500",
]  # fmt: skip
"""Questions about everything."""


def _without_numbers(answer: Any) -> Any:
    """An answer without the numbers that depend on what was read first, nor the order of what is equal but for them."""
    if isinstance(answer, list):
        return sorted(map(_without_numbers, answer), key=repr)
    if isinstance(answer, dict):
        return {name: _without_numbers(value) for name, value in answer.items() if not _is_number(name, value)}
    return answer


def _is_number(name: str, value: object) -> bool:
    return name in ("seq", "score") or (name == "id" and isinstance(value, int))
