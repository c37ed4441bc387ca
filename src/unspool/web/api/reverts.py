"""The endpoint that reverts a file of a project: the only one that writes into a project."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, post
from litestar.handlers import HTTPRouteHandler

from ...core.decisions import main_session
from ..pages.layout import Pool, State
from ..pages.review import reverts_of, row_of
from .run_schemas import RevertBody, Reverted
from .runs import decoded_body, json_response


@post("/api/reverts", include_in_schema=False)
async def revert(request: Request[Any, Any, Any], pool: Pool, app_state: State) -> Response[bytes]:
    """Restore the earlier copy of a file, if the caller has seen the content that it replaces."""
    body: RevertBody = await decoded_body(request, RevertBody)
    reverts = reverts_of(app_state)
    row = await pool.run(row_of, body.session)
    session = main_session(row.name)
    plan = await asyncio.to_thread(reverts.plan, row.agent, session, body.path, body.copy)
    await asyncio.to_thread(reverts.revert, row.agent, session, plan, body.seen, body.who)
    return json_response(Reverted(path=plan.path, replaced=plan.now.content_id))


routes: list[HTTPRouteHandler] = [revert]
