"""Bytes to lines."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from unspool.io.lines import LineSplitter, block_of, find_starts, iter_blocks

NEWLINES = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"\xe2\x80\xa8", b"{}", b"\x00", b""]), max_size=40)


def placed(data: bytes, cuts: list[int]) -> list[tuple[int, int, bytes]]:
    """Line numbers, offsets and lines, with the data cut at some positions."""
    splitter = LineSplitter()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    blocks = [splitter.feed(data[start:end]) for start, end in itertools.pairwise(edges)]
    blocks.append(splitter.flush())
    return [
        (block.number + location, block.offset + block.starts[location], line)
        for block in blocks
        if block is not None
        for location, line in enumerate(block.lines())
    ]


@given(st.one_of(st.binary(max_size=300), NEWLINES.map(b"".join)), st.lists(st.integers(0, 300), max_size=12))
def test_chunking_does_not_change_lines(data: bytes, cuts: list[int]) -> None:
    """However the bytes arrive, the lines, their numbers and their offsets are the same."""
    assert placed(data, cuts) == placed(data, [])


@given(NEWLINES.map(b"".join))
def test_only_lf_ends_a_line(data: bytes) -> None:
    """CR and U+2028 are part of a line."""
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for _, _, line in placed(data, [])] == expected


@given(st.binary(max_size=300))
def test_locations_lead_back_to_the_bytes(data: bytes) -> None:
    """Offset and length of a line fetch it again."""
    for number, offset, line in placed(data, [7, 50]):
        assert data[offset : offset + len(line)] == line
        assert data[:offset].count(b"\n") == number - 1


def test_starts_end_with_the_end() -> None:
    """The last entry is where the next line would begin."""
    assert find_starts(b"") == [0]
    assert find_starts(b"a\nb") == [0, 2, 4]
    assert find_starts(b"a\nb\n") == [0, 2, 4]
    assert list(block_of(b"a\n\nb").lines()) == [b"a", b"", b"b"]


def test_a_line_longer_than_a_block_is_one_line() -> None:
    """Memory holds one unfinished line at most, whatever the block size."""
    data = b"x" * 1_000 + b"\n" + b"y"
    pieces = iter([data[start : start + 64] for start in range(0, len(data), 64)] + [b""])
    blocks = list(iter_blocks(lambda _: next(pieces)))
    assert [line for block in blocks for line in block.lines()] == [b"x" * 1_000, b"y"]
