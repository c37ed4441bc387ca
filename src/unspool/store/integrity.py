"""Checks that the data in a store is what was written: it verifies checksums, finds gaps and decodes.

Data stored by earlier versions has no checksums. It is decoded instead, and gets a checksum if it is intact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Literal

import msgspec

from ..core import typed_json
from ..core.errors import DamagedError
from .blocks import BLOCK, Block, Blocks
from .chunks import Chunks
from .compression import checked_frame, is_sealed, pack, unpack
from .messages import decode_block, decode_head, decode_patches
from .rows import SessionRow
from .store import Store

_EVENT = typed_json.decoder(msgspec.Raw)

DIFFERS = "the file on disk has different bytes, although its size and times match those of the archived file"
TWICE = "stored twice"
Part = Literal["summary", "corrections", "messages", "events", "bytes", "database"]


class DataFault(msgspec.Struct, kw_only=True):
    """Stored data that is not what was written."""

    part: Part
    id: int = 0
    """The row id of the session or the file; 0 for a fault of the whole database."""
    name: str = ""
    """The session, or the path of the file."""
    first: int = 0
    """The first message, or the first byte."""
    count: int = 0
    """The number of messages or bytes."""
    reason: str
    repaired_from: str | None = None
    """Where intact data was found; None if it is still damaged."""

    @property
    def text(self) -> str:
        """A sentence that says what is damaged, and where it was repaired from."""
        last = self.first + self.count - 1
        what = {
            "summary": f"Session {self.name}: its summary",
            "corrections": f"Session {self.name}: corrections to its messages",
            "messages": f"Session {self.name}: messages {self.first} to {last}",
            "events": f"Session {self.name}: its events",
            "bytes": f"{self.name}: bytes {self.first} to {last} in the archive",
            "database": "The database",
        }[self.part]
        end = f"; repaired from {self.repaired_from}" if self.repaired_from else ""
        return f"{what}: {self.reason}{end}"


class Counts(msgspec.Struct):
    """The numbers of parts that were checked."""

    sessions: int = 0
    blocks: int = 0
    """Compressed blocks of messages."""
    chunks: int = 0
    """Compressed chunks of archived files."""
    sealed: int = 0
    """Parts without a checksum that got one."""
    unsealed: int = 0
    """Parts that remain without a checksum, because the store is read-only."""


class StoreIntegrity:
    """Checks the sessions and files of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._database = store.database
        # Not those of the store: their caches could hide damage.
        self._chunks = Chunks(store.database)
        self._blocks = Blocks(store.database, self._chunks)
        self.counts = Counts()
        self._unsealed: list[tuple[str, tuple[object, ...], bytes]] = []
        """Intact data without a checksum: the statement to update it, the keys of its row, and the data."""

    # --- sessions ---

    def session_ids(self) -> list[int]:
        """The ids of all sessions."""
        return [int(id) for (id,) in self._database.rows("SELECT id FROM session ORDER BY id")]

    def check_session(self, id: int) -> list[DataFault]:
        """Return the faults of a session, without those in the archived bytes of its files."""
        with self._store.snapshot():
            row = self._store.sessions.get(id)
            checks = (self._check_row, self._check_blocks, self._check_events, self._check_texts)
            found = [fault for check in checks for fault in check(row)] if row is not None else []
        self._seal()
        self.counts.sessions += row is not None
        for fault in found:
            fault.id, fault.name = id, row.name if row is not None else ""
        return found

    def _check_row(self, row: SessionRow) -> Iterator[DataFault]:
        head, patches = self._store.messages.packed_head(row.id)
        why = self._check(head, decode_head, "session SET head = ? WHERE id = ? AND head = ?", row.id)
        if why is not None:
            yield DataFault(part="summary", reason=why)
        why = self._check(patches, decode_patches, "session SET facts = ? WHERE id = ? AND facts = ?", row.id)
        if why is not None:
            yield DataFault(part="corrections", reason=why)

    def _check_blocks(self, row: SessionRow) -> Iterator[DataFault]:
        following = 0
        sql = "SELECT first, count FROM block WHERE session = ? ORDER BY first"
        for first, count in self._database.rows(sql, row.id):
            if first != following:
                yield DataFault(part="messages", first=following, count=first - following, reason="missing")
            following = first + count
            self.counts.blocks += 1
            block = self._blocks.one(row.id, first)
            why = "missing" if block is None else self._check_block(block)
            if why is not None:
                yield DataFault(part="messages", first=first, count=count, reason=why)
        if following < row.messages:
            yield DataFault(part="messages", first=following, count=row.messages - following, reason="missing")

    def _check_block(self, block: Block) -> str | None:
        if block.base is not None:
            return self._check_based(block.data, partial(self._blocks.json, block))
        update = "block SET data = ? WHERE session = ? AND first = ? AND data = ?"
        return self._check(
            block.data, lambda data: decode_block(unpack(data), block.length), update, block.session, block.first
        )

    def _check_events(self, row: SessionRow) -> Iterator[DataFault]:
        try:
            for _, _, data in self._store.events.of_session(row.id):
                _EVENT.decode(data)
        except (DamagedError, msgspec.DecodeError) as error:
            yield DataFault(part="events", reason=str(error))

    def _check_texts(self, row: SessionRow) -> Iterator[DataFault]:
        """Find messages that an earlier version added to the search index twice."""
        sql = """SELECT DISTINCT message FROM part WHERE session = ?
            GROUP BY message, field HAVING count(*) > 1 ORDER BY message"""
        # Most of them have several calls or results, and nothing is wrong.
        several = [int(message) for (message,) in self._database.rows(sql, row.id)]
        patches = self._store.messages.patches(row.id) if several else None
        for first, group in groupby(several, lambda message: message - message % BLOCK):
            indices = set(group)
            for message in self._store.messages.read(row.id, first, first + BLOCK, patches=patches):
                if message.index in indices and self._store.texts.is_indexed_twice(row.id, message):
                    yield DataFault(part="messages", first=message.index, count=1, reason="indexed twice")

    # --- files ---

    def file_ids(self) -> list[int]:
        """The ids of all files, including replaced versions."""
        return [int(id) for (id,) in self._database.rows("SELECT id FROM file ORDER BY id")]

    def chunks(self, file: int) -> list[tuple[int, int]]:
        """The start and length of each chunk of a file."""
        sql = "SELECT start, length FROM chunk WHERE file = ? ORDER BY start"
        return [(int(start), int(length)) for start, length in self._database.rows(sql, file)]

    def check_chunk(self, file: int, start: int, length: int, on_disk: bytes | None) -> DataFault | None:
        """Check a chunk and return its fault, if any. `on_disk` are the bytes that it should have, if known."""
        data = self.chunk_data(file, start) or b""
        self.counts.chunks += 1
        read = partial(self._chunks.one, file, start)
        if self._chunks.has_base(file, start):
            why = self._check_based(data, read)
        else:
            update = "chunk SET data = ? WHERE file = ? AND start = ? AND data = ?"
            why = self._check(data, partial(_unpack_chunk, length=length, on_disk=on_disk), update, file, start)
            self._seal()
        if why is None and on_disk is not None and read() != on_disk:
            why = DIFFERS
        return None if why is None else self.bytes_fault(file, start, length, why)

    def chunk_data(self, file: int, start: int) -> bytes | None:
        """The packed data of a chunk; None if it is missing."""
        found = self._database.rows("SELECT data FROM chunk WHERE file = ? AND start = ?", file, start)
        return bytes(found[0][0]) if found else None

    def replace_chunk(self, file: int, start: int, length: int, data: bytes) -> None:
        """Replace a chunk that is damaged or missing."""
        self._database.rows("DELETE FROM chunk WHERE file = ? AND start = ?", file, start)
        self._database.insert("chunk", "file, start, length, data", [(file, start, length, data)])

    def remove_chunk(self, file: int, start: int) -> bool:
        """Remove a chunk whose bytes other chunks have, too; returns False if another one is packed against it."""
        if self._database.rows("SELECT 1 FROM chunk WHERE base = ? AND base_start = ? LIMIT 1", file, start):
            return False
        # Messages may have been packed against the bytes of the file with this chunk among them.
        self._blocks.detach(file, keeps_damaged=True)
        self._database.rows("DELETE FROM chunk WHERE file = ? AND start = ?", file, start)
        return True

    def bytes_fault(self, file: int, start: int, length: int, reason: str) -> DataFault | None:
        """Return a fault in the archived bytes of a file; None if its session was forgotten in the meantime."""
        for (path,) in self._database.rows("SELECT path FROM file WHERE id = ?", file):
            return DataFault(part="bytes", id=file, name=path, first=start, count=length, reason=reason)
        return None

    # --- checksums ---

    def _check(self, data: bytes, decode: Callable[[bytes], object], update: str, *keys: object) -> str | None:
        """Return what is wrong with packed data, if anything. Intact data without a checksum will get one."""
        try:
            if is_sealed(data):
                checked_frame(data)
            else:
                decode(data)
        except (DamagedError, msgspec.DecodeError) as error:
            return str(error)
        if is_sealed(data):
            return None
        if self._database.read_only:
            self.counts.unsealed += 1
            return None
        self._unsealed.append((update, keys, data))
        return None

    @staticmethod
    def _check_based(data: bytes, read: Callable[[], bytes]) -> str | None:
        """Return what is wrong with data that was packed against a base, or with the base, if anything."""
        try:
            checked_frame(data)
            read()
        except DamagedError as error:
            return str(error)
        return None

    def _seal(self) -> None:
        """Add checksums to intact data without one. Rows that were changed since they were read stay as they are."""
        for update, keys, data in self._unsealed:
            self._database.rows(f"UPDATE {update}", pack(unpack(data)), *keys, data)
            self.counts.sealed += 1
        self._unsealed.clear()


def without_overlaps(chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The chunks of a file, in order, without those that begin inside one before them: a sync never writes such."""
    found: list[tuple[int, int]] = []
    for start, length in chunks:
        if not found or start >= sum(found[-1]):
            found.append((start, length))
    return found


def _unpack_chunk(data: bytes, length: int, on_disk: bytes | None) -> None:
    """Check a chunk without a checksum. Raises DamagedError."""
    found = unpack(data)
    if len(found) != length:
        raise DamagedError("its length has changed")
    if on_disk is not None and found != on_disk:
        raise DamagedError("it differs from the unchanged file on disk")
