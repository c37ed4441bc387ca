"""Generates the JSON Schema of exported sessions from the Structs."""

from __future__ import annotations

from typing import Any

import msgspec

from .model import SCHEMA
from .session import Session
from .stream import StreamLine


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a session record, and of the lines of the stream format.

    >>> import unspool
    >>> unspool.json_schema()["title"]
    'unspool/1: a session of a coding agent'
    """
    (record, line), definitions = msgspec.json.schema_components((Session, StreamLine), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{SCHEMA}: a session of a coding agent",
        "description": "Either a whole session (ndjson), or one line of a session (stream).",
        "anyOf": [record, line],
        "$defs": definitions,
    }
