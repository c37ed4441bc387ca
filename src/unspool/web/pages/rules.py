"""Permission rules that past decisions suggest, as text to copy."""

from __future__ import annotations

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from ...store import Store
from ...store.suggested_rules import suggested_rules
from ..templating import render
from .layout import Pool, html_response, layout_of


@get("/rules", include_in_schema=False)
async def rules(pool: Pool) -> Response[str]:
    """The page with all suggested rules."""
    return html_response(await pool.run(_page))


routes: list[HTTPRouteHandler] = [rules]


def _page(store: Store) -> str:
    return render("rules.html", layout=layout_of(store, "rules"), suggestions=suggested_rules())
