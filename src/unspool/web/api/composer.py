"""Endpoints that help to write a message and to start an agent: completions, and the runs in a folder."""

from __future__ import annotations

import asyncio

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...runs.completions import complete
from ...runs.supervisor import Supervisor
from ...runs.worktrees import folder_state
from .runs import json_response


@get("/api/runs/{id:str}/completions", include_in_schema=False)
async def completions(
    supervisor: NamedDependency[Supervisor], id: FromPath[str], word: FromQuery[str] = ""
) -> Response[bytes]:
    """Return completions for a word in a message to an agent."""
    run = supervisor.run(id)
    return json_response(await asyncio.to_thread(complete, word, run.details.commands, run.spec.folder))


@get("/api/folder", include_in_schema=False)
async def folder(supervisor: NamedDependency[Supervisor], path: FromQuery[str]) -> Response[bytes]:
    """Return the runs in a folder, and whether a worktree is possible."""
    return json_response(await asyncio.to_thread(folder_state, path, supervisor.runs()))


routes: list[HTTPRouteHandler] = [completions, folder]
