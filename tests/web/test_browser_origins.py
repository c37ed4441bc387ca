"""A hostile server on another port of this computer, in a real browser: it gets no secret, and cannot act."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from unspool.web.access import Access

from ..waiting import PATIENCE
from .browser import Page, Server, serving, until

ATTACK = """
async (target) => {
  const attempts = {};
  const attempt = async (name, work) => {
    try {
      attempts[name] = String(await work());
    } catch (error) {
      attempts[name] = 'refused';
    }
  };
  const post = { method: 'POST', body: JSON.stringify({ who: 'evil' }), credentials: 'include' };
  await attempt('read', async () => (await fetch(`${target}/api/runs`, { credentials: 'include' })).text());
  await attempt('simple', async () => (await fetch(`${target}/api/runs`, { ...post, mode: 'no-cors' })).type);
  await attempt('json', async () => (await fetch(`${target}/api/runs`, {
    ...post, headers: { 'content-type': 'application/json', 'x-unspool-key': 'x' } })).status);
  await attempt('script', () => new Promise((done, fail) => {
    const script = document.createElement('script');
    [script.onload, script.onerror] = [() => done('loaded'), fail];
    script.src = `${target}/static/1/app.js`;
    document.head.append(script);
  }));
  await attempt('events', () => new Promise((done, fail) => {
    const source = new EventSource(`${target}/api/runs/events`, { withCredentials: true });
    [source.onopen, source.onerror] = [() => done('open'), () => (source.close(), fail())];
  }));
  await attempt('socket', () => new Promise((done, fail) => {
    const socket = new WebSocket(target.replace('http', 'ws') + '/api/runs/events');
    [socket.onopen, socket.onerror] = [() => done('open'), fail];
  }));
  await attempt('frame', () => new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.name = 'victim';
    frame.onload = () => {
      done(frame.contentDocument ? 'readable' : 'refused');
    };
    frame.src = target;
    document.body.append(frame);
  }));
  const form = document.createElement('form');
  Object.assign(form, { method: 'post', action: `${target}/api/runs`, enctype: 'text/plain', target: 'victim' });
  document.body.append(form);
  form.submit();
  return attempts;
}
"""

ACT = """
async (key) => {
  const headers = { 'x-unspool-key': key ?? localStorage['unspool-key'] };
  return (await fetch('/api/runs', { method: 'POST', headers, body: '{}' })).status;
}
"""
"""A request that is invalid, where it is allowed at all."""


class Hostile(ThreadingHTTPServer):
    """Keeps everything that browsers send to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = self.server_address[1]
        self.received: list[tuple[str, dict[str, str]]] = []

    @property
    def text(self) -> str:
        """All of it."""
        return json.dumps(self.received)


class _Handler(BaseHTTPRequestHandler):
    server: Hostile

    def do_GET(self) -> None:
        self.server.received.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        body = b"<!doctype html><title>evil</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("origins")
    (folder / "home").mkdir()
    with serving(folder, folder / "home", "--no-follow") as server:
        yield server


@pytest.fixture(scope="module")
def access(server: Server) -> Access:
    """What the server knows."""
    return Access.load_or_create(server.store.parent / "data")


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    evil = Hostile()
    thread = threading.Thread(target=evil.serve_forever)
    thread.start()
    yield evil
    evil.shutdown()
    thread.join()
    evil.server_close()


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    yield context.new_page()
    context.close()


def log_in(page: Page, link: str) -> str:
    """Open the link as a person does. Gives the origin at which the browser arrives."""
    page.goto(link)
    until(page, "() => location.pathname === '/'")
    origin: str = page.evaluate("location.origin")
    return origin


def request(server: Server, method: str, path: str, **headers: str) -> int:
    """Send something that is not a browser's request."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request(method, path, "{}" if method == "POST" else None, names)
        return connection.getresponse().status


def test_the_link_leads_to_a_host_name_of_its_own(page: Page, server: Server, access: Access) -> None:
    """There the browser has a cookie and a key, and can act."""
    origin = log_in(page, server.link)
    assert origin == f"http://{access.host_name}:{server.port}"
    (cookie,) = page.context.cookies()
    assert cookie["domain"] == access.host_name
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert server.token not in json.dumps(page.context.storage_state())
    assert page.evaluate(ACT, None) == 400
    assert page.evaluate(ACT, "wrong") == 403
    page.goto(f"{origin}/agents")
    until(page, "() => document.querySelector('[data-start]')")


def test_a_browser_that_does_not_know_the_name_logs_in_where_it_is(page: Page, server: Server) -> None:
    """It can read and act there."""
    page.route("**/open/probe", lambda route: route.abort())
    assert log_in(page, server.link) == server.base
    assert page.evaluate(ACT, None) == 400


def test_a_hostile_server_gets_nothing_and_cannot_act(
    page: Page, server: Server, access: Access, hostile: Hostile
) -> None:
    """From the names it shares with us, even if it knows ours."""
    origin = log_in(page, server.link)
    assert origin.startswith(f"http://{access.host_name}:")
    names = ("127.0.0.1", "localhost")
    for name in names:
        page.goto(f"http://{name}:{hostile.port}/{name}")
        for target in (origin, server.base):
            attempts = page.evaluate(ATTACK, target)
            assert attempts.pop("simple") in ("opaque", "refused")
            assert set(attempts.values()) == {"refused"}, attempts
    received = [headers for path, headers in hostile.received if path.strip("/") in names]
    assert len(received) == 2
    assert all("cookie" not in headers for headers in received)
    assert server.token not in hostile.text
    assert server.api("/runs")["runs"] == []


def test_a_stolen_cookie_cannot_act(page: Page, server: Server, access: Access, hostile: Hostile) -> None:
    """A server that knows the name, or shares it where the browser has no other, receives the cookie and no key."""
    origin = log_in(page, server.link)
    page.goto(f"http://{access.host_name}:{hostile.port}/stolen")
    stolen = next(headers["cookie"] for path, headers in hostile.received if path == "/stolen")
    assert page.evaluate("localStorage['unspool-key']") is None
    host = urlsplit(origin).netloc
    for headers in (
        {"host": host, "origin": origin},
        {"host": host, "origin": origin, "x_unspool_key": stolen.partition("=")[2]},
        {"host": host, "origin": origin, "authorization": f"Bearer {stolen.partition('=')[2]}"},
    ):
        assert request(server, "POST", "/api/runs", cookie=stolen, **headers) in (401, 403)
    assert request(server, "GET", "/api/runs", cookie=stolen, host=f"127.0.0.1:{server.port}") == 401


def test_a_revocation_logs_browsers_out(page: Page, server: Server, access: Access) -> None:
    """Their requests fail, and the link of before opens nothing."""
    log_in(page, server.link)
    access.revoke()
    assert page.evaluate("async () => (await fetch('/api/runs')).status") in (401, 421)
    assert page.goto(server.link).status == 401
    server.token = access.token
    server.link = f"{server.base}/open?token={access.token}"
    log_in(page, server.link)


def test_an_address_that_others_listen_on_is_not_used(server: Server) -> None:
    """Names that end in .localhost mean both loopback addresses, so the server has both."""
    if not socket.has_ipv6:
        pytest.skip("this computer has no IPv6")
    try:
        connection = socket.create_connection(("::1", server.port), timeout=PATIENCE)
    except OSError as error:
        pytest.skip(f"this computer has no IPv6 loopback address: {error}")
    with connection:
        connection.sendall(f"GET / HTTP/1.1\r\nhost: [::1]:{server.port}\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 401"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /static/1/app.js%00 HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\norigin: http://[\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: [\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\nhost: HOST\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer \xff\r\ncookie: \xff=\xfe\r\n\r\n",
        b"POST /open HTTP/1.1\r\nhost: HOST\r\norigin: http://HOST\r\ncontent-length: 1\r\n\r\n{",
        b"GET /api/runs/events HTTP/1.1\r\nhost: HOST\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    ],
)
def test_raw_requests_do_not_make_the_server_fail(server: Server, raw: bytes) -> None:
    """Also those that no client library would send."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(raw.replace(b"HOST", f"127.0.0.1:{server.port}".encode()))
        assert connection.recv(10) == b"HTTP/1.1 4"
