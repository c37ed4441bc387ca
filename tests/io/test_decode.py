"""Lines to records: intact, repaired, salvaged, or reported as a problem."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.core.timestamps import Moment
from unspool.io.decode import Batch, LineParts, RecordDecoder, clean_raw, decode_any
from unspool.io.lines import block_of


class Inner(msgspec.Struct):
    """A part of a record."""

    text: str = ""


class Record(msgspec.Struct):
    """A record."""

    type: str = ""
    at: Moment | None = None
    inner: Inner | None = None
    items: list[Inner] | str | None = None
    raw: msgspec.Raw = msgspec.Raw(b"")


DECODER = RecordDecoder(Record, lambda value: "type" in value)


def decoded(data: bytes) -> Batch[Record]:
    return DECODER.batch(block_of(data))


def kinds(batch: Batch[Record]) -> list[str]:
    return [record.type for record in batch.records]


def reasons(batch: Batch[Record]) -> list[str]:
    return [damage.reason for damage in batch.damages]


def test_intact_lines_are_records() -> None:
    """The usual case has no list of locations: the lines are the records."""
    batch = decoded(b'{"type":"a"}\n{"type":"b"}\n')
    assert kinds(batch) == ["a", "b"]
    assert batch.locations is None
    assert [row[1:] for row in batch.rows()] == [(1, 0, 12), (2, 13, 12)]


def test_a_byte_order_mark_is_ignored() -> None:
    """Some editors add one to the beginning of a file."""
    batch = decoded(b'\xef\xbb\xbf{"type":"a"}\r\n{"type":"b"}\n')
    assert (kinds(batch), batch.lines, reasons(batch)) == (["a", "b"], 2, [])
    assert decode_any(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


def test_blank_lines_are_ignored() -> None:
    """They count for the numbers, and for nothing else."""
    batch = decoded(b'\n{"type":"a"}\n  \n{"type":"b"}')
    assert (kinds(batch), batch.lines, reasons(batch)) == (["a", "b"], 2, [])
    assert [row[1] for row in batch.rows()] == [2, 4]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type":"a"}{"type":"b"}', ["a", "b"]),
        (b'{"type":"a","inner":{"text":"cut {"type":"b"}', ["b"]),
        (b'\x00\x00{"type":"a"}\x00\x00{"type":"b"}', ["a", "b"]),
        (b'{"type":"a"} trailing words', ["a"]),
        (b'garbage {"type":"a","inner":{"text":"{\\"type\\":\\"not me\\"}"}} {"no":"record"}', ["a"]),
        (b'{"type":"a","at":NaN', []),
    ],
)
def test_records_are_salvaged_from_damaged_lines(line: bytes, expected: list[str]) -> None:
    """Every intact record of a line is found, and nothing that only looks like one."""
    batch = decoded(b'{"type":"before"}\n' + line + b'\n{"type":"after"}\n')
    assert kinds(batch) == ["before", *expected, "after"]
    assert reasons(batch) == ["salvaged" if expected else "torn"]
    for record, location in zip(batch.records, batch.locations or [], strict=True):
        assert json.loads(batch.bytes_at(location.offset, location.length))["type"] == record.type


@pytest.mark.parametrize("value", [b"[]", b"null", b'"text"', b"12", b"true", b"[{}]"])
def test_values_other_than_objects_are_reported(value: bytes) -> None:
    """They are valid JSON, but not records."""
    batch = decoded(value + b"\n")
    assert (batch.records, reasons(batch)) == ([], ["not-a-record"])


def test_fields_of_another_type_are_left_out() -> None:
    """The rest of the record is kept, and what was left out is named."""
    batch = decoded(b'{"type":"a","inner":{"text":7},"items":[{"text":"x"},{"text":[]},5]}\n')
    (record,) = batch.records
    assert (record.type, record.inner, record.items) == ("a", Inner(), [Inner("x"), Inner()])
    assert reasons(batch) == ["unknown-shape"]
    assert "inner.text" in batch.damages[0].detail


def test_a_single_item_instead_of_a_list() -> None:
    """An object where a list of objects is meant."""
    (record,) = decoded(b'{"type":"a","items":{"text":"x"}}\n').records
    assert record.items == [Inner("x")]


@pytest.mark.parametrize("text", ['"2026-03-01T09:00:00"', "1772355600", "1772355600000"])
def test_times_without_a_zone_are_utc(text: str) -> None:
    """So that any two times can be compared."""
    (record,) = decoded(f'{{"type":"a","at":{text}}}\n'.encode()).records
    assert record.at is not None
    assert record.at.isoformat() == "2026-03-01T09:00:00+00:00"


def test_nan_and_infinity_are_accepted() -> None:
    """Python writes NaN, which is not JSON; the record is complete anyway."""
    batch = decoded(b'{"type":"a","score":NaN,"raw":[Infinity]}\n')
    assert kinds(batch) == ["a"]


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=8), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=4), x)
    )
)
def test_any_json_is_a_record_or_a_problem(value: Any) -> None:
    """Every line is accounted for once."""
    batch = decoded(json.dumps(value).encode() + b"\n")
    assert len(batch.records) + sum(damage.lost for damage in batch.damages) == 1


@given(st.text(max_size=60))
def test_unpaired_surrogates_are_repaired(text: str) -> None:
    """An unpaired surrogate becomes U+FFFD; other characters stay."""
    line = json.dumps({"type": text}).encode()[:-2] + b'\\ud83d"}'
    (record,) = decoded(line + b"\n").records
    assert record.type == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "\ufffd"


def test_raw_json_is_valid_and_on_one_line() -> None:
    """Invalid UTF-8 is replaced, and line breaks between values are removed."""
    assert bytes(clean_raw(msgspec.Raw(b'{\n  "a": [1,\n 2]\n}'))) == b'{"a":[1,2]}'
    assert json.loads(bytes(clean_raw(msgspec.Raw(b'{"a":"\xff"}')))) == {"a": "\ufffd"}


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_a_number_that_is_too_long_is_found_wherever_it_is(place: int) -> None:
    """A sample of the bytes is searched first, and no number may fall between two of them."""
    before, after = b'{"a":"' + b"x" * place + b'","b":', b',"c":"' + b"y" * 9_000 + b'"}'
    longest, too_long = b"1" * 4_000, b"1" * 4_001
    assert bytes(clean_raw(msgspec.Raw(before + longest + after))) == before + longest + after
    assert bytes(clean_raw(msgspec.Raw(before + too_long + after))) == before + b'"' + too_long + b'"' + after


def test_parts_of_a_line_by_their_path() -> None:
    """A missing value is null. The line is read once for all of its parts, which may be very many."""
    data = b'{"a":[{"b":1},{"c":"\\ud83d"}]}\nbroken'
    first, second = (0, data.index(b"\n")), (data.index(b"broken"), 6)
    read = []

    def bytes_at(offset: int, length: int) -> bytes:
        read.append(offset)
        return data[offset : offset + length]

    parts = LineParts(bytes_at)
    assert bytes(parts.part(*first, "a", 0)) == b'{"b":1}'
    assert json.loads(bytes(parts.part(*first, "a", 1))) == {"c": "\ufffd"}
    assert bytes(parts.part(*first, "a", 2)) == b"null"
    assert bytes(parts.part(*first, "a", "b")) == b"null"
    assert read == [0]
    assert bytes(parts.part(*second, "a")) == b"null"
    assert bytes(parts.part(*first, "a", 0)) == b'{"b":1}'
    assert read == [first[0], second[0], first[0]]


def test_decode_any_never_raises() -> None:
    """Invalid JSON gives None."""
    assert decode_any(b"") is None
    assert decode_any(b"{") is None
    assert decode_any(b"[" * 100_000) is None
    assert decode_any('{"a":1}') == {"a": 1}
