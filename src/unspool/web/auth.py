"""Access control in front of every route: the host name, the origin and the token of a request.

Other websites can make a browser send requests to this server. They do not know the token, the cookie is not sent with
their requests, and a host name that was rebound to this machine is not one the server accepts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .errors import error_json

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
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN = "/open"
"""The address that takes the token and sets a cookie."""

Scope = Any
Receive = Any
Send = Any


def hosts_of(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """The host names that the server accepts."""
    names = [*_LOOPBACK, *more]
    if host not in ("0.0.0.0", "::", ""):
        names.append(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    return frozenset(f"{name.lower()}:{port}" for name in names)


class AuthMiddleware:
    """Passes requests on to the app, or rejects them."""

    def __init__(self, app: Any, token: str, hosts: frozenset[str], cookie: str) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        rejection = self._reject(scope, headers)
        if rejection is not None:
            await _respond(send, scope, *rejection)
            return
        await self._app(scope, receive, _with_headers(send))

    def _reject(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """The response to a request that is not passed on: status, message, headers."""
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return 421, "Unknown host name. Use the address that `unspool serve` printed.", []
        if not self._is_same_origin(headers, host):
            return 403, "Requests from other sites are not allowed.", []
        if scope["path"] == OPEN:
            return self._open(scope, headers)
        if not self._has_token(headers):
            return 401, "Access denied: the token is missing. Open the link printed by `unspool serve --link`.", []
        if scope["method"] not in _SAFE_METHODS and "origin" not in headers and not self._has_bearer(headers):
            return 403, "Requests that change something need an Origin header.", []
        return None

    def _is_same_origin(self, headers: dict[str, str], host: str) -> bool:
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return False
        # Following a link from another site is harmless: without the cookie it shows nothing.
        return headers.get("sec-fetch-site") != "cross-site" or headers.get("sec-fetch-mode") == "navigate"

    def _open(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, list[tuple[bytes, bytes]]]:
        given = parse_qs(scope["query_string"].decode("latin-1"))
        target = (given.get("next") or ["/"])[0]
        if not target.startswith("/") or target.startswith(("//", "/\\")) or not target.isprintable():
            target = "/"
        if not secrets.compare_digest((given.get("token") or [""])[0].encode(), self._token.encode()):
            if self._has_token(headers):
                return 303, "", [(b"location", target.encode("latin-1", "replace"))]
            return 401, "Invalid token. Open the link printed by `unspool serve`.", []
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        return 303, "", [(b"location", target.encode("latin-1", "replace")), (b"set-cookie", cookie.encode())]

    def _has_token(self, headers: dict[str, str]) -> bool:
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
    async def send_with_headers(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in _HEADERS.items() if name not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return send_with_headers


async def _respond(send: Send, scope: Scope, status: int, message: str, headers: list[tuple[bytes, bytes]]) -> None:
    if scope["path"].startswith("/api"):
        kind = b"application/json"
        body = error_json(status, message)
    else:
        kind = b"text/html; charset=utf-8"
        # After a link from another site the browser sends the cookie only with the second request.
        again = '<p><a href="">Try again</a></p>' if status == 401 else ""
        body = f"<!doctype html><html lang=en><title>unspool</title><h1>unspool</h1><p>{message}</p>{again}".encode()
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers],
    }
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
