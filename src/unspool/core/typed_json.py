"""Decoding into Structs, from any thread.

msgspec prepares a Struct when it is first decoded, and keeps what it has so far at the class. A thread that decodes the
same class meanwhile uses the incomplete part, and the process crashes (msgspec 0.22). So all Structs are prepared here,
under one lock; decoding with a finished decoder is safe. `Decoder()` and `decode(data)` without a type need none of it.
"""

from __future__ import annotations

import os
import threading
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")

_lock = threading.RLock()
_decoders: dict[object, Any] = {}


@overload
def decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]: ...
@overload
def decoder(kind: UnionType) -> msgspec.json.Decoder[Any]: ...
def decoder(kind: object) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type."""
    found: msgspec.json.Decoder[Any] | None = _decoders.get(kind)
    if found is None:
        with _lock:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def decode(data: bytes | str, *, type: type[_T]) -> _T:
    """Decode JSON into a type. Raises what `msgspec.json.decode` raises."""
    return decoder(type).decode(data)


@overload
def convert(value: object, kind: type[_T], *, strict: bool = True) -> _T: ...
@overload
def convert(value: object, kind: UnionType, *, strict: bool = True) -> Any: ...
def convert(value: object, kind: Any, *, strict: bool = True) -> Any:
    """Convert plain values into a type. Raises what `msgspec.convert` raises."""
    decoder(kind)
    return msgspec.convert(value, kind, strict=strict)


def msgpack_decoder(kind: type[_T]) -> msgspec.msgpack.Decoder[_T]:
    """Return a new decoder of MessagePack."""
    with _lock:
        return msgspec.msgpack.Decoder(kind)


if hasattr(os, "register_at_fork"):
    # A child has no other threads that could finish a Struct.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
