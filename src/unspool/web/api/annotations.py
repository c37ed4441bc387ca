"""Endpoints for pins, notes and tags: list, add and remove those of a session."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...core.annotations import Annotation, AnnotationKind
from ...store import Store, open_store
from ...store.rows import SessionRow
from ..pages.layout import Pool, State
from ..pages.session_fragments import query_of
from .params import find_redactor
from .runs import decoded_body, json_response


class AnnotationBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The annotation to add."""

    kind: AnnotationKind
    text: str = ""
    message_index: int | None = None


class RemovalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The annotation to remove."""

    id: int


class AnnotationList(msgspec.Struct, kw_only=True):
    """All pins, notes and tags of a session."""

    session: str
    annotations: list[Annotation]


@get("/api/annotations/{key:str}", include_in_schema=False)
async def annotations_of(
    pool: Pool, key: FromPath[str], redact: FromQuery[bool] = False, redact_personal: FromQuery[bool] = False
) -> Response[bytes]:
    """List the pins, notes and tags of a session."""
    redactor = find_redactor(redact=redact, personal=redact_personal)
    return json_response(await pool.run(_list, key), redactor=redactor)


@post("/api/annotations/{key:str}", include_in_schema=False)
async def add(request: Request[Any, Any, Any], pool: Pool, app_state: State, key: FromPath[str]) -> Response[bytes]:
    """Add a pin, note or tag."""
    body: AnnotationBody = await decoded_body(request, AnnotationBody)
    row = await pool.run(_row, key, body.message_index)
    await asyncio.to_thread(_add, app_state.settings.store, row, body)
    return json_response(await pool.run(_list, key), 201)


@post("/api/annotations/{key:str}/remove", include_in_schema=False)
async def remove(request: Request[Any, Any, Any], pool: Pool, app_state: State, key: FromPath[str]) -> Response[bytes]:
    """Remove a pin, note or tag."""
    body: RemovalBody = await decoded_body(request, RemovalBody)
    row = await pool.run(_row, key, None)
    await asyncio.to_thread(_remove, app_state.settings.store, row, body.id)
    return json_response(await pool.run(_list, key))


routes: list[HTTPRouteHandler] = [annotations_of, add, remove]


def _list(store: Store, key: str) -> AnnotationList:
    row = query_of(store, key).row
    return AnnotationList(session=row.name, annotations=store.annotations.of(row.agent, row.name))


def _row(store: Store, key: str, message: int | None) -> SessionRow:
    query = query_of(store, key)
    if message is not None:
        query.message(message)
    return query.row


# These open the store themselves: the connections of the pool are read-only.


def _add(location: str, row: SessionRow, body: AnnotationBody) -> None:
    with closing(open_store(location)) as store, store.transaction():
        store.annotations.add(row.agent, row.name, body.kind, body.text, body.message_index)


def _remove(location: str, row: SessionRow, id: int) -> None:
    with closing(open_store(location)) as store, store.transaction():
        store.annotations.remove(row.agent, row.name, id)
