"""All routes of the API. Queries run in the threads of the pool, which also encode the responses."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler

from ... import __version__
from ...redact import Redactor
from ...store import Store
from ..session_list import find
from ..session_query import SessionQuery
from ..store_pool import StorePool
from . import collections, composer, notifications, reverts, runs, session, streams
from .annotations import routes as annotation_routes
from .openapi import openapi_text
from .params import Endpoint, Params, SessionContext, find_endpoint, parse_params
from .schemas import SessionParams

# Longer paths first: a shorter one would match the rest of the path as part of a name.
ENDPOINTS = sorted([*collections.ENDPOINTS, *session.ENDPOINTS], key=lambda endpoint: -endpoint.path.count("/"))
# Names of sessions and projects may contain escaped slashes, so the framework must not split their paths.
_PATHS = [
    "/api/projects", "/api/projects/{rest:path}", "/api/sessions", "/api/sessions/{rest:path}",
    "/api/events/{kind:str}", "/api/search", "/api/stats", "/api/usage", "/api/health",
]  # fmt: skip


class ApiReply(NamedTuple):
    """An encoded response; without a body if the client already has it."""

    etag: str
    body: bytes | None


@get(_PATHS, include_in_schema=False)
async def query(request: Request[Any, Any, Any], pool: NamedDependency[StorePool]) -> Response[bytes]:
    """Handle a request that reads from the store."""
    endpoint, in_path = find_endpoint(ENDPOINTS, request.scope["raw_path"])
    params = parse_params(endpoint, in_path, request.scope["query_string"])
    reply = await pool.run(reply_to, endpoint, params, request.headers.get("if-none-match", ""))
    headers = {"etag": reply.etag}
    if reply.body is None:
        return Response(b"", status_code=304, headers=headers)
    return Response(reply.body, headers=headers, media_type=endpoint.media_type)


@get("/api/openapi.json", include_in_schema=False)
async def openapi_document() -> Response[bytes]:
    """Send the OpenAPI description of the API."""
    return Response(openapi_text(ENDPOINTS), media_type="application/json")


routes: list[HTTPRouteHandler] = [
    query,
    openapi_document,
    *streams.routes,
    *runs.routes,
    *reverts.routes,
    *notifications.routes,
    *composer.routes,
    *annotation_routes,
]


def reply_to(store: Store, endpoint: Endpoint, params: Params, known: str) -> ApiReply:
    """Return the response to a request; without a body if `known` lists its ETag."""
    redactor = params.redactor()
    if not endpoint.is_of_session:
        body = _encoded(endpoint.handler(store, params), redactor)
        etag = _etag(hashlib.blake2b(body, digest_size=9).hexdigest())
        return ApiReply(etag, None if _is_known(etag, known) else body)
    assert isinstance(params, SessionParams)
    seq = store.changes.last_seq()
    query = SessionQuery(store, find(store, params.key))
    etag = _etag(query.version() if redactor is None else f"{query.version()}-{redactor.rules}")
    if _is_known(etag, known):
        return ApiReply(etag, None)
    return ApiReply(etag, _encoded(endpoint.handler(SessionContext(query, seq), params), redactor))


def _encoded(response: object, redactor: Redactor | None) -> bytes:
    data = response if isinstance(response, bytes) else msgspec.json.encode(response)
    return data if redactor is None else redactor.data(data)


def _etag(version: str) -> str:
    # Another version of unspool may encode the same session differently.
    return f'W/"{__version__}-{version}"'


def _is_known(etag: str, known: str) -> bool:
    tags = [tag.strip() for tag in known.split(",")]
    return "*" in tags or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in tags)
