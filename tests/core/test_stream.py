"""The stream form: the same as the record, in small pieces, while the log is being read."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import unspool
from unspool.api import stream
from unspool.core import model as m
from unspool.core.errors import UnspoolError
from unspool.core.stream import EndLine, MessageLine, SessionLine, StreamLine, collect, empty, iter_stream
from unspool.io.lines import BLOCK_SIZE
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog

from ..recordings import recordings

DECODER = msgspec.json.Decoder(StreamLine)


def homes() -> list[Path]:
    chosen = [("claude", "1.0.60"), ("claude", "2.0.76"), ("codex", "0.20.0"), ("gemini", "0.22.4")]
    return [unspool.samples(), *(recording.home for name in chosen for recording in recordings(*name))]


def big(home: Path) -> Path:
    """A log of several blocks."""
    log = ClaudeLog()
    while len(log.lines) < 6_000:
        log.user(f"prompt {len(log.lines)} " + "x" * 1_000)
    path = log.write(home)
    assert path.stat().st_size > 4 * BLOCK_SIZE
    return path


def test_the_stream_equals_the_record() -> None:
    """Read in pieces or whole, every session is the same: messages, events and head."""
    count = 0
    for home in homes():
        library = Library(home)
        for ref in library.refs():
            whole = list(library.load_all(ref))
            assert list(collect(library.stream(ref))) == whole
            assert [line for session in whole for line in iter_stream(session)] == list(library.stream(ref))
            count += len(whole)
    assert count > 20


def test_lines_survive_json() -> None:
    """Each line is an object with a type, and decodes to what it was."""
    library = Library(unspool.samples())
    for ref in library.refs():
        for line in library.stream(ref):
            data = msgspec.json.encode(line)
            assert b"\n" not in data
            assert isinstance(json.loads(data)["type"], str)
            assert DECODER.decode(data) == line


def test_the_order_of_lines() -> None:
    """A head, then messages in order, events behind their message, and an end that counts them."""
    library = Library(unspool.samples())
    for ref in library.refs():
        lines = list(library.stream(ref))
        assert isinstance(lines[0], SessionLine)
        assert isinstance(lines[-1], EndLine)
        assert [line.message.index for line in lines if isinstance(line, MessageLine)] == list(
            range(lines[-1].end.counts["messages"])
        )
        last = -1
        for line in lines[1:-1]:
            if isinstance(line, MessageLine):
                last = line.message.index
                continue
            kind = type(line).__struct_config__.tag
            index = getattr(getattr(line, str(kind)), "message_index", None)
            assert index is None or index == last


def test_the_end_counts_everything() -> None:
    """As many events of each kind as there are lines."""
    names = {"compactions": "compaction", "branches": "branch"}
    library = Library(unspool.samples())
    seen = 0
    for ref in library.refs():
        lines = list(library.stream(ref))
        end = lines[-1]
        assert isinstance(end, EndLine)
        assert end.end.session == ref.id
        for name, count in end.end.counts.items():
            tag = names.get(name, name.removesuffix("s"))
            assert sum(type(line).__struct_config__.tag == tag for line in lines) == count
            seen += count
    assert seen > 100


def test_messages_come_before_the_second_reading_is_done(tmp_path: Path) -> None:
    """The log is not held in memory: if it is truncated after the first messages, that is reported."""
    path = big(tmp_path)
    lines = stream(path)
    assert isinstance(next(lines), SessionLine)
    assert isinstance(next(lines), MessageLine)
    with path.open("r+b") as file:
        file.truncate(2 * BLOCK_SIZE)
    with pytest.raises(UnspoolError, match=r"changed while it was read: \d+ of 6000 messages; try again"):
        list(lines)


def test_a_log_that_is_deleted_between_the_passes(tmp_path: Path) -> None:
    """That is reported, too."""
    log = CodexLog()
    log.turn("hello", "hi")
    path = log.write(tmp_path)
    lines = stream(path)
    assert isinstance(next(lines), SessionLine)
    path.unlink()
    with pytest.raises(UnspoolError, match="changed while it was read"):
        list(lines)


def test_reading_is_lazy(tmp_path: Path) -> None:
    """A stream costs nothing until it is read, and then reads the current log."""
    log = ClaudeLog()
    log.user("one")
    path = log.write(tmp_path)
    lines = stream(path)
    log.user("two")
    path.write_bytes(log.data)
    assert sum(isinstance(line, MessageLine) for line in lines) == 2


def test_an_empty_record_has_a_head_and_an_end(tmp_path: Path) -> None:
    """And nothing between them."""
    log = ClaudeLog()
    log.user("hello")
    session = empty(log.load(tmp_path).info)
    head, end = iter_stream(session)
    assert head == SessionLine(m.SCHEMA, session.info)
    assert isinstance(end, EndLine)
    assert set(end.end.counts.values()) == {0}
    assert list(collect([head, end])) == [session]


@pytest.mark.parametrize(
    ("given", "started", "ended"),
    [
        ("1970-01-01T00:00:00Z", "2026-03-01T10:00:00+00:00", "2026-03-01T12:00:00+00:00"),
        ("9999-12-31T23:59:59-23:59", "2026-03-01T10:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"),
        ("6000-01-01T00:00:00Z", "2026-03-01T10:00:00+00:00", "6000-01-01T00:00:00+00:00"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+00:00", "2026-03-01T12:00:00+00:00"),
        ("2026-03-01T03:00:00-08:00", "2026-03-01T10:00:00+00:00", "2026-03-01T12:00:00+00:00"),
    ],
)
def test_strange_times_give_the_same_span(given: str, started: str, ended: str, tmp_path: Path) -> None:
    """Whether all messages are kept or none is; a time that says nothing is left out."""
    log = ClaudeLog()
    for time in ("2026-03-01T10:00:00Z", given, "2026-03-01T12:00:00Z"):
        log.user("hi", timestamp=time)
    path = log.write(tmp_path)
    session = unspool.load(path)
    (streamed,) = collect(unspool.stream(path))
    for info in (session.info, streamed.info):
        assert info.started_at is not None
        assert info.ended_at is not None
        assert (info.started_at.isoformat(), info.ended_at.isoformat()) == (started, ended)
