"""The routes of all pages."""

from __future__ import annotations

from litestar.handlers import HTTPRouteHandler

from .. import agent_styles
from . import events, review, rules, runs, search, session, session_fragments, sessions, stats, versions

routes: list[HTTPRouteHandler] = [
    *sessions.routes,
    *session.routes,
    *session_fragments.routes,
    *events.routes,
    *search.routes,
    *stats.routes,
    *runs.routes,
    *review.routes,
    *rules.routes,
    *versions.routes,
    agent_styles.stylesheet,
]
