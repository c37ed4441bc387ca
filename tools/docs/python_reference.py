"""Generates the reference of the Python API from the docstrings of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec

import unspool
from unspool import model

from .docstrings import field_docs

FUNCTIONS = ("sessions", "load", "stream", "tables", "samples", "to_builtins", "to_json", "enc_hook", "json_schema")
CLASSES = (
    "Session", "SessionEvent", "ToolUse", "Reply", "Context", "SessionRef", "Library", "Tables", "Annotation",
    "SessionLine", "MessageLine", "EventLine", "AnnotationLine", "EndLine",
)  # fmt: skip


def page() -> str:
    """Return the page: functions, classes and errors. The types of the record have their own page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Python API"
    yield ""
    yield "Import everything from `unspool`. [Stability](../stability.md) explains what you can rely on, and"
    yield "[Build on the data](../guides/build-on-the-data.md) has examples."
    yield ""
    yield "## Functions"
    yield ""
    for name in FUNCTIONS:
        yield from _function(f"unspool.{name}", getattr(unspool, name), "###")
    yield "## Classes"
    yield ""
    for name in CLASSES:
        yield from _class(getattr(unspool, name))
    yield "## Record types"
    yield ""
    yield "[The session record](schema.md) explains their fields. All of them can be imported from `unspool` or"
    yield "`unspool.model`: " + ", ".join(f"`{name}`" for name in sorted(_record_types())) + "."
    yield ""
    yield "## Errors"
    yield ""
    yield "| error | raised for |"
    yield "|---|---|"
    for name in sorted(name for name in unspool.__all__ if name.endswith("Error")):
        yield f"| `{name}` | {_doc(getattr(unspool, name)).partition(chr(10))[0]} |"


def _record_types() -> set[str]:
    return {name for name in model.__all__ if inspect.isclass(getattr(model, name))}


def undocumented() -> set[str]:
    """Return the public names that are missing from the reference."""
    known = {*FUNCTIONS, *CLASSES, *_record_types(), "Block", "Event", "StreamLine", "__version__"}
    return {name for name in unspool.__all__ if name not in known and not name.endswith("Error")}


def _class(cls: type) -> Iterator[str]:
    yield f"### {cls.__name__}"
    yield ""
    yield from _text(cls)
    if issubclass(cls, msgspec.Struct):
        docs = field_docs(cls)
        yield "| field | |"
        yield "|---|---|"
        yield from (f"| `{name}` | {docs.get(name, '')} |" for name in cls.__struct_fields__)
        yield ""
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield f"#### `{name}`"
            yield ""
            yield from _text(member.fget)
        elif inspect.isfunction(member) or isinstance(member, classmethod):
            yield from _function(name, getattr(cls, name), "####")


def _function(name: str, function: Any, heading: str) -> Iterator[str]:
    yield f"{heading} `{name}{_signature(function)}`"
    yield ""
    yield from _text(function)


def _signature(function: Any) -> str:
    text = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    # Annotations are strings in which record types have a module prefix.
    return re.sub(r"(?<=[:>] )'([^']*)'", lambda annotation: annotation[1].replace("m.", ""), text)


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _text(value: Any) -> Iterator[str]:
    """Yield a docstring, with its examples as code blocks."""
    is_code = False
    for line in _doc(value).splitlines():
        if line.startswith(">>>") and not is_code:
            yield "```pycon"
            is_code = True
        elif not line and is_code:
            yield "```"
            is_code = False
        yield line
    if is_code:
        yield "```"
    yield ""
