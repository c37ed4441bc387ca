"""File names of exported sessions."""

from __future__ import annotations


def safe_name(id: str) -> str:
    """Return a file name for a session. Its id comes from a log, so it must not escape the directory."""
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in id).strip(".") or "session"
