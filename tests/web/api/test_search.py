"""Search in the API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from unspool.store import Store

from .helpers import Client, get


def test_search_with_words(client: Client, store: Store) -> None:
    """With the filters of the command; marks show where the words are."""
    found = get(client, "/api/search", q="hello", limit=5)["found"]
    assert 0 < len(found) <= 5
    for entry in found:
        for hit in entry["hits"]:
            assert all(hit["snippet"]["text"][start:end].lower() == "hello" for start, end in hit["snippet"]["marks"])
    assert {entry["session"]["agent"] for entry in get(client, "/api/search", q="hello agent:codex")["found"]} == {
        "codex"
    }


@pytest.mark.parametrize("kind", ["q", "regex"])
def test_search_results_have_pages(client: Client, kind: str) -> None:
    """Every session is on one of them, and the last one says so."""
    every = get(client, "/api/search", **{kind: "hello"}, limit=100)
    assert every["complete"]
    pages = [get(client, "/api/search", **{kind: "hello"}, limit=3, offset=offset) for offset in (0, 3)]
    names = [entry["session"]["name"] for page in pages for entry in page["found"]]
    assert names == [entry["session"]["name"] for entry in every["found"][:6]]
    assert [page["complete"] for page in pages] == [False, len(every["found"]) <= 6]


def test_search_with_a_regular_expression(client: Client) -> None:
    """Grouped by session, like all results."""
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
def test_a_slow_pattern_is_stopped(client: Client, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """The response says so, and other requests are answered in the meantime."""
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
    assert "longer than 1 s" in answer.json()["error"]["message"]


def test_the_time_limit_excludes_the_start_of_the_process(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine that takes long to start a process, a pattern does not count as slow."""
    tmp_path.joinpath("sitecustomize.py").write_text("import time\ntime.sleep(4)\n")  # longer than the limit
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("unspool.web.api.search.SECONDS", 3.0)
    monkeypatch.setattr("unspool.web.api.search._MORE_SECONDS", 0.0)
    assert len(get(client, "/api/search", regex="hello", limit=1)["found"]) == 1


@pytest.mark.parametrize("pattern", [r"def \w+\(", "(ab){2,5}", "(?:a+b?)?", r"[a-z]+\s*=\s*\d+", "a|b+"])
def test_ordinary_patterns_finish_in_time(client: Client, pattern: str) -> None:
    """They end in time."""
    get(client, "/api/search", regex=pattern, limit=1)
