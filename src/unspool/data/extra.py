"""The packages of the extra, imported when they are needed."""

from __future__ import annotations

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
