"""Lines from chunks of bytes: however the bytes arrive, the lines are the same, and memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.runs.drivers.line_buffer import LineBuffer


@given(st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line)), st.integers(min_value=1, max_value=7))
def test_chunking_does_not_change_the_lines(lines: list[bytes], size: int) -> None:
    """Empty lines are left out."""
    data = b"".join(line + b"\n" for line in lines)
    buffer = LineBuffer()
    found = [line for start in range(0, len(data), size) for line in buffer.feed(data[start : start + size])]
    assert found == [line for line in lines if line]


def test_a_line_that_is_too_long_is_skipped_and_counted() -> None:
    """The next line is intact."""
    buffer = LineBuffer(max_bytes=5)
    assert buffer.feed(b"123456") == []
    assert buffer.feed(b"7\nok\n") == [b"ok"]
    assert buffer.take_skipped() == 1
    assert buffer.take_skipped() == 0
