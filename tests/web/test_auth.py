"""Nobody gets in without the token, under another name, or from another site: on no route."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.routes import ASGIRoute, HTTPRoute
from litestar.testing import TestClient

from unspool.web.app import create_app
from unspool.web.auth import OPEN, POLICY, hosts_of
from unspool.web.settings import Settings

from .conftest import PORT, TOKEN

BASE = f"http://127.0.0.1:{PORT}"
BEARER = {"authorization": f"Bearer {TOKEN}"}
_EXAMPLES = {
    "key": "1",
    "kind": "rejections",
    "format": "md",
    "project": "demo",
    "agent_id": "x",
    "file_path": "app.js",
}


@pytest.fixture(scope="module")
def app(store_path: Path) -> Litestar:
    """An application of its own: it ends with the client that entered it."""
    return create_app(Settings(token=TOKEN, store=str(store_path), port=PORT, follows=False))


@pytest.fixture(scope="module")
def stranger(app: Litestar) -> Iterator[TestClient[Litestar]]:
    """A client without the token."""
    with TestClient(app, base_url=BASE) as client:
        client.follow_redirects = False
        yield client


def routes(app: Litestar) -> list[str]:
    """An address for each route there is."""
    found = ["/no/such/address"]
    for route in app.routes:
        if isinstance(route, HTTPRoute | ASGIRoute):
            path = route.path_format
            for name in route.path_parameters:
                path = path.replace("{" + name + "}", _EXAMPLES.get(name, "0"))
            found.append(path)
    return found


def test_there_are_routes(app: Litestar) -> None:
    assert len(routes(app)) > 25


def test_every_route_requires_the_token(app: Litestar, stranger: TestClient[Litestar]) -> None:
    for path in routes(app):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": f"unspool-{PORT}=wrong"}):
            response = stranger.get(path, headers=headers)
            assert response.status_code == 401, path
            assert response.headers["content-security-policy"] == POLICY


def test_every_route_checks_the_host(app: Litestar, stranger: TestClient[Litestar]) -> None:
    for path in routes(app):
        for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""):
            assert stranger.get(path, headers={**BEARER, "host": host}).status_code == 421, path


def test_every_route_checks_the_origin(app: Litestar, stranger: TestClient[Litestar]) -> None:
    for path in routes(app):
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": f"http://localhost:{PORT + 1}"},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        ):
            assert stranger.get(path, headers={**BEARER, **headers}).status_code == 403, path


def acting(app: Litestar) -> list[str]:
    """The addresses that change something."""
    found = []
    for route in app.routes:
        if isinstance(route, HTTPRoute) and "POST" in route.methods:
            path = route.path_format
            for name in route.path_parameters:
                path = path.replace("{" + name + "}", "0")
            found.append(path)
    return found


def test_actions_require_the_token_and_the_origin(app: Litestar, stranger: TestClient[Litestar]) -> None:
    assert len(acting(app)) >= 6
    for path in acting(app):
        assert stranger.post(path, headers={"origin": BASE}).status_code == 401, path
        cookie = {"cookie": f"unspool-{PORT}={TOKEN}"}
        assert stranger.post(path, headers=cookie).status_code == 403, path
        assert stranger.post(path, headers={**cookie, "origin": "http://evil.example"}).status_code == 403, path
        assert stranger.post(path, headers={**BEARER, "origin": "null"}).status_code == 403, path


def test_changes_require_an_origin(stranger: TestClient[Litestar]) -> None:
    stranger.cookies.set(f"unspool-{PORT}", TOKEN)
    try:
        assert stranger.post("/api/health").status_code == 403
        assert stranger.post("/api/health", headers={"origin": BASE}).status_code == 405
    finally:
        stranger.cookies.clear()


def test_the_link_sets_an_http_only_cookie(stranger: TestClient[Litestar]) -> None:
    response = stranger.get(f"{OPEN}?token={TOKEN}&next=/stats")
    assert response.status_code == 303
    assert response.headers["location"] == "/stats"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert stranger.get("/api/health").status_code == 200
    stranger.cookies.clear()


@pytest.mark.parametrize(
    "target", ["//evil.example", "http://evil.example", "/\\evil.example", "/a\r\nset-cookie: x=1"]
)
def test_the_link_does_not_redirect_to_other_hosts(stranger: TestClient[Litestar], target: str) -> None:
    response = stranger.get(OPEN, params={"token": TOKEN, "next": target})
    assert response.headers["location"] == "/"
    stranger.cookies.clear()


def test_a_link_with_a_wrong_token(stranger: TestClient[Litestar]) -> None:
    assert stranger.get(f"{OPEN}?token=wrong").status_code == 401
    assert "set-cookie" not in stranger.get(OPEN).headers


def test_names() -> None:
    assert hosts_of("0.0.0.0", 1) == {"127.0.0.1:1", "localhost:1", "[::1]:1"}
    assert "laptop.local:1" in hosts_of("0.0.0.0", 1, ["Laptop.local"])
    assert "[fe80::1]:1" in hosts_of("fe80::1", 1)
    assert Settings(token="t", host="::").link() == "http://127.0.0.1:8377/open?token=t"
