"""The review of a session: its changes, by approval, and a preview of reverting a file."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...core.decisions import main_session
from ...core.errors import NotFoundError
from ...runs.revert import FileReview, RevertPlan, Reverts
from ...store import Store
from ...store.rows import SessionRow
from ..approval_view import diff_view
from ..run_review import run_review
from ..session_list import url_name
from ..templating import address, render
from .layout import Pool, State, html_response, layout_of
from .session_fragments import query_of


@get("/sessions/{key:str}/review", include_in_schema=False)
async def review(pool: Pool, app_state: State, key: FromPath[str]) -> Response[str]:
    """Everything a session changed."""
    row = await pool.run(row_of, key)
    reverts: Reverts | None = app_state.reverts
    files = await asyncio.to_thread(reverts.files, row.agent, main_session(row.name)) if reverts is not None else []
    return html_response(await pool.run(_review_page, key, files))


@get("/sessions/{key:str}/review/revert", include_in_schema=False)
async def revert_preview(
    pool: Pool, app_state: State, key: FromPath[str], path: FromQuery[str], copy: FromQuery[str]
) -> Response[str]:
    """A preview of reverting a file to a copy."""
    row = await pool.run(row_of, key)
    plan = await asyncio.to_thread(reverts_of(app_state).plan, row.agent, main_session(row.name), path, copy)
    return html_response(await pool.run(_revert_page, key, plan, copy))


routes: list[HTTPRouteHandler] = [review, revert_preview]


def reverts_of(app_state: Any) -> Reverts:
    """Return the copies of files. Raises NotFoundError if this server does not run agents."""
    reverts: Reverts | None = app_state.reverts
    if reverts is None:
        raise NotFoundError("Running agents is disabled on this server, so it has no copies of files.")
    return reverts


def row_of(store: Store, key: str) -> SessionRow:
    """Return the row of the session that an address names."""
    return query_of(store, key).row


def _review_page(store: Store, key: str, files: list[FileReview]) -> str:
    query = query_of(store, key)
    return render(
        "review.html",
        layout=layout_of(store, "review"),
        row=query.row,
        base=address(url_name(query.row)),
        review=run_review(query, files),
        change=lambda diff: diff_view("", diff),
        as_time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
    )


def _revert_page(store: Store, key: str, plan: RevertPlan, copy: str) -> str:
    row = query_of(store, key).row
    base = address(url_name(row))
    return render(
        "revert.html",
        layout=layout_of(store, "review"),
        row=row,
        base=base,
        plan=plan,
        copy=copy,
        change=diff_view("", plan.diff) if plan.diff is not None else None,
    )
