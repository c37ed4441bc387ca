"""Statistics over all sessions: activity, tokens, rejections and interruptions, tools, projects."""

from __future__ import annotations

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from ...core.timestamps import parse_time, zone_seconds
from ...store import Store
from ...store.filters import SessionFilter
from ...store.stats import Stats, compute_stats
from .. import charts
from ..templating import render
from .layout import Pool, State, html_response, layout_of, progress_of


@get("/stats", include_in_schema=False)
async def stats(
    pool: Pool,
    app_state: State,
    agent: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
) -> Response[str]:
    """The statistics page."""
    params = {"agent": agent, "project": project, "after": after, "before": before}
    filter = {name: value or None for name, value in params.items()}
    return html_response(await pool.run(_page, filter, progress_of(app_state)))


routes: list[HTTPRouteHandler] = [stats]


def _page(store: Store, filter: dict[str, str | None], progress: tuple[int, int] | None) -> str:
    wanted = SessionFilter(
        agent=filter["agent"],
        project_contains=filter["project"],
        active_since=parse_time(filter["after"]),
        started_before=parse_time(filter["before"]),
    )
    found = compute_stats(store.database, wanted, zone_seconds())
    view = {
        "filter": filter,
        "numbers": _numbers(found),
        "charts": _charts(found),
        "projects": [(p.path, p.sessions, p.turns, p.rejections, p.interruptions) for p in found.projects],
    }
    return render("stats.html", layout=layout_of(store, "stats", progress), view=view)


def _numbers(found: Stats) -> list[tuple[int, str]]:
    return [
        (sum(found.sessions.values()), "sessions"),
        (found.subagents, "sub-agents"),
        (sum(day.turns for day in found.days), "turns"),
        (sum(tool.calls for tool in found.tools), "tool calls"),
        (found.events.get("rejection", 0), "rejected"),
        (found.events.get("interruption", 0), "interrupted"),
        (sum(t.input + t.cache_read + t.cache_write for t in found.tokens), "tokens in"),
        (sum(t.output for t in found.tokens), "tokens out"),
    ]


def _charts(found: Stats) -> list[dict[str, object]]:
    days, tokens, tools = found.days, found.tokens, found.tools
    return [
        {
            "name": "Activity",
            "drawing": charts.activity_chart(days),
            "columns": ("Day", "Sessions", "Turns", "Calls"),
            "rows": [(day.day, day.sessions, day.turns, day.calls) for day in days],
        },
        {
            "name": "Tokens",
            "drawing": charts.token_chart(tokens),
            "columns": ("Day", "Model", "Replies", "Input", "Output", "Cache read", "Cache write", "Reasoning"),
            "rows": [
                (t.day, t.model, t.replies, t.input, t.output, t.cache_read, t.cache_write, t.reasoning) for t in tokens
            ],
        },
        {
            "name": "Rejections and interruptions",
            "drawing": charts.stop_chart(days),
            "columns": ("Day", "Rejected", "Interrupted"),
            "rows": [(day.day, day.rejections, day.interruptions) for day in days],
        },
        {
            "name": "Tools",
            "drawing": charts.tool_chart(tools),
            "columns": ("Tool", "Calls", "Failed", "Rejected", "Interrupted"),
            "rows": [(tool.name, tool.calls, tool.failed, tool.rejected, tool.interrupted) for tool in tools],
        },
    ]
