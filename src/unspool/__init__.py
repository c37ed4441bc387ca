"""Read the sessions of coding agents and see what really happened in them.

>>> import unspool
>>> for ref in unspool.sessions(unspool.samples()):
...     session = unspool.load(ref)

The names in `__all__` and in `unspool.model` are stable: see "Stability" in the documentation. Everything else may
change without notice.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import model as model
    from ._version import __version__
    from .agents import SessionRef
    from .api import load, samples, sessions, stream
    from .core.annotations import Annotation
    from .core.convert import enc_hook, to_builtins, to_json
    from .core.errors import AmbiguousError, MissingExtraError, NotFoundError, UnspoolError, UsageError
    from .core.json_schema import json_schema
    from .core.session import Context, Reply, Session, SessionEvent, ToolUse
    from .core.stream import AnnotationLine, EndLine, EventLine, MessageLine, SessionLine, StreamLine
    from .data.tables import Tables, tables
    from .library import Library
    from .model import (
        Action,
        Attachment,
        Block,
        Boundary,
        Branch,
        Compaction,
        CompactionMark,
        ContextClear,
        End,
        Event,
        Failure,
        Git,
        Hook,
        Image,
        InputChange,
        Interruption,
        InterruptionMark,
        LogFile,
        Message,
        Origin,
        Orphan,
        Problem,
        Project,
        Question,
        Rejection,
        Resume,
        Rollback,
        SavedOutput,
        SessionInfo,
        Source,
        Subagent,
        Task,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        Unknown,
        Usage,
    )

__all__ = [
    "Action",
    "AmbiguousError",
    "Annotation",
    "AnnotationLine",
    "Attachment",
    "Block",
    "Boundary",
    "Branch",
    "Compaction",
    "CompactionMark",
    "Context",
    "ContextClear",
    "End",
    "EndLine",
    "Event",
    "EventLine",
    "Failure",
    "Git",
    "Hook",
    "Image",
    "InputChange",
    "Interruption",
    "InterruptionMark",
    "Library",
    "LogFile",
    "Message",
    "MessageLine",
    "MissingExtraError",
    "NotFoundError",
    "Origin",
    "Orphan",
    "Problem",
    "Project",
    "Question",
    "Rejection",
    "Reply",
    "Resume",
    "Rollback",
    "SavedOutput",
    "Session",
    "SessionEvent",
    "SessionInfo",
    "SessionLine",
    "SessionRef",
    "Source",
    "StreamLine",
    "Subagent",
    "Tables",
    "Task",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "ToolUse",
    "Unknown",
    "UnspoolError",
    "Usage",
    "UsageError",
    "__version__",
    "enc_hook",
    "json_schema",
    "load",
    "samples",
    "sessions",
    "stream",
    "tables",
    "to_builtins",
    "to_json",
]

_MODULES = {
    "_version": ("__version__",),
    "agents": ("SessionRef",),
    "api": (
        "load",
        "samples",
        "sessions",
        "stream",
    ),
    "core.annotations": ("Annotation",),
    "core.convert": (
        "enc_hook",
        "to_builtins",
        "to_json",
    ),
    "core.errors": (
        "AmbiguousError",
        "MissingExtraError",
        "NotFoundError",
        "UnspoolError",
        "UsageError",
    ),
    "core.json_schema": ("json_schema",),
    "core.stream": ("AnnotationLine", "EndLine", "EventLine", "MessageLine", "SessionLine", "StreamLine"),
    "core.session": (
        "Context",
        "Reply",
        "Session",
        "SessionEvent",
        "ToolUse",
    ),
    "data.tables": ("Tables", "tables"),
    "library": ("Library",),
    "model": (
        "Action",
        "Attachment",
        "Block",
        "Boundary",
        "Branch",
        "Compaction",
        "CompactionMark",
        "ContextClear",
        "End",
        "Event",
        "Failure",
        "Git",
        "Hook",
        "Image",
        "InputChange",
        "Interruption",
        "InterruptionMark",
        "LogFile",
        "Message",
        "Origin",
        "Orphan",
        "Problem",
        "Project",
        "Question",
        "Rejection",
        "Resume",
        "Rollback",
        "SavedOutput",
        "SessionInfo",
        "Source",
        "Subagent",
        "Task",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
        "Unknown",
        "Usage",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    # Names are imported on first use: `unspool --help` should not load the parsers of every agent.
    if name == "model":
        return import_module(".model", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "model"]
