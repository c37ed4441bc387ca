"""Builds sessions of Acme, as lines or as rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from unspool.testing import Log, write_file

COLUMNS = ("kind", "at", "text", "tool", "call", "given")


class AcmeLog(Log):
    """A session of Acme."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self.session = session
        self.records: list[dict[str, str]] = []
        self.add("session", folder="/home/dev/rocket")

    def add(self, kind: str, **fields: str) -> None:
        """Add a record."""
        record = {"kind": kind, "at": self.next_time(), **fields}
        self.records.append(record)
        self.record(record)

    def turn(self, prompt: str, answer: str) -> None:
        """Add a prompt and its answer."""
        self.add("prompt", text=prompt)
        self.add("answer", text=answer)

    def refusal(self, command: str, reason: str) -> None:
        """Add a command that was refused."""
        self.add("answer", text="I run it.", tool="shell", call="call-1", given=f'{{"command": "{command}"}}')
        self.add("refused", call="call-1", text=reason)

    def write(self, home: Path) -> Path:
        """One file."""
        return write_file(home / ".acme" / "talks" / f"{self.session}.acme", self.data)


class DeskLog(AcmeLog):
    """A session of Acme Desk."""

    def write(self, home: Path) -> Path:
        """Rows of a database; those of the session that are there already stay."""
        path = home / ".acme-desk" / "desk.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, at, folder, changed INTEGER)")
            database.execute(f"CREATE TABLE IF NOT EXISTS message (session, {', '.join(COLUMNS)})")
            start = self.records[0]
            row = self.session, start["at"], start["folder"], len(self.records)
            database.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", row)
            count = "SELECT count(*) FROM message WHERE session = ?"
            (known,) = database.execute(count, (self.session,)).fetchone()
            for record in self.records[1 + known :]:
                row_of = (self.session, *(record.get(name) for name in COLUMNS))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?)", row_of)
        return path / f"{self.session}.jsonl"
