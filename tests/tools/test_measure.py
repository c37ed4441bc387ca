"""The measures of the source."""

from __future__ import annotations

import ast

from tools import measure


def test_the_report_names_every_measure() -> None:
    """One line for each, with numbers."""
    report = measure.report()
    for word in ("files", "function", "class", "import cycle: none", "modules with SQL", "event kinds", "agents"):
        assert word in report


def test_fields_are_counted() -> None:
    """Also those that are assigned together."""
    source = "class A:\n    def __init__(self):\n        self.a, self.b = 1, 2\n        self.c: int = 3\n"
    (node,) = ast.parse(source).body
    assert set(measure._assigned(node)) == {"a", "b", "c"}  # type: ignore[arg-type]
