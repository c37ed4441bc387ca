"""Repairs damaged data in a store.

Archived bytes are repaired from the file on disk or from another store, and removed if they are stored twice. Data that
is packed against them is then readable again. Other messages are repaired by reading the session again, from its files,
or from the archive if those are gone, or by copying it from another store. Correct bytes are recognised by the checksum
of the content, or because the file has not changed since it was archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from ..agents import AGENTS, SessionRef, SessionSource, finish
from ..core.builder import SessionBuilder
from ..core.errors import DamagedError
from ..core.model import Kind
from ..store import Store
from ..store.compression import is_content_of, pack, unpack_damaged
from ..store.filters import SessionFilter
from ..store.integrity import DIFFERS, TWICE, DataFault, StoreIntegrity, without_overlaps
from ..store.rows import REDACTED, SessionRow
from .push import copy_session
from .restore import restore_session
from .session import SessionIngest
from .sync import Syncer
from .verify import FileOnDisk, row_of
from .writer import SessionWriter

_DISK = "the file on disk"
_ARCHIVE = "the archive"
_OTHER_STORE = "the other store"
_ITSELF = "the part that is intact"
_BASE = "the repaired bytes that it is packed against"
_SYNC = "a later sync"
_OTHER_COPY = "the other copy of these bytes"


class _Candidate(NamedTuple):
    """Bytes that may be the correct ones, and whether they are known to be correct regardless of the checksum."""

    content: bytes
    source: str
    is_right: bool


class StoreRepair:
    """Repairs one store."""

    def __init__(self, store: Store, *homes: str | Path, other: Store | None = None) -> None:
        """`homes` as for a sync; `other` is a store that may have the same sessions."""
        self._store = store
        self._homes = homes
        self._other = other
        self._integrity = StoreIntegrity(store)

    def run(self, faults: list[DataFault]) -> None:
        """Repair what can be repaired, and note in each fault where the correct data came from.

        Faults of files that were forgotten since are removed.
        """
        in_files = [fault for fault in faults if fault.part == "bytes"]
        for fault in in_files:
            if fault.reason not in (DIFFERS, TWICE):
                fault.repaired_from = self._repair_bytes(fault)
        self._remove_superfluous(in_files)
        self._keep_changed_files([fault for fault in in_files if fault.reason == DIFFERS and not fault.repaired_from])
        faults[:] = [fault for fault in faults if fault.part != "bytes" or row_of(self._store, fault.id) is not None]
        damaged: dict[int, list[DataFault]] = {}
        for fault in faults:
            if fault.part not in ("bytes", "database"):
                damaged.setdefault(fault.id, []).append(fault)
        self._repair_sessions({id: found for id, found in damaged.items() if not self._is_repaired(id, found)})

    def _is_repaired(self, session: int, faults: list[DataFault]) -> bool:
        """Whether the messages of a session can be read again, because the archived bytes were repaired."""
        if self._integrity.check_session(session):
            return False
        for fault in faults:
            fault.repaired_from = _BASE
        return True

    # --- archived files ---

    def _repair_bytes(self, fault: DataFault) -> str | None:
        file, start, length = fault.id, fault.first, fault.count
        with self._store.exclusive():
            if (chunks := self._chunks_in(fault)) not in ([], [(start, length)]):
                # A sync has archived them again since the fault was found.
                return _SYNC if self._is_intact(fault, chunks) else None
            has_base = self._store.chunks.has_base(file, start)
            if has_base and self._integrity.check_chunk(file, start, length, None) is None:
                return _BASE
            damaged = self._integrity.chunk_data(file, start) or b""
            for content, source, is_right in self._candidates(fault, damaged):
                packed = pack(content)
                if len(content) == length and (is_right or is_content_of(packed, damaged)):
                    with self._store.transaction():
                        self._integrity.replace_chunk(file, start, length, packed)
                    return source
        return None

    def _chunks_in(self, fault: DataFault) -> list[tuple[int, int]]:
        """Return the start and length of the chunks that currently have some of the bytes of a fault."""
        end = fault.first + fault.count
        chunks = without_overlaps(self._integrity.chunks(fault.id))
        return [(start, length) for start, length in chunks if start < end and start + length > fault.first]

    def _is_intact(self, fault: DataFault, chunks: list[tuple[int, int]]) -> bool:
        """Whether these chunks have all bytes of a fault, each of them once, and none is damaged."""
        position = min(fault.first, chunks[0][0]) if chunks else fault.first
        for start, length in chunks:
            if start != position or self._integrity.check_chunk(fault.id, start, length, None) is not None:
                return False
            position = start + length
        return position >= fault.first + fault.count

    def _remove_superfluous(self, faults: list[DataFault]) -> None:
        """Remove chunks whose bytes are stored twice. Other faults of the same chunks are repaired by that."""
        removed: dict[tuple[int, int], str] = {}
        for fault in faults:
            if fault.reason == TWICE and (source := self._remove_chunk(fault)) is not None:
                removed[fault.id, fault.first] = source
        for fault in faults:
            fault.repaired_from = removed.get((fault.id, fault.first), fault.repaired_from)

    def _remove_chunk(self, fault: DataFault) -> str | None:
        """Remove a chunk inside others, if these are intact and have the same bytes, or those of the file on disk."""
        file, start = fault.id, fault.first
        with self._store.exclusive():
            length = dict(self._integrity.chunks(file)).get(start, 0)
            overlapping = self._chunks_in(replace(fault, count=length))
            if not length or (start, length) in overlapping:
                # It was removed or replaced since the fault was found.
                return _SYNC if self._is_intact(fault, self._chunks_in(fault)) else None
            if not self._is_intact(replace(fault, count=length), overlapping):
                return None
            first = overlapping[0][0]
            others = b"".join(self._store.chunks.one(file, begin) for begin, _ in overlapping)
            source = _OTHER_COPY
            try:
                is_same = self._store.chunks.one(file, start) == others[start - first :][:length]
            except DamagedError:
                is_same = True
            if not is_same:
                source, is_same = _DISK, FileOnDisk(self._store, file).read_unchanged(first, len(others)) == others
            with self._store.transaction():
                return source if is_same and self._integrity.remove_chunk(file, start) else None

    def _candidates(self, fault: DataFault, damaged: bytes) -> Iterator[_Candidate]:
        if (content := unpack_damaged(damaged)) is not None:
            yield _Candidate(content, _ITSELF, True)
        disk = FileOnDisk(self._store, fault.id)
        if (on_disk := disk.read(fault.first, fault.count)) is not None:
            yield _Candidate(on_disk, _DISK, disk.is_unchanged())
        row = row_of(self._store, fault.id)
        known = self._other.files.at(row.path) if self._other is not None and row is not None else None
        if self._other is not None and row is not None and known is not None:
            is_same_file = (known.archived_size, known.mark) == (row.archived_size, row.mark)
            try:
                data = b"".join(self._other.files.chunks(known.id, fault.first))
            except DamagedError:
                return
            # The chunk that contains the first byte may begin before it.
            first = fault.first - self._other.files.chunk_start(known.id, fault.first)
            yield _Candidate(data[first : first + fault.count], _OTHER_STORE, is_same_file)

    def _keep_changed_files(self, faults: list[DataFault]) -> None:
        """Sync files whose bytes changed although their size and times did not.

        Resetting the recorded time makes the sync compare their bytes.
        """
        if not faults:
            return
        with self._store.exclusive(), self._store.transaction():
            for fault in faults:
                if (row := row_of(self._store, fault.id)) is not None:
                    self._store.files.put(row._replace(changed=0))
        self._sync()
        for fault in faults:
            row = self._store.files.at(fault.name)
            fault.repaired_from = _DISK if row is not None and row.changed else None

    # --- sessions ---

    def _repair_sessions(self, damaged: dict[int, list[DataFault]]) -> None:
        own = SessionFilter(machine=self._store.machine, ids=tuple(damaged))
        rows = self._store.sessions.select(own) if damaged else []
        on_disk = [row for row in rows if self._is_on_disk(row)]
        for row in on_disk:
            self._store.sessions.read_again(row.id)
        if on_disk:
            self._sync()
        ways: list[tuple[str, list[SessionRow], Callable[[SessionRow], None]]] = [
            (_DISK, on_disk, lambda _: None),
            (_ARCHIVE, rows, self._read_archive),
            (_OTHER_STORE, rows, self._copy_from_other),
        ]
        for source, candidates, repair in ways:
            for row in candidates:
                if all(fault.repaired_from for fault in damaged[row.id]):
                    continue
                repair(row)
                if not self._integrity.check_session(row.id):
                    for fault in damaged[row.id]:
                        fault.repaired_from = source

    def _is_on_disk(self, row: SessionRow) -> bool:
        files = self._store.files.of_session(row.id)
        return bool(files) and all(FileOnDisk(self._store, file.id).exists for file in files)

    def _sync(self) -> None:
        Syncer(self._store, *self._homes).run()

    def _read_archive(self, row: SessionRow) -> None:
        """Read a session from its archived files, which are restored to a temporary folder."""
        # The session must not be changed after its files were restored.
        with TemporaryDirectory(prefix="unspool-") as folder, self._store.exclusive():
            try:
                written = restore_session(self._store, row, Path(folder))
            except DamagedError:
                return
            home = AGENTS[row.agent].open(Path(folder, AGENTS[row.agent].info.folder))
            ref = next((ref for ref in home.refs() if ref.id == row.ref), None)
            if ref is not None:
                names = {str(file.to): file.path for file in written}
                with self._store.transaction():
                    self._write(row, home, ref, names)

    def _write(self, row: SessionRow, home: SessionSource, ref: SessionRef, names: dict[str, str]) -> None:
        store = self._store
        stored = store.sessions.from_source(row.agent, ref.id)
        found: dict[str, tuple[SessionIngest, SessionWriter]] = {}

        def make(id: str, kind: Kind) -> SessionBuilder | None:
            if id not in stored:
                return None
            ingest = SessionIngest(store, row.agent, id, ref.id, stored[id])
            writer = ingest.writer(ingest.write)
            ingest.begin()
            found[id] = ingest, writer
            return ingest.builder(writer, kind)

        for builder in finish(home.read(ref, make)):
            if builder.id not in found:
                continue
            ingest, writer = found[builder.id]
            known = stored[builder.id]
            files = [file.id for file in store.files.of_session(known.id)]
            gone_at = store.sessions.gone_at(known.id)
            ingest.finish(writer.finish(), known.fingerprint, files)
            store.sessions.set_gone(known.id, gone_at)
            store.sessions.rename_files(known.id, names)

    def _copy_from_other(self, row: SessionRow) -> None:
        other = self._other
        if other is None:
            return
        known = SessionFilter(machine=other.machine, agent=row.agent, name=row.name)
        for candidate in other.sessions.select(known):
            is_intact = not StoreIntegrity(other).check_session(candidate.id)
            if other.sessions.fingerprint(candidate.id).startswith(REDACTED):
                continue
            if is_intact and candidate.messages >= row.messages:
                with self._store.exclusive(), self._store.transaction():
                    copy_session(other, self._store, candidate)
