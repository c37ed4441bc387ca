"""What other programs use: every name, every example, every way to say which session."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect as types

import unspool
import unspool.api
import unspool.core.convert
import unspool.core.json_schema
import unspool.core.model
import unspool.data.tables
import unspool.model
from unspool.api import stream
from unspool.core.errors import NotFoundError
from unspool.core.stream import SessionLine
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, texts

SCHEMA = Path(__file__).parent.parent / "docs" / "schema" / "unspool-1.schema.json"
FUNCTIONS = [name for name in unspool.__all__ if name.islower() and not name.startswith("_")]
MODULES = [unspool, unspool.api, unspool.core.convert, unspool.core.json_schema, unspool.data.tables]


def test_all_names_are_sorted_and_real() -> None:
    """`__all__` is sorted, each name exists, and `dir` shows them."""
    assert unspool.__all__ == sorted(unspool.__all__)
    assert len(set(unspool.__all__)) == len(unspool.__all__)
    for name in unspool.__all__:
        assert getattr(unspool, name) is not None
    assert dir(unspool) == sorted([*unspool.__all__, "model"])
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        unspool.nosuch  # noqa: B018


@pytest.mark.parametrize("name", unspool.__all__)
def test_no_module_shadows_a_name(name: str) -> None:
    """A module of the same name would, as soon as it is loaded on the way."""
    spec = find_spec(f"unspool.{name}")
    assert spec is None or spec.origin is None


def test_a_star_import_gives_these_names() -> None:
    """No more and no less."""
    space: dict[str, object] = {}
    exec("from unspool import *", space)
    assert sorted(space.keys() - {"__builtins__"}) == unspool.__all__


@pytest.mark.parametrize("name", unspool.__all__)
def test_every_name_is_documented(name: str) -> None:
    """Functions and classes say what they are for."""
    value = getattr(unspool, name)
    assert name in ("Block", "Event", "StreamLine", "__version__") or inspect.getdoc(value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_used_in_an_example(name: str) -> None:
    """Somewhere in the examples it is called or passed on, the way a program would."""
    examples = [
        example.source
        for module in MODULES
        for test in doctest.DocTestFinder().find(module)
        for example in test.examples
    ]
    assert any(re.search(rf"\bunspool\.{name}\b", source) for source in examples)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run(module: object) -> None:
    """And give what they say."""
    assert inspect.ismodule(module)
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def held_by(kind: types.Type) -> Iterator[type]:
    """The Structs in a type, and in their fields."""
    waiting, seen = [kind], set()
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, types.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            waiting += [field.type for field in kind.fields]
        elif isinstance(kind, types.UnionType):
            waiting += kind.types
        elif isinstance(kind, types.ListType):
            waiting.append(kind.item_type)
    yield from seen


@pytest.mark.parametrize("record", [unspool.Session, unspool.SessionRef, unspool.ToolUse, unspool.Context])
def test_every_type_of_a_record_is_exported(record: type) -> None:
    """What a program can get, it can also name."""
    for cls in held_by(types.type_info(record)):
        assert getattr(unspool, cls.__name__) is cls
        assert cls.__name__ in unspool.__all__


def test_the_model_exports_every_type() -> None:
    """The same classes, and the names of the closed choices."""
    public = {name for name in vars(unspool.core.model) if name[0].isupper() and name not in ("Any", "Literal")}
    assert set(unspool.model.__all__) == public - {"MADE_UP_RESULT"}
    for name in unspool.model.__all__:
        assert getattr(unspool.model, name) is getattr(unspool.core.model, name)


def modules_after(program: str) -> set[str]:
    """What is loaded after some code has run in an interpreter of its own."""
    code = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_loads_no_reader() -> None:
    """The package is light until something of it is used."""
    assert {name for name in modules_after("import unspool") if name.startswith("unspool")} == {"unspool"}


@pytest.mark.parametrize(
    "program",
    [
        "import unspool; unspool.Session, unspool.model.Message",
        "import unspool; [unspool.load(ref) for ref in unspool.sessions(unspool.samples())]",
        "import unspool; [list(unspool.stream(ref)) for ref in unspool.sessions(unspool.samples())]",
        "import unspool; unspool.to_json(unspool.load(next(unspool.sessions(unspool.samples()))))",
    ],
)
def test_the_library_loads_no_application(program: str) -> None:
    """Nothing of the terminal, the web or the store, and no package that only they need."""
    loaded = modules_after(program)
    application = ("cli", "web", "store", "ingest", "runs", "render", "search")
    assert {name for name in loaded if name.startswith(tuple(f"unspool.{part}" for part in application))} == set()
    others = {"rich", "jinja2", "pygments", "markdown_it", "nh3", "watchfiles", "litestar", "uvicorn", "sqlite3"}
    assert loaded & {*others, "psycopg", "asyncio"} == set()


def test_session_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what `sessions` found, by path, by text, by id and by its beginning."""
    log = ClaudeLog()
    log.user("hello")
    log.model("hi")
    path = log.write(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    (ref,) = unspool.sessions()
    expected = unspool.load(ref)
    assert texts(expected) == ["hello", "hi"]
    home_path = f"~/{path.relative_to(tmp_path)}"
    for session in (path, str(path), home_path, log.session, log.session[:8], "latest"):
        assert unspool.load(session) == expected
        assert list(stream(session)) == list(stream(ref))
    monkeypatch.chdir(path.parent)
    for session in (Path(path.name), path.name, f"./{path.name}"):
        assert unspool.load(session) == expected


def test_a_session_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear error, whichever way it was named."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for session in ("nosuch", "latest", tmp_path / "no.jsonl", str(tmp_path / "no.jsonl"), tmp_path):
        with pytest.raises(NotFoundError):
            unspool.load(session)


def test_the_tip_is_passed_on(tmp_path: Path) -> None:
    """To `load` and to `stream` alike."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("left", name="left")
    log.user("alive", parent="start")
    path = log.write(tmp_path)
    session = unspool.load(path, tip=log.id("left"))
    assert texts(session, session.active_path()) == ["start", "left"]
    head = next(stream(path, tip=log.id("left")))
    assert isinstance(head, SessionLine)
    assert head.session.tip == session.info.tip == 1
    for unknown in ("nosuch", "²", "9" * 5000):
        with pytest.raises(NotFoundError):
            unspool.load(path, tip=unknown)


def test_sessions_are_read_again_each_time(tmp_path: Path) -> None:
    """Loading twice sees what was written in between, though libraries are kept."""
    log = CodexLog()
    log.turn("one", "1")
    path = log.write(tmp_path)
    (ref,) = unspool.sessions(tmp_path)
    assert texts(unspool.load(ref)) == ["one", "1"]
    log.turn("two", "2")
    log.write(tmp_path)
    assert texts(unspool.load(ref)) == texts(unspool.load(path)) == ["one", "1", "two", "2"]


def test_threads_may_expire_the_same_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find it, and the other one is faster."""

    class Shared(dict[Any, Any]):
        def items(self) -> Any:
            found = list(super().items())
            self.clear()
            return found

    unused = unspool.api._CachedLibrary(Library.empty(None), float("-inf"), float("-inf"))
    monkeypatch.setattr(unspool.api, "_cached", Shared({(tmp_path / "old", None): unused}))
    log = CodexLog()
    log.turn("one", "1")
    assert texts(unspool.load(log.write(tmp_path))) == ["one", "1"]


def test_samples_hold_every_agent() -> None:
    """A home like any other."""
    assert {ref.agent for ref in unspool.sessions(unspool.samples())} == {"claude", "codex", "gemini"}
    assert all(unspool.load(ref).problems == [] for ref in unspool.sessions(unspool.samples()))


def test_the_published_schema_is_current() -> None:
    """The documentation has what the code generates."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == unspool.json_schema()
