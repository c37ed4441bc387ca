"""Checks records against the published schema; in compiled code, because tests check thousands of them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from unspool.core.json_schema import json_schema
from unspool.core.session import Session


def check_session(session: Session | bytes) -> None:
    """Raise unless it is a whole session. `Session` alone is asked for: stream lines allow further fields."""
    data = session if isinstance(session, bytes) else msgspec.json.encode(session)
    _validator("Session").validate(json.loads(data))


def check_line(line: bytes) -> None:
    """Raise unless it is a line of the stream form, and of the type that it says."""
    record = json.loads(line)
    _validator(_line_types()[record["type"]]).validate(record)


@cache
def _line_types() -> dict[str, str]:
    """The definition for each `type` of a line."""
    _, lines = json_schema()["anyOf"]
    mapping: dict[str, str] = lines["discriminator"]["mapping"]
    return {name: target.rsplit("/", 1)[-1] for name, target in mapping.items()}


@cache
def _validator(definition: str) -> Any:
    schema = json_schema()
    del schema["anyOf"]
    return jsonschema_rs.Draft202012Validator({**schema, "$ref": f"#/$defs/{definition}"})
