"""All pages: they are valid, their links resolve, and invalid requests get an error page."""

from __future__ import annotations

import re
from collections import deque
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urldefrag, urlsplit

import pytest

from unspool.core.events import LISTED_KINDS
from unspool.store import Store
from unspool.web.session_list import url_name
from unspool.web.templating import address

from ..test_templating import assert_inert
from .helpers import Client, assert_valid_structure, page, query_with

FILTERED = ("/", "/list/models", "/search", "/files", "/stats")
PAGES = [
    "/", "/?view=flat&sort=title&after=30d&project=nowhere", "/search", "/search?q=hello", "/stats", "/files",
    "/search?q=hello&sort=time&agent=codex", "/files?path=%2Fnowhere", "/events/errors?view=groups",
    *(f"/events/{kind.plural}" for kind in LISTED_KINDS),
]  # fmt: skip


@pytest.mark.parametrize("url", PAGES)
def test_every_list_page_renders(client: Client, url: str) -> None:
    """They are valid, and have the number of the last change."""
    parsed = page(client, url)
    assert_valid_structure(parsed)
    body = next(attributes for tag, attributes in parsed.tags if tag == "body")
    assert int(body["data-seq"]) > 0
    assert body["data-page-kind"] in ("sessions", "search", "stats", "events", "files")


LINK = re.compile(r'\s(?:href|data-load|src)="([^"]*)"')


def test_every_link_resolves(client: Client, store: Store) -> None:
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
            # Filters can be combined in thousands of ways.
            path = target.partition("?")[0]
            shape = re.sub(r"[0-9a-f-]{8,}[~0-9a-z]*|\d+", "N", path if path in FILTERED else target)
            if target.startswith("/") and target not in seen and shapes.get(shape, 0) < 6:
                shapes[shape] = shapes.get(shape, 0) + 1
                seen.add(target)
                waiting.append(target)
    assert len(seen) > 100
    for part in ("/branches/N", "/embedded", "/replaced/N", "/export/md", "/tree", "/compare"):
        assert any(part in shape for shape in shapes), part


BAD = [
    "/nothing", "/events/nothing", "/?sort=nothing", "/?has=nothing", "/?page=x", "/?page=99999999999999999999999",
    "/events/errors?after=whenever", "/stats?after=whenever", "/sessions/nothing", "/sessions/%00",
    "/sessions/1/nothing", "/sessions/1?branch=99", "/sessions/1?at=-5&branch=77", "/sessions/1/pages/-1",
    "/sessions/1/pages/99999999999999999999", "/sessions/1/outputs/0/99", "/sessions/1/outputs/999999/0",
    "/sessions/1/outputs/-1/-1", "/sessions/1/images/0/-1", "/sessions/1/export/exe", "/sessions/1/context/99999999",
    "/?after=whenever", "/?here=x", "/search?q=a&sort=nothing", "/sessions/nothing/find?q=a",
    "/sessions/1/found?branch=99",
    "/sessions/1/replaced/0", "/sessions/1/compare?a=0&b=99",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD)
def test_invalid_requests_get_an_error_page(client: Client, url: str) -> None:
    """With a message, and without an internal error."""
    answer = client.get(url)
    assert 400 <= answer.status_code < 500
    parsed = assert_inert(answer.text)
    assert_valid_structure(parsed)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202e\x1b[31m"])
def test_queries_are_escaped(client: Client, text: str) -> None:
    """Markup in a query has no effect."""
    for url in ("/", "/search", "/results", "/list", "/files", "/sessions/1/find"):
        assert_inert(client.get(url, params={"q": text}).text)
    for name, url in (("model", "/"), ("path", "/files"), ("tool", "/search?q=a"), ("view", "/events/errors")):
        chosen: dict[str, Any] = {name: text}
        assert_inert(client.get(url, params=chosen).text)
    for url in ("/events/errors", "/stats"):
        params: dict[str, Any] = {"project": text}
        assert_inert(client.get(url, params=params).text)
    assert_inert(client.get(f"/sessions/{quote(text.replace('/', '~'))}").text)


@pytest.mark.parametrize(
    "url", ["/", "/stats", "/stats/usage.csv", "/sessions/{}", "/sessions/{}/usage", "/api/usage", "/api/stats"]
)
def test_damaged_prices_stop_no_page(
    client: Client, store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs are left out, and the pages about costs say why."""
    path = tmp_path / "own.toml"
    path.write_text("[[model")
    monkeypatch.setenv("UNSPOOL_PRICES", str(path))
    response = client.get(url.format(quote(store.sessions.select()[0].name, safe="")))
    assert response.status_code == 200
    if url in ("/stats", "/sessions/{}/usage", "/api/usage"):
        assert f"{path} is not a list of prices" in response.text
