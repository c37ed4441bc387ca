"""The JSON API: what programs ask, the same that pages show."""

from __future__ import annotations

from .errors import error_response, explain
from .routes import routes

__all__ = ["error_response", "explain", "routes"]
