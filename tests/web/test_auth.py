"""Nobody gets in without the token, under another name, or from another site: on no route."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.routes import ASGIRoute, HTTPRoute
from litestar.testing import TestClient

from unspool.web.access import Access
from unspool.web.app import create_app
from unspool.web.auth import KEY_HEADER, POLICY, AuthMiddleware, hosts_of
from unspool.web.raw_requests import MalformedRequestError, parse_request
from unspool.web.settings import OPEN, Settings

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


def test_the_page_for_strangers_names_a_command(stranger: TestClient[Litestar]) -> None:
    page = stranger.get("/").text
    assert "<code>unspool serve --link</code>" in page
    assert "`" not in page


def test_every_route_checks_the_host(app: Litestar, stranger: TestClient[Litestar]) -> None:
    for path in routes(app):
        for host in (
            "evil.example",
            f"evil.example:{PORT}",
            "127.0.0.1",
            f"127.0.0.1:{PORT + 1}",
            f"u0.localhost:{PORT}",
        ):
            assert stranger.get(path, headers={**BEARER, "host": host}).status_code == 421, path


def test_every_route_checks_the_origin(app: Litestar, stranger: TestClient[Litestar]) -> None:
    for path in routes(app):
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": f"http://localhost:{PORT + 1}"},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
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


def log_in(client: TestClient[Litestar]) -> dict[str, str]:
    """Log in as a browser does, and give the header with its key."""
    response = client.post(OPEN, json={"token": TOKEN}, headers={"origin": BASE})
    assert response.status_code == 200
    return {KEY_HEADER: response.json()["key"]}


@pytest.fixture
def browser_key(stranger: TestClient[Litestar]) -> Iterator[dict[str, str]]:
    """The client is a browser that has logged in; this is the header with its key."""
    yield log_in(stranger)
    stranger.cookies.clear()


def test_actions_require_the_origin_and_the_key(
    app: Litestar, stranger: TestClient[Litestar], browser_key: dict[str, str]
) -> None:
    """The cookie alone can only read: servers on other ports may have received it."""
    assert len(acting(app)) >= 6
    assert stranger.get("/api/health").status_code == 200
    for path in acting(app):
        for headers in (
            {},
            {"origin": BASE},
            browser_key,
            {"origin": BASE, KEY_HEADER: "wrong"},
            {"origin": BASE, KEY_HEADER: stranger.cookies[f"unspool-{PORT}"]},
            {"origin": "http://evil.example", **browser_key},
            {**BEARER, "origin": "null"},
        ):
            assert stranger.post(path, headers=headers).status_code == 403, (path, headers)
        assert stranger.post(path, headers={"origin": BASE, **browser_key}).status_code not in (401, 403), path
    stranger.cookies.clear()
    for path in acting(app):
        assert stranger.post(path, headers={"origin": BASE, **browser_key}).status_code == 401, path


def test_a_session_belongs_to_one_host(stranger: TestClient[Litestar], browser_key: dict[str, str]) -> None:
    """A cookie that reaches the server under another of its names is worth nothing."""
    cookie = f"unspool-{PORT}={stranger.cookies[f'unspool-{PORT}']}"
    for host in (f"localhost:{PORT}", f"[::1]:{PORT}"):
        headers = {"host": host, "cookie": cookie, "origin": f"http://{host}", **browser_key}
        assert stranger.get("/api/health", headers=headers).status_code == 401


def test_the_cookie_is_not_the_token(stranger: TestClient[Litestar]) -> None:
    """It cannot be read by scripts, and it opens nothing else."""
    response = stranger.post(OPEN, json={"token": TOKEN}, headers={"origin": BASE})
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    value = stranger.cookies[f"unspool-{PORT}"]
    stranger.cookies.clear()
    assert stranger.get("/api/health", headers={"authorization": f"Bearer {value}"}).status_code == 401
    assert stranger.get("/api/health", headers={"cookie": f"unspool-{PORT}={TOKEN}"}).status_code == 401


def test_the_page_of_the_link_runs_only_its_own_script(stranger: TestClient[Litestar]) -> None:
    """It sets no cookie by itself, and names the server's own host only to those who have the token."""
    response = stranger.get(f"{OPEN}?token={TOKEN}&next=/stats")
    assert response.status_code == 200
    assert "set-cookie" not in response.headers
    assert "script-src 'sha256-" in response.headers["content-security-policy"]
    assert f".localhost:{PORT}" in response.text
    assert ".localhost" not in stranger.get(f"{OPEN}?token=wrong").text


def test_without_scripts_the_link_gives_a_session_that_reads(stranger: TestClient[Litestar]) -> None:
    response = stranger.get(f"{OPEN}?token={TOKEN}&next=/stats&reading=1")
    assert response.status_code == 303
    assert response.headers["location"] == "/stats"
    assert stranger.get("/api/health").status_code == 200
    assert stranger.post("/api/health", headers={"origin": BASE}).status_code == 403
    stranger.cookies.clear()


@pytest.mark.parametrize(
    ("body", "origin", "status"),
    [
        (b'{"token": "wrong"}', BASE, 401),
        (b'{"token": "%s"}' % TOKEN.encode(), None, 403),
        (b'{"token": "%s"}' % TOKEN.encode(), "http://127.0.0.1:9", 403),
        (b"{", BASE, 400),
        (b'{"token": "\xff"}', BASE, 400),
        (b'{"token": "' + b"x" * 5000 + b'"}', BASE, 400),
    ],
)
def test_logins_that_fail(stranger: TestClient[Litestar], body: bytes, origin: str | None, status: int) -> None:
    response = stranger.post(OPEN, content=body, headers={"origin": origin} if origin else {})
    assert response.status_code == status
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "target", ["//evil.example", "http://evil.example", "/\\evil.example", "/a\r\nset-cookie: x=1"]
)
def test_the_link_does_not_redirect_to_other_hosts(stranger: TestClient[Litestar], target: str) -> None:
    response = stranger.get(OPEN, params={"token": TOKEN, "next": target, "reading": "1"})
    assert response.headers["location"] == "/"
    stranger.cookies.clear()


def test_a_link_with_a_wrong_token(stranger: TestClient[Litestar]) -> None:
    assert stranger.get(f"{OPEN}?token=wrong").status_code == 401
    assert "set-cookie" not in stranger.get(OPEN).headers


def test_names() -> None:
    assert hosts_of("0.0.0.0", 1) == {"127.0.0.1:1", "localhost:1", "[::1]:1"}
    assert "laptop.local:1" in hosts_of("0.0.0.0", 1, ["Laptop.local"])
    assert "[fe80::1]:1" in hosts_of("fe80::1", 1)
    assert Settings(host="::").link("t") == "http://127.0.0.1:8377/open?token=t"


def test_a_revocation_ends_streams() -> None:
    """What is sent to a client that lost its access is cut off, and the response ends."""
    access = Access.in_memory(TOKEN)
    sent: list[dict[str, Any]] = []

    async def stream(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"before", "more_body": True})
        access.revoke()
        await send({"type": "http.response.body", "body": b"after", "more_body": True})
        await send({"type": "http.response.body", "body": b"later", "more_body": True})

    async def keep(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
    guarded = AuthMiddleware(stream, access, hosts_of("127.0.0.1", PORT), PORT, f"unspool-{PORT}")
    asyncio.run(guarded(scope, None, keep))
    assert [message.get("body") for message in sent] == [None, b"before", b""]
    assert not sent[-1].get("more_body")


# --- malformed requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"origin": "http://["}),
        ("/", {"origin": "http://]:x"}),
        ("/", {"origin": ""}),
        ("/", {"origin": "evil"}),
        ("/", {"origin": "http://a b"}),
        ("/", {"host": ""}),
        ("/", {"host": "["}),
        ("/", {"host": "a b"}),
        ("/", {"host": "127.0.0.1:99999999"}),
        ("/", {"host": "user@127.0.0.1:8377"}),
        ("/static/1/app.js%00", {}),
        ("/sessions/%00", {}),
        ("/sessions/a%0d%0ab", {}),
        ("/%7f", {}),
        ("/?" + "&".join(f"a{number}=1" for number in range(2000)), {}),
    ],
)
def test_malformed_requests_are_rejected(stranger: TestClient[Litestar], path: str, headers: dict[str, str]) -> None:
    """Before anything else looks at them, with or without the token."""
    assert stranger.get(path, headers=headers).status_code == 400
    assert stranger.get(path, headers={**BEARER, **headers}).status_code == 400


@pytest.mark.parametrize("name", [b"host", b"origin", b"authorization"])
def test_headers_that_must_not_be_repeated(name: bytes) -> None:
    """Which of them counts would depend on who reads them."""
    headers = [(b"host", b"127.0.0.1:8377"), (name, b"http://a"), (name, b"http://a")]
    with pytest.raises(MalformedRequestError, match="more than one"):
        parse_request({"headers": headers, "method": "GET", "path": "/", "query_string": b""})


STRANGE = st.text(st.characters(max_codepoint=0xFF), max_size=12) | st.sampled_from(
    ["http://[", "[::1", "null", "\x00", "%", "\udcff", "http://127.0.0.1:8377", "127.0.0.1:8377", ";=;", 'a="']
)


@settings(max_examples=25, deadline=None)
@given(path=STRANGE, query=STRANGE, host=STRANGE, origin=STRANGE, cookie=STRANGE, token=STRANGE)
def test_no_request_makes_the_server_fail(
    stranger: TestClient[Litestar], path: str, query: str, host: str, origin: str, cookie: str, token: str
) -> None:
    """Whatever it contains, the answer is that of an error of the client."""
    given_headers = {"host": host, "origin": origin, "cookie": f"unspool-{PORT}={cookie}", "authorization": token}
    for names in (("host",), ("origin",), ("cookie", "authorization"), ()):
        chosen = {name.encode(): given_headers[name].encode("latin-1", "replace") for name in names}
        address = f"/{quote(path, errors='replace')}?{quote(query, errors='replace')}"
        for headers in (chosen, {b"authorization": BEARER["authorization"].encode(), **chosen}):
            assert stranger.get(address, headers=headers).status_code < 500
