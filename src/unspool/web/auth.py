"""Who may ask: the right name, the right token, the right origin. It stands in front of every route.

A page of somebody else can make a browser ask this server anything. It cannot know the token, its cookie is not sent
from there, and a name that leads to this machine by a trick is not one of ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"cache-control": b"no-cache, private",
}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_READING = ("GET", "HEAD", "OPTIONS")
OPEN = "/open"
"""The address that takes the token and leaves a cookie."""

Scope = Any
Receive = Any
Send = Any


def hosts_of(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """The names under which this server answers."""
    names = [*_LOOPBACK, *more]
    if host not in ("0.0.0.0", "::", ""):
        names.append(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    return frozenset(f"{name.lower()}:{port}" for name in names)


class AuthMiddleware:
    """Lets requests through to an application, or answers them itself."""

    def __init__(self, app: Any, token: str, hosts: frozenset[str], cookie: str) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(scope, headers)
        if answer is not None:
            await _say(send, scope, *answer)
            return
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Why a request is not let through: status, a sentence, more headers."""
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return 421, "This server does not answer under that name. Use the address it printed when it started.", []
        if not self._is_from_here(headers, host):
            return 403, "This request comes from another site.", []
        if scope["path"] == OPEN:
            return self._opened(scope, headers)
        if not self._knows_token(headers):
            return 401, "The token is missing. Open the link that `unspool serve --link` prints.", []
        if scope["method"] not in _READING and "origin" not in headers and not self._has_bearer(headers):
            return 403, "A request that changes something has to say where it comes from (Origin).", []
        return None

    def _is_from_here(self, headers: dict[str, str], host: str) -> bool:
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return False
        # Following a link from elsewhere is no harm: without the cookie it shows nothing.
        return headers.get("sec-fetch-site") != "cross-site" or headers.get("sec-fetch-mode") == "navigate"

    def _opened(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, list[tuple[bytes, bytes]]]:
        given = parse_qs(scope["query_string"].decode("latin-1"))
        target = (given.get("next") or ["/"])[0]
        if not target.startswith("/") or target.startswith(("//", "/\\")) or not target.isprintable():
            target = "/"
        if not secrets.compare_digest((given.get("token") or [""])[0].encode(), self._token.encode()):
            if self._knows_token(headers):
                return 303, "", [(b"location", target.encode("latin-1", "replace"))]
            return 401, "That is not the token of this server. Open the link that `unspool serve` printed.", []
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        return 303, "", [(b"location", target.encode("latin-1", "replace")), (b"set-cookie", cookie.encode())]

    def _knows_token(self, headers: dict[str, str]) -> bool:
        return self._has_bearer(headers) or self._is_token(_cookie(headers.get("cookie", ""), self._cookie))

    def _has_bearer(self, headers: dict[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(given.strip())

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def _cookie(text: str, name: str) -> str:
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _with_headers(send: Send) -> Send:
    async def sent(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in _HEADERS.items() if name not in there]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent


async def _say(send: Send, scope: Scope, status: int, sentence: str, headers: list[tuple[bytes, bytes]]) -> None:
    if scope["path"].startswith("/api"):
        kind = b"application/json"
        body = msgspec.json.encode({"error": {"code": "refused", "message": sentence}})
    else:
        kind = b"text/html; charset=utf-8"
        # From a link on another site the cookie comes only with the second request.
        again = '<p><a href="">Try again</a></p>' if status == 401 else ""
        body = f"<!doctype html><html lang=en><title>unspool</title><h1>unspool</h1><p>{sentence}</p>{again}".encode()
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers],
    }
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
