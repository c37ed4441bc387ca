"""Names of the files that sessions are written to."""

from __future__ import annotations


def safe_name(id: str) -> str:
    """A file name for a session. Its id comes from a log, so it must not lead out of the directory."""
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in id).strip(".") or "session"
