"""Records as plain Python values and as JSON."""

from __future__ import annotations

import os
from typing import Any

import msgspec


def to_builtins(value: Any) -> Any:
    """Convert a record, or any part of one, to dicts, lists, strings and numbers.

    Fields have the same names as in JSON. Times are RFC 3339 strings, and fields that hold their default are left
    out. JSON that is kept as it was written, such as the input of a tool call, is decoded; `msgspec.to_builtins` does
    that only if it is given `enc_hook`.

    >>> import unspool
    >>> session = unspool.load(next(unspool.sessions(unspool.samples())))
    >>> unspool.to_builtins(session)["type"]
    'session'
    """
    return msgspec.to_builtins(value, enc_hook=enc_hook)


def to_json(value: Any) -> bytes:
    """Encode a record, or any part of one, as JSON on one line.

    >>> import unspool
    >>> session = unspool.load(next(unspool.sessions(unspool.samples())))
    >>> msgspec.json.decode(unspool.to_json(session), type=unspool.Session) == session
    True
    """
    return msgspec.json.encode(value, enc_hook=enc_hook)


def enc_hook(value: Any) -> Any:
    """Convert the types that msgspec leaves to its caller: JSON that is kept as it was written, and paths.

    Pass it to msgspec if a record is part of a larger value.

    >>> import unspool
    >>> session = unspool.load(next(unspool.sessions(unspool.samples())))
    >>> plain = msgspec.to_builtins({"sessions": [session]}, enc_hook=unspool.enc_hook)
    >>> plain["sessions"] == [session.to_dict()]
    True
    """
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, os.PathLike):
        # A file name may contain invalid UTF-8, which Python represents in a way that JSON cannot express.
        return os.fsencode(value).decode("utf-8", "replace")
    raise NotImplementedError(f"{type(value).__name__} is not part of a session record")
