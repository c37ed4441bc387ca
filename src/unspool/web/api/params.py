"""Parameters of the API: their declaration, parsing and validation, and messages about invalid ones.

An endpoint is a plain function of the store, or of one session, and of a Struct with all its parameters. The published
description is generated from its annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Meta

from ...agents import AGENTS
from ...core import typed_json
from ...core.errors import NotFoundError
from ...redact import Redactor
from ...store.redaction_key import make_redactor
from ..errors import InvalidRequestError
from ..session_query import SessionQuery

PREFIX = "/api"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
_FIELD_OF_ERROR = re.compile(r"at `\$\.(\w+)")
_MOST_SHOWN = 60


class SessionContext(NamedTuple):
    """The session that a request is about."""

    query: SessionQuery
    seq: int
    """The number of the last change before the session was read."""


Synonyms: TypeAlias = Mapping[str, Callable[[str], str]]
"""For each parameter that accepts synonyms: a function that returns the value for a word."""


Redact = Annotated[bool, Meta(description="Replace secrets with placeholders, the same one for the same secret.")]
RedactPersonal = Annotated[
    bool, Meta(description="Also replace personal data: names of users and hosts, home directories, e-mail addresses.")
]


def find_redactor(*, redact: bool, personal: bool) -> Redactor | None:
    """Return a redactor with the key of this machine; None if none is requested."""
    return make_redactor(personal=personal) if redact or personal else None


class Params(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an endpoint."""

    synonyms: ClassVar[Synonyms] = {}

    redact: Redact = False
    redact_personal: RedactPersonal = False

    def redactor(self) -> Redactor | None:
        """Return the redactor for the response; None if none is requested."""
        return find_redactor(redact=self.redact, personal=self.redact_personal)


class Endpoint(NamedTuple):
    """A path of the API with the function that handles it."""

    path: str
    handler: Callable[..., Any]
    params: type[Params]
    response: Any
    is_of_session: bool
    """Whether it is about one session, which its parameter `key` names."""

    @classmethod
    def of(cls, path: str, handler: Callable[..., Any]) -> Endpoint:
        """Create the endpoint at a path. Everything else is derived from the annotations of the function."""
        hints = get_type_hints(handler, include_extras=True)
        response = hints.pop("return")
        source, params = hints.values()
        return cls(path, handler, params, response, source is SessionContext)

    @property
    def in_path(self) -> list[str]:
        """The parameters that are part of the path."""
        return PLACEHOLDER.findall(self.path)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches requested paths. Names may contain a slash, even an unescaped one."""
        return re.compile(PREFIX + PLACEHOLDER.sub(r"(?P<\1>.+?)", self.path) + "/?")

    @property
    def media_type(self) -> str:
        """The media type of the response: JSON, or the plain text of a log."""
        return "text/plain" if self.response is bytes else "application/json"


def find_endpoint(endpoints: Iterable[Endpoint], path: bytes) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint for an escaped path, and the parameters in the path."""
    text = path.decode("latin-1").partition("?")[0]
    for endpoint in endpoints:
        if found := endpoint.pattern.fullmatch(text):
            return endpoint, {name: _unescape(value) for name, value in found.groupdict().items()}
    raise NotFoundError(f"There is nothing at {text[:_MOST_SHOWN]}. See {PREFIX}/openapi.json for all endpoints.")


def _unescape(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequestError("The address is not valid UTF-8.", "Escape names as UTF-8.") from None


def parse_params(endpoint: Endpoint, in_path: dict[str, str], query: bytes) -> Params:
    """Return the parameters of a request, with defaults for those not given."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(endpoint.params)}
    allowed = [name for name in fields if name not in in_path]
    given = dict(in_path)
    for name, value in _pairs(query):
        if name not in allowed:
            raise InvalidRequestError(f"Unknown parameter {_shown(name)}.", f"Allowed: {_listed(allowed)}.")
        if name in given:
            raise InvalidRequestError(f"The parameter {name} is given twice.", "Give it once.")
        given[name] = value
    for name, value in given.items():
        if "\0" in value:
            raise InvalidRequestError(f"The parameter {name} contains a NUL character.", "Remove %00.")
    for name, canonical in endpoint.params.synonyms.items():
        if name in given:
            given[name] = canonical(given[name])
    if "agent" in given and given["agent"] not in AGENTS:
        raise _not_allowed(endpoint, "agent", given["agent"])
    try:
        return typed_json.convert(given, endpoint.params, strict=False)
    except msgspec.ValidationError as error:
        raise _explain(endpoint, given, str(error)) from None


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        raise InvalidRequestError(
            "There are too many parameters, or they are not valid UTF-8.", "Escape values as UTF-8."
        ) from None


def _explain(endpoint: Endpoint, given: dict[str, str], what: str) -> InvalidRequestError:
    field = _FIELD_OF_ERROR.search(what)
    name = field[1] if field is not None else ""
    if name not in given:
        return InvalidRequestError(f"A parameter is missing: {what}.", f"See {PREFIX}/openapi.json.")
    return _not_allowed(endpoint, name, given[name])


def _not_allowed(endpoint: Endpoint, name: str, value: str) -> InvalidRequestError:
    rule = describe_values(parameter_schemas(endpoint)[name])
    return InvalidRequestError(f"{name} cannot be {_shown(value)}.", f"{name} is {rule}.")


def parameter_schemas(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each parameter."""
    _, definitions = msgspec.json.schema_components([endpoint.params])
    found: dict[str, dict[str, Any]] = definitions[endpoint.params.__name__]["properties"]
    if "agent" in found:
        # The agents are only known after installed packages have been looked up.
        found["agent"] = {"description": found["agent"]["description"], "enum": list(AGENTS)}
    return found


def describe_values(schema: dict[str, Any]) -> str:
    """Describe the allowed values of a parameter."""
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if schema.get("type") == "integer":
        return f"a whole number from {schema['minimum']:,} to {schema['maximum']:,}"
    if schema.get("type") == "boolean":
        return "true or false"
    least = "not empty and " if schema.get("minLength") else ""
    return f"text, {least}no longer than {schema['maxLength']:,} characters"


def _shown(value: str) -> str:
    return repr(value if len(value) <= _MOST_SHOWN else value[: _MOST_SHOWN - 1] + "…")


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
