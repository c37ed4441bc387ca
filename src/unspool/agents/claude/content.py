"""Converts the content of Claude Code's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from ...core import model as m
from ...io.decode import clean_raw, decode_any
from .hooks import HOOK_FIELDS, hook_of
from .schema import AttachmentBody, ClaudeBlock, ClaudeUsage, Rendered

_NO_CONTENT = frozenset(("type", "filename", "path", "displayPath"))
"""Fields of an attachment that are not content: `Attachment` has separate fields for them."""
_REQUEST = "prompt_snapshot"
"""An attachment with the system prompt and the tools of a request: tens of kilobytes that are not conversation."""
_BRACE = ord("{")


def command_of(text: str) -> m.Attachment:
    """Return a slash command or a shell command as it was typed."""
    shell, _ = _element(text, "bash-input")
    if shell is not None:
        return m.Attachment("shell", shell)
    name, end = _element(text, "command-name")
    if name is None:
        return m.Attachment("command", text)
    arguments, _ = _element(text, "command-args", end)
    return m.Attachment("command", f"{name.strip()} {(arguments or '').strip()}".strip())


def _element(text: str, tag: str, start: int = 0) -> tuple[str | None, int]:
    """Return the content of the first element with a tag, and its end. A regular expression is not linear."""
    opened = text.find(f"<{tag}>", start)
    closed = text.find(f"</{tag}>", opened) if opened >= 0 else -1
    return (text[opened + len(tag) + 2 : closed], closed) if closed >= 0 else (None, start)


def usage_of(usage: ClaudeUsage | None) -> m.Usage | None:
    """Return the usage of a response; its input excludes tokens read from or written to the cache."""
    if usage is None:
        return None
    cached, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    hour = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation is not None else None
    return m.Usage(usage.input_tokens, usage.output_tokens, cached, written, None, hour or None)


RawAt = Callable[..., msgspec.Raw]
"""Returns a part of a record, by its source and the path to the part, as it is in the log."""


def blocks_of(
    content: str | list[ClaudeBlock] | None, raw_at: RawAt, source: m.Source, first: int = 0
) -> list[m.Block]:
    """Return content as blocks; those of unknown type are kept as they are. `first` is the index of the first one."""
    if not isinstance(content, list):
        return [] if content is None else [m.Text(content)]
    blocks = [_block(block) for block in content]
    if None not in blocks:
        return cast(list[m.Block], blocks)
    return [
        block
        if block is not None
        else m.Unknown(content[index].type, raw_at(source, "message", "content", first + index))
        for index, block in enumerate(blocks)
    ]


def _block(block: ClaudeBlock) -> m.Block | None:
    kind = block.type
    if kind == "text":
        return m.Text(block.text or "")
    if kind == "thinking":
        return m.Thinking(block.thinking or "", encrypted=not block.thinking)
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use") and block.id is not None:
        return m.ToolCall(block.id, block.name or "?", clean_raw(block.input) if block.input else msgspec.Raw(b"{}"))
    if kind == "redacted_thinking":
        return m.Thinking("", encrypted=True)
    if kind == "image":
        return _image(decode_any(block.source))
    return None


def _image(source: object) -> m.Image:
    given = source if isinstance(source, dict) else {}
    media_type, data, url = (
        value if isinstance(value := given.get(key), str) else None for key in ("media_type", "data", "url")
    )
    return m.Image(media_type, data, url)


def flat_text(value: Any) -> tuple[str, list[m.Image | m.Unknown]]:
    """Return the text of content, which is a string, a list of blocks or an object, and the other parts."""
    if isinstance(value, str):
        return value, []
    if value is None:
        return "", []
    if not isinstance(value, list):
        return msgspec.json.encode(value).decode(), []
    texts: list[str] = []
    parts: list[m.Image | m.Unknown] = []
    for item in value:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict) and isinstance(text := item.get("text", item.get("content")), str):
            texts.append(text)
        elif isinstance(item, dict) and item.get("type") == "image":
            parts.append(_image(item.get("source")))
        else:
            kind = str(item.get("type", "object")) if isinstance(item, dict) else "value"
            parts.append(m.Unknown(kind, msgspec.Raw(msgspec.json.encode(item))))
    return "\n".join(texts), parts


def attachment_blocks(
    body: AttachmentBody,
    rendered: list[Rendered] | None,
    raw_at: RawAt,
    source: m.Source,
) -> list[m.Block]:
    """Return an attachment as it was sent to the model; if that is not recorded, the text of its fields, or all fields.

    Fields without content are left out.
    """
    path = body.filename or body.path
    text: str | None = ""
    if rendered:
        only = rendered[0].content if len(rendered) == 1 else None
        text = only if isinstance(only, str) else "\n".join(flat_text(piece.content)[0] for piece in rendered)
        if text and not body.content and body.filename is None and body.hook_name is None:
            # Most attachments have nothing else.
            return [m.Attachment(body.type, text, path)]
    if body.content and (image := _attached_image(body.content)) is not None:
        return [m.Attachment(body.type, text or None, path), image]
    if text and body.filename is not None and (own := _field_text(body)) and own not in text:
        # The text that was sent has a number before each line, so the file is added without them.
        return [m.Attachment(body.type, text, path), m.Attachment(body.type, own, path)]
    if not text and body.type != _REQUEST and not (text := _field_text(body)):
        fields = decode_any(raw_at(source, "attachment"))
        given = fields.items() if isinstance(fields, dict) else ()
        no_content = _NO_CONTENT | HOOK_FIELDS if body.hook_name is not None else _NO_CONTENT
        rest = {name: value for name, value in given if name not in no_content and value}
        text = msgspec.json.encode(rest).decode() if rest else None
    hook = hook_of(raw_at(source, "attachment")) if body.hook_name is not None else None
    return [m.Attachment(body.type, text or None, path, [hook] if hook is not None else [])]


def _field_text(body: AttachmentBody) -> str | None:
    """Return the text in the fields that may have one; None if one of them has anything else."""
    texts: dict[str, None] = {}
    for raw in (body.text, body.content, body.snippet, body.stdout, body.stderr):
        if raw and (value := decode_any(clean_raw(raw))):
            text = _plain_text(value)
            if text is None:
                return None
            # The output of a hook is often recorded twice, once with a newline at the end.
            texts.setdefault(text.strip("\n"))
    return "\n".join(texts)


def _plain_text(value: Any, depth: int = 3) -> str | None:
    """Return a text that is wrapped in lists or in objects with a path, such as a file; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth:
        texts = [_plain_text(item, depth - 1) for item in value]
        return None if None in texts else "\n".join(cast(list[str], texts))
    if isinstance(value, dict) and depth:
        return next((_plain_text(value[key], depth - 1) for key in ("text", "content", "file") if key in value), None)
    return None


def _attached_image(raw: msgspec.Raw) -> m.Image | None:
    content = decode_any(raw) if memoryview(raw)[0] == _BRACE and b'"image"' in bytes(raw) else None
    file = content.get("file") if isinstance(content, dict) and content.get("type") == "image" else None
    return _image({"media_type": file.get("type"), "data": file.get("base64")}) if isinstance(file, dict) else None


def text_of(blocks: list[m.Block]) -> str:
    """Return the text of a message."""
    if len(blocks) == 1 and type(blocks[0]) is m.Text:
        return blocks[0].text
    return "\n".join(block.text for block in blocks if type(block) is m.Text)
