"""Cleared contexts of Claude Code: a new session follows, with nothing but a plan or nothing at all."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from .discovery import ClaudeFolder, ClaudeHead, Surroundings
from .forks import copied_start
from .plans import PLAN_EVIDENCE, approve_plan_at

_SAME_MOMENT = timedelta(seconds=30)
_AT_ONCE = timedelta(seconds=5)
"""How soon a session with an approved plan follows the one in which the plan was made."""


class Clear(NamedTuple):
    """A cleared context: when, in which session, and which session followed."""

    at: datetime
    session: str | None
    next_session: str | None
    evidence: str
    confidence: float
    has_plan: bool = False
    """Whether it was cleared by approving a plan."""


def find_clears(folder: ClaudeFolder, around: Surroundings) -> list[Clear]:
    """Find all clears of a project: those that were typed, and those that a new session starts with."""
    own_starts = {id: files.head for id, files in folder.sessions.items() if _starts_cleared(id, folder, around)}
    starts = sorted((head.clear_at, id) for id, head in own_starts.items() if head.clear_at)
    found = []
    for entry in around.clears:
        session = entry.session
        near = [(abs(at - entry.at), id) for at, id in starts if id != session and abs(at - entry.at) <= _SAME_MOMENT]
        follower = min(near)[1] if near else None
        if session is None and any(files.head.cwd == entry.project for files in folder.sessions.values()):
            session = folder.last_before(entry.at, follower or "")
        if session not in folder.sessions:
            continue
        starts = [(at, id) for at, id in starts if id != follower]
        sure = 1.0 if follower and entry.session else 0.9 if entry.session else 0.7
        found.append(Clear(entry.at, session, follower, "history", sure))
    for at, id in starts:
        head = folder.sessions[id].head
        before = head.process_session or folder.last_before(at, id)
        found.append(Clear(at, before, id, "session", 0.9 if head.process_session else 0.6))
    for id, head in own_starts.items():
        if head.plan_at is not None and (clear := _plan_clear(id, head, folder, around)) is not None:
            found.append(clear)
    return found


def _starts_cleared(session: str, folder: ClaudeFolder, around: Surroundings) -> bool:
    """Whether a session starts with a clear or a plan, and not with a copy of one."""
    head = folder.sessions[session].head
    has_start = head.clear_at is not None or head.plan_at is not None
    return has_start and copied_start(session, folder, around) is None


def _plan_clear(session: str, head: ClaudeHead, folder: ClaudeFolder, around: Surroundings) -> Clear | None:
    """Find the session in which the plan was made that a session starts with.

    Before 2.1.29 the message with the plan is not marked, so it could also have been typed.
    """
    assert head.plan_at is not None
    before, confidence = _named_before(session, head), 1.0
    if before is None:
        before, confidence = _ended_before(session, head, folder)
    if before is None and not head.is_plan_marked:
        return None
    if not head.is_plan_marked and any(entry.text == head.prompt for entry in around.history):
        return None
    return Clear(head.plan_at, before, session, "session", confidence, has_plan=True)


def _named_before(session: str, head: ClaudeHead) -> str | None:
    """Return the session that the first lines name: as their own (2.1.63, 2.1.219), or by its transcript."""
    return head.session if head.session not in (None, session) else head.plan_session


def _ended_before(session: str, head: ClaudeHead, folder: ClaudeFolder) -> tuple[str | None, float]:
    """Return the session that ended when another started with a plan, and how certain that is."""
    assert head.plan_at is not None
    apart = {id: abs(end - head.plan_at) for id, end in folder.ends.items() if id != session}
    same_plan = [id for id in apart if head.slug is not None and folder.sessions[id].head.slug == head.slug]
    at_once = [id for id, time in apart.items() if time <= _AT_ONCE]
    for ids, confidence in ((set(same_plan) & set(at_once), 0.95), (at_once, 0.8)):
        if ids:
            return min(ids, key=lambda id: apart[id]), confidence
    earlier = [(files.head.started_at, id) for id in same_plan if (files := folder.sessions[id]).head.started_at]
    earlier = [(at, id) for at, id in earlier if at is not None and at < head.plan_at]
    return (max(earlier)[1], 0.8) if earlier else (head.process_session, 0.6)


def clear_origin(session: str, folder: ClaudeFolder, around: Surroundings, clears: Iterable[Clear]) -> m.Origin | None:
    """Return the origin of a session that started with a cleared context, or as a fork of such a session."""
    files = folder.sessions.get(session)
    if files is None or (files.head.clear_at is None and files.head.plan_at is None):
        return None
    if (copied := copied_start(session, folder, around)) is not None:
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
    """Add the clears of a session after the messages they came after."""
    for clear in clears:
        if clear.has_plan:
            approve_plan_at(builder, clear.at)
        builder.events.context_clears.append(
            m.ContextClear(
                after_message_index=builder.last_before(clear.at + _AT_ONCE if clear.has_plan else clear.at),
                timestamp=clear.at,
                evidence="history" if clear.evidence == "history" else "session",
                confidence=clear.confidence,
                next_session=clear.next_session,
            )
        )
