"""The messages of sessions: the only code that decodes stored messages.

Messages are stored in compressed blocks of JSON. Every reader has to apply the corrections that later lines of the log
made (`message_patches`), so all of them use `StoredMessages`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from ..core import model as m
from ..core import typed_json
from ..core.errors import DamagedError, NotFoundError
from ..core.session import Session
from .blocks import BLOCK, Block, Blocks
from .compression import unpack
from .damage import DamagedPart, SessionDamage
from .database import Database
from .message_patches import MessagePatches

_REWRITTEN = b'"rewritten"'
"""Occurs in the JSON of patches that replace the content of a message."""
_NULL = msgspec.Raw(b"null")
_NO_HASH = 0
_T = TypeVar("_T")
_NO_SOURCE = m.Source(0, 0, 0, 0)


class _OutlineBlock(msgspec.Struct):
    type: str
    id: str | None = None
    call_id: str | None = None


class _Outline(msgspec.Struct):
    """The fields of a message that determine what was in context. Decoding only these takes a fraction of the time."""

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
                blocks.append(m.ToolCall(block.id or "", "", _NULL))
            elif block.type == "tool_result":
                blocks.append(m.ToolResult(block.call_id or "", "", "ok"))
            elif block.type == "attachment":
                blocks.append(m.Attachment(""))
        return m.Message(
            self.index,
            self.role,
            self.author,
            blocks,
            self.source,
            parent_index=self.parent_index,
            reply=self.reply,
            usage=self.usage,
            link=self.link,
            queued=self.queued,
        )


class StoredMessages:
    """Reads and writes the messages of sessions. Methods that take `patches` load them if they are not given."""

    def __init__(self, database: Database, blocks: Blocks) -> None:
        self._database = database
        self._blocks = blocks
        self.damaged: dict[SessionDamage, None] = {}
        """The parts that could not be read so far, in the order in which they were found."""

    # --- sessions ---

    def load_session(self, id: int) -> Session:
        """The whole record of a session. Damage is listed among its problems."""
        self.damaged = {damage: None for damage in self.damaged if damage.session != id}
        head = self.load_head(id)
        head.messages = self.read(id)
        head.problems += [damage.problem() for damage in self.damaged if damage.session == id]
        return head

    def load_head(self, id: int) -> Session:
        """The record of a session without its messages."""
        try:
            return decode_head(self.packed_head(id)[0])
        except DamagedError as error:
            self._note(id, "summary")
            ((name,),) = self._database.rows("SELECT name FROM session WHERE id = ?", id)
            raise DamagedError(f"session {name}: {error}") from error

    def load_heads(self, ids: Iterable[int]) -> Iterator[Session]:
        """The records of sessions without their messages, except damaged ones."""
        for id in ids:
            with suppress(DamagedError):
                yield self.load_head(id)

    def patches(self, id: int) -> MessagePatches:
        """The corrections to the messages of a session."""
        return self._decoded_patches(id, self._patches_json(id))

    def _patches_json(self, id: int) -> bytes:
        found = self._database.rows("SELECT facts FROM session WHERE id = ?", id)
        try:
            return unpack(found[0][0]) if found and found[0][0] else b""
        except DamagedError:
            self._note(id, "corrections")
            return b""

    def _decoded_patches(self, id: int, json: bytes) -> MessagePatches:
        try:
            return _decoded_patches(json)
        except msgspec.DecodeError:
            self._note(id, "corrections")
            return MessagePatches()

    def packed_head(self, id: int) -> tuple[bytes, bytes]:
        """The record of a session without its messages, and the patches, as they are stored."""
        found = self._database.rows("SELECT head, facts FROM session WHERE id = ?", id)
        return (bytes(found[0][0]), bytes(found[0][1])) if found else (b"", b"")

    # --- messages ---

    def read(
        self, id: int, first: int = 0, last: int | None = None, *, patches: MessagePatches | None = None
    ) -> list[m.Message]:
        """The messages from `first` up to, but not including, `last`."""
        blocks = self._blocks.in_range(id, first, last)
        found = (message for block, json in blocks for message in self._in_range(block, json or b"", first, last))
        return list(self._patched(found, self.patches(id) if patches is None else patches))

    def _in_range(self, block: Block, json: bytes, first: int, last: int | None) -> Iterator[m.Message]:
        wanted = slice(max(0, first - block.first), None if last is None else max(0, last - block.first))
        try:
            # Only the messages in the range are decoded.
            decode = typed_json.decoder(m.Message).decode
            yield from [decode(raw) for raw in typed_json.decoder(list[msgspec.Raw]).decode(json)[wanted]]
        except msgspec.DecodeError:
            damaged = self._note(block.session, "messages", block.first, block.length)
            yield from list(damaged.placeholders())[wanted]

    def _note(self, id: int, part: DamagedPart, first: int = 0, count: int = 0) -> SessionDamage:
        damaged = SessionDamage(id, part, first, count)
        self.damaged[damaged] = None
        return damaged

    def read_each(self, id: int, indices: Iterable[int]) -> dict[int, m.Message]:
        """The messages with the given indices, by index."""
        patches = self.patches(id)
        wanted = dict.fromkeys(indices)
        return {index: message for index in wanted for message in self.read(id, index, index + 1, patches=patches)}

    def scan(
        self,
        id: int,
        may_match: Callable[[bytes], bool],
        start: int = 0,
        *,
        backwards: bool = False,
        most_blocks: int | None = None,
        patches: MessagePatches | None = None,
    ) -> Iterator[m.Message]:
        """Yield the messages of the block with `start` and of the following blocks, or of the preceding ones.

        Blocks that cannot match are skipped: `may_match` gets the JSON of a block, which is much cheaper than decoding
        it. A block in which a message was rewritten later is always decoded, because its JSON is out of date.
        """
        json = self._patches_json(id) if patches is None else b""
        if _REWRITTEN in json:
            patches = self._decoded_patches(id, json)
        rewritten = sorted(patches.rewritten) if patches is not None else []
        for number, (first, count, data) in enumerate(self._each(id, start, backwards=backwards)):
            if most_blocks is not None and number >= most_blocks:
                return
            if may_match(data) or bisect_left(rewritten, first) < bisect_left(rewritten, first + BLOCK):
                # Decoded only now: if no block has to be decoded, patches are not needed.
                patches = self._decoded_patches(id, json) if patches is None else patches
                found = self._decoded(typed_json.decoder(list[m.Message]), id, first, count, data)
                yield from self._patched(found or (), patches)

    def outlines(self, id: int, patches: MessagePatches) -> list[m.Message]:
        """All messages without their text: parents, authors, and the ids of calls and results."""
        messages: list[m.Message] = []
        for first, count, data in self._each(id):
            outlines = self._decoded(typed_json.decoder(list[_Outline]), id, first, count, data)
            if outlines is None:
                messages += self._note(id, "messages", first, count).placeholders()
            else:
                messages += [outline.message() for outline in outlines]
        for message in messages:
            patches.apply(message)
        return messages

    def hashes(self, id: int) -> Iterator[int]:
        """A hash of the JSON of each message, valid in this process. Patches are not included."""
        for first, count, data in self._each(id):
            found = self._decoded(typed_json.decoder(list[msgspec.Raw]), id, first, count, data)
            yield from [_NO_HASH] * count if found is None else [hash(bytes(raw)) for raw in found]

    def _each(self, id: int, start: int = 0, *, backwards: bool = False) -> Iterator[tuple[int, int, bytes]]:
        """The first index, length and JSON of each block; the JSON is empty if the block is damaged."""
        for block, json in self._blocks.each(id, start, backwards=backwards):
            if json is None:
                self._note(id, "messages", block.first, block.length)
            yield block.first, block.length, json or b""

    def _decoded(self, decoder: msgspec.json.Decoder[_T], id: int, first: int, count: int, data: bytes) -> _T | None:
        """The decoded content of a block; None if it is damaged."""
        try:
            return decoder.decode(data)
        except msgspec.DecodeError:
            self._note(id, "messages", first, count)
            return None

    @staticmethod
    def _patched(messages: Iterable[m.Message], patches: MessagePatches) -> Iterator[m.Message]:
        if patches.is_empty:
            yield from messages
            return
        for message in messages:
            patches.apply(message)
            patches.apply_span(message)
            yield message


def unpack_head(head: bytes, patches: bytes) -> tuple[Session, MessagePatches]:
    """Decode what `packed_head` returns. Damaged patches are reported as a problem of the record."""
    session = decode_head(head)
    try:
        return session, decode_patches(patches)
    except (DamagedError, msgspec.DecodeError):
        session.problems.append(SessionDamage(0, "corrections").problem())
        return session, MessagePatches()


def decode_head(head: bytes) -> Session:
    """The record of a session without its messages. Raises DamagedError."""
    if not head:
        raise NotFoundError("this session is no longer in the store; `unspool ls` lists all sessions")
    try:
        return typed_json.decoder(Session).decode(unpack(head))
    except (DamagedError, msgspec.DecodeError) as error:
        raise DamagedError(SessionDamage(0, "summary").text) from error


def _decoded_patches(json: bytes) -> MessagePatches:
    return typed_json.decoder(MessagePatches).decode(json) if json else MessagePatches()


def decode_patches(patches: bytes) -> MessagePatches:
    """The corrections to the messages of a session. Raises DamagedError and DecodeError."""
    return _decoded_patches(unpack(patches))


def decode_block(json: bytes, count: int) -> list[m.Message]:
    """The messages of a block. Raises DamagedError and DecodeError."""
    messages = typed_json.decoder(list[m.Message]).decode(json)
    if len(messages) != count:
        raise DamagedError(f"it has {len(messages)} messages instead of {count}")
    return messages
