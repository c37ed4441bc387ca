"""Encodes attributes, ids and times for OTLP/JSON."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from .values import encode

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2**64 - 1
_LARGEST = 2**63
LONGEST_TEXT = 1 << 20
"""The maximum length of one text in a span. Collectors refuse requests of more than a few mebibytes."""


def trace_id(name: str) -> str:
    """Return 16 bytes in hexadecimal. The same name has the same id, so sending a trace again adds nothing."""
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=16, person=b"unspool-trace").hexdigest()


def span_id(*parts: object) -> str:
    """Return 8 bytes in hexadecimal. The same parts have the same id."""
    name = "\0".join(map(str, parts))
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"unspool-span").hexdigest()


def nanoseconds(moment: datetime) -> str:
    """Return a time in nanoseconds. The number is unsigned, so times are limited to the years 1970 to 2554."""
    # A float would not be exact to the microsecond.
    count = (moment - _EPOCH) // timedelta(microseconds=1) * 1_000
    return str(min(max(count, 0), _LATEST))


def attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Encode the attributes of a span or event. None is left out, and complex values are written as JSON."""
    return [{"key": name, "value": _value(value)} for name, value in fields.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -_LARGEST <= value < _LARGEST:
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list) and all(isinstance(inner, str) for inner in value):
        return {"arrayValue": {"values": [{"stringValue": inner} for inner in value]}}
    return {"stringValue": value if isinstance(value, str) else encode(value).decode()}


def clipped(text: str) -> str:
    """Shorten a text to the limit, and add the number of characters that were left out."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters were left out]"


def clipped_values(value: Any) -> Any:
    """Shorten all texts in a plain value."""
    if isinstance(value, str):
        return clipped(value)
    if isinstance(value, dict):
        return {name: clipped_values(inner) for name, inner in value.items()}
    return [clipped_values(inner) for inner in value] if isinstance(value, list) else value
