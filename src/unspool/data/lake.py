"""A lake: Delta tables that are kept up to date with a store. Decision 18 explains how it stays consistent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import BusyError, NotFoundError, UnspoolError, UsageError
from ..redact import Redactor
from ..store import Store
from ..store.rows import REDACTED, SessionRow
from .extra import load_package
from .schema import TABLES, TABLES_SCHEMA, arrow_schema
from .sources import Stored
from .tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

SNAPSHOTS = "snapshots"
FINGERPRINTS = "fingerprints"
"""The table with a fingerprint of each session as it is in the lake."""
_BATCH_MESSAGES = 20_000
_BATCH_SESSIONS = 500
_REMOVED_AT_ONCE = 1000
"""How many sessions one condition names. Delta cannot parse conditions of any length."""
_WRITER = "unspool"
"""The name of our commits. Delta rejects one if the table has another one that its writer did not know."""
_SETTINGS = {"delta.logRetentionDuration": "interval 36500 days"}
"""By default, versions of a table can no longer be opened after 30 days."""
_DAMAGED = " damaged"
"""Ends the fingerprint of a session that was damaged in the store, so that the next sync writes it again."""
_IMPOSSIBLE = re.compile(r"[\x00-\x1f\x7f\[\]^|\\]|%[0-9A-Fa-f]{2}")
"""What the path of a local Delta table cannot contain: Delta Lake fails, or uses another directory."""
_EXISTS = "table already exists"
"""Part of the error if another process creates a table at the same time."""
SessionName = tuple[str, str]
"""The agent and the id of a session."""


class LakeReport(NamedTuple):
    """The number of sessions that a sync added, replaced, removed and left unchanged, and the last snapshot."""

    added: int
    replaced: int
    removed: int
    unchanged: int
    snapshot: int


class Snapshot(NamedTuple):
    """A consistent set of table versions."""

    number: int
    versions: dict[str, int]


class Lake:
    """Delta tables in a folder, or in an object store that `deltalake` can open."""

    def __init__(self, location: str, *, as_of: int | None = None) -> None:
        """`location` is a path or a URL, `as_of` the number of an earlier snapshot."""
        self._delta = load_package("deltalake")
        self._pa = load_package("pyarrow")
        if not location:
            raise UsageError("name the directory of the lake")
        self._is_local = "://" not in location
        self.location = str(Path(location).expanduser().absolute()) if self._is_local else location
        if self._is_local and (wrong := _IMPOSSIBLE.search(Path(self.location).as_posix())):
            raise UsageError(f"Delta Lake cannot use a directory with {wrong[0]!r} in its path: {self.location!r}")
        self._as_of = as_of
        self._redactor: Redactor | None = None
        self._open: dict[str, Any] = {}
        """The tables that are written, each at the version that this process knows."""

    # --- reading ---

    def snapshot(self) -> Snapshot:
        """Return the last snapshot, or the one given by `as_of`."""
        if not self._exists(SNAPSHOTS):
            raise NotFoundError(f"there is no lake at {self.location}; `unspool lake sync` creates one")
        return self._read_snapshot(self._table(SNAPSHOTS))

    def _read_snapshot(self, snapshots: Any) -> Snapshot:
        rows = self._read(SNAPSHOTS, snapshots).to_pylist()
        wrong = {row["schema"] for row in rows} - {TABLES_SCHEMA}
        if wrong:
            raise UnspoolError(
                f"the lake at {self.location} has tables of {', '.join(sorted(wrong))}, but this version writes "
                f"{TABLES_SCHEMA}; sync to another directory"
            )
        last = max(row["snapshot"] for row in rows)
        number = last if self._as_of is None else self._as_of
        found = {row["table"]: row["version"] for row in rows if row["snapshot"] == number}
        if not found:
            raise UsageError(f"the lake at {self.location} has no snapshot {number}; it has 1 to {last}")
        return Snapshot(number, found)

    def snapshots(self) -> pa.Table:
        """Return the version of each table in each snapshot, for all snapshots."""
        return self._read(SNAPSHOTS, self._table(SNAPSHOTS))

    def dataset(self, name: str) -> Any:
        """Return a table as of the snapshot, for any engine that reads Arrow datasets."""
        return self.datasets(name)[name]

    def datasets(self, *names: str) -> dict[str, Any]:
        """Return tables of the same snapshot, even if the lake is being written; all tables if none is named."""
        versions = self.snapshot().versions
        return {name: self._dataset(name, self._table(name, versions[name])) for name in names or TABLES}

    def files(self, name: str) -> list[str]:
        """Return the Parquet files of a table as of the snapshot, for engines that do not read Delta tables."""
        table = self._table(name, self.snapshot().versions[name])
        if self._is_local:
            # Delta Lake would return the path of the directory with escapes, such as %20 for a space.
            return [f"{self._uri(name)}/{path}" for path in self._dataset(name, table).files]
        found: list[str] = table.file_uris()
        return found

    def _uri(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def _exists(self, name: str) -> bool:
        try:
            return bool(self._delta.DeltaTable.is_deltatable(self._uri(name)))
        except (OSError, self._delta.exceptions.DeltaError) as error:
            raise UnspoolError(f"the lake at {self.location} cannot be opened: {_reason(error)}") from error

    def _table(self, name: str, version: int | None = None) -> Any:
        try:
            return self._delta.DeltaTable(self._uri(name), version=version)
        except (OSError, self._delta.exceptions.DeltaError) as error:
            raise UnspoolError(f"the table {self._uri(name)} cannot be opened: {_reason(error)}") from error

    def _dataset(self, name: str, table: Any) -> Any:
        files = None
        if self._is_local:
            # Arrow then opens local files itself. Otherwise, its threads call Python to open them, which ends the
            # process with an error if Python is already exiting.
            fs = load_package("pyarrow.fs")
            files = fs.SubTreeFileSystem(self._uri(name), fs.LocalFileSystem())
        return table.to_pyarrow_dataset(filesystem=files)

    def _read(self, name: str, table: Any) -> pa.Table:
        try:
            found: pa.Table = self._dataset(name, table).to_table()
        except (OSError, self._pa.ArrowException) as error:
            raise UnspoolError(f"the table {self._uri(name)} cannot be read: {_reason(error)}") from error
        return found

    # --- writing ---

    def sync(self, store: Store, redactor: Redactor | None = None) -> LakeReport:
        """Bring the lake up to date with a store. Each batch of sessions becomes visible as a whole or not at all.

        With a redactor, sessions are written without their secrets. A lake has either redacted or complete sessions,
        never both, because earlier snapshots keep what was written before. Raises BusyError if another process writes
        to the lake at the same time.
        """
        self._redactor = redactor
        try:
            return self._sync(store)
        except self._delta.exceptions.CommitFailedError as error:
            raise BusyError(f"another process has written to the lake at {self.location}; sync again") from error
        except (OSError, self._delta.exceptions.DeltaError) as error:
            if _EXISTS in str(error):
                raise BusyError(f"another process has created the lake at {self.location}; sync again") from error
            raise UnspoolError(f"the lake at {self.location} cannot be written: {_reason(error)}") from error

    def _sync(self, store: Store) -> LakeReport:
        before = self._prepare()
        known = self._known()
        self._check_kind(known)
        wanted = self._wanted(store)
        # A session may change before it is written. Its fingerprint must then be the old one, so that the next sync
        # writes it again.
        marks = {name: self._fingerprint(store, row) for name, row in wanted.items()}
        changed = [row for name, row in wanted.items() if known.get(name) != marks[name]]
        gone = sorted(known.keys() - wanted.keys())
        number = before.number
        for batch in _batches(changed):
            self._remove([(row.agent, row.name) for row in batch if (row.agent, row.name) in known])
            self._write(store, batch, marks)
            number = self._publish(number)
        if gone:
            self._remove(gone)
            number = self._publish(number)
        added = sum((row.agent, row.name) not in known for row in changed)
        unchanged = len(wanted) - len(changed)
        return LakeReport(added, len(changed) - added, len(gone), unchanged, number)

    def _check_kind(self, known: dict[SessionName, str]) -> None:
        complete = [name for name, mark in known.items() if not mark.startswith(REDACTED)]
        if self._redactor is not None and complete:
            raise UsageError(
                f"the lake at {self.location} has sessions that are not redacted, also in earlier snapshots; "
                "sync to another directory with --redact"
            )
        if self._redactor is None and len(complete) < len(known):
            raise UsageError(
                f"the lake at {self.location} has redacted sessions; add --redact, or sync to another directory"
            )

    def _prepare(self) -> Snapshot:
        """Create the tables, or restore them to the last snapshot if an interrupted sync has written to them."""
        if not self._exists(SNAPSHOTS):
            self._create()
        snapshots = self._table(SNAPSHOTS)
        found = self._read_snapshot(snapshots)
        self._open = {SNAPSHOTS: snapshots} | {name: self._table(name) for name in found.versions}
        for name, version in found.versions.items():
            if self._open[name].version() != version:
                self._open[name].restore(version, commit_properties=self._commit())
        return found

    def _create(self) -> None:
        for name, schema in self._schemas():
            if not self._exists(name):
                partitions = ["agent"] if name in TABLES else None
                self._delta.DeltaTable.create(
                    self._uri(name), schema=schema, partition_by=partitions, configuration=_SETTINGS
                )
            elif self._dataset(name, self._table(name)).count_rows():
                self._table(name).delete(commit_properties=self._commit())
        self._open = {name: self._table(name) for name, _ in self._schemas()}
        self._publish(0)

    def _schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        arrow = self._pa
        yield FINGERPRINTS, arrow.schema([(name, arrow.string()) for name in ("agent", "session", "fingerprint")])
        for name in TABLES:
            yield name, arrow_schema(name, plain=True).remove_metadata()

    def _known(self) -> dict[SessionName, str]:
        rows = self._read(FINGERPRINTS, self._open[FINGERPRINTS]).to_pylist()
        return {(row["agent"], row["session"]): row["fingerprint"] for row in rows}

    def _wanted(self, store: Store) -> dict[SessionName, SessionRow]:
        """Return the sessions of a store by name. If several machines have a copy, the most recent one is used."""
        found: dict[SessionName, SessionRow] = {}
        for row in store.sessions.select():
            found.setdefault((row.agent, row.name), row)
        return found

    def _fingerprint(self, store: Store, row: SessionRow) -> str:
        """Return a hash of everything that the store has about a session, preceded by the redaction rules, if any."""
        digest = hashlib.blake2b(digest_size=16)
        for part in store.messages.packed_head(row.id):
            digest.update(part)
        for file in store.files.of_session(row.id):
            digest.update(f" {file.id}".encode())
        kind = f"{REDACTED}{self._redactor.rules} " if self._redactor is not None else ""
        return kind + digest.hexdigest()

    def _write(self, store: Store, rows: list[SessionRow], marks: dict[SessionName, str]) -> None:
        made: dict[str, list[pa.RecordBatch]] = {}
        for name, batch in Tables([Stored(store, (row.id for row in rows), self._redactor)]).batches():
            made.setdefault(name, []).append(batch)
        for name, batches in made.items():
            self._append(name, self._pa.Table.from_batches(batches).cast(arrow_schema(name, plain=True)))
        damaged = {damage.session for damage in store.messages.damaged}
        columns = {
            "agent": [row.agent for row in rows],
            "session": [row.name for row in rows],
            "fingerprint": [marks[row.agent, row.name] + _DAMAGED * (row.id in damaged) for row in rows],
        }
        self._append(FINGERPRINTS, self._pa.table(columns))

    def _append(self, name: str, table: pa.Table) -> None:
        # Only the first snapshot is written before its table exists, and only one process may write it.
        target, mode = (self._open[name], "append") if name in self._open else (self._uri(name), "error")
        properties = self._delta.WriterProperties(compression="ZSTD")
        self._delta.write_deltalake(
            target, table, mode=mode, writer_properties=properties, commit_properties=self._commit()
        )

    def _commit(self) -> Any:
        return self._delta.CommitProperties(app_transactions=[self._delta.Transaction(_WRITER, 1)])

    def _remove(self, sessions: list[SessionName]) -> None:
        for start in range(0, len(sessions), _REMOVED_AT_ONCE):
            by_agent: dict[str, list[str]] = {}
            for agent, session in sessions[start : start + _REMOVED_AT_ONCE]:
                by_agent.setdefault(agent, []).append(_quoted(session))
            condition = " OR ".join(
                f"(agent = {_quoted(agent)} AND session IN ({', '.join(names)}))" for agent, names in by_agent.items()
            )
            for name in (*TABLES, FINGERPRINTS):
                self._open[name].delete(condition, commit_properties=self._commit())

    def _publish(self, number: int) -> int:
        """Make everything that was written visible as a new snapshot, in one commit; returns its number."""
        names = [name for name, _ in self._schemas()]
        rows = {
            "snapshot": [number + 1] * len(names),
            "at": [datetime.now(UTC)] * len(names),
            "schema": [TABLES_SCHEMA] * len(names),
            "table": names,
            # Not the last versions, which another process may have written.
            "version": [self._open[name].version() for name in names],
        }
        self._append(SNAPSHOTS, self._pa.table(rows))
        return number + 1


def _reason(error: Exception) -> str:
    """Return the message of an error in one line. Those of Delta Lake have several."""
    return " ".join(str(error).split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _batches(rows: list[SessionRow]) -> Iterator[list[SessionRow]]:
    """Group sessions into batches that are written together."""
    batch: list[SessionRow] = []
    messages = 0
    for row in rows:
        if batch and (messages + row.messages > _BATCH_MESSAGES or len(batch) >= _BATCH_SESSIONS):
            yield batch
            batch, messages = [], 0
        batch.append(row)
        messages += row.messages
    if batch:
        yield batch
