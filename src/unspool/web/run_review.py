"""The review of a session: everything its calls changed or ran, by approval, and the files as they are now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

import msgspec

from ..agents import agent_named
from ..core import model as m
from ..render.diff import FileChange, changed_files
from ..render.transcript import CallView
from ..runs.before_images import resolved
from ..runs.revert import FileReview
from ..store.decision_log import recorded_decisions
from .recent_cache import RecentCache
from .session_query import SessionQuery
from .transcript_pages import TranscriptPages

MOST_CALLS = 1_000
"""Maximum number of calls on the page."""
_BLOCK = 500
_BEGINNING = 1_000
"""Messages at the beginning that are all read to find out whether there is anything to review."""
_NEAR = 50
"""The number of messages before a result in which its call is searched for."""
_CACHED = 32


class RunReview(msgspec.Struct, kw_only=True):
    """The changes of a session, for review."""

    approved: list[CallView]
    """Calls that a person was asked about, with their receipts."""
    unapproved: list[CallView]
    """Calls that changed files or ran commands without asking."""
    left_out: int
    """Calls beyond the limit of the page."""
    files: list[FileReview]
    others: list[FileChange]
    """Files that calls changed and that have no earlier copy."""
    commands: int
    """Commands that ran: they may have changed files that no call names."""


def run_review(query: SessionQuery, files: list[FileReview]) -> RunReview:
    """Return the review of a session, given the files with a copy."""
    calls = _calls(query)
    shown = calls[:MOST_CALLS]
    ran = [call for call in calls if call.result is not None and call.result.outcome in ("ok", "error", "interrupted")]
    return RunReview(
        approved=[call for call in shown if call.receipt is not None],
        unapproved=[call for call in shown if call.receipt is None],
        left_out=len(calls) - len(shown),
        files=files,
        others=_others(query, ran, {file.path for file in files}),
        commands=sum(call.action.command is not None for call in ran),
    )


def has_review(query: SessionQuery) -> bool:
    """Whether there is anything to review: a call that runs a command or changes files, or a decision."""
    if query.row.kind != "main":
        return False
    if _acting.get(query.version(), lambda: _has_action(query)):
        return True
    return any(decision.request is not None for decision in recorded_decisions(query.row.agent, query.row.name))


_acting: RecentCache[str, bool] = RecentCache(_CACHED)
"""Whether a call runs a command or changes files, by the version of the session."""


def _has_action(query: SessionQuery) -> bool:
    describe = agent_named(query.row.agent).describe
    actions = (describe(call.name, call.raw_input) for call in _some_calls(query))
    recorded = (event.action for event in query.head.rejections if event.action is not None)
    return any(action.command or action.diff for action in chain(recorded, actions))


def _some_calls(query: SessionQuery) -> Iterator[m.ToolCall]:
    """Yield the calls at the beginning of a session, and before the first result of each tool.

    They include a call of every tool, so that a long session need not be read to its end.
    """
    for indices in _some_messages(query):
        for message in query.messages(indices.start, indices.stop):
            yield from (block for block in message.blocks if isinstance(block, m.ToolCall))


def _some_messages(query: SessionQuery) -> Iterator[range]:
    beginning = min(query.row.messages, _BEGINNING)
    for first in range(0, beginning, _NEAR):
        yield range(first, min(first + _NEAR, beginning))
    if beginning < query.row.messages:
        # Finding the first results takes a pass over all calls of the session, so this comes last.
        for index in query.store.usage.first_results(query.row.id):
            yield range(max(0, index - _NEAR), index + 1)


def _calls(query: SessionQuery) -> list[CallView]:
    """Return the calls of all branches that had an approval request, change files or run commands."""
    transcript = TranscriptPages(query)
    found: dict[str, CallView] = {}
    for first in range(0, query.row.messages, _BLOCK):
        for entry in transcript.entries(first, min(first + _BLOCK, query.row.messages)):
            call = entry.call
            if call is not None and (call.receipt is not None or call.action.diff or call.action.command):
                found.setdefault(call.id, call)
    return list(found.values())


def _others(query: SessionQuery, ran: list[CallView], known: set[str]) -> list[FileChange]:
    project = query.head.info.project
    folder = project.path if project is not None and project.path else os.sep
    found: dict[str, FileChange] = {}
    for call in ran:
        if call.action.diff and call.result is not None and call.result.outcome == "ok":
            for change in changed_files(call.action.diff, call.action.path):
                path = resolved(change.path, folder)
                if path not in known:
                    total = found.setdefault(path, FileChange(path))
                    total.added += change.added
                    total.removed += change.removed
    return list(found.values())
