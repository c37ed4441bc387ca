"""Reads the docstrings of fields from the source, because Python does not store them."""

from __future__ import annotations

import ast
import inspect
from functools import cache


@cache
def _classes(path: str) -> dict[str, dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {node.name: _fields(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _fields(node: ast.ClassDef) -> dict[str, str]:
    """Return the string literal after each annotated field."""
    found = {}
    for field, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(after.value.value)).replace("\n", " ")
    return found


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, including those of its base classes."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.startswith("unspool."):
            found |= _classes(inspect.getfile(base)).get(base.__name__, {})
    return found
