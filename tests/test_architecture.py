"""The layers of the package, and limits on the size of files, functions and classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

import unspool
from tools import measure
from unspool.agents import AGENTS
from unspool.core.events import EVENT_KINDS

PACKAGE = Path(unspool.__file__).parent
LAYERS = (
    ("_version",),
    ("core", "io"),
    ("agents",),
    ("formats", "redact", "render", "search", "usage"),
    ("store",),
    ("library", "model", "catalog", "repositories"),
    ("ingest",),
    ("data",),
    ("spark",),
    ("api", "repair", "testing"),
    ("runs",),
    ("mcp",),
    ("web",),
    ("cli",),
    ("__main__",),
)
"""From the bottom up: a package imports the packages below it, and those on its own layer."""
FIELDS_OF_AGENTS = (
    "parentUuid", "toolUseResult", "isSidechain", "isMeta", "leafUuid", "response_item", "event_msg", "\"call_id\"",
    "turn_aborted", "$rewindTo", "$set", "projectHash", "functionResponse",
)  # fmt: skip
SQL = re.compile(
    r"\bSELECT\s[^;]*\bFROM\b|\b(?:INSERT INTO|DELETE FROM|CREATE (?:TABLE|INDEX)|ALTER TABLE)\b|\bUPDATE \w+ SET\b|"
    r"\bPRAGMA\b|\b(?:ORDER|GROUP) BY\b|\b\w+\.\w+ (?:=|<>|[<>]=?|IN|LIKE|IS NOT|IS) (?:\(?\?|NULL)"
)
"""Statements, and fragments of conditions."""
PREPARING = tuple(
    f"msgspec.{name}(" for name in ("json.Decoder", "json.decode", "msgpack.Decoder", "msgpack.decode", "convert")
)
"""Calls that may be the first to use a Struct."""
WITH_SQL = ("store", "data.sql")
"""The store, the log of runs, which has a database of its own, and the tables in DuckDB."""
NAMES_AGENTS = {
    "api.py": "examples run on the samples",
    "cli/commands/event_list.py": "an example in the help",
    "cli/commands/ls.py": "an example in the help",
    "cli/commands/run.py": "an example in the help",
    "testing/__init__.py": "exports the log builders",
    "testing/claude.py": "builds logs",
    "testing/codex.py": "builds logs",
    "testing/gemini.py": "builds logs",
}
"""Source files outside `agents/` and `runs/drivers/` that may name an agent, and why."""
LARGE_CLASSES = {
    "agents.gemini.parser.GeminiParser": "one short handler for each of the record types of all versions",
}
"""Classes over the limit, and why."""
_WITH_STATEMENTS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of syntax trees."""
MAX_TEMPLATE_LINE = 120
WALKS = {"A line, from the file to the screen": 27, "An approval": 16, "A search": 12}
"""How many files the description of a walk through the code may name: a newcomer has to open them all."""


def modules() -> list[str]:
    """All modules by their dotted name below the package."""
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if "samples" not in path.parts)
    return sorted(
        ".".join(path.with_suffix("").parts) for path in paths if path.name != "__init__.py" or len(path.parts) > 1
    )


def path_of(module: str) -> Path:
    """The file of a module."""
    return PACKAGE / (module.replace(".", "/") + ".py")


def parsed(module: str) -> ast.Module:
    """A module's source."""
    return measure.tree_of(path_of(module))


@cache
def imports(module: str, *, with_lazy: bool = True) -> frozenset[str]:
    """The modules of the package that a module imports, also in functions, but not for types alone."""
    found = set()
    for node in _nodes(parsed(module), with_lazy):
        if isinstance(node, ast.ImportFrom) and node.level:
            found |= _targets(module, node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unspool"):
            found.add((node.module or "").partition(".")[2])
    return frozenset(name for name in found if name)


def _nodes(tree: ast.AST, with_lazy: bool) -> Iterator[ast.AST]:
    """All statements, and the parts of a statement that have others: imports are never inside an expression."""
    for node in chain.from_iterable(getattr(tree, part, ()) for part in _WITH_STATEMENTS):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if not with_lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        yield from _nodes(node, with_lazy)


def _targets(module: str, node: ast.ImportFrom) -> set[str]:
    base = [*module.split(".")[: -node.level], *(node.module.split(".") if node.module else [])]
    found = set()
    for alias in node.names:
        as_module = ".".join([*base, alias.name])
        found.add(as_module if _exists(as_module) else ".".join(base))
    return {name if _is_file(name) else f"{name}.__init__" for name in found if name}


def _is_file(name: str) -> bool:
    return path_of(name).exists()


def _exists(name: str) -> bool:
    return _is_file(name) or (PACKAGE / name.replace(".", "/")).is_dir()


def layer_of(module: str) -> int:
    """The number of a module's layer."""
    package = module.split(".")[0]
    return next(number for number, packages in enumerate(LAYERS) if package in packages)


def offenders(names: Iterable[str], found_in: Callable[[str], Collection[object]]) -> dict[str, Collection[object]]:
    """What breaks a rule, by module. One test for all modules: a test for each would take longer than the checks."""
    return {name: found for name in names if (found := found_in(name))}


def test_modules_import_only_lower_layers() -> None:
    """Imports go down, or to a module on the same layer."""

    def above(module: str) -> set[str]:
        return {name for name in imports(module) if layer_of(name) > layer_of(module)}

    assert offenders(modules(), above) == {}


def test_there_are_no_cycles() -> None:
    """Modules can be loaded one after the other."""
    graph = {module: imports(module, with_lazy=False) for module in modules()}
    order = list(TopologicalSorter(graph).static_order())
    assert len(order) >= len(graph)


def test_agents_do_not_import_each_other() -> None:
    """One agent's reader can be removed without touching another's."""

    def others(module: str) -> set[str]:
        own = module.split(".")[1]
        imported = (name.split(".") for name in imports(module) if name.startswith("agents."))
        return {parts[1] for parts in imported if parts[1] in AGENTS} - {own}

    readers = [name for name in modules() if name.startswith("agents.") and name.split(".")[1] in AGENTS]
    assert offenders(readers, others) == {}


def test_agents_are_named_in_one_place() -> None:
    """A new agent is a folder and a row of the table: nothing else knows which agents there are."""
    names = re.compile("|".join(AGENTS), re.IGNORECASE)
    texts = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".html", ".css", ".js", ".svg", ".sql"))
    naming = {
        path.relative_to(PACKAGE).as_posix()
        for path in texts
        if not {"samples", "agents", "drivers"} & set(path.relative_to(PACKAGE).parts[:-1])
        and names.search(path.read_text(encoding="utf-8"))
    }
    assert naming == set(NAMES_AGENTS)


def test_field_names_of_agents_stay_in_their_readers() -> None:
    """Only an agent's reader, and the builders of logs for tests, use the names of its fields."""

    def fields(module: str) -> list[str]:
        source = path_of(module).read_text()
        return [name for name in FIELDS_OF_AGENTS if name in source]

    assert offenders((name for name in modules() if not name.startswith(("agents.", "testing."))), fields) == {}


def test_sizes_are_limited() -> None:
    """Files, functions and classes stay small enough to read."""

    def large(module: str) -> list[object]:
        path = path_of(module)
        lines = len(path.read_text().splitlines())
        functions = [size for size in measure.functions_in(path) if size.lines >= measure.MAX_FUNCTION_LINES]
        classes = [
            size
            for size in measure.classes_in(path)
            if (size.lines > measure.MAX_CLASS_LINES or size.fields > measure.MAX_CLASS_FIELDS)
            and f"{module}.{size.name}" not in LARGE_CLASSES
        ]
        return [*([f"{lines} lines"] if lines > measure.MAX_FILE_LINES else []), *functions, *classes]

    assert offenders(modules(), large) == {}


def test_template_lines_are_short() -> None:
    """As short as lines of Python, so that a change of one element is one line of a diff."""

    def long(name: str) -> list[str]:
        lines = (PACKAGE / name).read_text(encoding="utf-8").splitlines()
        return [line for line in lines if len(line) > MAX_TEMPLATE_LINE]

    assert offenders(_names(PACKAGE.glob("*/templates/*.html")), long) == {}


def _names(paths: Iterable[Path]) -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in paths)


@pytest.mark.parametrize(("title", "limit"), WALKS.items())
def test_walks_name_few_files_that_exist(title: str, limit: int) -> None:
    """The walks through the code in the documentation."""
    text = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w/-]+\.(?:py|js|html))`", section))
    assert 4 < len(named) < limit
    assert [path for path in named if not (PACKAGE / path).exists()] == []


def test_class_names_are_unique_in_a_package() -> None:
    """A class name identifies one class."""
    assert measure.duplicate_classes() == {}


# --- event kinds -----------------------------------------------------------------------------------------------------

EVENT_TABLE = "core.events"
EVENT_WORDS = {word: kind.name for kind in EVENT_KINDS for word in (kind.name, kind.plural, kind.tag, kind.field)}
ONLY_EVENTS = {"compaction", "interruption", "rejection", "rollback", "orphan"}
"""Other lists may share words with the kinds of events, such as how a session began; they have none of these."""
WORD = re.compile(r"[a-z_]+")
TEXT_FILES = sorted(
    path for path in PACKAGE.rglob("*.*") if path.suffix in (".html", ".js", ".css") and "samples" not in path.parts
)


def kinds_in(texts: Iterable[str]) -> set[str]:
    """The kinds of events that some texts name, if they are a list of kinds at all."""
    kinds = {EVENT_WORDS[text] for text in texts if text in EVENT_WORDS}
    return kinds if len(kinds) > 2 and kinds & ONLY_EVENTS else set()


def listed_strings(path: Path) -> Iterator[list[str]]:
    """The strings of each tuple, list, set, dict and call, and the words of each string that is not a docstring."""
    nodes = measure.nodes_of(path)
    statements = (node.value for node in nodes if isinstance(node, ast.Expr))
    documentation = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield WORD.findall(node.value)
        elif not isinstance(node, ast.stmt | ast.Module):
            yield [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]


def test_event_kinds_are_named_in_one_place() -> None:
    """Code that needs several kinds of events gets them from the table."""

    def listed(module: str) -> list[list[str]]:
        path = path_of(module)
        # Most modules name no kinds at all, and need not be searched for lists of them.
        if not kinds_in(word for text in measure.strings(path) for word in (text, *WORD.findall(text))):
            return []
        return [texts for texts in listed_strings(path) if kinds_in(texts)]

    # Rules explain what single kinds of events are based on; a test of theirs checks the names.
    checked = [name for name in modules() if name != EVENT_TABLE and not name.endswith(".rules")]
    assert offenders(checked, listed) == {}


def test_event_kinds_are_not_listed_in_templates_scripts_and_styles() -> None:
    """The same for what is not Python: no line names several kinds."""

    def listed(name: str) -> list[str]:
        return [line for line in (PACKAGE / name).read_text().splitlines() if kinds_in(WORD.findall(line))]

    assert offenders(_names(TEXT_FILES), listed) == {}


def test_sql_is_written_in_the_store() -> None:
    """Other code calls the parts of a store, with typed filters, and never its database."""

    def statements(module: str) -> list[str]:
        nodes = measure.nodes_of(path_of(module))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        uses = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in ("rows", "insert")]
        databases = [node for node in uses if isinstance(node, ast.Attribute) and node.attr == "database"]
        return [*(text for text in texts if SQL.search(text)), *map(ast.unparse, databases)]

    assert offenders((name for name in modules() if not name.startswith(WITH_SQL)), statements) == {}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM session",
        "SELECT a,\n b FROM c",
        "DELETE FROM x",
        "UPDATE x SET y = ?",
        "PRAGMA user_version",
        "session.kind = ?",
        "event.at >= ?",
        "session.gone_at IS NULL",
        "part.id IN (?, ?)",
        "ORDER BY id",
    ],
)
def test_sql_is_recognised(text: str) -> None:
    """Whole statements and parts of them."""
    assert SQL.search(text)


def test_structs_are_prepared_under_one_lock() -> None:
    """Typed decoders come from `core.typed_json`: those of msgspec crash if two threads create them together."""

    def decoders(module: str) -> list[str]:
        calls = (node for node in measure.nodes_of(path_of(module)) if isinstance(node, ast.Call))
        return [text for call in calls if prepares_structs(text := ast.unparse(call), call)]

    def prepares_structs(text: str, call: ast.Call) -> bool:
        typed = call.args[1:] if text.startswith("msgspec.json.decode") else call.args
        return text.startswith(PREPARING) and bool(typed or call.keywords)

    assert offenders((name for name in modules() if name != "core.typed_json"), decoders) == {}
