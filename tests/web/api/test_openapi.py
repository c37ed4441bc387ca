"""The published description of the API is current and valid, and every response matches it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, settings
from litestar import Litestar
from litestar.params import PathParameter, QueryParameter
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from unspool.store import Store
from unspool.store.filters import SessionFilter
from unspool.web.api.openapi import openapi, openapi_text
from unspool.web.api.routes import ENDPOINTS, query
from unspool.web.api.run_schemas import RUN_ENDPOINTS, RunEventKind
from unspool.web.app import create_app
from unspool.web.errors import CODES
from unspool.web.settings import Settings
from unspool.web.views import LiveEventKind

from ...regen import OPENAPI
from ..conftest import PORT, TOKEN

# Importing Schemathesis takes most of a second, and every worker collects this module.
if TYPE_CHECKING:
    import schemathesis
    from schemathesis.checks import CheckFunction
    from schemathesis.schemas import BaseSchema

    Case = schemathesis.Case[Any]
    TryCases = Callable[[Callable[[Case], None]], None]

Client = TestClient[Litestar]
REFERENCE = re.compile(r'"\$ref": ?"#([^"]+)"')
ENDLESS = ["/api/events", "/api/runs/events"]
OF_AGENTS = r"^/api/(runs|agents)"
# Schemathesis adds some sixty cases of its own to each operation: each boundary of every parameter, and each kind of
# mistake. A few random cases on top of those are enough, as they are the same in every run.
BOUNDED = settings(
    max_examples=3,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


OPERATIONS = [
    (method.upper(), path)
    for path, item in openapi(ENDPOINTS)["paths"].items()
    if path not in ENDLESS
    for method in item
]


def each_operation(pattern: str, but: str = "$^") -> pytest.MarkDecorator:
    """Make a test for each operation whose path matches."""
    chosen = [(method, path) for method, path in OPERATIONS if re.search(pattern, path) and not re.search(but, path)]
    return pytest.mark.parametrize("operation", chosen, ids=" ".join)


@pytest.fixture(scope="module")
def described() -> BaseSchema:
    """The description as Schemathesis reads it."""
    import schemathesis

    config = schemathesis.Config.from_dict({"generation": {"mode": "all"}})
    return schemathesis.openapi.from_dict(openapi(ENDPOINTS), config=config)


@pytest.fixture
def try_cases(described: BaseSchema, operation: tuple[str, str]) -> TryCases:
    """Run a check with many cases of one operation.

    They are built here, not by Schemathesis' decorator while tests are collected: every worker collects all tests.
    """
    from schemathesis.core.result import Ok
    from schemathesis.pytest.lazy import get_all_tests

    method, path = operation

    def try_all(check: Callable[[Case], None]) -> None:
        def one_case(case: Case) -> None:
            check(case)

        chosen = described.include(path=path, method=method)
        for found in get_all_tests(schema=chosen, test_func=one_case, settings=BOUNDED, given_kwargs=None):
            assert isinstance(found, Ok)
            _, test = found.ok()
            test()

    return try_all


def test_the_published_description_is_up_to_date() -> None:
    """`make regen` writes it again."""
    assert OPENAPI.read_bytes() == openapi_text(ENDPOINTS)


def test_the_server_publishes_it(client: Client) -> None:
    """To clients with the token."""
    assert client.get("/api/openapi.json").content == openapi_text(ENDPOINTS)


def test_the_description_is_sound() -> None:
    """Its schemas are valid, and all references resolve."""
    text = openapi_text(ENDPOINTS).decode()
    whole = openapi(ENDPOINTS)
    for target in set(REFERENCE.findall(text)):
        place: Any = whole
        for part in target.strip("/").split("/"):
            place = place[part]
    for found in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(found)
    names = [operation["operationId"] for item in whole["paths"].values() for operation in item.values()]
    assert len(set(names)) == len(names) == len(ENDPOINTS) + len(RUN_ENDPOINTS) + len(ENDLESS)


def test_everything_is_explained() -> None:
    """Each address and each parameter says what it is for."""
    for path, item in openapi(ENDPOINTS)["paths"].items():
        for operation in item.values():
            assert operation["summary"], path
            for parameter in operation["parameters"]:
                assert parameter.get("description"), (path, parameter["name"])


def parameters_of(operation: dict[str, Any], places: tuple[str, ...]) -> set[tuple[str, str, bool]]:
    """The declared parameters: name, place, and whether it is required."""
    found = operation["parameters"]
    return {(each["name"], each["in"], each["required"]) for each in found if each["in"] in places}


def test_every_part_of_a_path_is_declared() -> None:
    for path, item in openapi(ENDPOINTS)["paths"].items():
        for operation in item.values():
            names = re.findall(r"\{(\w+)\}", path)
            assert parameters_of(operation, ("path",)) == {(name, "path", True) for name in names}, path


def test_every_parameter_that_is_read_is_declared(app: Litestar) -> None:
    """For handlers that read their parameters themselves."""
    paths = openapi(ENDPOINTS)["paths"]
    compared = 0
    for route in app.routes:
        path = re.sub(r":\w+", "", route.path)
        for handler in route.route_handlers if isinstance(route, HTTPRoute) and path in paths else ():
            for method in {each.lower() for each in handler.http_methods} & paths[path].keys():
                if handler.fn is not query.fn:
                    assert parameters_of(paths[path][method], ("path", "query")) == read_by(handler.fn), path
                    compared += 1
    assert compared == len(RUN_ENDPOINTS) + len(ENDLESS)


def read_by(handler: Callable[..., object]) -> set[tuple[str, str, bool]]:
    """The parameters in the signature of a handler: name, place, and whether it is required."""
    places = {PathParameter: "path", QueryParameter: "query"}
    defaults = inspect.signature(handler).parameters
    return {
        (name, places[type(mark)], defaults[name].default is inspect.Parameter.empty)
        for name, hint in get_type_hints(handler, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if type(mark) in places
    }


def test_what_the_server_answers_is_what_is_described(app: Litestar) -> None:
    """No address under which something can be done to agents is left out, and none is made up."""
    routes = {
        (method.lower(), re.sub(r":\w+", "", route.path))
        for route in app.routes
        if isinstance(route, HTTPRoute) and re.match(OF_AGENTS, route.path)
        for method in route.methods - {"OPTIONS"}
    }
    paths = openapi(ENDPOINTS)["paths"]
    assert routes == {(method, path) for path in paths if re.match(OF_AGENTS, path) for method in paths[path]}


def test_the_page_about_the_api_names_everything() -> None:
    """Each address, each kind of change, each code of an error."""
    page = (OPENAPI.parents[1] / "api.md").read_text()
    assert [path for path in openapi(ENDPOINTS)["paths"] if f"| `{path}` |" not in page] == []
    assert [kind for kind in get_args(LiveEventKind) + get_args(RunEventKind) if f"`{kind}`" not in page] == []
    assert [code for code in CODES.values() if f"`{code}`" not in page] == []


def conformance() -> list[CheckFunction]:
    """What every response has to pass."""
    from schemathesis import checks

    return [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]


def asked(client: Client, case: Case) -> schemathesis.Response:
    """The answer to a generated question."""
    import schemathesis
    from schemathesis.core import NotSet

    body = case.body
    content = b"" if isinstance(body, NotSet) else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.request(case.method, case.formatted_path, params=dict(case.query or {}), content=content)
    return schemathesis.Response.from_any(answer)


@each_operation("", but=OF_AGENTS)
def test_any_question_gets_an_answer_of_the_published_form(client: Client, try_cases: TryCases) -> None:
    """Sound ones and broken ones: no fault, and never another shape than the description says."""
    from schemathesis.checks import negative_data_rejection

    checks = [*conformance(), negative_data_rejection]
    try_cases(lambda case: case.validate_response(asked(client, case), checks=checks))


@each_operation(r"\{(key|project)\}")
def test_any_question_about_something_real(client: Client, store: Store, try_cases: TryCases) -> None:
    """The same with sessions and projects that exist."""
    rows = store.sessions.select(SessionFilter(kind="main"))

    def check(case: Case) -> None:
        known = {"key": rows[len(str(case.query)) % len(rows)].name, "project": "demo", "index": 0}
        case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
        case.validate_response(asked(client, case), checks=conformance())

    try_cases(check)


@pytest.fixture(scope="module")
def idle(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server that has no agents to start."""
    settings = Settings(
        token=TOKEN, store=str(store_path), port=PORT, follows=False, data=str(tmp_path_factory.mktemp("idle"))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unspool.runs.registry.DRIVERS", {})
        with TestClient(create_app(settings), base_url=f"http://127.0.0.1:{PORT}") as client:
            client.headers.update({"authorization": f"Bearer {TOKEN}"})
            yield client


@each_operation(OF_AGENTS)
def test_whatever_is_asked_of_agents_gets_an_answer(idle: Client, try_cases: TryCases) -> None:
    """No request causes a server error, and every response matches the description."""
    try_cases(lambda case: case.validate_response(asked(idle, case), checks=conformance()))


def test_an_agent_that_runs_is_described(idle: Client) -> None:
    """The first requests of a program: it lists agents, and gets the reason why something cannot be done."""
    assert idle.get("/api/agents").json() == []
    assert idle.get("/api/runs").json()["runs"] == []
    answer = idle.post("/api/runs", json={"agent": "claude", "folder": "/"})
    assert answer.status_code == 400
    assert "Unknown agent 'claude'" in answer.json()["error"]["message"]


@pytest.mark.parametrize("folder", ["", ".", "project"])
def test_a_request_that_is_refused_makes_no_worktree(
    idle: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Neither of the directory that the server was started in, nor before the rest of the request is checked."""
    project = tmp_path / "project"
    subprocess.run(("git", "init", "-q", project), check=True)
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", "-C", project, *identity, "commit", "-qm", "first", "--allow-empty"), check=True)
    monkeypatch.chdir(tmp_path if folder == "project" else project)
    for place in (folder, str(project)):
        answer = idle.post("/api/runs", json={"agent": "claude", "folder": place, "worktree": True})
        assert answer.status_code == 400
    assert list(tmp_path.iterdir()) == [project]
