"""The SDK of the protocol. Importing it takes longer than most modules of tests, and every worker imports all of them.

So tests import it where they use it.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def skip_without_sdk() -> None:
    """Skip a module of tests if the SDK is not installed."""
    if find_spec("mcp") is None:
        pytest.skip("the SDK is not installed: pip install 'unspool[mcp]'", allow_module_level=True)
