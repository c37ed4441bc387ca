"""Lazy imports of the packages of an extra."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ..core.errors import MissingExtraError
from ..io.pip import own_pip


def load_package(name: str, requirement: str = "'unspool[data]'") -> Any:
    """Import an optional package. If it is missing, MissingExtraError names the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        install = own_pip(f"pip install {requirement}")
        raise MissingExtraError(f"this needs {missing}; install it with: {install}") from error


def return_freed_memory() -> None:
    """Make Arrow use the system's allocator: its own retains several times the memory that is needed at once.

    Arrow reads the setting when it is imported, so only our own programs call this. A setting of the user is kept.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
