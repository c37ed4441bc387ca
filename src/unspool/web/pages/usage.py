"""The usage of one session: tokens and cost of each turn, model and sub-agent."""

from __future__ import annotations

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from ...store import Store
from ...store.locate import data_folder
from ...usage.cost import COST_NOTE
from ...usage.prices import load_prices_if_readable
from ..session_list import url_name
from ..templating import address, render
from ..usage_view import costliest_turns, usage_of
from .layout import Pool, State, html_response, layout_of, progress_of
from .session_fragments import query_of


@get("/sessions/{key:str}/usage", include_in_schema=False)
async def session_usage(pool: Pool, app_state: State, key: FromPath[str]) -> Response[str]:
    """Tokens and cost of a session."""
    return html_response(await pool.run(_page, key, progress_of(app_state)))


routes: list[HTTPRouteHandler] = [session_usage]


def _page(store: Store, key: str, progress: tuple[int, int] | None) -> str:
    query, prices = query_of(store, key), load_prices_if_readable(data_folder())
    turns, more_turns = costliest_turns(query)
    view = {
        "row": query.row,
        "base": address(url_name(query.row)),
        "usage": usage_of(query),
        "turns": turns,
        "more_turns": more_turns,
        "plan": query.head.info.plan,
        "note": COST_NOTE,
        "price_error": prices.error,
    }
    return render("usage.html", layout=layout_of(store, "usage", progress), view=view)
