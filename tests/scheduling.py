"""Which worker runs which tests, and in which order.

Tests that share something expensive run in one worker: otherwise the server, the browser or the store of a module would
be started in every worker, and a recording read in each. Tests that wait for other programs run beside tests that
compute, so that no processor is idle while they wait. Long tests come first, so that no worker is left with one.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
from functools import cache
from typing import Any

import pytest

from .needs import NEEDS

LONGEST_FIRST = ("browser", "agent", "server", "slow")
"""Marks of tests, in the order in which they start."""
_LONGEST = "tests/spark/test_source.py"
"""The tests of this module take a minute in one worker. At the end, all others would wait for them."""
_BROWSER = re.compile(r"^tests/web/test_(?:browser_\w+|client)\.py")
_RECORDINGS = re.compile(
    r"^tests/web/(?:api/|pages/|test_(?:assets|auth|context_contents|context_index|errors|session_find|session_list|"
    r"session_query|timeline|transcript_pages)\.py|test_contradictions\.py::test_contradictions_are_found|"
    r"test_templating\.py::test_real_sessions)"
)
"""Tests with the store of all recordings, which takes seconds to fill."""
_REQUESTS = re.compile(r"^tests/(?:formats/test_(?:hostile|pairs|requests)|cli/commands/test_export_formats)\.py")
"""Tests with the libraries of OpenAI and Anthropic, which take seconds to import."""
_SHARED = (
    (_BROWSER, None),
    (_RECORDINGS, "recordings"),
    (re.compile(r"\[postgres"), "postgres"),
    (re.compile(r"^tests/test_corpus\.py::\w+\[(\w+/[^/]+)/"), None),
    (re.compile(r"^tests/(?:test_architecture|tools/test_measure)\.py"), "source"),
    (re.compile(r"^tests/(?:test_package|test_event_kinds|cli/test_ways_out)\.py"), None),
    (_REQUESTS, "requests"),
    (re.compile(r"^tests/spark/test_source\.py"), None),
    (re.compile(r"^tests/(?:mcp/test_agents|runs/test_(?:card|end_to_end|terminal))\.py"), None),
)
"""Tests that share something, and the name of their group; without a name, what the pattern finds is the name."""
_WAITING_MODULES = tuple(f"tests/{path}::" for mark in ("agent", "server") for path in NEEDS[mark])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, unless a random order is wanted."""
    if not config.pluginmanager.hasplugin("randomly"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[bool, int, int]:
    marks = {mark.name for mark in item.iter_markers()}
    ranks = [rank for rank, name in enumerate(LONGEST_FIRST) if name in marks]
    # One with several marks takes longest of all.
    return not item.nodeid.startswith(_LONGEST), -len(ranks), min(ranks, default=0)


def pytest_collection() -> None:
    """Collecting makes millions of objects that all stay: looking for garbage among them only takes time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Do not look at them again before the interpreter ends: pytest collects garbage several times before that.

    At the end they are freed, because some extension modules print what is left of their objects.
    """
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Called where tests are spread over workers."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    config.option.loadscopereorder = False

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Groups in the order of their first test; as many workers compute as there are processors."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def _reschedule(self, node: Any) -> None:
            # Finished groups would be counted through again after every test.
            unfinished = [
                (group, tests) for group, tests in self.assigned_work[node].items() if not all(tests.values())
            ]
            self.assigned_work[node] = dict(unfinished)
            super()._reschedule(node)

        def _assign_work_unit(self, node: Any) -> None:
            others = sum(self._has_waiting(other) for other in self.nodes if other is not node)
            # A worker that waits gets more of the same: its tests follow each other anyway.
            takes_waiting = self._has_waiting(node) or others < len(self.nodes) - (os.cpu_count() or 1)
            for group in self.workqueue:
                if is_waiting(group) == takes_waiting:
                    self.workqueue.move_to_end(group, last=False)
                    break
            super()._assign_work_unit(node)

        def _has_waiting(self, node: Any) -> bool:
            return any(map(is_waiting, self.assigned_work[node]))

    return GroupScheduling(config, log)


@cache
def group_of(nodeid: str) -> str:
    """The group of a test: its own id if it shares nothing."""
    for pattern, name in _SHARED:
        if found := pattern.search(nodeid):
            return name or found[found.lastindex or 0]
    return nodeid


@cache
def is_waiting(group: str) -> bool:
    """Whether the tests of a group wait for other programs most of the time."""
    return group == "postgres" or _BROWSER.search(group) is not None or f"{group}::".startswith(_WAITING_MODULES)
