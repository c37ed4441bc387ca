"""The messages of sessions: the only code that decodes stored messages.

Messages are stored in compressed blocks of JSON. Whatever reads them needs the corrections that later lines of the log
made (`message_patches`), so that all readers go through `StoredMessages`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ..core import model as m
from ..core.errors import NotFoundError
from ..core.session import Session
from .compression import unpack
from .database import Database
from .message_patches import MessagePatches

BLOCK = 64
"""The largest number of messages in a block."""
_FETCHED = 8
"""The number of compressed blocks that are fetched together."""
_NO_LIMIT = 2**53
_REWRITTEN = b'"rewritten"'
"""Occurs in the JSON of patches that replace the content of a message."""
_LIST = msgspec.json.Decoder(list[m.Message])
_MESSAGE = msgspec.json.Decoder(m.Message)
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_HEAD = msgspec.json.Decoder(Session)
_PATCHES = msgspec.json.Decoder(MessagePatches)
_NOTHING = msgspec.Raw(b"null")
_NO_SOURCE = m.Source(0, 0, 0, 0)


class _OutlineBlock(msgspec.Struct):
    type: str
    id: str | None = None
    call_id: str | None = None


class _Outline(msgspec.Struct):
    """The fields of a message that determine what was in context. Decoding these takes a fraction of decoding all."""

    index: int
    role: m.Role
    author: m.Author
    blocks: list[_OutlineBlock]
    parent_index: int | None = None
    reply: int | None = None
    link: m.Link = "recorded"
    queued: bool = False
    source: m.Source = _NO_SOURCE
    usage: m.Usage | None = None

    def message(self) -> m.Message:
        """A message without text."""
        blocks: list[m.Block] = []
        for block in self.blocks:
            if block.type == "tool_call":
                blocks.append(m.ToolCall(block.id or "", "", _NOTHING))
            elif block.type == "tool_result":
                blocks.append(m.ToolResult(block.call_id or "", "", "ok"))
            elif block.type == "attachment":
                blocks.append(m.Attachment(""))
        return m.Message(
            self.index, self.role, self.author, blocks, self.source, parent_index=self.parent_index, reply=self.reply,
            usage=self.usage, link=self.link, queued=self.queued,
        )  # fmt: skip


_OUTLINES = msgspec.json.Decoder(list[_Outline])


class StoredMessages:
    """Reads and writes the messages of sessions. Methods that take `patches` load them where they are not given."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- sessions ---

    def load_session(self, id: int) -> Session:
        """The whole record of a session."""
        head, patches = unpack_head(*self.packed_head(id))
        head.messages = self.read(id, patches=patches)
        return head

    def load_head(self, id: int) -> Session:
        """The record of a session without its messages."""
        return unpack_head(*self.packed_head(id))[0]

    def patches(self, id: int) -> MessagePatches:
        """The corrections to the messages of a session."""
        return _decoded_patches(self._patches_json(id))

    def _patches_json(self, id: int) -> bytes:
        found = self._database.rows("SELECT facts FROM session WHERE id = ?", id)
        return unpack(found[0][0]) if found and found[0][0] else b""

    def packed_head(self, id: int) -> tuple[bytes, bytes]:
        """The record of a session without its messages, and the patches, as they are stored."""
        found = self._database.rows("SELECT head, facts FROM session WHERE id = ?", id)
        return (bytes(found[0][0]), bytes(found[0][1])) if found else (b"", b"")

    # --- messages ---

    def read(
        self, id: int, first: int = 0, last: int | None = None, *, patches: MessagePatches | None = None
    ) -> list[m.Message]:
        """The messages in a range; the last one is not included."""
        sql = "SELECT first, data FROM block WHERE session = ? AND first > ? AND first < ? ORDER BY first"
        rows = self._database.rows(sql, id, first - BLOCK, _NO_LIMIT if last is None else last)
        return list(self._patched(_in_range(rows, first, last), self.patches(id) if patches is None else patches))

    def scan(
        self, id: int, may_match: Callable[[bytes], bool], start: int = 0, *, backwards: bool = False,
        most_blocks: int | None = None, patches: MessagePatches | None = None,
    ) -> Iterator[m.Message]:  # fmt: skip
        """Messages from one on, or back from it, block by block, skipping the blocks that cannot match.

        `may_match` sees the JSON of a block, which is much cheaper than decoding it. A block in which a message was
        rewritten later is always decoded, because its JSON is out of date.
        """
        json = self._patches_json(id) if patches is None else b""
        if _REWRITTEN in json:
            patches = _decoded_patches(json)
        rewritten = sorted(patches.rewritten) if patches is not None else []
        for number, (first, data) in enumerate(self._blocks(id, start, backwards=backwards)):
            if most_blocks is not None and number >= most_blocks:
                return
            if may_match(data) or bisect_left(rewritten, first) < bisect_left(rewritten, first + BLOCK):
                # Where no block has to be decoded, the patches need not be decoded either.
                patches = _decoded_patches(json) if patches is None else patches
                yield from self._patched(_LIST.decode(data), patches)

    def outlines(self, id: int, patches: MessagePatches) -> list[m.Message]:
        """All messages without their text: parents, authors, and the ids of calls and results."""
        messages = [outline.message() for _, data in self._blocks(id) for outline in _OUTLINES.decode(data)]
        for message in messages:
            patches.apply(message)
        return messages

    def hashes(self, id: int) -> Iterator[int]:
        """A hash of the JSON of each message, valid in this process. Patches are not part of it."""
        return (hash(bytes(raw)) for _, data in self._blocks(id) for raw in _RAW_LIST.decode(data))

    def _blocks(self, id: int, start: int = 0, *, backwards: bool = False) -> Iterator[tuple[int, bytes]]:
        """The JSON of blocks, each with the index of its first message. A few are in memory at a time."""
        direction, order = ("<", "DESC") if backwards else (">", "ASC")
        sql = f"SELECT first, data FROM block WHERE session = ? AND first {direction} ? ORDER BY first {order} LIMIT ?"
        position = start + 1 if backwards else start - BLOCK
        while rows := self._database.rows(sql, id, position, _FETCHED):
            for first, data in rows:
                yield first, unpack(data)
            if len(rows) < _FETCHED:
                return
            position = rows[-1][0]

    @staticmethod
    def _patched(messages: Iterable[m.Message], patches: MessagePatches) -> Iterator[m.Message]:
        if patches.is_empty:
            yield from messages
            return
        for message in messages:
            patches.apply(message)
            patches.apply_span(message)
            yield message

    # --- writing ---

    def add_block(self, session: int, first: int, count: int, data: bytes) -> None:
        """Add messages: a JSON list of them, compressed."""
        self._database.insert("block", "session, first, count, data", [(session, first, count, data)])

    def remove_from(self, session: int, first: int) -> None:
        """Remove the messages from one on."""
        self._database.rows("DELETE FROM block WHERE session = ? AND first >= ?", session, first)


def _in_range(rows: Iterable[Any], first: int, last: int | None) -> Iterator[m.Message]:
    for start, data in rows:
        # Only the messages in the range are decoded.
        raw = _RAW_LIST.decode(unpack(data))
        for line in raw[max(0, first - start) : None if last is None else max(0, last - start)]:
            yield _MESSAGE.decode(line)


def unpack_head(head: bytes, patches: bytes) -> tuple[Session, MessagePatches]:
    """Decode what `packed_head` returns."""
    if not head:
        raise NotFoundError("this session is no longer in the store; `unspool ls` lists what there is")
    return _HEAD.decode(unpack(head)), _PATCHES.decode(unpack(patches))


def _decoded_patches(json: bytes) -> MessagePatches:
    return _PATCHES.decode(json) if json else MessagePatches()
