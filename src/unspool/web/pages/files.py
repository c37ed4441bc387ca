"""The files that sessions read or changed, and which sessions touched a file."""

from __future__ import annotations

from urllib.parse import urlencode

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from ...store import Store
from ...store.touched_files import TouchedFiles
from ..templating import render
from .layout import Pool, State, html_response, layout_of, progress_of

_PAGE_SIZE = 100


@get("/files", include_in_schema=False)
async def files(
    pool: Pool, app_state: State, q: FromQuery[str] = "", path: FromQuery[str] = "", page: FromQuery[int] = 0
) -> Response[str]:
    """All files, or the sessions that touched one of them."""
    progress = progress_of(app_state)
    if path:
        return html_response(await pool.run(_file_page, path, progress))
    return html_response(await pool.run(_page, q, max(0, page), progress))


routes: list[HTTPRouteHandler] = [files]


def _page(store: Store, q: str, page: int, progress: tuple[int, int] | None) -> str:
    touched = TouchedFiles(store.database, store.sessions)
    found = touched.page(q, _PAGE_SIZE + 1, page * _PAGE_SIZE)
    view = {
        "q": q,
        "files": found[:_PAGE_SIZE],
        "previous": _url(q, page - 1) if page > 0 else None,
        "next": _url(q, page + 1) if len(found) > _PAGE_SIZE else None,
    }
    return render("files.html", layout=layout_of(store, "files", progress), view=view)


def _url(q: str, page: int) -> str:
    query = urlencode({name: value for name, value in {"q": q, "page": page}.items() if value})
    return f"/files?{query}" if query else "/files"


def _file_page(store: Store, path: str, progress: tuple[int, int] | None) -> str:
    touching = TouchedFiles(store.database, store.sessions).sessions_of(path)
    return render("file.html", layout=layout_of(store, "files", progress), path=path, touching=touching)
