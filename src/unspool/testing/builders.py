"""Builds logs line by line, for cases that no recording covers.

`Log` is the base class of the builders for all agents, in this package and in others. Its times and ids are the same
in every run.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..core import model as m
from ..core.session import Session
from ..library import Library

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
"""The time just before the first line of every log."""


class Log(ABC):
    """A log with one JSON record per line. A subclass adds a method for each kind of record, and `write`."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._seconds = 0

    def record(self, record: dict[str, Any]) -> None:
        """Add a record."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def raw(self, line: bytes) -> None:
        """Add a line as it is, valid or not."""
        self.lines.append(line)

    def next_time(self) -> str:
        """Return a time one second after the previous one."""
        self._seconds += 1
        return (START + timedelta(seconds=self._seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def id(self, name: str) -> str:
        """Return a UUID that is always the same for a name."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))

    @property
    def data(self) -> bytes:
        """The log as bytes."""
        return b"".join(line + b"\n" for line in self.lines)

    @abstractmethod
    def write(self, home: Path) -> Path:
        """Write the log to the agent's folder in a home directory, and return its path."""

    def load(self, home: Path, **options: Any) -> Session:
        """Write the log and read it; options as for `Library.load_all`."""
        return load(self.write(home), **options)


def load(path: Path, **options: Any) -> Session:
    """Read the session of a file; options as for `Library.load_all`."""
    library = Library(path)
    return next(library.load_all(library.ref_of(path), **options))


def texts(session: Session, chosen: Iterable[int | m.Message] | None = None) -> list[str]:
    """Return the texts of messages, given as objects or indices; by default, of all messages."""
    if chosen is None:
        chosen = session.messages
    messages = [session.messages[item] if isinstance(item, int) else item for item in chosen]
    return [block.text for message in messages for block in message.blocks if hasattr(block, "text") and block.text]


def write_file(path: Path, data: bytes) -> Path:
    """Write a file, with the folders above it, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
