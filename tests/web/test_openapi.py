"""The published description of the API is up to date, sound, and true whatever is asked."""

from __future__ import annotations

import re
from typing import Any, get_args

import jsonschema
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from litestar import Litestar
from litestar.testing import TestClient
from schemathesis.checks import (
    CheckFunction,
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from unspool.store import Store
from unspool.web.api.errors import CODES
from unspool.web.api.openapi import openapi, openapi_text
from unspool.web.api.routes import ENDPOINTS
from unspool.web.wire import EventKind

from ..regen import OPENAPI

Client = TestClient[Litestar]
Question = schemathesis.Case[Any]
REFERENCE = re.compile(r'"\$ref": ?"#([^"]+)"')
ENDLESS = "/api/events"
CHECKS: list[CheckFunction] = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance,
]  # fmt: skip
BOUNDED = settings(
    max_examples=12, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def described() -> OpenApiSchema:
    """The description, without the stream that does not end."""
    config = schemathesis.Config.from_dict({"generation": {"mode": "all"}})
    schema = schemathesis.openapi.from_dict(openapi(ENDPOINTS), config=config)
    found = schema.exclude(path=ENDLESS)
    assert isinstance(found, OpenApiSchema)
    return found


schema = described()


def test_the_published_description_is_up_to_date() -> None:
    """`make regen` writes it anew."""
    assert OPENAPI.read_bytes() == openapi_text(ENDPOINTS)


def test_the_server_publishes_it(client: Client) -> None:
    """To whoever has the token."""
    assert client.get("/api/openapi.json").content == openapi_text(ENDPOINTS)


def test_the_description_is_sound() -> None:
    """Its schemas are schemas, and what they refer to is there."""
    text = openapi_text(ENDPOINTS).decode()
    whole = openapi(ENDPOINTS)
    for target in set(REFERENCE.findall(text)):
        place: Any = whole
        for part in target.strip("/").split("/"):
            place = place[part]
    for found in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(found)
    operations = [operation["get"]["operationId"] for operation in whole["paths"].values()]
    assert len(set(operations)) == len(operations) == len(ENDPOINTS) + 1


def test_everything_is_explained() -> None:
    """Each address and each parameter says what it is for."""
    for path, item in openapi(ENDPOINTS)["paths"].items():
        assert item["get"]["summary"], path
        for parameter in item["get"]["parameters"]:
            assert parameter.get("description"), (path, parameter["name"])


def test_the_page_about_the_api_names_everything() -> None:
    """Each address, each kind of change, each code of an error."""
    page = (OPENAPI.parents[1] / "api.md").read_text()
    assert [path for path in openapi(ENDPOINTS)["paths"] if f"| `{path}` |" not in page] == []
    assert [kind for kind in get_args(EventKind) if f"`{kind}`" not in page] == []
    assert [code for code in CODES.values() if f"`{code}`" not in page] == []


def asked(client: Client, case: Question) -> schemathesis.Response:
    """The answer to a generated question."""
    answer = client.request(case.method, case.formatted_path, params=dict(case.query or {}))
    return schemathesis.Response.from_any(answer)


@schema.parametrize()
@BOUNDED
def test_any_question_gets_an_answer_of_the_published_form(client: Client, case: Question) -> None:
    """Sound ones and broken ones: no fault, and never another shape than the description says."""
    case.validate_response(asked(client, case), checks=[*CHECKS, negative_data_rejection])


@schema.include(path_regex=r"\{(key|project)\}").parametrize()
@BOUNDED
def test_any_question_about_something_real(client: Client, store: Store, case: Question) -> None:
    """The same with sessions and projects that are there."""
    rows = store.sessions("session.kind = 'main'")
    known = {"key": rows[len(str(case.query)) % len(rows)].name, "project": "demo", "index": 0}
    case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
    case.validate_response(asked(client, case), checks=CHECKS)
