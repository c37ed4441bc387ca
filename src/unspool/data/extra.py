"""The packages of the extra, imported when they are needed."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ..core.errors import MissingExtraError


def load_package(name: str, install: str = "'unspool[data]'") -> Any:
    """An optional package; raises MissingExtraError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        raise MissingExtraError(f"this needs {missing}; install it with: pip install {install}") from error


def return_freed_memory() -> None:
    """Let Arrow use the allocator of the system: its own keeps several times as much as is needed at once.

    Arrow chooses it when it is imported, so this is only for programs of our own. What the user has chosen stays.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
