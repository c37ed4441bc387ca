"""Measures the source code: `python -m tools.measure`.

Prints the sizes of files, functions and classes, duplicate class names in a package, and the modules that contain SQL
or list event kinds or agents. The architecture tests check the same measures against limits.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import unspool
from unspool.agents import AGENTS
from unspool.core.events import EVENT_KINDS

PACKAGE = Path(unspool.__file__).parent
MAX_FILE_LINES = 650
MAX_FUNCTION_LINES = 60
MAX_CLASS_LINES = 250
MAX_CLASS_FIELDS = 12
_SQL = re.compile(
    r"\b(?:SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+TABLE|PRAGMA)\b", re.S
)


class Size(NamedTuple):
    """The size of a function or class."""

    module: str
    name: str
    lines: int
    fields: int = 0


def modules() -> list[Path]:
    """Return all modules of the package, without the sample sessions."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "samples" not in path.parts)


def module_name(path: Path) -> str:
    """Return the dotted name of a module, relative to the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module. They are cached, because walking a tree takes longer than parsing it."""
    return tuple(ast.walk(tree_of(path)))


@cache
def functions_in(path: Path) -> tuple[Size, ...]:
    """Return the functions and methods of a module."""
    return tuple(
        Size(module_name(path), node.name, _lines(node))
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@cache
def classes_in(path: Path) -> tuple[Size, ...]:
    """Return the classes of a module, with the number of attributes that their methods assign (none for Structs)."""
    return tuple(
        Size(module_name(path), node.name, _lines(node), len(set(_assigned(node))))
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    )


def functions() -> Iterator[Size]:
    """Return all functions and methods."""
    return chain.from_iterable(map(functions_in, modules()))


def classes() -> Iterator[Size]:
    """Return all classes."""
    return chain.from_iterable(map(classes_in, modules()))


def _lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _assigned(node: ast.ClassDef) -> Iterator[str]:
    for inner in ast.walk(node):
        targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
        for target in targets if isinstance(inner, ast.Assign | ast.AnnAssign) else []:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    yield part.attr


def duplicate_classes() -> dict[str, list[str]]:
    """Return class names that occur more than once in a package, with the modules that define them."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for size in classes():
        package = size.module.rpartition(".")[0]
        found[package, size.name].append(size.module)
    return {f"{package}: {name}": where for (package, name), where in found.items() if len(where) > 1}


@cache
def strings(path: Path) -> tuple[str, ...]:
    """Return the string literals of a module, without docstrings."""
    nodes = nodes_of(path)
    bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return tuple(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare
    )


def modules_with_sql() -> list[str]:
    """Return the modules with SQL statements."""
    return [module_name(path) for path in modules() if any(_SQL.search(text) for text in strings(path))]


def modules_listing(names: frozenset[str], at_least: int) -> list[str]:
    """Return the modules whose string literals include at least this many of the names."""
    return [module_name(path) for path in modules() if len(names & set(strings(path))) >= at_least]


def import_cycle() -> list[str]:
    """Return modules that import each other at load time; empty if there are none."""
    graph: dict[str, set[str]] = {}
    for path in modules():
        name = module_name(path).removesuffix(".__init__")
        graph[name] = {target for node in tree_of(path).body for target in _imported(path, node)} - {name}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(path: Path, node: ast.stmt) -> Iterator[str]:
    if not isinstance(node, ast.ImportFrom) or not node.level:
        return
    parts = path.relative_to(PACKAGE).parts
    base = [*parts[: len(parts) - node.level], *(node.module.split(".") if node.module else [])]
    for alias in node.names:
        target = PACKAGE.joinpath(*base, alias.name)
        is_module = target.with_suffix(".py").exists() or target.is_dir()
        yield ".".join([*base, alias.name] if is_module else base)


def report() -> str:
    """Return all measures as text."""
    files = [len(path.read_text().splitlines()) for path in modules()]
    kinds = frozenset(kind.name for kind in EVENT_KINDS)
    comments = sum(line.lstrip().startswith("#") for path in modules() for line in path.read_text().splitlines())
    skips = sum(path.read_text().count("# fmt: skip") for path in modules())
    large = [size for size in classes() if size.lines > MAX_CLASS_LINES or size.fields > MAX_CLASS_FIELDS]
    lines = [
        f"{len(files)} files, {sum(files):,} lines, {comments / sum(files):.1%} comments, {skips} `# fmt: skip`",
        f"file      {_spread(files)}",
        f"function  {_spread([size.lines for size in functions()])}",
        f"class     {_spread([size.lines for size in classes()])}",
        f"classes over {MAX_CLASS_LINES} lines or {MAX_CLASS_FIELDS} fields: {len(large)}",
        *(f"  {size.module}.{size.name}: {size.lines} lines, {size.fields} fields" for size in large),
        f"class names that occur twice in a package: {', '.join(duplicate_classes()) or 'none'}",
        f"class names that occur more than once: {sum(count > 1 for count in _class_names().values())}",
        f"import cycle: {' -> '.join(import_cycle()) or 'none'}",
        f"modules with SQL: {', '.join(modules_with_sql())}",
        f"modules that list event kinds: {', '.join(modules_listing(kinds, 3))}",
        f"modules that list agents: {', '.join(modules_listing(frozenset(AGENTS), 2)) or 'none'}",
    ]
    return "\n".join(lines)


def _class_names() -> Counter[str]:
    return Counter(size.name for size in classes())


def _spread(numbers: list[int]) -> str:
    return f"median {median(numbers):.0f}, 95 % up to {quantiles(numbers, n=20)[-1]:.0f}, longest {max(numbers)}"


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
