"""Requests for pages, and checks that every page has to pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from litestar import Litestar
from litestar.testing import TestClient

from unspool.core import model as m
from unspool.store import Store
from unspool.web.session_query import SessionQuery

from ..test_templating import Fragment, assert_inert

Client = TestClient[Litestar]


def page(client: Client, url: str) -> Fragment:
    answer = client.get(url)
    assert answer.status_code == 200, url
    assert answer.headers["content-type"].startswith("text/html")
    return assert_inert(answer.text)


def queries(store: Store) -> Iterator[SessionQuery]:
    return (SessionQuery(store, row) for row in store.sessions.select())


def query_with(store: Store, what: str) -> SessionQuery:
    return next(query for query in queries(store) if query.row.counts.get(what))


def query_with_fork(store: Store) -> tuple[SessionQuery, m.Branch]:
    """A session with a branch that leaves the active path at some message, and the branch."""
    return next(
        (query, branch) for query in queries(store) for branch in query.head.branches if branch.parent_index is not None
    )


def assert_valid_structure(parsed: Fragment) -> None:
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
