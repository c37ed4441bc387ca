"""Lists every field of a request that its command, change, plan or questions do not show."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from ..protocol import Detail, Verdict

ALL_VERDICTS: tuple[Verdict, ...] = ("allow", "allow_session", "deny", "deny_stop")
WITHOUT_SESSION: tuple[Verdict, ...] = ("allow", "deny", "deny_stop")
_INDEX = re.compile(r"\[\d+\]")
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
_MARKS = {str: "", bool: "?"}
_DEEPEST = 6
"""Values that are nested deeper are shown as JSON."""


def details_of(input: Mapping[str, Any], shown: Collection[str] = ()) -> list[Detail]:
    """Return the fields of an input, except those in `shown`, which are named like `edits[].old_string`.

    A name in `shown` matches only text; with a question mark at the end, it matches only a boolean. A field of
    another type cannot have been shown elsewhere.
    """
    return [
        Detail(name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
        for name, value in _leaves(input, "", 0)
        if _INDEX.sub("[]", name) + _MARKS.get(type(value), "#") not in shown
    ]


def _leaves(value: object, name: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the values that contain no others, each with its path."""
    if depth < _DEEPEST and isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, _joined(name, str(key)), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{index}]", depth + 1)
    elif name:
        yield name, value


def _joined(name: str, key: str) -> str:
    """Append a key to a path. An unusual key is quoted, so that it cannot be mistaken for a path."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{name}[{msgspec.json.encode(key).decode()}]"
    return f"{name}.{key}" if name else key
