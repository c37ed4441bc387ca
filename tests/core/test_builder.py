"""What a builder reports about the lines that it gets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from unspool.api import stream
from unspool.core import builder as builders
from unspool.core import model as m
from unspool.core.stream import collect
from unspool.core.tree import NONE
from unspool.testing import ClaudeLog, call, load

from .test_sinks import build

INVALID = b'{"input":"\xff"}'
REPLACED = "\ufffd".encode()


class Unscanned(list[m.Problem]):
    """Problems that are only added to and counted."""

    def __iter__(self) -> Iterator[m.Problem]:
        raise AssertionError("all problems are scanned")


def test_text_is_checked_without_scanning_the_problems() -> None:
    """Their number must not multiply with the number of lines."""
    builder = build()
    builder.bytes_at = lambda *_: INVALID
    builder.events.problems = Unscanned()
    for line in range(3):
        builder.check_text(REPLACED, m.Source(0, line, line * 20, len(INVALID)))
    assert len(builder.events.problems) == 3


def test_a_line_is_checked_once_for_all_of_its_calls() -> None:
    builder, read = build(), []

    def bytes_at(offset: int, _length: int) -> bytes:
        read.append(offset)
        return INVALID

    builder.bytes_at = bytes_at
    calls: list[m.Block] = [m.ToolCall(f"c{n}", "Bash", msgspec.Raw(b'"%s"' % REPLACED)) for n in range(5)]
    builder.add_reply(calls, m.Source(0, 1, 7, len(INVALID)), "m", NONE, None, None, "r")
    assert read == [7]
    assert [problem.reason for problem in builder.events.problems] == ["invalid-utf8"]


def test_a_line_is_decoded_once_for_all_of_its_unknown_parts() -> None:
    """Until other bytes are read, which may have another line at the same offset."""
    builder, read = build(), []

    def bytes_at(offset: int, length: int) -> bytes:
        read.append(offset)
        return b"[1,2,3]"[:length]

    builder.bytes_at = bytes_at
    source = m.Source(0, 1, 0, 7)
    assert [bytes(builder.raw_at(source, index)) for index in range(3)] == [b"1", b"2", b"3"]
    assert read == [0]
    builder.bytes_at = lambda *_: b"[4,5,6]"
    assert bytes(builder.raw_at(source, 0)) == b"4"


@pytest.mark.parametrize("kind", ["invalid-utf8", "duplicate-id", "missing-parent"])
def test_no_kind_of_problem_exceeds_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Problems above it are counted, whoever finds them."""
    monkeypatch.setattr(builders, "MOST_PROBLEMS", 10)
    log = ClaudeLog()
    log.user("go", name="go")
    for number in range(50):
        if kind == "invalid-utf8":
            log.model(call(f"c{number}", command="\ufffd"))
            log.lines[-1] = log.lines[-1].replace(REPLACED, b"\xff")
        else:
            log.user(str(number), name="go" if kind == "duplicate-id" else None, parent=f"none {number}")
    path = log.write(tmp_path)
    session = load(path)
    assert {problem.reason for problem in session.problems[:10]} == {kind}
    assert (len(session.problems), session.problems[-1].reason) == (11, "more-problems")
    assert [other.to_json() for other in collect(stream(path))] == [session.to_json()]
