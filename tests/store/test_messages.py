"""The one reader of stored messages: all its ways to read give the same messages."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unspool.core import model as m
from unspool.store import Store
from unspool.store.blocks import BLOCK
from unspool.testing import ClaudeLog, GeminiLog, call

from .contents import synced

TURNS = 2 * BLOCK


def _stored(store: Store, home: Path) -> int:
    """A long session with many messages that were corrected after they had been stored."""
    log = GeminiLog()
    for number in range(TURNS):
        log.user(f"u{number}", f"question {number}")
        log.model(f"g{number}", f"draft {number}")
    for number in range(0, TURNS, 7):
        log.model(f"g{number}", f"final {number}")
    log.write(home)
    synced(store, home)
    (row,) = store.sessions.select()
    return row.id


def test_ranges_and_scans_give_the_messages_of_the_record(store: Store, tmp_path: Path) -> None:
    """Whatever is read, and from wherever: corrections are applied."""
    id = _stored(store, tmp_path)
    whole = store.messages.load_session(id).messages
    assert len(whole) > 3 * BLOCK
    assert "final 0" in str(msgspec.json.encode(whole[1]))
    assert store.messages.read(id, 5, 3 * BLOCK + 1) == whole[5 : 3 * BLOCK + 1]
    assert list(store.messages.scan(id, lambda _: True)) == whole
    backwards = list(store.messages.scan(id, lambda _: True, len(whole) - 1, backwards=True))
    assert sorted(backwards, key=lambda message: message.index) == whole


def test_a_scan_reads_rewritten_blocks_though_their_json_does_not_match(store: Store, tmp_path: Path) -> None:
    """Their JSON says what the messages were, not what they are."""
    id = _stored(store, tmp_path)
    rewritten = store.messages.patches(id).rewritten
    assert rewritten
    read = {message.index for message in store.messages.scan(id, lambda _: False)}
    assert set(rewritten) <= read


def test_outlines_have_the_structure_of_the_messages(store: Store, tmp_path: Path) -> None:
    """Parents, authors, calls and results; no text."""
    log = ClaudeLog()
    for number in range(BLOCK):
        log.user(f"please {number}", f"u{number}")
        log.model(call(f"c{number}", command="ls"), name=f"m{number}")
        log.result(f"c{number}", "a file", f"r{number}")
    log.write(tmp_path)
    synced(store, tmp_path)
    (row,) = store.sessions.select()
    whole = store.messages.load_session(row.id).messages
    outlines = store.messages.outlines(row.id, store.messages.patches(row.id))
    assert [(message.index, message.author, message.parent_index) for message in outlines] == [
        (message.index, message.author, message.parent_index) for message in whole
    ]
    assert [_calls(message) for message in outlines] == [_calls(message) for message in whole]
    assert not any(isinstance(block, m.Text) for message in outlines for block in message.blocks)


def _calls(message: m.Message) -> list[str]:
    calls = [block.id for block in message.blocks if isinstance(block, m.ToolCall)]
    return calls + [block.call_id for block in message.blocks if isinstance(block, m.ToolResult)]


def test_hashes_distinguish_messages(store: Store, tmp_path: Path) -> None:
    """One for each message, in order."""
    id = _stored(store, tmp_path)
    hashes = list(store.messages.hashes(id))
    assert len(hashes) == len(set(hashes)) == len(store.messages.read(id))
