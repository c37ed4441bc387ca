"""Details that distinguish sessions in a list: duration, usage and the last prompt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from ..core import model as m
from ..render.plain_text import plain_line
from ..store import Store
from ..store.locate import data_folder
from ..store.rows import SessionRow
from ..store.session_facts import SessionFacts, last_prompt, session_facts
from ..usage.prices import load_prices_if_readable
from .recent_cache import RecentCache

_MOST_CACHED = 5000
_PROMPT_WIDTH = 240
_Key = tuple[str, int, str, int, datetime | None]
"""The store, and the state of the session when its last prompt was read."""


class SessionDetails(msgspec.Struct, kw_only=True):
    """The details of a session below its title in a list."""

    facts: SessionFacts
    last_prompt: str
    """The last prompt on one line; empty if there is only one, which the title usually repeats."""


_prompts: RecentCache[_Key, str] = RecentCache(_MOST_CACHED)
"""The last prompts of recently listed sessions: reading them takes longer than the rest of a list."""


def details_of(store: Store, rows: Iterable[SessionRow]) -> dict[int, SessionDetails]:
    """Return the details of sessions, by their number in the store."""
    listed = {row.id: row for row in rows}
    facts = session_facts(store.database, load_prices_if_readable(data_folder()), list(listed))
    return {id: SessionDetails(facts=facts[id], last_prompt=_cached_prompt(store, row)) for id, row in listed.items()}


def duration_of(row: SessionRow) -> float | None:
    """Return the seconds from the first to the last message of a session."""
    if row.started_at is None or row.ended_at is None:
        return None
    return (row.ended_at - row.started_at).total_seconds()


def _cached_prompt(store: Store, row: SessionRow) -> str:
    key = (store.location, row.id, row.name, row.messages, row.ended_at)
    return _prompts.get(key, lambda: _last_prompt(store, row.id))


def _last_prompt(store: Store, id: int) -> str:
    found = last_prompt(store.database, id)
    if found is None or found[1]:
        return ""
    texts = [_text(message) for message in store.messages.read(id, found[0], found[0] + 1)]
    return plain_line(" ".join(texts), _PROMPT_WIDTH)


def _text(message: m.Message) -> str:
    return next((block.text for block in message.blocks if isinstance(block, m.Text) and block.text.strip()), "")
