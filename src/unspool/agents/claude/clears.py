"""Cleared contexts of Claude Code: a new session follows, which is empty or starts with a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.timestamps import shifted
from .discovery import ClaudeHome, ProjectFolder, near_moment
from .forks import copied_start
from .heads import ClaudeHead
from .plans import PLAN_EVIDENCE, approve_plan_at

_SAME_MOMENT = timedelta(seconds=30)
_AT_ONCE = timedelta(seconds=5)
"""Maximum time between the end of a session with a plan and the start of the one that follows its approval."""


class Clear(NamedTuple):
    """A cleared context: its time, its session, and the session that followed."""

    at: datetime
    session: str | None
    next_session: str | None
    evidence: str
    confidence: float
    has_plan: bool = False
    """Whether it was cleared by approving a plan."""


def find_clears(folder: ProjectFolder, home: ClaudeHome) -> dict[str, list[Clear]]:
    """Find the clears of a project, by the session that was cleared and by the one that followed."""
    found: dict[str, list[Clear]] = {}
    for clear in _all_clears(folder, home):
        for session in {clear.session, clear.next_session} - {None}:
            found.setdefault(str(session), []).append(clear)
    return found


def _all_clears(folder: ProjectFolder, home: ClaudeHome) -> Iterator[Clear]:
    """Iterate over the clears that were typed, and those that a new session starts with."""
    own_starts = {id: files.head for id, files in folder.sessions.items() if _starts_cleared(id, folder, home)}
    starts = sorted((head.clear_at, id) for id, head in own_starts.items() if head.clear_at)
    taken: set[str | None] = set()
    projects = {files.head.cwd for files in folder.sessions.values()}
    for entry in home.clears:
        session = entry.session
        near = [
            (time, id) for time, id in near_moment(starts, entry.at, _SAME_MOMENT) if id != session and id not in taken
        ]
        follower = min(near)[1] if near else None
        if session is None and entry.project in projects:
            session = folder.last_before(entry.at, follower or "")
        if session not in folder.sessions:
            continue
        taken.add(follower)
        sure = 1.0 if follower and entry.session else 0.9 if entry.session else 0.7
        yield Clear(entry.at, session, follower, "history", sure)
    for at, id in starts:
        if id not in taken:
            head = folder.sessions[id].head
            before = head.process_session or folder.last_before(at, id)
            yield Clear(at, before, id, "session", 0.9 if head.process_session else 0.6)
    for id, head in own_starts.items():
        if head.plan_at is not None and (clear := _plan_clear(id, head, folder, home)) is not None:
            yield clear


def _starts_cleared(session: str, folder: ProjectFolder, home: ClaudeHome) -> bool:
    """Whether a session starts with a clear or a plan, and not with a copy of one."""
    head = folder.sessions[session].head
    has_start = head.clear_at is not None or head.plan_at is not None
    return has_start and copied_start(session, folder, home) is None


def _plan_clear(session: str, head: ClaudeHead, folder: ProjectFolder, home: ClaudeHome) -> Clear | None:
    """Return the clear that a session with a plan started with; None if a person may have typed the plan.

    Before 2.1.29 the message with the plan is not marked.
    """
    assert head.plan_at is not None
    before, confidence = _named_before(session, head), 1.0
    if before is None:
        before, confidence = _ended_before(session, head, folder)
    if before is None and not head.is_plan_marked:
        return None
    if not head.is_plan_marked and head.prompt in home.texts:
        return None
    return Clear(head.plan_at, before, session, "session", confidence, has_plan=True)


def _named_before(session: str, head: ClaudeHead) -> str | None:
    """Return the session that the first lines name: as their own (2.1.63, 2.1.219), or by its transcript."""
    return head.session if head.session not in (None, session) else head.plan_session


def _ended_before(session: str, head: ClaudeHead, folder: ProjectFolder) -> tuple[str | None, float]:
    """Return the session that ended when another started with a plan, and how certain that is."""
    assert head.plan_at is not None
    at_once = {id: time for time, id in folder.ended_near(head.plan_at, _AT_ONCE) if id != session}
    same_plan = [id for id in folder.by_slug.get(head.slug, ()) if id != session and id in folder.ends]
    for ids, confidence in ((at_once.keys() & set(same_plan), 0.95), (at_once.keys(), 0.8)):
        if ids:
            return min(ids, key=lambda id: (at_once[id], id)), confidence
    earlier = [(files.head.started_at, id) for id in same_plan if (files := folder.sessions[id]).head.started_at]
    earlier = [(at, id) for at, id in earlier if at is not None and at < head.plan_at]
    return (max(earlier)[1], 0.8) if earlier else (head.process_session, 0.6)


def clear_origin(session: str, folder: ProjectFolder, home: ClaudeHome, clears: Iterable[Clear]) -> m.Origin | None:
    """Return the origin of a session that started with a cleared context, or as a fork of such a session."""
    files = folder.sessions.get(session)
    if files is None or (files.head.clear_at is None and files.head.plan_at is None):
        return None
    if (copied := copied_start(session, folder, home)) is not None:
        return copied
    for clear in clears:
        if clear.next_session == session:
            return m.Origin(
                kind="clear",
                session=clear.session,
                evidence=PLAN_EVIDENCE if clear.has_plan else clear.evidence,
                confidence=clear.confidence,
            )
    return m.Origin(kind="clear", evidence="session") if files.head.clear_at is not None else None


def add_clears(builder: SessionBuilder, clears: Iterable[Clear]) -> None:
    """Add the clears of a session, each after the last message before it."""
    for clear in clears:
        if clear.has_plan:
            approve_plan_at(builder, clear.at)
        builder.events.context_clears.append(
            m.ContextClear(
                after_message_index=builder.last_before(shifted(clear.at, _AT_ONCE) if clear.has_plan else clear.at),
                timestamp=clear.at,
                evidence="history" if clear.evidence == "history" else "session",
                confidence=clear.confidence,
                next_session=clear.next_session,
            )
        )
