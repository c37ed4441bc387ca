"""Converts values of a record to JSON that the readers of other formats accept."""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.convert import enc_hook
from ..io.decode import decode_any

_DEEPEST = 48
"""The maximum nesting: JSON parsers fail at 64 to 1,000 levels, and the formats add a few of their own."""
_LARGEST = 2**63
"""Larger numbers are written as text: most languages have no type for them."""
_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Encode plain values as JSON."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate, which UTF-8 cannot represent.
        return _encoder.encode(_valid_text(value))


def decoded(raw: msgspec.Raw) -> Any:
    """Decode JSON of a record. Returns text if it cannot be decoded."""
    data = bytes(raw)
    value = decode_any(data)
    if value is None and data.strip() != b"null":
        return data.decode("utf-8", "replace")
    return portable(value)


def arguments_of(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the input of a call as an object, which the formats require. Other values become its field `input`."""
    value = decoded(raw)
    return value if isinstance(value, dict) else {"input": value}


def to_plain(value: Any) -> Any:
    """Convert a Struct of the record to plain values."""
    return portable(msgspec.to_builtins(value, enc_hook=_enc_hook))


def portable(value: Any, depth: int = 0) -> Any:
    """Copy a value, with numbers of more than 64 bits and deeply nested values replaced by text."""
    if isinstance(value, str | bool | None | float):
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if depth >= _DEEPEST:
        return encode(value).decode()
    if isinstance(value, dict):
        return {str(key): portable(inner, depth + 1) for key, inner in value.items()}
    return [portable(inner, depth + 1) for inner in value]


def _enc_hook(value: Any) -> Any:
    return decoded(value) if isinstance(value, msgspec.Raw) else enc_hook(value)


def _valid_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_valid_text(key): _valid_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_valid_text(inner) for inner in value]
    return value
