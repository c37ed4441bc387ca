"""unspool reads the sessions of coding agents and says what really happened in them.

>>> import unspool
>>> for ref in unspool.sessions(unspool.samples()):
...     session = unspool.load(ref)

What is listed in `__all__` stays; everything else may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._version import __version__
    from .agents import SessionRef
    from .api import load, samples, sessions, stream
    from .core.errors import AmbiguousError, MissingExtraError, NotFoundError, UnspoolError, UsageError
    from .core.json_schema import json_schema
    from .core.model import Message
    from .core.session import Context, Reply, Session
    from .library import Library

__all__ = [
    "AmbiguousError",
    "Context",
    "Library",
    "Message",
    "MissingExtraError",
    "NotFoundError",
    "Reply",
    "Session",
    "SessionRef",
    "UnspoolError",
    "UsageError",
    "__version__",
    "json_schema",
    "load",
    "samples",
    "sessions",
    "stream",
]

_HOMES = {
    "_version": ("__version__",),
    "agents": ("SessionRef",),
    "api": ("load", "samples", "sessions", "stream"),
    "core.errors": ("AmbiguousError", "MissingExtraError", "NotFoundError", "UnspoolError", "UsageError"),
    "library": ("Library",),
    "core.model": ("Message",),
    "core.session": ("Context", "Reply", "Session"),
    "core.json_schema": ("json_schema",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    # Names are fetched when they are used: `unspool --help` should not load three readers.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
