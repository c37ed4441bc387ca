"""The routes of all pages."""

from __future__ import annotations

from litestar.handlers import HTTPRouteHandler

from .. import agent_styles
from . import (
    events,
    exports,
    files,
    review,
    rules,
    runs,
    search,
    session,
    session_find,
    session_fragments,
    sessions,
    side_by_side,
    stats,
    usage,
    versions,
)

routes: list[HTTPRouteHandler] = [
    *sessions.routes,
    *session.routes,
    *exports.routes,
    *session_fragments.routes,
    *session_find.routes,
    *side_by_side.routes,
    *events.routes,
    *files.routes,
    *search.routes,
    *stats.routes,
    *usage.routes,
    *runs.routes,
    *review.routes,
    *rules.routes,
    *versions.routes,
    agent_styles.stylesheet,
]
