"""Generates the reference of the HTTP API from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspool.web.api.openapi import openapi
from unspool.web.api.routes import ENDPOINTS


def page() -> str:
    """Return the page: every endpoint with its parameters and responses, and all types."""
    return "\n".join(_lines(openapi(ENDPOINTS))) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield "# HTTP API reference"
    yield ""
    yield "Generated from the [OpenAPI document](../schema/openapi.json), which a server also publishes at"
    yield "`/api/openapi.json`. [The JSON API](../api.md) explains authentication, paging and live events."
    yield ""
    yield "## Endpoints"
    yield ""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(method, path, operation)
    yield "## Types"
    yield ""
    yield "Types of the session record are explained in [The session record](schema.md)."
    yield ""
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    yield operation["summary"]
    yield ""
    if description := operation.get("description"):
        yield description
        yield ""
    if parameters := operation.get("parameters"):
        yield "| parameter | in | type | |"
        yield "|---|---|---|---|"
        for each in parameters:
            required = " (required)" if each.get("required") else ""
            meaning = each.get("description", "")
            yield _row(f"`{each['name']}`{required}", each["in"], _type(each["schema"]), meaning)
        yield ""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        yield f"Body: {_type(body)}."
        yield ""
    for status, response in operation["responses"].items():
        for media_type, answer in response.get("content", {}).items() if status.startswith("2") else ():
            yield f"Response {status}: {_type(answer['schema'])} (`{media_type}`)."
            yield ""


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield from (schema.get("description", "").splitlines())
    yield ""
    if properties := schema.get("properties"):
        yield "| field | type |"
        yield "|---|---|"
        required = schema.get("required", [])
        for field, kind in properties.items():
            yield _row(f"`{field}`", _type(kind) + ("" if field in required else " *optional*"))
        yield ""
    elif "anyOf" in schema:
        yield f"One of {_type(schema)}."
        yield ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        # Two types of the same name are distinguished by their modules; anchors have no dots.
        return f"[{name}](#{name.lower().replace('.', '')})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return "list of " + ", ".join(_type(each) for each in schema["prefixItems"])
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_type(values)}" if isinstance(values, dict) else "object"
        case None:
            return "any JSON"
        case str(name):
            return "time" if schema.get("format") == "date-time" else name
        case names:
            return " or ".join(str(name) for name in names)
