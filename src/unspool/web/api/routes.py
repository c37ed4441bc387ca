"""The addresses of the API. Whatever is asked is answered in a thread of the desk, encoding included."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException

from ... import __version__
from ...core.errors import UnspoolError
from ...store import Store
from ..session_list import find
from ..session_query import SessionQuery
from ..store_pool import StorePool
from . import collections, session
from .errors import on_error
from .openapi import openapi_text
from .params import About, Asked, Endpoint, find_endpoint, understood
from .schemas import SessionAsked

# Those with more parts first: the others would take the rest of an address for a name.
ENDPOINTS = sorted([*collections.ENDPOINTS, *session.ENDPOINTS], key=lambda endpoint: -endpoint.path.count("/"))
# Names of sessions and projects may hold slashes; whoever unescapes an address first must not cut them apart.
_PATHS = [
    "/api/projects", "/api/projects/{rest:path}", "/api/sessions", "/api/sessions/{rest:path}",
    "/api/events/{kind:str}", "/api/search", "/api/stats", "/api/health",
]  # fmt: skip


class Reply(NamedTuple):
    """An answer, ready to be sent; without a body where the other side has it already."""

    etag: str
    body: bytes | None


@get(_PATHS, include_in_schema=False)
async def ask(request: Request[Any, Any, Any], desk: NamedDependency[StorePool]) -> Response[bytes]:
    """Answer a question."""
    endpoint, in_path = find_endpoint(ENDPOINTS, request.scope["raw_path"])
    asked = understood(endpoint, in_path, request.scope["query_string"])
    reply = await desk.ask(reply_to, endpoint, asked, request.headers.get("if-none-match", ""))
    headers = {"etag": reply.etag}
    if reply.body is None:
        return Response(b"", status_code=304, headers=headers)
    return Response(reply.body, headers=headers, media_type=endpoint.media_type)


@get("/api/openapi.json", include_in_schema=False)
async def describe() -> Response[bytes]:
    """The description of the API."""
    return Response(openapi_text(ENDPOINTS), media_type="application/json")


routes: list[Router] = [
    Router("/", route_handlers=[ask, describe], exception_handlers={UnspoolError: on_error, HTTPException: on_error})
]


def reply_to(store: Store, endpoint: Endpoint, asked: Asked, known: str) -> Reply:
    """The answer to a question, or that it is the same as one that is known."""
    if not endpoint.is_of_session:
        body = _encoded(endpoint.answer(store, asked))
        etag = _etag(hashlib.blake2b(body, digest_size=9).hexdigest())
        return Reply(etag, None if _is_known(etag, known) else body)
    assert isinstance(asked, SessionAsked)
    seq = store.changes.last_seq()
    reader = SessionQuery(store, find(store, asked.key))
    etag = _etag(reader.version())
    return Reply(etag, None if _is_known(etag, known) else _encoded(endpoint.answer(About(reader, seq), asked)))


def _encoded(answer: object) -> bytes:
    return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


def _etag(version: str) -> str:
    # Another version of unspool may answer the same differently.
    return f'W/"{__version__}-{version}"'


def _is_known(etag: str, known: str) -> bool:
    tags = [tag.strip() for tag in known.split(",")]
    return "*" in tags or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in tags)
