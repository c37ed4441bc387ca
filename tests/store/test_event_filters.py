"""What `is:` finds in a store is what the records say happened, for every kind of event."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import unspool
from unspool.core import model as m
from unspool.core.events import EVENT_KINDS, AtEvent, EventKind, InContext, InSubagent, Marked, OnBranch
from unspool.core.session import Session
from unspool.ingest.sync import Syncer
from unspool.library import Library
from unspool.search.query import parse
from unspool.store import Store
from unspool.store.search import QueryConditions
from unspool.testing import ClaudeLog

Found = set[tuple[str, int]]
"""Messages: the session and the index of each."""


def messages_of(session: Session, value: Any) -> set[int]:
    """The messages that a field of an event names, itself or by their tool calls."""
    if isinstance(value, int):
        return {value}
    ids = {value} if isinstance(value, str) else set(value or ())
    return {
        message.index
        for message in session.messages
        for block in message.blocks
        if isinstance(block, m.ToolCall) and block.id in ids
    }


def expected(session: Session, kind: EventKind) -> set[int]:
    """The messages of a record to which a kind of event happened."""
    everything = {message.index for message in session.messages}
    match kind.search:
        case InSubagent():
            return everything if session.info.kind == "subagent" else set()
        case OnBranch():
            return {message.index for message in session.messages if message.branch}
        case InContext(state=state):
            return {message.index for message in session.messages if message.context == state}
        case Marked(fields=fields):
            named = [getattr(event, name) for event in kind.of(session) for name in fields]
            return {index for value in named for index in messages_of(session, value)}
        case AtEvent() if kind.recorded.index is None:
            return everything if kind.of(session) else set()
        case AtEvent():
            return {index for event in kind.of(session) if (index := kind.index_of(event)) is not None}


def searched(store: Store, query: str) -> Found:
    """The messages with text that match a filter."""
    conditions = QueryConditions(parse(query).filters)
    sql = "SELECT DISTINCT session.name, part.message FROM part JOIN session ON session.id = part.session WHERE "
    return {(name, int(message)) for name, message in store.database.rows(sql + conditions.sql, *conditions.values)}


def test_each_kind_is_found(store: Store, tmp_path: Path) -> None:
    """By `is:` and `has:`, by its name and by its synonyms; and nothing else is."""
    log = ClaudeLog()
    log.user("a session with a line that is no JSON")
    log.raw(b"{broken")
    log.model("so it is")
    home = tmp_path / "home"
    shutil.copytree(unspool.samples(), home)
    log.write(home)
    assert Syncer(store, home).run().failures == {}
    library = Library(home)
    records = [record for ref in library.refs() for record in library.load_all(ref)]
    with_words = searched(store, "agent:claude agent:codex agent:gemini")
    seen = set()
    for kind in EVENT_KINDS:
        wanted = {(record.id, index) for record in records for index in expected(record, kind)} & with_words
        assert searched(store, f"is:{kind.name}") == wanted, kind.name
        assert all(searched(store, f"has:{word}") == wanted for word in kind.words), kind.name
        assert searched(store, f"-is:{kind.name}") == with_words - wanted, kind.name
        seen |= {kind.name} if wanted else set()
    assert len(seen) > 7, seen
