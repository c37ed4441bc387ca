"""From an address to a question: which parameters there are, what they may be, and a sentence where they are wrong.

An endpoint is a plain function of the store, or of one session, and of a Struct with all parameters. What the function
is annotated with is also what the published description says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec

from ...core.errors import NotFoundError
from ..session_query import SessionQuery
from .errors import RefusedError

PREFIX = "/api"
_PLACE = re.compile(r"\{(\w+)\}")
_WRONG = re.compile(r"at `\$\.(\w+)")
_MOST_SHOWN = 60


class About(NamedTuple):
    """The session that is asked about."""

    reader: SessionQuery
    seq: int
    """The last change before anything of it was read."""


Synonyms: TypeAlias = Mapping[str, Callable[[str], str]]
"""For parameters that accept synonyms of their values: a function that gives the value for a word."""


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an endpoint."""

    synonyms: ClassVar[Synonyms] = {}


class Endpoint(NamedTuple):
    """An address, what is asked there, and what is answered."""

    path: str
    answer: Callable[..., Any]
    asked: type[Asked]
    answered: Any
    is_of_session: bool
    """Answered from one session, which its parameter `key` names."""

    @classmethod
    def of(cls, path: str, answer: Callable[..., Any]) -> Endpoint:
        """The endpoint at an address; all else is told by the annotations of the function."""
        hints = get_type_hints(answer, include_extras=True)
        answered = hints.pop("return")
        source, asked = hints.values()
        return cls(path, answer, asked, answered, source is About)

    @property
    def in_path(self) -> list[str]:
        """The parameters that are part of the address."""
        return _PLACE.findall(self.path)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds addresses of this form. Names may hold a slash, even where somebody did not escape it."""
        return re.compile(PREFIX + _PLACE.sub(r"(?P<\1>.+?)", self.path) + "/?")

    @property
    def media_type(self) -> str:
        """JSON, or text as it stands in a file."""
        return "text/plain" if self.answered is bytes else "application/json"


def find_endpoint(endpoints: Iterable[Endpoint], path: bytes) -> tuple[Endpoint, dict[str, str]]:
    """The endpoint at an address that has not been unescaped, and the parameters in it."""
    text = path.decode("latin-1").partition("?")[0]
    for endpoint in endpoints:
        if found := endpoint.pattern.fullmatch(text):
            return endpoint, {name: _unescaped(value) for name, value in found.groupdict().items()}
    raise NotFoundError(f"there is nothing at {text[:_MOST_SHOWN]}; {PREFIX}/openapi.json tells what there is")


def _unescaped(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise RefusedError("The address is not UTF-8.", "Escape names as UTF-8, byte for byte.") from None


def understood(endpoint: Endpoint, in_path: dict[str, str], query: bytes) -> Asked:
    """The question, with everything in it that was not said."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(endpoint.asked)}
    allowed = [name for name in fields if name not in in_path]
    given = dict(in_path)
    for name, value in _pairs(query):
        if name not in allowed:
            raise RefusedError(f"There is no parameter {_shown(name)} here.", f"Allowed: {_listed(allowed)}.")
        if name in given:
            raise RefusedError(f"The parameter {name} is given twice.", "Give it once.")
        given[name] = value
    for name, value in given.items():
        if "\0" in value:
            raise RefusedError(f"The parameter {name} holds a character that no text has.", "Leave out %00.")
    for name, meant in endpoint.asked.synonyms.items():
        if name in given:
            given[name] = meant(given[name])
    try:
        return msgspec.convert(given, endpoint.asked, strict=False)
    except msgspec.ValidationError as error:
        raise _refusal(endpoint, given, str(error)) from None


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        raise RefusedError(
            "The parameters are too many, or not UTF-8.", "Escape values as UTF-8, byte for byte."
        ) from None


def _refusal(endpoint: Endpoint, given: dict[str, str], what: str) -> RefusedError:
    named = _WRONG.search(what)
    name = named[1] if named is not None else ""
    if name not in given:
        return RefusedError(f"Something is missing: {what}.", f"{PREFIX}/openapi.json tells what is needed.")
    rule = in_words(parameter_schemas(endpoint)[name])
    return RefusedError(f"{name} cannot be {_shown(given[name])}.", f"{name} is {rule}.")


def parameter_schemas(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """The JSON Schema of each parameter."""
    _, definitions = msgspec.json.schema_components([endpoint.asked])
    found: dict[str, dict[str, Any]] = definitions[endpoint.asked.__name__]["properties"]
    return found


def in_words(schema: dict[str, Any]) -> str:
    """What a parameter may be."""
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
