"""Compares facts that only some recordings include: tokens, origins, resumes, attached texts and first prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..core import model as m
from ..core.session import Session

_TITLE_LENGTH = 60
"""The number of characters of a first prompt that are compared with a title."""


def wrong_facts(truth: dict[str, Any], sessions: list[Session]) -> list[str]:
    """Return the differences between the expected facts and what was read."""
    by_id = {session.info.id: session for session in sessions}
    return [
        *_wrong_usage(truth.get("usage", {}), by_id),
        *_wrong_origins(truth.get("origins", {}), by_id),
        *_made_up_resumes(truth.get("resumes"), sessions),
        *_lost_texts(truth.get("attachment_texts", ()), sessions),
        *_missing_titles(truth.get("first_prompts", ()), sessions),
    ]


def _wrong_usage(stated: dict[str, dict[str, int]], sessions: dict[str, Session]) -> Iterator[str]:
    """Compare input tokens. A file may have the tokens of each reply, or only their sum."""
    for id, usage in stated.items():
        session = sessions.get(id)
        found: set[int] = set()
        if session is not None:
            own = (message.usage for message in session.messages if not message.inherited)
            found = {_input_of(own), _input_of([session.info.usage])}
        if usage["input_tokens"] not in found:
            yield f"input tokens of {id}: {sorted(found)} instead of {usage['input_tokens']}"


def _input_of(usages: Iterable[m.Usage | None]) -> int:
    return sum((usage.input or 0) + (usage.cache_read or 0) for usage in usages if usage is not None)


def _wrong_origins(stated: dict[str, str], sessions: dict[str, Session]) -> Iterator[str]:
    for id, origin in stated.items():
        found = sessions[id].info.origin.session if id in sessions else None
        if found != origin:
            yield f"origin of {id}: {found} instead of {origin}"


def _made_up_resumes(most: int | None, sessions: list[Session]) -> Iterator[str]:
    found = sum(len(session.resumes) for session in sessions)
    if most is not None and found > most:
        yield f"resumes: {found} instead of at most {most}"


def _lost_texts(stated: Iterable[str], sessions: list[Session]) -> Iterator[str]:
    read = b"".join(msgspec.json.encode(session.messages) for session in sessions)
    for text in stated:
        if msgspec.json.encode(text)[1:-1] not in read:
            yield f"the text {text!r} is in no message"


def _missing_titles(stated: Iterable[str], sessions: list[Session]) -> Iterator[str]:
    titles = {(session.info.title or "")[:_TITLE_LENGTH] for session in sessions}
    for prompt in stated:
        if prompt[:_TITLE_LENGTH] not in titles:
            yield f"no session has the title {prompt!r}"
