"""The login page: accepts the token and logs a browser in.

A browser gets two secrets. The cookie lets it read. Browsers send it to every port of a host name, so it is bound to a
random host name that other servers do not have. The key is stored in the browser's storage, which belongs to one port,
so only scripts of this server can send it. Every request that acts needs the key.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from ..core import typed_json
from .access import SESSION_SECONDS, Access, Login
from .assets import assets
from .errors import error_json
from .raw_requests import MCP, MalformedRequestError, RawRequest, Receive, read_body
from .settings import OPEN

PROBE = "/open/probe"
"""Requested by the login page to check that the browser can reach the server under another host name."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_SCRIPT = assets()["login.js"].data.decode()
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_MAX_BODY = 4096
_HEAD = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<meta name=color-scheme content='light dark'><title>unspool</title>"
)
_INVALID = "Invalid token. Open the link printed by `unspool serve --link`."


class Reply(NamedTuple):
    """A response that is sent before routing."""

    status: int
    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _LoginBody(msgspec.Struct, kw_only=True):
    """The request body that the script of the page sends."""

    token: str


def message_reply(request: RawRequest | None, status: int, message: str, *, is_api: bool = False) -> Reply:
    """Return a message, as JSON for programs and as a page for people."""
    if is_api or (request is not None and (request.path.startswith(("/api", MCP)) or request.is_acting)):
        return Reply(status, error_json(status, message), "application/json")
    # After a link from another site, the browser only sends the cookie with the second request.
    again = '<p><a href="">Try again</a></p>' if status == 401 else ""
    page = f"{_HEAD}<body><main><h1>unspool</h1><p>{_code_spans(message)}</p>{again}</main></body></html>"
    return Reply(status, page.encode())


def _code_spans(message: str) -> str:
    """Return a message as HTML, with its commands, which are in backticks, as code."""
    parts = escape(message).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


class LoginPage:
    """Handles requests to `OPEN`."""

    def __init__(self, access: Access, cookie: str, port: int) -> None:
        """`cookie` is the name of the cookie."""
        self._access = access
        self._cookie = cookie
        self._port = port

    async def reply(self, request: RawRequest, receive: Receive, uid: int | None, is_logged_in: bool) -> Reply:
        """Show the page, or log the browser in; `uid` is the user it belongs to, if known."""
        if request.method == "POST":
            return await self._log_in(request, receive, uid)
        target = _target(request.first("next"))
        token = request.first("token")
        if not self._access.can_log_in(token):
            return _redirect(target) if is_logged_in else message_reply(request, 401, _INVALID)
        if request.first("reading"):
            login = self._create_session(request, token, uid)
            return _redirect(target, self._set_cookie(login)) if login else message_reply(request, 401, _INVALID)
        return self._page(request, token, target)

    def _page(self, request: RawRequest, token: str, target: str) -> Reply:
        own = self._own_address(request)
        # Without scripts, a browser can only read.
        without_script = f"{OPEN}?{urlencode({'token': token, 'next': target, 'reading': 1})}"
        page = (
            f'{_HEAD}<noscript><meta http-equiv=refresh content="0; url={escape(without_script)}"></noscript>'
            f'<body data-own="{escape(own)}" data-next="{escape(target)}"><h1>unspool</h1><p role=status>Opening…</p>'
            f"<script>{_SCRIPT}</script>"
        )
        policy = (
            f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; connect-src 'self' {own}; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        headers = ((b"content-security-policy", policy.encode()), (b"cache-control", b"no-store"))
        return Reply(200, page.encode(), headers=headers)

    def _own_address(self, request: RawRequest) -> str:
        """Return the address at which to log in: our own host name, if the request uses one that all servers share.

        Otherwise empty: a browser on another computer would look for our host name on its own computer.
        """
        name, _, _ = request.host.rpartition(":")
        if request.is_encrypted:
            return ""  # No certificate covers that name.
        return f"http://{self._access.host_name}:{self._port}" if name in LOOPBACK_NAMES else ""

    async def _log_in(self, request: RawRequest, receive: Receive, uid: int | None) -> Reply:
        if request.origin is None:
            return message_reply(request, 403, "Logging in needs an Origin header.")
        try:
            body = typed_json.decode(await read_body(receive, _MAX_BODY), type=_LoginBody)
        except (MalformedRequestError, msgspec.DecodeError, UnicodeDecodeError) as error:
            return message_reply(request, 400, f"Invalid request body: {error}")
        login = self._create_session(request, body.token, uid)
        if login is None:
            return message_reply(request, 401, _INVALID)
        answer = msgspec.json.encode({"key": login.key})
        # A cookie from an encrypted connection must never be sent over an unencrypted one.
        is_secure = request.headers.get("origin", "").lower().startswith("https://")
        cookie = self._set_cookie(login, "; Secure" if is_secure else "")
        return Reply(200, answer, "application/json", (cookie, (b"cache-control", b"no-store")))

    def _create_session(self, request: RawRequest, token: str, uid: int | None) -> Login | None:
        return self._access.log_in(token, request.host, uid=uid, old_cookie=request.cookie(self._cookie))

    def _set_cookie(self, login: Login, more: str = "") -> tuple[bytes, bytes]:
        value = f"{self._cookie}={login.cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS:.0f}"
        return b"set-cookie", f"{value}{more}".encode()


def probe_reply() -> Reply:
    """Return an empty response that pages of every origin can read."""
    return Reply(204, headers=((b"cross-origin-resource-policy", b"cross-origin"), (b"cache-control", b"no-store")))


def _redirect(target: str, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(303, headers=((b"location", target.encode("latin-1", "replace")), *headers))


def _target(given: str) -> str:
    """Return the given address if it is on this server, and the start page otherwise."""
    is_local = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if is_local else "/"
