"""Parses requests before routing, and rejects malformed ones."""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import msgspec

_HOST = r"(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?"
_HOST_PATTERN = re.compile(_HOST)
_ORIGIN_PATTERN = re.compile(rf"null|[a-z][a-z0-9+.-]*://({_HOST})")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_ONLY_ONCE = ("host", "origin", "authorization")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

MCP = "/mcp"
"""The path of the MCP server. Its requests use POST, but change nothing."""

Scope = Any
Receive = Any
Send = Any


class MalformedRequestError(ValueError):
    """The request is malformed: no browser or correct program would send it."""


class RawRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that access control needs."""

    method: str
    path: str
    query: dict[str, list[str]]
    host: str
    """Name and port, in lower case."""
    origin: str | None
    """The host of the `Origin` header, "null" if it has none."""
    headers: dict[str, str]
    is_encrypted: bool
    """Whether this server received it over TLS. If not, a proxy may have."""
    client: tuple[str, int] | None
    server: tuple[str, int] | None

    @property
    def is_acting(self) -> bool:
        """Whether the request may change something."""
        return self.method not in _SAFE_METHODS and self.path != MCP

    def first(self, name: str) -> str:
        """Return the first value of a query parameter, or an empty string."""
        return self.query.get(name, [""])[0]

    def cookie(self, name: str) -> str:
        """Return the value of a cookie, or an empty string."""
        try:
            found = SimpleCookie(self.headers.get("cookie", "")).get(name)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    @property
    def bearer(self) -> str:
        """The token in the `Authorization` header, or an empty string."""
        kind, _, given = self.headers.get("authorization", "").partition(" ")
        return given.strip() if kind.lower() == "bearer" else ""


def parse_request(scope: Scope) -> RawRequest:
    """Parse a request. Raises MalformedRequestError."""
    headers = _headers(scope["headers"])
    host = headers.get("host", "").lower()
    if not _HOST_PATTERN.fullmatch(host):
        raise MalformedRequestError("The Host header is missing or malformed.")
    if _CONTROL_CHARACTERS.search(scope["path"]):
        raise MalformedRequestError("The address contains control characters.")
    try:
        query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=1000)
    except ValueError as error:
        raise MalformedRequestError("The address has too many parameters.") from error
    return RawRequest(
        method=scope["method"],
        path=scope["path"],
        query=query,
        host=host,
        origin=_origin_host(headers.get("origin")),
        headers=headers,
        is_encrypted=scope.get("scheme") == "https",
        client=_address(scope.get("client")),
        server=_address(scope.get("server")),
    )


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read the body of a request. Raises MalformedRequestError if it is longer than `limit` or incomplete."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise MalformedRequestError("The request is incomplete.")
        body += bytes(message.get("body", b""))
        if len(body) > limit:
            raise MalformedRequestError(f"The body is longer than {limit} bytes.")
        if not message.get("more_body"):
            return body


def _headers(given: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in given:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in found and name in _ONLY_ONCE:
            raise MalformedRequestError(f"There is more than one {name.title()} header.")
        found[name] = f"{found[name]}; {value}" if name in found and name == "cookie" else value
    return found


def _origin_host(origin: str | None) -> str | None:
    if origin is None:
        return None
    found = _ORIGIN_PATTERN.fullmatch(origin.lower())
    if found is None:
        raise MalformedRequestError("The Origin header is malformed.")
    return found[1] or "null"


def _address(given: Any) -> tuple[str, int] | None:
    return (str(given[0]), int(given[1])) if given and given[1] is not None else None
