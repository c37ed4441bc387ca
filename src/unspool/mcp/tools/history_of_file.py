"""`history_of_file`: the calls of earlier sessions that read or changed a file, and how they ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from ...agents import agent_named
from ...core import model as m
from ...core.errors import UsageError
from ...core.session import Session
from ...store.filters import SessionFilter
from ...store.rows import SessionRow
from ...store.touched_files import FileTouch, TouchedFiles
from ..message_text import changed_lines
from ..quoting import inline, name
from ..request import BudgetParams, ToolRequest, moment, offset_of
from ..response import Part, quoted

_AT_ONCE = 20
_PATH, _CHANGE, _REASON = 40, 100, 80
"""Maximum number of tokens of a path, a change, and the reason for a rejection or failure."""


class FileHistoryParams(BudgetParams, kw_only=True):
    """The file."""

    path: Annotated[str, msgspec.Meta(description="absolute, or relative to the project", max_length=1000)]


class _Known(NamedTuple):
    """A session, and how its unsuccessful calls ended."""

    row: SessionRow
    ends: dict[str, tuple[str, str]]


def history_of_file(request: ToolRequest, params: FileHistoryParams) -> str:
    """List the calls that read or changed a file, the most recent session first."""
    path = _relative(request, params.path)
    files = TouchedFiles(request.store.database, request.store.sessions)
    offset, known = offset_of(params.cursor), None
    response = request.start_response(
        params.budget, f"Calls that read or changed it in the sessions of {request.scope.text}:"
    )
    while touches := files.touches(path, request.sessions, _AT_ONCE, offset, redactor=request.redactor):
        for touch in touches:
            header: list[Part] = []
            if known is None or known.row.id != touch.session:
                known = _known(request, touch.session)
                header.append(request.describe(known.row))
            if not response.add([*header, *_calls(request, known, touch)]):
                return response.text("history_of_file", str(offset))
            offset += 1
    return response.text("history_of_file", note="" if response.items else "No session read or changed this file.")


def _relative(request: ToolRequest, given: str) -> str:
    """Return a path relative to the project, because worktrees have the same files."""
    path = given.strip()
    if not path.strip("/."):
        raise UsageError("path is empty; name a file, such as src/main.py")
    root = request.scope.root
    if root is not None and os.path.isabs(path):
        for above in (root, os.path.realpath(root)):
            if path.startswith(os.path.join(above, "")):
                return os.path.relpath(path, above)
    return os.path.normpath(path)


def _known(request: ToolRequest, session: int) -> _Known:
    (row,) = request.store.sessions.select(SessionFilter(ids=(session,)))
    return _Known(row, dict(_ends(request.head(row))))


def _ends(head: Session) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the id of each call that did not succeed, how it ended, and why."""
    for orphan in head.orphans:
        yield orphan.tool_use_id, (f"unfinished ({orphan.reason})", "")
    for failure in head.errors:
        if failure.tool_use_id is not None:
            yield failure.tool_use_id, ("failed", failure.text)
    for rejection in head.rejections:
        if rejection.tool_use_id is not None:
            yield rejection.tool_use_id, (f"rejected by {rejection.by}", rejection.reason or "")


def _calls(request: ToolRequest, known: _Known, touch: FileTouch) -> Iterator[Part]:
    agent = agent_named(known.row.agent)
    path = request.text(touch.path)
    for message in request.each(known.row, [touch.message]).values():
        branch = " (on an abandoned branch)" if message.branch else ""
        yield f"message {message.index}, {moment(message.timestamp)}{branch}: {inline(path, _PATH)}"
        for block in message.blocks:
            if isinstance(block, m.ToolCall) and path in agent.touched(block.name, block.raw_input):
                yield from _call(block, agent.describe(block.name, block.raw_input), known)


def _call(call: m.ToolCall, action: m.Action, known: _Known) -> Iterator[Part]:
    end, why = known.ends.get(call.id, ("", ""))
    what = name(call.name) + (f", {end}" if end else "")
    yield f"{what}:" if action.diff or why else what
    if action.diff:
        yield quoted(changed_lines(action.diff), _CHANGE)
    if why:
        yield quoted(why, _REASON)
