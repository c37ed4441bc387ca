"""Which worker runs which tests.

Tests that share something expensive run in one worker: otherwise the server, the browser or the store of a module would
be started in every worker, and a recording read in each. Tests that wait for other programs come first, then what only
computes, one by one, so that no worker is idle at the end.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

_SHARED = (
    (re.compile(r"^tests/web/test_(?:browser_\w+|client)\.py"), None),
    (re.compile(r"^tests/web/(?:api/|pages/|test_(?:auth|errors|session_query)\.py)"), "recordings"),
    (re.compile(r"\[postgres"), "postgres"),
    (re.compile(r"^tests/test_corpus\.py::\w+\[(\w+/[^/]+)/"), None),
    (re.compile(r"^tests/test_architecture\.py"), None),
)
"""Tests that share something, and the name of their group; without a name, what the pattern finds is the name."""
WAITING = ("browser", "server", "agent", "slow")
"""Marks of tests that take longest."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, unless a random order is wanted."""
    if not config.pluginmanager.hasplugin("randomly"):
        items.sort(key=lambda item: not any(map(item.get_closest_marker, WAITING)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Called where tests are spread over workers."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    config.option.loadscopereorder = False

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Groups in the order of their first test."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)


def group_of(nodeid: str) -> str:
    """The group of a test: its own id if it shares nothing."""
    for pattern, name in _SHARED:
        if found := pattern.search(nodeid):
            return name or found[found.lastindex or 0]
    return nodeid
