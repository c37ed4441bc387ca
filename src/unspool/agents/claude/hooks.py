"""Reads what Claude Code records about the hooks that it ran: commands of the user, started at certain events."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core import model as m
from ...io.decode import decode_any

HOOK_FIELDS = frozenset(("hookName", "hookEvent", "command", "exitCode", "durationMs", "toolUseID"))
_TEXTS = ("content", "hookAdditionalContext", "hookErrors", "stopReason")
_TOOL_EVENT = "ToolUse"


def hook_of(attachment: msgspec.Raw) -> m.Hook | None:
    """Return the hook that an attachment is the output of."""
    fields = decode_any(attachment)
    if not isinstance(fields, dict):
        return None
    event = _text(fields, "hookEvent")
    return m.Hook(
        name=_text(fields, "hookName"),
        event=event,
        command=_text(fields, "command"),
        exit_code=_number(fields, "exitCode"),
        # At other events, it is the id of a group of hooks.
        call_id=_text(fields, "toolUseID") if event is not None and _TOOL_EVENT in event else None,
    )


def stop_hooks(record: msgspec.Raw) -> m.Attachment:
    """Return the summary of the hooks that ran at the end of a turn, with what they printed."""
    fields = decode_any(record)
    fields = fields if isinstance(fields, dict) else {}
    infos = fields.get("hookInfos")
    hooks = [
        m.Hook(event="Stop", command=_text(info, "command"))
        for info in (infos if isinstance(infos, list) else ())
        if isinstance(info, dict)
    ]
    texts = [text for name in _TEXTS for text in _texts(fields.get(name))]
    return m.Attachment("stop_hook_summary", "\n".join(texts) or None, hooks=hooks)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text]


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int else None
