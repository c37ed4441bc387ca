"""Errors that callers of the supervisor handle separately."""

from __future__ import annotations

from ..core.errors import UnspoolError


class ConflictError(UnspoolError):
    """The run has changed since the caller last saw it, so the action no longer applies."""


class SessionInUseError(ConflictError):
    """Another program seems to be writing to the session; the caller may take it over."""

    code = "session_in_use"
