"""The end of a test run: what was left out and why, and how to run a failed test again."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print both."""
    _print_left_out(terminalreporter, config)
    _print_commands(terminalreporter, config)


def _print_left_out(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = _skipped(reporter)
    expression = config.getoption("markexpr", "")
    if not skipped and not expression:
        return
    reporter.section("Left out")
    if expression:
        reporter.line(f"everything but -m {shlex.quote(expression)}; `make test` runs all tests")
    for reason, tests in sorted(skipped.items()):
        reporter.line(f"{len(tests):>5} {'test ' if len(tests) == 1 else 'tests'}  {reason}")


def _skipped(reporter: pytest.TerminalReporter) -> dict[str, set[str]]:
    """Tests, or whole modules, by the reason why they were skipped. Each worker reports a skipped module once."""
    found: dict[str, set[str]] = defaultdict(set)
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[reason.removeprefix("Skipped: ")].add(report.nodeid)
    return found


def _print_commands(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    failed = {
        report.nodeid: None for key in ("failed", "error") for report in reporter.stats.get(key, []) if report.nodeid
    }
    if not failed:
        return
    reporter.section("Run a failed test again")
    python = Path(sys.executable)
    root = config.invocation_params.dir
    program = python.relative_to(root) if python.is_relative_to(root) else python
    for nodeid in failed:
        reporter.line(f"{program} -m pytest {shlex.quote(nodeid)}")
