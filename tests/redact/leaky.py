"""A home with a session full of secrets, and what is left of them in something that was made of it."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from unspool.core.errors import DamagedError
from unspool.store.compression import unpack
from unspool.testing import ClaudeLog, call

from .planted import Planted, planted

PLANTED = [one for one in planted(1, seed=3) if "\x1b" not in one.text]
_LONG_LINE = 24
"""A line of a private key that is not its first or last one."""


def write_leaky_home(home: Path) -> Path:
    """A session with secrets in prompts, answers, inputs and outputs, some of them in JSON in JSON."""
    log = ClaudeLog("leaky")
    for number, one in enumerate(PLANTED):
        log.user(f"Use this: {one.text}")
        log.model(call(f"call-{number}", command=f"echo '{one.text}'"))
        log.result(f"call-{number}", json.dumps({"printed": json.dumps({"line": one.text})}))
    log.write(home)
    return home


def _traces(one: Planted) -> list[str]:
    """What of a secret must not be anywhere: all of it, or each line of a key."""
    lines = [line.split("\t")[-1] for line in one.secret.split("\n")]
    return [line for line in lines if len(line) > _LONG_LINE and "-----" not in line] if len(lines) > 1 else lines


def leaked(data: bytes) -> list[str]:
    """The kinds of secrets that are in some output, as they are, as JSON, or as JSON in a string of JSON."""
    return [one.kind for one in PLANTED if any(form.encode() in data for form in _forms(one))]


def _forms(one: Planted) -> Iterator[str]:
    for trace in _traces(one):
        once = json.dumps(trace)[1:-1]
        yield from (trace, once, json.dumps(once)[1:-1])


def contents(place: Path) -> bytes:
    """Everything in a file or a folder, uncompressed."""
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    assert files
    return b"\n".join(b"\n".join((str(path).encode(), *_uncompressed(path))) for path in files)


def _uncompressed(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    if path.suffix == ".parquet":
        from pyarrow import parquet

        # Its folders name partitions, which are no columns of it.
        rows = parquet.ParquetFile(path).read().to_pylist()
        yield json.dumps(rows, default=str).encode()
        yield "\n".join(str(value) for row in rows for value in row.values()).encode()
    elif data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)
    elif data.startswith(b"SQLite format 3"):
        yield data
        yield from _rows(path)
    else:
        yield data


def _rows(path: Path) -> Iterator[bytes]:
    """The values of all tables of a database; what the store compressed is uncompressed."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            with suppress(sqlite3.OperationalError):
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    yield from (_value(value) for value in row if isinstance(value, str | bytes))


def _value(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    with suppress(DamagedError, ValueError):
        return unpack(value)
    return value
