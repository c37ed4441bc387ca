"""Reading the beginning of a log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zstandard

from unspool.io.decode import Batch, RecordDecoder
from unspool.io.files import iter_records
from unspool.io.lines import Block


class Numbered(msgspec.Struct):
    """A record with a number."""

    n: int = 0


class CountingDecoder(RecordDecoder[Numbered]):
    """Counts the bytes it is given."""

    def __init__(self) -> None:
        super().__init__(Numbered, lambda value: "n" in value)
        self.bytes = 0

    def batch(self, block: Block) -> Batch[Numbered]:
        self.bytes += len(block.data)
        return super().batch(block)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(b'{"n": %d}\n' % number for number in range(10_000)))
    return path


def test_reading_stops_where_the_caller_stops(log: Path) -> None:
    """What follows is not even decoded."""
    decoder = CountingDecoder()
    assert next(record.n for record in iter_records(log, decoder, 1_000) if record.n > 150) == 151
    assert decoder.bytes < 3_000


def test_all_records_are_found(log: Path) -> None:
    """Also in a compressed log."""
    packed = log.with_suffix(".jsonl.zst")
    packed.write_bytes(zstandard.compress(log.read_bytes()))
    for path in (log, packed):
        assert [record.n for record in iter_records(path, CountingDecoder(), 1_000)] == list(range(10_000))


def test_a_log_that_cannot_be_read_has_no_records(tmp_path: Path) -> None:
    """It is missing, or not what its name says."""
    assert list(iter_records(tmp_path / "missing.jsonl", CountingDecoder(), 1_000)) == []
    broken = tmp_path / "broken.zst"
    broken.write_bytes(b"not compressed")
    assert list(iter_records(broken, CountingDecoder(), 1_000)) == []
