"""The published description of the API, generated from the annotations of its endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ... import __version__
from ...core.events import EVENT_KINDS
from ...runs.run_view import RunView
from ..errors import ErrorBody
from ..settings import PORT
from ..views import LiveEvent
from .params import PLACEHOLDER, PREFIX, Endpoint, Params, parameter_schemas
from .run_schemas import RUN_ENDPOINTS, RunEndpoint, RunEvent, RunList
from .schemas import SCHEMAS

_DESCRIPTION = """The sessions of coding agents on this computer, as unspool stores them. Agents are started, messaged,
answered and stopped under /api/runs. GET requests change nothing."""

_TEXT = {"type": "string"}
_CHANGES = (
    "Changes to the store as server-sent events: `id` is the number of the change, `event` its kind, `data` a "
    "LiveEvent. The stream starts after `since` or the header Last-Event-ID, otherwise now, and does not end."
)
_RUN_EVENTS = (
    "Events of running agents as server-sent events: `id` is the number in the run log, `event` the kind, "
    "`data` a RunEvent. The stream starts after `since` or the header Last-Event-ID, otherwise now, and does not end."
)
_IN_PATH = {
    "id": "The id of a run, or a unique prefix of it.",
    "message": "The id of a message, as chosen by its sender.",
    "question": "The id of an approval request.",
    "process": "The agent's id of a background process.",
}
"""Descriptions of the parts of paths that are parameters."""


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description in OpenAPI 3.1, which uses JSON Schema."""
    types = [endpoint.response for endpoint in endpoints if endpoint.response is not bytes]
    run_types = [kind for each in RUN_ENDPOINTS for kind in (each.response, each.body) if kind is not None]
    _, components = msgspec.json.schema_components(
        [*types, *run_types, ErrorBody, LiveEvent, RunEvent, *(kind.struct for kind in EVENT_KINDS)],
        ref_template=SCHEMAS + "{name}",
    )
    paths: dict[str, dict[str, Any]] = {PREFIX + each.path: {"get": _operation(each)} for each in endpoints}
    for each_run in RUN_ENDPOINTS:
        paths.setdefault(PREFIX + each_run.path, {})[each_run.method] = _run_operation(each_run)
    paths[f"{PREFIX}/events"] = {"get": _live_events()}
    paths[f"{PREFIX}/runs/events"] = {"get": _run_events()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "unspool", "version": __version__, "description": _DESCRIPTION},
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "responses": {"Error": {"description": "An error.", "content": _json("ErrorBody")}},
            "headers": {"ETag": {"description": "Changes whenever the response does.", "schema": _TEXT}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": f"unspool-{PORT}"},
            },
        },
    }


def openapi_text(endpoints: Sequence[Endpoint]) -> bytes:
    """Return the description as JSON text."""
    return msgspec.json.format(msgspec.json.encode(openapi(endpoints), order="deterministic"), indent=2) + b"\n"


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    content = {"text/plain": {"schema": _TEXT}} if endpoint.response is bytes else _json(endpoint.response.__name__)
    summary = (endpoint.handler.__doc__ or "").strip()
    responses = {
        "200": {"description": summary, "content": content, "headers": {"ETag": {"$ref": "#/components/headers/ETag"}}},
        "304": {"description": "Not modified."},
    }
    return {
        "operationId": endpoint.handler.__name__,
        "summary": summary,
        "parameters": [_parameter(endpoint, *item) for item in parameter_schemas(endpoint).items()],
        "responses": responses | _errors(),
    }


def _parameter(endpoint: Endpoint, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    description = {"description": schema["description"]} if "description" in schema else {}
    rest = {key: value for key, value in schema.items() if key != "description" and (key, value) != ("default", "")}
    is_in_path = name in endpoint.in_path
    location = "path" if is_in_path else "query"
    return {"name": name, "in": location, "required": is_in_path, **description, "schema": rest}


def _run_operation(endpoint: RunEndpoint) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([endpoint.response], ref_template=SCHEMAS + "{name}")
    content = {"application/json": {"schema": schema}}
    described: dict[str, Any] = {
        "operationId": f"{endpoint.name}_run" if endpoint.body else endpoint.name,
        "summary": endpoint.summary,
        "parameters": [
            *(_param(name, "path", _IN_PATH[name], _TEXT, True) for name in PLACEHOLDER.findall(endpoint.path)),
            *(_param(name, "query", text, _TEXT, needed) for name, text, needed in endpoint.in_query),
            *(_redaction() if endpoint.response in (RunList, RunView) and endpoint.body is None else ()),
        ],
        "responses": {str(endpoint.status): {"description": endpoint.summary, "content": content}} | _errors(),
    }
    if endpoint.body is not None:
        described["requestBody"] = {"required": True, "content": _json(endpoint.body.__name__)}
        described["responses"]["409"] = {"$ref": "#/components/responses/Error"}
    return described


def _run_events() -> dict[str, Any]:
    return {
        "operationId": "run_events",
        "summary": "All events of running agents from now on, or after a number.",
        "description": _RUN_EVENTS,
        "parameters": [
            _param("since", "query", "The number of the last known event.", {"type": "integer", "minimum": 0}),
            _param("Last-Event-ID", "header", "The same as `since`; browsers send it when they reconnect.", _TEXT),
            *_redaction(),
        ],
        "responses": {"200": {"description": "Events.", "content": _stream("RunEvent")}} | _errors(),
    }


def _live_events() -> dict[str, Any]:
    parameters = [
        _param("since", "query", "The number of the last known change.", {"type": "integer", "minimum": 0}),
        _param(
            "session", "query", "Sessions whose new entries are also sent as HTML.", {"type": "array", "items": _TEXT}
        ),
        _param("Last-Event-ID", "header", "The same as `since`; browsers send it when they reconnect.", _TEXT),
        *_redaction(),
    ]
    return {
        "operationId": "live_events",
        "summary": "All changes from now on, or after a number.",
        "description": _CHANGES,
        "parameters": parameters,
        "responses": {"200": {"description": "Events.", "content": _stream("LiveEvent")}} | _errors(),
    }


def _redaction() -> list[dict[str, Any]]:
    """Return the redaction parameters, for endpoints that have no Struct for their parameters."""
    _, definitions = msgspec.json.schema_components([Params])
    fields = definitions[Params.__name__]["properties"]
    return [_param(name, "query", field.pop("description"), field) for name, field in fields.items()]


def _stream(name: str) -> dict[str, Any]:
    return {"text/event-stream": {"schema": {"$ref": SCHEMAS + name}}}


def _param(
    name: str, location: str, description: str, schema: dict[str, Any], is_required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": location, "required": is_required, "description": description, "schema": schema}


def _errors() -> dict[str, Any]:
    return {status: {"$ref": "#/components/responses/Error"} for status in ("400", "404", "default")}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": SCHEMAS + name}}}
