"""Checks that the optional packages for the MCP server are installed."""

from __future__ import annotations

from ..data.extra import load_package


def check_extra() -> None:
    """Import the MCP SDK. Raises MissingExtraError with the command that installs it."""
    load_package("mcp.server.lowlevel", "'unspool[mcp]'")
