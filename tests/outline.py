"""A session in a few plain lines: enough to see in a diff that something changed, and what."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from unspool.core import model as m
from unspool.core.session import Session

_LEFT_OUT = ("timestamp", "action", "summary", "text", "evidence", "uuid")
_USUAL = {"scope": "messages", "asked_to_clarify": False}


def outline(session: Session) -> Iterator[str]:
    """The lines."""
    info = session.info
    parent = f" of {info.origin.session}" if info.origin.session else ""
    yield f"session {info.id} {info.kind} {info.status}, {info.origin.kind}{parent}, tip {info.tip} by {info.tip_rule}"
    usage = info.usage
    tokens = f"{usage.input}/{usage.output}/{usage.cache_read}/{usage.cache_write}"
    yield f"  {info.title!r} {','.join(info.models)} {tokens}"
    for message in session.messages:
        yield f"  {_message(message)}"
    events = (
        *session.compaction.inherited, *session.compaction.boundaries, *session.context_clears,
        *session.interruptions, *session.rejections, *session.rollbacks, *session.errors, *session.orphans,
        *session.subagents, *session.resumes, *session.branches, *session.problems,
    )  # fmt: skip
    for event in events:
        yield f"  {_event(event)}"


def _message(message: m.Message) -> str:
    parts = [f"{message.index:>3} {message.role[0]}/{message.author}", f"^{message.parent_index}"]
    if message.reply not in (None, message.index):
        parts.append(f"piece of {message.reply}")
    if message.branch:
        parts.append(f"branch {message.branch}")
    if message.context != "live":
        parts.append(message.context)
    parts += [word for word in ("queued", "inherited") if getattr(message, word)]
    if message.link != "recorded":
        parts.append(message.link)
    return " ".join(parts) + ": " + " ".join(_block(block) for block in message.blocks)


def _block(block: m.Block) -> str:
    match block:
        case m.Text(text=text):
            return _short(text)
        case m.ToolCall(id=id, name=name):
            return f"{name}({id[-6:]})"
        case m.ToolResult(call_id=id, outcome=outcome, content=content):
            return f"={outcome}({id[-6:]}){'' if block.sent else ' unsent'} {_short(content)}"
        case m.Attachment(kind=kind, text=text):
            return f"[{kind} {_short(text or '')}]"
        case m.Thinking(text=text):
            return f"~{_short(text)}"
        case _:
            return f"<{type(block).__name__}>"


def _event(event: msgspec.Struct) -> str:
    fields = {
        field.name: value
        for field in msgspec.structs.fields(event)
        if (value := getattr(event, field.name)) not in (None, [], msgspec.UNSET, _USUAL.get(field.name))
        and field.name not in _LEFT_OUT
    }
    return f"{type(event).__name__} " + " ".join(f"{name}={value!r}" for name, value in fields.items())


def _short(text: str) -> str:
    if len(text) <= 32:
        return repr(text)
    return f"{text[:24]!r}…{hashlib.sha1(text.encode('utf-8', 'replace')).hexdigest()[:6]}"
