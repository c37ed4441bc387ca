"""Verifies a store, and compares archived files with the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..agents import AGENTS
from ..core.errors import UnspoolError
from ..store import Store
from ..store.integrity import Counts, DataFault, StoreIntegrity
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
        disk = FileOnDisk(self._store, id)
        expected = 0
        for start, length in self._integrity.chunks(id):
            if start != expected:
                self._add(self._integrity.bytes_fault(id, expected, start - expected, "missing"))
            expected = start + length
            on_disk = disk.read(start, length) if disk.is_unchanged else None
            self.found.compared += on_disk is not None
            self._add(self._integrity.check_chunk(id, start, length, on_disk))
            yield
        kept = self._store.files.get(id).kept
        if expected < kept:
            self._add(self._integrity.bytes_fault(id, expected, kept - expected, "missing"))

    def _add(self, fault: DataFault | None) -> None:
        if fault is not None:
            self.found.faults.append(fault)


class FileOnDisk:
    """An archived file, as it currently is on the disk of this machine."""

    def __init__(self, store: Store, file: int) -> None:
        row = store.files.at(store.files.get(file).path)
        self.row = row if row is not None and row.id == file else None
        """None if the file is of another machine, or a version that was replaced."""
        self._now = _stat_of(self.row) if self.row is not None else None

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._now is not None

    @property
    def is_unchanged(self) -> bool:
        """Whether it is still the one that was archived, judging by its size, times and inode."""
        row, now = self.row, self._now
        known = (row.device, row.inode, row.size, row.changed) if row is not None else None
        return now is not None and known == (now.device, now.inode, now.size, now.changed)

    def read(self, start: int, length: int) -> bytes | None:
        """Return `length` bytes from `start`; None if the file does not have them any more."""
        if self._now is None:
            return None
        try:
            with self._now.source.open() as file:
                file.seek(start)
                data = file.read(length)
        except OSError:
            return None
        return data if len(data) == length else None


def _stat_of(row: FileRow) -> LogStat | None:
    if row.gone_at is not None or row.agent not in AGENTS:
        return None
    try:
        return stat_log(row.agent, Path(row.path))
    except OSError:
        return None
