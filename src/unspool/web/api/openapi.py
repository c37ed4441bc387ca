"""The published description of the API, made from the same annotations that answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ... import __version__
from ...core.events import EVENT_KINDS
from ..settings import PORT
from ..views import LiveEvent
from .errors import FaultAnswer
from .params import PREFIX, Endpoint, parameter_schemas
from .run_schemas import ACTS, Act, RunEvent
from .schemas import SCHEMAS

_ABOUT = """What coding agents did on this computer, as the store of unspool holds it, and what they do: agents are
started, told, answered and ended under /api/runs. All else answers GET alone and changes nothing."""


_TEXT = {"type": "string"}
_CHANGES = (
    "What changes, as server-sent events: `id` is the number of the change, `event` its kind, `data` a LiveEvent. "
    "It goes on from `since` or the header Last-Event-ID, else from now on. It does not end."
)
_RUN_EVENTS = (
    "What happens to agents, as server-sent events: `id` is the number in the run log, `event` the kind, "
    "`data` a RunEvent. It goes on from `since` or the header Last-Event-ID, else from now on. It does not end."
)
_PLACES = {"id": "The agent that runs, or a beginning of its name.", "question": "What it asked."}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description: OpenAPI 3.1, whose schemas are JSON Schema."""
    types = [endpoint.answered for endpoint in endpoints if endpoint.answered is not bytes]
    acts = [kind for act in ACTS for kind in (act.answer, act.body) if kind is not None]
    _, components = msgspec.json.schema_components(
        [*types, *acts, FaultAnswer, LiveEvent, RunEvent, *(kind.struct for kind in EVENT_KINDS)],
        ref_template=SCHEMAS + "{name}",
    )
    paths: dict[str, dict[str, Any]] = {PREFIX + each.path: {"get": _operation(each)} for each in endpoints}
    for act in ACTS:
        paths.setdefault(PREFIX + act.path, {})[act.method] = _act(act)
    paths[f"{PREFIX}/events"] = {"get": _live()}
    paths[f"{PREFIX}/runs/events"] = {"get": _run_events()}
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


def _act(act: Act) -> dict[str, Any]:
    (answer,), _ = msgspec.json.schema_components([act.answer], ref_template=SCHEMAS + "{name}")
    content = {"application/json": {"schema": answer}}
    places = [name for name in _PLACES if f"{{{name}}}" in act.path]
    described: dict[str, Any] = {
        "operationId": f"{act.name}_run" if act.body else act.name,
        "summary": act.summary,
        "parameters": [{**_said(name, "path", _PLACES[name], _TEXT), "required": True} for name in places],
        "responses": {str(act.status): {"description": act.summary, "content": content}} | _errors(),
    }
    if act.body is not None:
        described["requestBody"] = {"required": True, "content": _json(act.body.__name__)}
        described["responses"]["409"] = {"$ref": "#/components/responses/Error"}
    return described


def _run_events() -> dict[str, Any]:
    return {
        "operationId": "run_events",
        "summary": "Everything that happens to agents from now on, or since a number.",
        "description": _RUN_EVENTS,
        "parameters": [
            _said("since", "query", "The number of the last event that is known.", {"type": "integer", "minimum": 0}),
            _said("Last-Event-ID", "header", "The same as `since`; browsers send it when they connect again.", _TEXT),
        ],
        "responses": {"200": {"description": "Events.", "content": _stream("RunEvent")}} | _errors(),
    }


def _live() -> dict[str, Any]:
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
        "responses": {"200": {"description": "Events.", "content": _stream("LiveEvent")}} | _errors(),
    }


def _stream(name: str) -> dict[str, Any]:
    return {"text/event-stream": {"schema": {"$ref": SCHEMAS + name}}}


def _said(name: str, place: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "description": description, "schema": schema}


def _errors() -> dict[str, Any]:
    return {status: {"$ref": "#/components/responses/Error"} for status in ("400", "404", "default")}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": SCHEMAS + name}}}
