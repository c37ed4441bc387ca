"""Blocks of messages as they are stored: a JSON list of up to 64 messages, compressed.

A block is first compressed on its own. Once its session has not changed for a while, each half is packed against its
base, the archived bytes that its messages were read from, because these contain nearly all of the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from ..core import model as m
from ..core import typed_json
from ..core.errors import DamagedError
from .chunks import Chunks, quiet_file
from .compression import pack, pack_tightly, unpack, unpack_against
from .database import Database, Row

BLOCK = 64
"""The largest number of messages in a block."""
_TIGHT = 32
"""The same for blocks that are packed as small as possible."""
_FETCHED = 8
"""The number of blocks that are fetched together."""
_LONGEST_BASE = 4 << 20
"""The base is unpacked even to read a single message. If it would be longer, a block is packed on its own."""
_NO_LIMIT = 2**53
_COLUMNS = "session, first, count, data, base, base_start, base_length"


class Base(NamedTuple):
    """Some bytes of an archived file."""

    file: int
    start: int
    length: int


class Block(NamedTuple):
    """A block as it is stored."""

    session: int
    first: int
    length: int
    """The number of messages."""
    data: bytes
    base: Base | None


class _Located(msgspec.Struct):
    """The only field of a message that is needed to find the base."""

    source: m.Source


_SOURCES = typed_json.decoder(list[_Located])
_RAW_LIST = typed_json.decoder(list[msgspec.Raw])


class Blocks:
    """The blocks of all sessions."""

    def __init__(self, database: Database, chunks: Chunks) -> None:
        self._database = database
        self._chunks = chunks

    # --- reading ---

    def in_range(self, session: int, first: int, last: int | None) -> Iterator[tuple[Block, bytes | None]]:
        """The blocks with messages in a range, each with its JSON; None instead of the JSON if it is damaged."""
        condition = "first > ? AND first + count > ? AND first < ? ORDER BY first"
        yield from self._select(session, condition, first - BLOCK, first, _NO_LIMIT if last is None else last)

    def each(self, session: int, start: int = 0, *, backwards: bool = False) -> Iterator[tuple[Block, bytes | None]]:
        """The block with message `start` and all later, or earlier, blocks. Only a few are in memory at a time."""
        direction, order = ("<", "DESC") if backwards else (">", "ASC")
        condition = f"first {direction} ? AND first + count > ? ORDER BY first {order} LIMIT ?"
        position, end = (start + 1, -1) if backwards else (start - BLOCK, start)
        while found := self._select(session, condition, position, end, _FETCHED):
            yield from found
            if len(found) < _FETCHED:
                return
            last = found[-1][0]
            # By message: maintenance may have split the block in the meantime.
            position = last.first if backwards else last.first + last.length - 1

    def _select(self, session: int, condition: str, *values: object) -> list[tuple[Block, bytes | None]]:
        # In one snapshot: otherwise, a base could be removed after the block that needs it was read.
        with self._database.snapshot():
            sql = f"SELECT {_COLUMNS} FROM block WHERE session = ? AND {condition}"
            blocks = [_block(row) for row in self._database.rows(sql, session, *values)]
            return [(block, self._intact(block)) for block in blocks]

    def _intact(self, block: Block) -> bytes | None:
        try:
            return self.json(block)
        except DamagedError:
            return None

    def json(self, block: Block) -> bytes:
        """The messages of a block as JSON. Raises DamagedError."""
        return unpack(block.data) if block.base is None else unpack_against(block.data, self._chunks.span(*block.base))

    def one(self, session: int, first: int) -> Block | None:
        """A block by its first message."""
        found = self._database.rows(f"SELECT {_COLUMNS} FROM block WHERE session = ? AND first = ?", session, first)
        return _block(found[0]) if found else None

    def packed(self, session: int) -> Iterator[Block]:
        """The blocks of a session, each compressed on its own; damaged ones stay as they are."""
        for block, json in self.each(session):
            yield block if block.base is None or json is None else block._replace(data=pack(json), base=None)

    # --- writing ---

    def add(self, session: int, blocks: Iterable[tuple[int, int, bytes]]) -> None:
        """Add blocks, each compressed on its own: first message, number of messages, data."""
        rows = [(session, *block) for block in blocks]
        self._database.insert("block", "session, first, count, data", rows)

    def remove_from(self, session: int, first: int) -> None:
        """Remove the blocks from message `first` on."""
        self._database.rows("DELETE FROM block WHERE session = ? AND first >= ?", session, first)

    # --- packing against archived bytes ---

    def loose(self, quiet_since: int | None) -> dict[int, list[int]]:
        """The first messages of blocks that could be packed tighter, by session, unless its files changed recently."""
        condition, values = quiet_file(self._database, quiet_since)
        sql = f"""SELECT block.session, block.first FROM block WHERE block.tight = 0 AND NOT EXISTS (
            SELECT 1 FROM session_file JOIN file ON file.id = session_file.file
            WHERE session_file.session = block.session AND NOT ({condition})) ORDER BY block.session, block.first"""
        found: dict[int, list[int]] = {}
        for session, first in self._database.rows(sql, *values):
            found.setdefault(int(session), []).append(int(first))
        return found

    def tighten(self, session: int, first: int, files: list[int | None]) -> None:
        """Pack a block as small as possible. Call it in a transaction.

        `files` are the ids of the session's files, in the order in which its messages refer to them. The block is split
        in two: a message is read faster, and several small rows fit into a page of the database.
        """
        block = self.one(session, first)
        if block is None or block.base is not None:
            return
        messages = _RAW_LIST.decode(unpack(block.data))
        packed = [
            self._packed_tightly(block, number, messages[number : number + _TIGHT], files)
            for number in range(0, len(messages), _TIGHT)
        ]
        if sum(len(part.data) for part in packed) >= len(block.data):
            packed = [block]
        self._database.rows("DELETE FROM block WHERE session = ? AND first = ?", session, first)
        columns = f"{_COLUMNS}, tight"
        self._database.insert("block", columns, [(*part[:-1], *(part.base or (None,) * 3), 1) for part in packed])

    def _packed_tightly(self, block: Block, number: int, messages: list[msgspec.Raw], files: list[int | None]) -> Block:
        """Pack some messages of a block, which begin at `number` in it, as a separate block."""
        json = b"[" + b",".join(messages) + b"]"
        base = _base_of(json, files)
        known = b""
        if base is not None:
            with suppress(DamagedError):
                known = self._chunks.span(*base)
        data = pack_tightly(json, known)
        return Block(block.session, block.first + number, len(messages), data, base if known else None)

    def detach(self, file: int, *, keeps_damaged: bool = False) -> None:
        """Repack the blocks that depend on a file without a base, before it is deleted.

        With `keeps_damaged`, those that cannot be read stay as they are, because their base may be repaired.
        """
        for session, first in self._database.rows("SELECT session, first FROM block WHERE base = ?", file):
            block = self.one(session, first)
            assert block is not None
            json = self._intact(block)
            if json is None and keeps_damaged:
                continue
            data = block.data if json is None else pack(json)
            sql = """UPDATE block SET data = ?, base = NULL, base_start = NULL, base_length = NULL, tight = 0
                WHERE session = ? AND first = ?"""
            self._database.rows(sql, data, session, first)


def _block(row: Row) -> Block:
    session, first, count, data, *base = row
    return Block(session, first, count, bytes(data), None if base[0] is None else Base(*base))


def _base_of(json: bytes, files: list[int | None]) -> Base | None:
    """The part of an archived file from which most messages of a block were read; None if it is unknown or too long."""
    by_file: dict[int, list[m.Source]] = {}
    for message in _SOURCES.decode(json):
        by_file.setdefault(message.source.file, []).append(message.source)
    number, sources = max(by_file.items(), key=lambda item: len(item[1]))
    file = files[number] if number < len(files) else None
    start = min(source.offset for source in sources)
    length = max(source.offset + source.length for source in sources) - start
    return Base(file, start, length) if file is not None and 0 < length <= _LONGEST_BASE else None
