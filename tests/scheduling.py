"""Which worker runs which tests.

Tests that share an expensive fixture run in one worker: otherwise the server, the browser or the store of a module
would be started in every worker. All others run one by one, so that no worker is idle at the end.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

_SHARED = (
    (re.compile(r"^tests/web/test_(?:browser_\w+|client)\.py"), None),
    (re.compile(r"^tests/web/test_(?:api|auth|openapi|pages|session_query|sse)\.py"), "recordings"),
    (re.compile(r"\[postgres"), "postgres"),
)
"""Tests that share something, and the name of their group; without a name, each module is one."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Called where tests are spread over workers."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Groups first, because they take longest; then one test at a time."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)


def group_of(nodeid: str) -> str:
    """The group of a test: its own id if it shares nothing."""
    for pattern, name in _SHARED:
        if found := pattern.search(nodeid):
            return name or found[0]
    return nodeid
