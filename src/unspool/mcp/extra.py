"""The packages of the extra."""

from __future__ import annotations

from ..data.extra import load_package


def check_extra() -> None:
    """Load the SDK of the protocol. Raises MissingExtraError with the command that installs it."""
    load_package("mcp.server.lowlevel", "'unspool[mcp]'")
