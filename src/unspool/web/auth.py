"""Access control in front of every route: checks who sends a request, from where, and whether that is sufficient.

Other websites can make a browser send requests to this server, and other servers on this computer receive the cookies
of a host name that they share with it. Neither knows the token or a browser's key. Against DNS rebinding, the server
rejects unknown host names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .access import Access, BrowserSession, is_key_of
from .login import LOOPBACK_NAMES, PROBE, LoginPage, Reply, message_reply, probe_reply
from .peers import PEER_IS_GONE, FoundPeer, Peer, find_peer, is_agent
from .raw_requests import MCP, MalformedRequestError, RawRequest, Receive, Scope, Send, parse_request
from .settings import OPEN

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
KEY_HEADER = "x-unspool-key"
_NOT_LOGGED_IN = "Access denied: log in with the link that `unspool serve --link` prints."
_NO_TOKEN = (
    "Access denied: send the token in the link that `unspool serve --link` prints, as Authorization: Bearer TOKEN."
)
_AGENT = "Agents run by unspool cannot use it to act: decisions about them are made by people."
_GONE = "The connection was closed before the request could be checked."
_OTHER_USER = "This browser session belongs to another user of this computer."
_READS_ONLY = "This browser can read, but not act. Log in again with the link that `unspool serve --link` prints."


def hosts_of(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the host names with ports that the server accepts."""
    names = [*LOOPBACK_NAMES, *more]
    if host not in ("0.0.0.0", "::", ""):
        names.append(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    return frozenset(f"{name.lower()}:{port}" for name in names)


class _Grant(msgspec.Struct, frozen=True):
    """The permission of a request to read: it has the token, or the cookie of a browser session."""

    is_valid: Callable[[], bool]
    """Whether the permission is still valid; checked while a response is streamed."""
    session: BrowserSession | None = None


class AuthMiddleware:
    """Passes requests on to the app, or rejects them."""

    def __init__(self, app: Any, access: Access, hosts: frozenset[str], port: int, cookie: str) -> None:
        self._app = app
        self._access = access
        self._hosts = hosts
        self._port = port
        self._cookie = cookie
        self._login = LoginPage(access, cookie, port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = parse_request(scope)
        except MalformedRequestError as error:
            await _respond(send, scope, message_reply(None, 400, str(error), is_api=_is_api(scope)))
            return
        reply = self._reject_by_address(request) or await self._open(request, receive)
        grant = None if reply is not None else self._grant(request)
        reply = reply or await self._reject(request, grant)
        if reply is not None:
            await _respond(send, scope, reply)
        elif grant is not None:
            await self._app(scope, receive, _with_headers(_until_revoked(send, grant)))

    def _reject_by_address(self, request: RawRequest) -> Reply | None:
        if request.host not in self._hosts and request.host != f"{self._access.host_name}:{self._port}":
            return message_reply(request, 421, "Unknown host name. Use the address that `unspool serve` printed.")
        if request.path == PROBE:
            return probe_reply()
        if not _is_same_origin(request):
            return message_reply(request, 403, "Requests from other sites are not allowed.")
        return None

    async def _open(self, request: RawRequest, receive: Receive) -> Reply | None:
        if request.path != OPEN:
            return None
        uid = None
        if request.is_acting or request.first("reading"):
            peer = await _peer(request)
            if rejection := await _reject_peer(request, peer):
                return rejection
            uid = peer.uid if isinstance(peer, Peer) else None
        return await self._login.reply(request, receive, uid, self._grant(request) is not None)

    def _grant(self, request: RawRequest) -> _Grant | None:
        token = request.bearer
        if token and self._access.is_token(token):
            return _Grant(lambda: self._access.is_token(token))
        if request.path == MCP:
            return None  # Browsers do not use this endpoint.
        session = self._access.session(request.cookie(self._cookie), request.host)
        if session is None:
            return None
        return _Grant(lambda: self._access.is_valid(session), session)

    async def _reject(self, request: RawRequest, grant: _Grant | None) -> Reply | None:
        """Return the response that rejects a request; None if it may be passed on."""
        if grant is None:
            return message_reply(request, 401, _NO_TOKEN if request.path == MCP else _NOT_LOGGED_IN)
        if request.is_acting:
            rejection = _reject_action(request, grant.session) if grant.session else None
            return rejection or await _reject_peer(request, await _peer(request), grant.session)
        if grant.session is not None and _is_shared(request.host):
            # Other servers on this computer also receive the cookies of this host name, and could use them.
            return _reject_stranger(request, await _peer(request), grant.session)
        return None


def _is_api(scope: Scope) -> bool:
    return str(scope.get("path")).startswith(("/api/", MCP))


def _is_same_origin(request: RawRequest) -> bool:
    if request.origin is not None and request.origin != request.host:
        return False
    # Following a link from another site is harmless: without the cookie it shows nothing. Other ports are "same-site".
    site = request.headers.get("sec-fetch-site", "same-origin")
    return site in ("same-origin", "none") or request.headers.get("sec-fetch-mode") == "navigate"


def _is_shared(host: str) -> bool:
    return host.rpartition(":")[0] in LOOPBACK_NAMES


def _reject_action(request: RawRequest, session: BrowserSession) -> Reply | None:
    if request.origin is None:
        return message_reply(request, 403, "Requests that change something need an Origin header.")
    has_key = is_key_of(session, request.headers.get(KEY_HEADER, ""))
    return None if has_key else message_reply(request, 403, _READS_ONLY)


async def _peer(request: RawRequest) -> FoundPeer:
    return await asyncio.to_thread(find_peer, request.client, request.server)


async def _reject_peer(request: RawRequest, peer: FoundPeer, session: BrowserSession | None = None) -> Reply | None:
    """Reject requests from agents, from closed connections, and from other users with this user's session."""
    if peer is PEER_IS_GONE:
        return message_reply(request, 403, _GONE)
    if isinstance(peer, Peer) and await asyncio.to_thread(is_agent, peer):
        return message_reply(request, 403, _AGENT)
    return _reject_stranger(request, peer, session) if session is not None else None


def _reject_stranger(request: RawRequest, peer: FoundPeer, session: BrowserSession) -> Reply | None:
    is_stranger = isinstance(peer, Peer) and session.uid not in (None, peer.uid)
    return message_reply(request, 403, _OTHER_USER) if is_stranger else None


def _until_revoked(send: Send, grant: _Grant) -> Send:
    """End a streamed response when its permission is revoked."""
    has_ended = False

    async def send_while_valid(message: dict[str, Any]) -> None:
        nonlocal has_ended
        if has_ended:
            return
        if message["type"] == "http.response.body" and message.get("more_body") and not grant.is_valid():
            has_ended = True
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_while_valid


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in _HEADERS.items() if name not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return send_with_headers


async def _respond(send: Send, scope: Scope, reply: Reply) -> None:
    length = b"%d" % len(reply.body)
    headers = [(b"content-type", reply.kind.encode()), (b"content-length", length), *reply.headers]
    if reply.status == 204:
        headers = list(reply.headers)
    await _with_headers(send)({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body if scope["method"] != "HEAD" else b""})
