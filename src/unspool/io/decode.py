"""Decodes lines into typed records, whatever state the lines are in.

The fast path decodes a whole block at once. A block with anything unusual in it is decoded line by line: unpaired
surrogates are repaired, records inside torn lines are salvaged, fields of an unexpected type are left out, and
each of these is reported. Every line that is not blank results in at least one record or one reported damage.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from ..core import typed_json
from ..core.plural import counted
from ..core.timestamps import parse_moment
from .lines import Block, block_of

T = TypeVar("T")

Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
"""A number of tokens, turns or records. A negative or impossibly large number is damaged: it is left out like a field
of an unexpected type, so that it cannot distort a sum."""

_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # one half of a pair
    rb"|\\."  # any other escape, so that an escaped backslash is never taken for the start of one
)
_BLANK = b"\0 \t\r\n"
INVALID = "invalid-utf8"
"""The reason of a problem: bytes that are not UTF-8 were replaced."""
_RECORD_START = re.compile(rb'\{"')
_SALVAGE_EFFORT = 12
"""Limit for scanning a damaged line for records, as a multiple of its length, so that no line takes too long."""

_MOST_DIGITS = 4_000
"""Python refuses to convert numbers of more than 4,300 digits, because that takes quadratic time."""
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS + 1))
_STRIDE = 200
_DIGITS_IN_SAMPLE = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS // _STRIDE))
"""Matches every number that is too long in a sample of the bytes, which is searched much faster."""
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?[0-9]{%d,})(?![0-9.eE])' % (_MOST_DIGITS + 1))

_generic = msgspec.json.Decoder()
_BROKEN = object()
_TOO_DEEP = object()


class Location(NamedTuple):
    """Where a record is in its log."""

    line: int
    offset: int
    length: int


class Damage(NamedTuple):
    """A problem with a line, or with a part of one."""

    reason: str
    detail: str
    location: Location
    lost: bool
    """Whether nothing of the line could be used."""


class Batch(NamedTuple, Generic[T]):
    """Records in file order, and where each of them is."""

    records: list[T]
    locations: list[Location] | None
    """One per record; None when the records are exactly the lines of the block."""
    block: Block
    damages: list[Damage]
    lines: int
    """Lines that are not blank."""

    def bytes_at(self, offset: int, length: int) -> bytes:
        """The original bytes of a line, or of a piece of one."""
        start = offset - self.block.offset
        return self.block.data[start : start + length]

    def rows(self) -> Iterator[tuple[T, int, int, int]]:
        """Each record with its line number, offset and length."""
        if self.locations is not None:
            return ((record, *location) for record, location in zip(self.records, self.locations, strict=True))
        number, base, starts = self.block.number, self.block.offset, self.block.starts
        offsets = [base + start for start in starts] if base else starts
        lengths = [end - start - 1 for start, end in pairwise(starts)]
        return zip(self.records, range(number, number + len(lengths)), offsets, lengths, strict=False)


class RecordDecoder(Generic[T]):
    """Decodes the lines of one kind of log into Structs of type `T`."""

    def __init__(self, record: type[T], is_record: Callable[[dict[str, Any]], bool]) -> None:
        self._type = record
        self._decoder = typed_json.decoder(record)
        self._is_record = is_record

    def batch(self, block: Block) -> Batch[T]:
        """Decode a block of lines."""
        data, starts = block.data, block.starts
        count = len(starts) - 1
        try:
            # If every line begins with a brace, none is blank, so a blank line cannot hide two records on one line.
            if bytes(map(data.__getitem__, starts[:-1])) == b"{" * count:
                records = self._decoder.decode_lines(data)
                if len(records) == count:
                    return Batch(records, None, block, [], count)
        except (*_DAMAGE, IndexError, RecursionError):
            pass
        return self._by_line(block)

    def records_in(self, line: bytes) -> list[T]:
        """Decode a single line, for callers that do not need to know where its records are."""
        try:
            return [self._decoder.decode(line)]
        except (*_DAMAGE, RecursionError):
            return self._by_line(block_of(line)).records

    def _by_line(self, block: Block) -> Batch[T]:
        records: list[T] = []
        locations: list[Location] = []
        damages: list[Damage] = []
        filled = 0
        last = len(block.starts) - 2 if not block.data.endswith(b"\n") else -1
        for position, line in enumerate(block.lines()):
            if not line.strip():
                continue
            filled += 1
            location = Location(block.number + position, block.offset + block.starts[position], len(line))
            for item in self.line(line, location, torn=position == last):
                if isinstance(item, Damage):
                    damages.append(item)
                else:
                    records.append(item[0])
                    locations.append(item[1])
        return Batch(records, locations, block, damages, filled)

    def line(self, line: bytes, location: Location, torn: bool = False) -> Iterator[tuple[T, Location] | Damage]:
        """Decode one line: yield the records in it, and the problems with it."""
        try:
            yield self._decoder.decode(line), location
        except (*_DAMAGE, RecursionError) as error:
            yield from self._unusual(line, location, str(error), torn)

    def _unusual(self, line: bytes, location: Location, why: str, torn: bool) -> Iterator[tuple[T, Location] | Damage]:
        if not line.strip(_BLANK):
            yield Damage("nul-bytes", "the line only has NUL bytes and whitespace", location, lost=True)
            return
        repaired, reason = repair_line(line)
        value = _value(repaired)
        if value is _BROKEN:
            yield from self._salvage(line, location, why, torn)
        elif value is _TOO_DEEP:
            yield Damage("too-deep", "nested deeper than any agent writes", location, lost=True)
        elif not isinstance(value, dict):
            yield Damage("not-a-record", f"{json_kind(value)} instead of an object", location, lost=True)
        else:
            if reason is not None:
                yield Damage(reason, why, location, lost=False)
            record, dropped = self._fitted(repaired, value)
            if dropped:
                yield Damage("unknown-shape", f"{', '.join(dropped)}: {why}", location, lost=False)
            yield record, location

    def _fitted(self, line: bytes, value: dict[str, Any]) -> tuple[T, list[str]]:
        """Decode an object as a record, and name the fields that had to be left out for that."""
        dropped: list[str] = []
        try:
            return self._decoder.decode(line), dropped
        except (*_DAMAGE, RecursionError):
            if not issubclass(self._type, msgspec.Struct):
                return cast(T, value), dropped
            return cast(T, _fit(value, self._type, dropped, "")), dropped or ["?"]

    def _salvage(self, line: bytes, location: Location, why: str, torn: bool) -> Iterator[tuple[T, Location] | Damage]:
        pieces = list(self._intact_records(line))
        if not pieces:
            is_cut = torn or not line.rstrip().endswith(b"}")
            yield Damage("torn" if is_cut else "not-json", why, location, lost=True)
            return
        kept = sum(end - start for start, end, _ in pieces)
        detail = f"{counted(len(pieces), 'record')} recovered from a damaged line: {kept} of {len(line)} bytes"
        yield Damage("salvaged", detail, location, lost=False)
        for start, end, record in pieces:
            yield record, Location(location.line, location.offset + start, end - start)

    def _intact_records(self, line: bytes) -> Iterator[tuple[int, int, T]]:
        """Find the intact records in a damaged line."""
        # Latin-1 keeps one character per byte; the structure of JSON is ASCII, so the offsets are right.
        text = line.decode("latin-1")
        scan = json.JSONDecoder(strict=True, parse_int=_whole_number).raw_decode
        effort = _SALVAGE_EFFORT * len(line) + 10_000
        position = 0
        while effort > 0 and (match := _RECORD_START.search(line, position)):
            start = match.start()
            try:
                value, end = scan(text, start)
            except (json.JSONDecodeError, RecursionError) as error:
                effort -= max(1, getattr(error, "pos", len(line)) - start)
                position = start + 2
                continue
            position = end
            if isinstance(value, dict) and self._is_record(value):
                piece, _ = repair_line(line[start:end])
                value = _value(piece)
                if isinstance(value, dict):
                    yield start, end, self._fitted(piece, value)[0]


def repair_line(line: bytes) -> tuple[bytes, str | None]:
    """Repair what has one obvious repair: half a surrogate pair, invalid UTF-8, NUL bytes around a record.

    Returns the line, and the reason of the problem, if any. A byte order mark, which some editors add to the beginning
    of a file, is not a problem.
    """
    reason = None
    line = line.removeprefix(BOM_UTF8)
    repaired = line.strip(_BLANK)
    if len(repaired) < len(line.strip()):
        reason = "nul-bytes"
    # Node cuts strings between surrogates and then writes the remaining half as an escape.
    if b"\\ud" in repaired or b"\\uD" in repaired:
        paired = _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], repaired)
        if paired != repaired:
            repaired, reason = paired, "unpaired-surrogate"
    try:
        repaired.decode()
    except UnicodeDecodeError:
        repaired, reason = repaired.decode("utf-8", "replace").encode(), INVALID
    return repaired, reason


def _value(line: bytes) -> object:
    """Return the plain value of a line. Python's own decoder also accepts NaN and infinities; they become None."""
    try:
        return _generic.decode(line)
    except (*_DAMAGE, RecursionError):
        pass
    try:
        return json.loads(line, parse_int=_whole_number, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        return _TOO_DEEP
    except ValueError:
        return _BROKEN


def _whole_number(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if isfinite(number) else None


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object on a line, with None for numbers that other programs reject; empty if it is not an object."""
    value = _value(line)
    return value if isinstance(value, dict) else {}


def clean_raw(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a copy of a piece of JSON, on one line, that every program can read, without a reference to its source.

    msgspec does not validate what it skips, so a raw value can contain invalid UTF-8. A number that is too long for
    most programs becomes a string of its digits.
    """
    data = bytes(raw)
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode()
    if b"\n" in data or b"\r" in data:
        data = msgspec.json.format(data, indent=-1)
    if len(data) > _MOST_DIGITS and _DIGITS_IN_SAMPLE.search(data[::_STRIDE]) and _LONG_NUMBER.search(data):
        data = _STRING_OR_NUMBER.sub(lambda match: match[0] if match[1] is None else b'"%s"' % match[1], data)
    return msgspec.Raw(data)


class LineParts:
    """Parts of lines as JSON. A line is decoded once for all of its parts, because it may have very many."""

    __slots__ = ("_last", "bytes_at")

    def __init__(self, bytes_at: Callable[[int, int], bytes]) -> None:
        """`bytes_at` returns a line by its offset and length."""
        self.bytes_at = bytes_at
        self._last: tuple[int, int, object] | None = None

    def part(self, offset: int, length: int, *path: str | int) -> msgspec.Raw:
        """Return a part of a line, by the keys and indexes that lead to it."""
        if self._last is None or self._last[:2] != (offset, length):
            self._last = offset, length, _value(repair_line(self.bytes_at(offset, length))[0])
        value = self._last[2]
        try:
            for step in path:
                value = value[step]  # type: ignore[index]
            return msgspec.Raw(msgspec.json.encode(value))
        except (LookupError, TypeError, RecursionError):
            return msgspec.Raw(b"null")


def decode_any(data: bytes | str | msgspec.Raw) -> object:
    """Decode JSON into plain values; None if it is invalid, or nested too deeply."""
    if isinstance(data, bytes):
        data = data.removeprefix(BOM_UTF8)
    try:
        return _generic.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def json_kind(value: object) -> str:
    """Return the JSON type of a decoded value in words."""
    kinds = {dict: "an object", list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return kinds.get(type(value), "a number")


def _fit(value: dict[str, Any], kind: type[Any], dropped: list[str], path: str) -> Any:
    """Build a Struct from an object, leaving out fields that have an unexpected type."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in value:
            continue
        inner = value[field.encode_name]
        try:
            fields[field.name] = _convert(inner, field.type)
        except (msgspec.ValidationError, TypeError, RecursionError):
            nested = _struct_in(field.type)
            where = path + field.encode_name
            if nested and isinstance(inner, dict):
                fitted = _fit(inner, nested, dropped, where + ".")
                fields[field.name] = [fitted] if _takes_list(field.type) else fitted
            elif (moment := parse_moment(inner)) and "datetime" in str(field.type):
                fields[field.name] = moment
            elif nested and isinstance(inner, list) and _takes_list(field.type):
                fields[field.name] = [_fit(x, nested, dropped, where + "[].") for x in inner if isinstance(x, dict)]
            else:
                dropped.append(where)
    return kind(**fields)


def _convert(value: Any, kind: Any) -> Any:
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(value))
    return typed_json.decode(msgspec.json.encode(value), type=kind)


def _struct_in(kind: Any) -> type[Any] | None:
    """The Struct in an annotation like `list[Block] | str | None`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    for part in getattr(kind, "__args__", ()):
        if found := _struct_in(part):
            return found
    return None


def _takes_list(kind: Any) -> bool:
    return "list[" in str(kind)
