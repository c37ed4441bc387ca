"""Shows a session as a small HTML card, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING

from .events import EVENT_KINDS
from .plural import counted

if TYPE_CHECKING:
    from .session import Session

_STYLE = "border:1px solid #8885;border-radius:6px;padding:.6em .9em;max-width:46em;font-family:sans-serif"
_DIM = "opacity:.7;font-size:.9em"


def session_card(session: Session) -> str:
    """Return title, agent, times and counts as HTML. Everything comes from a log, so everything is escaped."""
    title = escape(session.title or session.id)
    facts = " · ".join(escape(fact) for fact in _facts(session))
    counts = " · ".join(escape(count) for count in _counts(session))
    return (
        f'<div style="{_STYLE}"><div style="font-weight:600">{title}</div>'
        f'<div style="{_DIM}">{facts}</div><div style="{_DIM}">{counts}</div></div>'
    )


def _facts(session: Session) -> Iterator[str]:
    info = session.info
    yield " ".join((info.agent, *info.versions[-1:]))
    yield info.id
    if info.project is not None:
        yield info.project.path or info.project.name
    if info.started_at is not None and info.ended_at is not None:
        yield f"{_minute(info.started_at)} – {_minute(info.ended_at)} UTC"
    yield info.status


def _counts(session: Session) -> Iterator[str]:
    yield counted(len(session), "message")
    yield counted(sum(1 for _ in session.prompts()), "prompt")
    yield counted(sum(1 for _ in session.tool_calls()), "tool call")
    for kind in EVENT_KINDS:
        if count := len(kind.of(session)):
            yield f"{count:,} {kind.name if count == 1 else kind.plural}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
