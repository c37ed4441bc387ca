"""The output of `--json`: one JSON object per line, each with its `type`.

Fields have the same names as in the JSON API: a session is `agent` and `name`, also inside other objects.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ...agents import Peek, SessionRef
from ...core import model as m
from ...io.files import name_of

if TYPE_CHECKING:
    from ...core.session import Session
    from ...store.rows import SessionRow


class SessionName(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The name of a session."""

    agent: str
    name: str
    """The agent's own id of the session."""


class SessionItem(SessionName, kw_only=True, omit_defaults=True):
    """A session in a list."""

    kind: m.Kind
    title: str | None
    project: str | None
    """The path of the agent's working directory."""
    started_at: datetime | None
    ended_at: datetime | None
    parent: str | None = None
    """For a sub-agent: the session that started it."""
    gone_at: datetime | None = None
    """When its files were found to be missing: only the store still has it."""
    deleted_at: datetime | None = None
    """When its agent may delete it: at its first start after this time."""
    version: str | None = None
    """The last version of the agent that wrote to it."""
    size: int | None = None
    """The size of its files, in bytes."""
    path: str | None = None
    """Its first file."""
    archived: bool = False
    """The agent has archived it."""
    no_conversation: bool = False
    """A file that contains only notes."""
    counts: dict[str, int] = {}
    """The number of events by kind, if they were counted."""
    tokens: int | None = None
    """All tokens without those of sub-agents, if requested and the session is in the store."""
    cost_usd: float | None = None
    """Their cost at the list prices of the API; left out if no price is known."""


class EventItem(msgspec.Struct, kw_only=True):
    """An event with the session it happened in."""

    session: SessionItem
    kind: str
    message_index: int | None
    timestamp: datetime | None
    text: str
    """A description for people."""
    event: Any
    """The event as in the session record."""


class WrittenFile(msgspec.Struct, kw_only=True):
    """A file that was written."""

    session: SessionName
    path: str
    size: int


class SentAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A person's answer to an agent."""

    verdict: str
    reason: str | None = None
    answers: dict[str, list[str]] = {}
    """The labels that were chosen for each question."""
    question: dict[str, Any]
    """The agent's request, as in the JSON API."""


def project_name(path: str | None) -> str:
    """Return the last part of the path of a project, for people."""
    return (path or "").replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def session_name(agent: str, name: str) -> SessionName:
    """Return the name of a session."""
    return SessionName(agent=agent, name=name)


def item_of_ref(ref: SessionRef, peek: Peek, gone_at: datetime | None = None) -> SessionItem:
    """Return a list item for a session on disk."""
    project = peek.project
    return SessionItem(
        agent=ref.agent,
        name=ref.id,
        kind=ref.kind,
        title=peek.title,
        version=peek.version,
        size=peek.size,
        project=(project.path or project.name) if project is not None else None,
        started_at=peek.started_at,
        ended_at=peek.ended_at,
        path=name_of(ref.path),
        parent=ref.parent,
        archived=ref.archived,
        gone_at=gone_at,
    )


def item_of_session(session: Session) -> SessionItem:
    """Return a list item for a loaded session."""
    info, project = session.info, session.info.project
    return SessionItem(
        agent=info.agent,
        name=info.id,
        kind=info.kind,
        title=info.title,
        parent=info.parent,
        project=(project.path or project.name) if project is not None else None,
        started_at=info.started_at,
        ended_at=info.ended_at,
    )


def item_of_row(row: SessionRow) -> SessionItem:
    """Return a list item for a stored session."""
    return SessionItem(
        agent=row.agent,
        name=row.name,
        kind=row.kind,
        title=row.title,
        project=row.project,
        parent=row.parent,
        started_at=row.started_at,
        ended_at=row.ended_at,
        gone_at=row.gone_at,
    )
