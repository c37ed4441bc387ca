"""The versions of a session's files, and what changed from one to the next."""

from __future__ import annotations

import shlex

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...core.errors import DamagedError
from ...ingest.history import FileState, History, Version
from ...ingest.version_diff import VersionDiff, diff_versions
from ...store import Store
from ..approval_view import DiffView, diff_view
from ..session_list import url_name
from ..templating import address, render
from .layout import Pool, html_response, layout_of
from .session_fragments import query_of

_CHANGES = {"edited": "edited in place"}


@get("/sessions/{key:str}/versions", include_in_schema=False)
async def versions(pool: Pool, key: FromPath[str], version: FromQuery[int | None] = None) -> Response[str]:
    """The versions of a session, and one of them compared with the one before it."""
    return html_response(await pool.run(_versions_page, key, version))


routes: list[HTTPRouteHandler] = [versions]


class VersionRow(msgspec.Struct, kw_only=True):
    """A version in the list."""

    version: Version
    change: str
    difference: int
    """The change in size since the previous version, in bytes."""


class FileDifference(msgspec.Struct, kw_only=True):
    """The changes in one file."""

    diff: VersionDiff
    view: DiffView | None
    failure: str = ""
    """The reason why the changes cannot be shown, if so."""


def _versions_page(store: Store, key: str, number: int | None) -> str:
    row = query_of(store, key).row
    history = History(store, row)
    rows = []
    before = 0
    for version in history.versions:
        change = _CHANGES.get(version.change, version.change)
        rows.append(VersionRow(version=version, change=change, difference=version.size - before))
        before = version.size
    shown = len(rows) if number is None else number
    changed = history.changed(shown) if rows or number is not None else []
    return render(
        "versions.html",
        layout=layout_of(store, "versions"),
        row=row,
        base=address(url_name(row)),
        rows=rows[::-1],
        shown=shown,
        restore=f"unspool restore {shlex.quote(row.name)} --version {shown} --to restored",
        differences=[_difference(store, *pair) for pair in changed] if shown > 1 else [],
    )


def _difference(store: Store, before: FileState | None, after: FileState) -> FileDifference:
    try:
        diff = diff_versions(store, before, after)
    except DamagedError as error:
        return FileDifference(diff=VersionDiff(path=after.path), view=None, failure=str(error))
    return FileDifference(diff=diff, view=diff_view("", diff.text) if diff.text else None)
