"""Generates the reference of the session record from the Structs of `unspool.model` and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as types

import unspool
from unspool.model import SCHEMA

from .docstrings import field_docs


def page() -> str:
    """Return the page: every type of the record with every field."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The session record"
    yield ""
    yield f"One record describes one session of any agent. This page explains version `{SCHEMA}`, which is also"
    yield "published as a [JSON Schema](../schema/unspool-1.schema.json); `unspool schema` prints it. `unspool export`"
    yield "writes such records, `unspool.load` returns them, and the JSON API uses the same types."
    yield ""
    yield "Fields marked *optional* are left out when they have their default. Times are RFC 3339 in UTC. An index"
    yield "always refers to the list `messages`."
    yield ""
    for cls in record_types():
        yield from _struct(cls)


def record_types() -> list[type[msgspec.Struct]]:
    """Return the Structs that a record can contain, outermost first."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting: list[types.Type] = [types.type_info(unspool.Session)]
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, types.StructType) and kind.cls not in found:
            found[kind.cls] = None
            waiting += [field.type for field in kind.fields]
        elif isinstance(kind, types.UnionType):
            waiting += kind.types
        elif isinstance(kind, types.ListType):
            waiting.append(kind.item_type)
    return list(found)


def unexplained() -> list[str]:
    """Return the fields without an explanation."""
    found = []
    for cls in record_types():
        info = types.type_info(cls)
        assert isinstance(info, types.StructType)
        docs = field_docs(cls)
        found += [f"{cls.__name__}.{field.name}" for field in info.fields if not _meaning(field, docs)]
    return found


def _struct(cls: type[msgspec.Struct]) -> Iterator[str]:
    info = types.type_info(cls)
    assert isinstance(info, types.StructType)
    docs = field_docs(cls)
    yield f"## {cls.__name__}"
    yield ""
    yield inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    yield ""
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    if info.tag is not None:
        yield f"| `{info.tag_field}` | `{info.tag!r}` | always this value |".replace("'", '"')
    for field in info.fields:
        optional = "" if field.required else " *optional*"
        yield f"| `{field.encode_name}` | {_type(field.type)}{optional} | {_meaning(field, docs)} |"
    yield ""


def _meaning(field: types.Field, docs: dict[str, str]) -> str:
    """Return the docstring of a field, or that of its Struct if the field has none."""
    kind = field.type.item_type if isinstance(field.type, types.ListType) else field.type
    held = kind.cls if isinstance(kind, types.StructType) else None
    return docs.get(field.name) or inspect.cleandoc((held and held.__doc__) or "").replace("\n", " ")


def _type(kind: types.Type) -> str:
    match kind:
        case types.StructType():
            return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
        case types.ListType():
            return f"list of {_type(kind.item_type)}"
        case types.UnionType():
            return " or ".join(_type(item) for item in kind.types)
        case types.LiteralType():
            return ", ".join(f'`"{value}"`' for value in kind.values)
        case types.DictType():
            return f"object of {_type(kind.value_type)}"
        case _:
            return _NAMES.get(type(kind), "any JSON")


_NAMES: dict[type[Any], str] = {
    types.StrType: "string",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
    types.DateTimeType: "time",
    types.RawType: "any JSON",
}
