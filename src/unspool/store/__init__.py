"""Sessions that stay: whole, searchable, and told apart by the machine they come from."""

from __future__ import annotations

from .base import Store
from .place import open_store

__all__ = ["Store", "open_store"]
