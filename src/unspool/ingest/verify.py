"""Verifies a store, and compares archived files with the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..agents import AGENTS
from ..core.errors import NotFoundError, UnspoolError
from ..store import Store
from ..store.integrity import TWICE, Counts, DataFault, StoreIntegrity, without_overlaps
from ..store.rows import FileRow
from .scan import LogStat, stat_log


class StoreVerification(msgspec.Struct, kw_only=True):
    """The result of verifying a store."""

    counts: Counts
    compared: int = 0
    """Chunks that were compared with the file on disk."""
    faults: list[DataFault] = []

    @property
    def is_intact(self) -> bool:
        """Whether no damage was found, or all of it was repaired."""
        return all(fault.repaired_from for fault in self.faults)


class Verifier:
    """Verifies one store, in steps, so that it can run in idle times."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._integrity = StoreIntegrity(store)
        self.found = StoreVerification(counts=self._integrity.counts)

    def run(self) -> StoreVerification:
        """Verify everything."""
        self.found.faults += [DataFault(part="database", reason=why) for why in self._store.database.check()]
        for _ in self.steps():
            pass
        return self.found

    def steps(self) -> Iterator[None]:
        """Verify everything but the database itself: one session, or one chunk of a file, per step."""
        for ids, check in (
            (self._integrity.session_ids, self._check_session),
            (self._integrity.file_ids, self._check_file),
        ):
            with self._noting_errors():
                for id in ids():
                    with self._noting_errors():
                        yield from check(id)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Record an error of the database as a fault, so that the next session or file can be verified."""
        try:
            yield
        except UnspoolError as error:
            fault = DataFault(part="database", reason=str(error))
            if fault not in self.found.faults:
                self.found.faults.append(fault)

    def _check_session(self, id: int) -> Iterator[None]:
        self.found.faults += self._integrity.check_session(id)
        yield

    def _check_file(self, id: int) -> Iterator[None]:
        """Check a file as it is archived now: bytes that are appended between two steps are not checked."""
        with self._store.snapshot():
            row, chunks = row_of(self._store, id), self._integrity.chunks(id)
        if row is None:
            return
        end = 0
        in_order = set(without_overlaps(chunks))
        for start, length in chunks:
            if start > end:
                self._add(self._integrity.bytes_fault(id, end, start - end, "missing"))
            elif (start, length) not in in_order:
                self._add(self._integrity.bytes_fault(id, start, min(length, end - start), TWICE))
            end = max(end, start + length)
        if end < row.archived_size:
            self._add(self._integrity.bytes_fault(id, end, row.archived_size - end, "missing"))
        for start, length in chunks:
            self._add(self._check_chunk(id, start, length))
            yield

    def _check_chunk(self, id: int, start: int, length: int) -> DataFault | None:
        """Check a chunk, and compare it with the file on disk if that is unchanged; returns its fault, if any."""
        while row_of(self._store, id) is not None:
            disk = FileOnDisk(self._store, id)
            on_disk = disk.read_unchanged(start, length)
            fault = self._integrity.check_chunk(id, start, length, on_disk)
            now = length if fault is None else dict(self._integrity.chunks(id)).get(start, length)
            if now == length:
                self.found.compared += on_disk is not None
                return fault
            # A sync has replaced the chunk by a longer one.
            length = now
        return None

    def _add(self, fault: DataFault | None) -> None:
        if fault is not None:
            self.found.faults.append(fault)


class FileOnDisk:
    """An archived file, as it currently is on the disk of this machine."""

    def __init__(self, store: Store, file: int) -> None:
        archived = row_of(store, file)
        row = store.files.at(archived.path) if archived is not None else None
        self.row = row if row is not None and row.id == file else None
        """None if the file is of another machine, or a version that was replaced."""
        self._stat = _stat_of(self.row)

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._stat is not None

    def is_unchanged(self) -> bool:
        """Whether it is still the one that was archived, judging by its current size, times and inode."""
        row, now = self.row, _stat_of(self.row)
        known = (row.device, row.inode, row.size, row.changed) if row is not None else None
        return now is not None and known == (now.device, now.inode, now.size, now.changed)

    def read(self, start: int, length: int) -> bytes | None:
        """Return `length` bytes from `start`; None if the file does not have them any more."""
        if self._stat is None:
            return None
        try:
            with self._stat.source.open() as file:
                file.seek(start)
                data = file.read(length)
        except OSError:
            return None
        return data if len(data) == length else None

    def read_unchanged(self, start: int, length: int) -> bytes | None:
        """Return the same bytes; None if the file has changed since it was archived."""
        data = self.read(start, length) if self.is_unchanged() else None
        # It may have changed while it was read.
        return data if self.is_unchanged() else None


def row_of(store: Store, file: int) -> FileRow | None:
    """Return the row of an archived file; None if its session was forgotten in the meantime."""
    try:
        return store.files.get(file)
    except NotFoundError:
        return None


def _stat_of(row: FileRow | None) -> LogStat | None:
    if row is None or row.gone_at is not None or row.agent not in AGENTS:
        return None
    try:
        return stat_log(row.agent, Path(row.path))
    except OSError:
        return None
