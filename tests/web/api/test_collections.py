"""Lists in the API: projects, sessions, events and statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from unspool.store import Store
from unspool.store.filters import SessionFilter

from ...cli.run import call_main
from .helpers import EVENT_LISTS, Client, address_of, get


def test_projects_and_their_sessions(client: Client, store: Store) -> None:
    """Every main session is in one project, which is found by path and by name."""
    projects = get(client, "/api/projects")["projects"]
    assert sum(project["sessions"] for project in projects) == len(store.sessions.select(SessionFilter(kind="main")))
    for project in projects:
        for name in (project["path"], project["name"]):
            found = get(client, f"/api/projects/{quote(name, safe='')}/sessions", limit=500)
            assert found["total"] == len(found["sessions"]) > 0
            assert {listed["row"]["project"] for listed in found["sessions"]} == {project["path"]}


def test_session_filters(client: Client, store: Store) -> None:
    """By agent, event type, status and text."""
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


@pytest.mark.parametrize("sort", ["recent", "started", "messages", "title"])
def test_paging_through_sessions(client: Client, sort: str) -> None:
    """Without duplicates or gaps."""
    whole = get(client, "/api/sessions", sort=sort, limit=500)
    pages = [
        get(client, "/api/sessions", sort=sort, limit=70, offset=offset)["sessions"]
        for offset in range(0, whole["total"] + 70, 70)
    ]
    assert [listed for page in pages for listed in page] == whole["sessions"]


@pytest.mark.parametrize("kind", EVENT_LISTS)
def test_paging_through_events(client: Client, kind: str) -> None:
    """Without duplicates or gaps."""
    whole = get(client, f"/api/events/{kind}", limit=500)
    assert whole["total"] == len(whole["entries"])
    pages = [
        get(client, f"/api/events/{kind}", limit=7, offset=offset)["entries"]
        for offset in range(0, whole["total"] + 7, 7)
    ]
    assert [entry for page in pages for entry in page] == whole["entries"]


def command_output(capsys: pytest.CaptureFixture[str], command: str, store: Path, filter: dict[str, str]) -> list[Any]:
    """What a command prints as JSON."""
    names = {"after": "--since", "before": "--until"}
    options = [text for name, value in filter.items() for text in (names.get(name, f"--{name}"), value)]
    capsys.readouterr()
    assert call_main((command, "--json", "--store", store, "--no-sync", *options)) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("filter", [{}, {"agent": "codex"}, {"project": "demo"}, {"after": "2026-11-15T19:00"}])
def test_stats_equal_those_of_the_command(
    client: Client, store_path: Path, capsys: pytest.CaptureFixture[str], filter: dict[str, str]
) -> None:
    """`unspool stats --json` counts the same."""
    expected = {"type": "stats", **get(client, "/api/stats", **filter)}
    assert command_output(capsys, "stats", store_path, filter) == [expected]


@pytest.mark.parametrize("kind", ["rejections", "interruptions", "compactions", "clears"])
@pytest.mark.parametrize("filter", [{}, {"agent": "claude"}, {"tool": "bash"}, {"before": "2026-11-15T19:00"}])
def test_events_equal_those_of_the_command(
    client: Client, store_path: Path, capsys: pytest.CaptureFixture[str], kind: str, filter: dict[str, str]
) -> None:
    """The same events with the same text."""
    found = get(client, f"/api/events/{kind}", limit=500, **filter)["entries"]
    assert [(entry["session"]["name"], entry["message_index"], entry["text"], entry["event"]) for entry in found] == [
        (entry["session"]["name"], entry["message_index"], entry["text"], entry["event"])
        for entry in command_output(capsys, kind, store_path, filter)
    ]


def test_events_without_a_time_use_the_end_of_their_session(client: Client) -> None:
    """Unfinished calls are found by time, too."""
    assert get(client, "/api/events/orphans", after="2026-11-01")["total"] > 0
    assert get(client, "/api/events/orphans", before="2026-11-01")["total"] == 0
