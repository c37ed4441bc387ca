"""Pages: all that lead somewhere lead somewhere, they are sound, and bad questions get an answer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urldefrag, urlsplit

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.core import model as m
from unspool.core.events import LISTED_KINDS
from unspool.render.sanitize import harmless
from unspool.store import Store
from unspool.web.session_list import url_name
from unspool.web.session_query import SessionQuery
from unspool.web.templating import address
from unspool.web.transcript_pages import TranscriptPages

from .test_templating import Fragment, assert_inert

Client = TestClient[Litestar]
PAGES = ["/", "/search", "/search?q=hello", "/stats", *(f"/events/{kind.plural}" for kind in LISTED_KINDS)]


def page(client: Client, url: str) -> Fragment:
    answer = client.get(url)
    assert answer.status_code == 200, url
    assert answer.headers["content-type"].startswith("text/html")
    return assert_inert(answer.text)


def queries(store: Store) -> Iterator[SessionQuery]:
    return (SessionQuery(store, row) for row in store.sessions.select())


def query_with(store: Store, what: str) -> SessionQuery:
    return next(query for query in queries(store) if query.row.counts.get(what))


def assert_sound(parsed: Fragment) -> None:
    """One main, one h1, no step left out between headings, names for all that can be used, ids once."""
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("main") == 1
    assert tags.count("h1") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = parsed.all("id")
    assert len(ids) == len(set(ids))
    labelled = set(parsed.all("for"))
    for tag, attributes in parsed.tags:
        if tag == "img":
            assert attributes["alt"]
        if tag == "input" and attributes.get("type") == "search":
            assert attributes["id"] in labelled


@pytest.mark.parametrize("url", PAGES)
def test_pages_about_everything(client: Client, url: str) -> None:
    """They are sound, and know where in the journal they stand."""
    parsed = page(client, url)
    assert_sound(parsed)
    body = next(attributes for tag, attributes in parsed.tags if tag == "body")
    assert int(body["data-seq"]) > 0
    assert body["data-page-kind"] in ("sessions", "search", "stats", "events")


def test_sessions_have_pages(client: Client, store: Store) -> None:
    """With what the script needs to go on from there."""
    for query in list(queries(store))[::5]:
        parsed = page(client, address(url_name(query.row)))
        assert_sound(parsed)
        main = next(attributes for tag, attributes in parsed.tags if tag == "main")
        assert main["data-session"] == str(query.row.id)
        assert main["data-count"] == str(len(query.path()))
        assert main["data-pages"] == str(query.pages())
        keys = parsed.all("data-key")
        assert len(keys) == len(set(keys)) or query.row.name in keys


LINK = re.compile(r'\s(?:href|data-load|src)="([^"]*)"')


def test_links_lead_somewhere(client: Client, store: Store) -> None:
    """From the list and from sessions in which much happened, through pages and pieces of pages."""
    seen: set[str] = set()
    shapes: dict[str, int] = {}
    kinds = ("branch", "compaction", "subagent", "error")
    waiting = deque(["/", *(address(url_name(query_with(store, kind).row)) for kind in kinds)])
    while waiting:
        url = waiting.popleft()
        answer = client.get(url)
        assert answer.status_code == 200, url
        if not answer.headers["content-type"].startswith("text/html") or "attachment" in str(answer.headers):
            continue
        here = urlsplit(url).path
        # Quotes in texts are escaped, so nothing else looks like this; to parse hundreds of pages would take long.
        for link in map(unescape, LINK.findall(answer.text)):
            target = urldefrag(here + link if link.startswith("?") else link).url
            shape = re.sub(r"[0-9a-f-]{8,}[~0-9a-z]*|\d+", "N", target)
            if target.startswith("/") and target not in seen and shapes.get(shape, 0) < 6:
                shapes[shape] = shapes.get(shape, 0) + 1
                seen.add(target)
                waiting.append(target)
    assert len(seen) > 100
    for part in ("/branches/N", "/embedded", "/replaced/N", "/export/md", "/tree", "/compare"):
        assert any(part in shape for shape in shapes), part


def test_pages_of_a_session_are_sections(client: Client, store: Store) -> None:
    """One after the other they hold every message that has something to show."""
    query = max(queries(store), key=lambda query: query.row.messages)
    base = address(url_name(query.row))
    for number in range(query.pages()):
        parsed = page(client, f"{base}/pages/{number}?branch=0")
        ((_, section),) = [(tag, attributes) for tag, attributes in parsed.tags if tag == "section"][:1]
        assert section["class"] == "page"
        assert section["data-page"] == str(number)
    assert client.get(f"{base}/pages/{query.pages()}").status_code == 404


def test_a_link_to_a_message_opens_its_page_and_its_branch(client: Client, store: Store) -> None:
    """Also on a line that was left."""
    query = query_with(store, "branch")
    branch = query.head.branches[0]
    parsed = page(client, f"{address(url_name(query.row))}?at={branch.root_index}")
    main = next(attributes for tag, attributes in parsed.tags if tag == "main")
    assert main["data-branch"] == str(branch.id)
    assert f"You are reading branch {branch.id}" in parsed.words


def test_a_branch_in_place(client: Client, store: Store) -> None:
    """Its own messages, under their own anchors."""
    query = query_with(store, "branch")
    branch = query.head.branches[0]
    parsed = page(client, f"{address(url_name(query.row))}/branches/{branch.id}")
    assert set(parsed.all("data-branch")) == {str(branch.id)}
    assert client.get(f"{address(url_name(query.row))}/branches/99").status_code == 404


def test_two_branches_side_by_side(client: Client, store: Store) -> None:
    """From the message after which they part."""
    query = query_with(store, "branch")
    branch = next(branch for branch in query.head.branches if branch.parent_index is not None)
    parsed = page(client, f"{address(url_name(query.row))}/compare?a=0&b={branch.id}")
    assert_sound(parsed)
    assert f"They fork after #{branch.parent_index}" in " ".join(parsed.words.split())


def test_what_a_compaction_replaced(client: Client, store: Store) -> None:
    """Stands beside the summary."""
    query = query_with(store, "compaction")
    boundary = query.head.compaction.boundaries[0]
    parsed = page(client, f"{address(url_name(query.row))}/replaced/{boundary.message_index}")
    assert "Summary" in parsed.words
    assert f"{len(boundary.replaced_message_indices)} messages" in parsed.words
    assert parsed.all("id") == []


def test_every_block_can_be_had_whole(client: Client, store: Store) -> None:
    """Whatever it is: words, outputs, inputs, notes."""
    query = query_with(store, "rejection")
    for message in query.messages(0, query.row.messages):
        for place, block in enumerate(message.blocks):
            parsed = page(client, f"{address(url_name(query.row))}/outputs/{message.index}/{place}")
            if isinstance(block, m.ToolResult):
                assert harmless(block.content) in parsed.words
    assert client.get(f"{address(url_name(query.row))}/outputs/0/99").status_code == 404


def test_the_inspector(client: Client, store: Store) -> None:
    """Says of every message of the session what became of it."""
    query = query_with(store, "compaction")
    last = query.row.messages - 1
    parsed = page(client, f"{address(url_name(query.row))}/context/{last}")
    firsts, lasts = parsed.all("data-first"), parsed.all("data-last")
    assert int(firsts[0]) == 0
    assert int(lasts[-1]) == last
    assert [int(first) for first in firsts[1:]] == [int(end) + 1 for end in lasts[:-1]]


def test_sub_agents_whose_names_hold_a_slash(client: Client, store: Store) -> None:
    """Are found by their number, and by their name with another sign."""
    row = next(row for row in store.sessions.select() if "/" in row.name)
    parsed = page(client, f"{address(row.name)}/embedded")
    assert f"s{row.id}." in parsed.all("data-key")[1]
    page(client, address(url_name(row)))


def test_pictures_are_nothing_but_pictures(client: Client, store: Store) -> None:
    """Their own bytes and type, in a box."""
    found = [
        (query, entry)
        for query in queries(store)
        for entry in TranscriptPages(query).page(0).entries
        if entry.kind == "image" and entry.picture is not None
    ]
    query, entry = found[0]
    assert entry.picture is not None
    answer = client.get(f"{address(url_name(query.row))}/images/{entry.picture[0]}/{entry.picture[1]}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] in ("image/png", "image/jpeg", "image/gif", "image/webp")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert client.get(f"{address(url_name(query.row))}/images/{entry.picture[0]}/99").status_code == 404


@pytest.mark.parametrize("format", ["md", "html", "ndjson"])
def test_exports_are_files(client: Client, store: Store, format: str) -> None:
    """To be saved, not shown."""
    row = store.sessions.select()[0]
    answer = client.get(f"{address(url_name(row))}/export/{format}")
    assert answer.status_code == 200
    assert re.fullmatch(rf'attachment; filename="[\w.-]+\.{format}"', answer.headers["content-disposition"])
    assert len(answer.content) > 100


def test_filters_of_the_list(client: Client, store: Store) -> None:
    """They narrow it, can be combined and taken back."""
    everything = page(client, "/list")
    only = page(client, "/list?agent=codex&has=rejection")
    agents = set(only.all("data-agent"))
    assert agents == {"codex"}
    assert len(only.all("data-agent")) < len(everything.all("data-agent"))
    assert "/?has=rejection" in only.all("href")
    assert page(client, "/list?agent=codex&has=rejected").words == only.words
    assert "No sessions match" in page(client, "/list?q=nothing-is-called-so").words


def test_filters_of_events(client: Client) -> None:
    """By agent, tool and time."""
    everything = page(client, "/events/rejections")
    assert everything.words.count("rejected by") > 3
    assert "Nothing here with these filters" in page(client, "/events/rejections?after=2099-01-01").words
    assert page(client, "/events/rejections?agent=gemini&tool=replace").words.count("rejected by") >= 1
    assert page(client, "/events/refused").words == everything.words


def test_search_answers_what_is_typed(client: Client) -> None:
    """Also while it makes no sense yet."""
    parsed = page(client, "/results?q=hello")
    assert "mark" in [tag for tag, _ in parsed.tags]
    assert any("?at=" in href for href in parsed.all("href"))
    assert "Invalid query" in page(client, '/results?q="open').words
    assert "Invalid query" in page(client, "/results?q=(a%2B&regex=1").words
    assert "Nothing found" in page(client, "/results?q=xyzzyplugh").words
    assert "Searches prompts" in page(client, "/results").words


BAD = [
    "/nothing", "/events/nothing", "/?sort=nothing", "/?has=nothing", "/?page=x", "/?page=99999999999999999999999",
    "/events/errors?after=whenever", "/stats?after=whenever", "/sessions/nothing", "/sessions/%00",
    "/sessions/1/nothing", "/sessions/1?branch=99", "/sessions/1?at=-5&branch=77", "/sessions/1/pages/-1",
    "/sessions/1/pages/99999999999999999999", "/sessions/1/outputs/0/99", "/sessions/1/outputs/999999/0",
    "/sessions/1/outputs/-1/-1", "/sessions/1/images/0/-1", "/sessions/1/export/exe", "/sessions/1/context/99999999",
    "/sessions/1/replaced/0", "/sessions/1/compare?a=0&b=99",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD)
def test_bad_questions_get_a_page_that_says_so(client: Client, url: str) -> None:
    """A sentence, and no error of ours."""
    answer = client.get(url)
    assert 400 <= answer.status_code < 500
    parsed = assert_inert(answer.text)
    assert_sound(parsed)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202e\x1b[31m"])
def test_questions_are_escaped(client: Client, text: str) -> None:
    """What somebody was made to ask does nothing."""
    for url in ("/", "/search", "/results", "/list"):
        assert_inert(client.get(url, params={"q": text}).text)
    for url in ("/events/errors", "/stats"):
        params: dict[str, Any] = {"project": text}
        assert_inert(client.get(url, params=params).text)
    assert_inert(client.get(f"/sessions/{quote(text.replace('/', '~'))}").text)
