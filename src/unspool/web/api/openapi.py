"""The published description of the API, made from the same annotations that answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ... import __version__
from ...render.told import EVENTS
from ..settings import PORT
from ..wire import LiveEvent
from .asking import PREFIX, Endpoint, parameter_schemas
from .errors import FaultAnswer
from .shapes import SCHEMAS

_ABOUT = """What coding agents did on this computer, as the store of unspool holds it. Nothing here changes anything.
Every address answers GET alone. Answers of sessions have an ETag."""


_TEXT = {"type": "string"}
_CHANGES = (
    "What changes, as server-sent events: `id` is the number of the change, `event` its kind, `data` a LiveEvent. "
    "It goes on from `since` or the header Last-Event-ID, else from now on. It does not end."
)


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description: OpenAPI 3.1, whose schemas are JSON Schema."""
    types = [endpoint.answered for endpoint in endpoints if endpoint.answered is not bytes]
    _, components = msgspec.json.schema_components(
        [*types, FaultAnswer, LiveEvent, *EVENTS.values()], ref_template=SCHEMAS + "{name}"
    )
    paths = {PREFIX + endpoint.path: {"get": _operation(endpoint)} for endpoint in endpoints}
    paths[f"{PREFIX}/events"] = {"get": _live()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "unspool", "version": __version__, "description": _ABOUT},
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "responses": {"Error": {"description": "What is wrong, in a sentence.", "content": _json("FaultAnswer")}},
            "headers": {"ETag": {"description": "Another one when the answer is.", "schema": _TEXT}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": f"unspool-{PORT}"},
            },
        },
    }


def openapi_text(endpoints: Sequence[Endpoint]) -> bytes:
    """The description as it is published."""
    return msgspec.json.format(msgspec.json.encode(openapi(endpoints), order="deterministic"), indent=2) + b"\n"


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    content = {"text/plain": {"schema": _TEXT}} if endpoint.answered is bytes else _json(endpoint.answered.__name__)
    summary = (endpoint.answer.__doc__ or "").strip()
    answers = {
        "200": {"description": summary, "content": content, "headers": {"ETag": {"$ref": "#/components/headers/ETag"}}},
        "304": {"description": "What the other side has is what there is."},
    }
    return {
        "operationId": endpoint.answer.__name__,
        "summary": summary,
        "parameters": [_parameter(endpoint, *item) for item in parameter_schemas(endpoint).items()],
        "responses": answers | _errors(),
    }


def _parameter(endpoint: Endpoint, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    description = {"description": schema["description"]} if "description" in schema else {}
    rest = {key: value for key, value in schema.items() if key != "description" and (key, value) != ("default", "")}
    is_in_path = name in endpoint.in_path
    place = "path" if is_in_path else "query"
    return {"name": name, "in": place, "required": is_in_path, **description, "schema": rest}


def _live() -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"$ref": f"{SCHEMAS}LiveEvent"}}}
    parameters = [
        _said("since", "query", "The number of the last change that is known.", {"type": "integer", "minimum": 0}),
        _said("session", "query", "Sessions whose new entries come as HTML too.", {"type": "array", "items": _TEXT}),
        _said("Last-Event-ID", "header", "The same as `since`; browsers send it when they connect again.", _TEXT),
    ]
    return {
        "operationId": "live_events",
        "summary": "Everything that happens from now on, or since a number.",
        "description": _CHANGES,
        "parameters": parameters,
        "responses": {"200": {"description": "Events.", "content": stream}} | _errors(),
    }


def _said(name: str, place: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "description": description, "schema": schema}


def _errors() -> dict[str, Any]:
    return {status: {"$ref": "#/components/responses/Error"} for status in ("400", "404", "default")}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": SCHEMAS + name}}}
