"""Converts the content of Gemini CLI's messages."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...core import model as m
from ...io.decode import decode_any
from .schema import FunctionResponse, GeminiMessage, GeminiPart, GeminiToolCall


def parts_of(content: str | list[GeminiPart] | GeminiPart | None) -> list[GeminiPart]:
    """Return content, in any of its forms, as a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [GeminiPart(text=content)]
    return content if isinstance(content, list) else [content]


def text_of(message: GeminiMessage, shown: bool = False) -> str:
    """Return the text of a message as it was sent, or with `shown` as it was displayed."""
    content = message.content
    if shown and message.display_content is not None:
        content = message.display_content
    if isinstance(content, str):
        return content
    if isinstance(content, list) and len(content) == 1 and not content[0].thought:
        return content[0].text or ""
    return "\n".join(part.text for part in parts_of(content) if part.text and not part.thought)


def responses_of(message: GeminiMessage) -> list[FunctionResponse]:
    """Return the tool results that a message brings to the model."""
    if isinstance(message.content, str):
        return []
    return [part.function_response for part in parts_of(message.content) if part.function_response is not None]


def is_plain(content: str | list[GeminiPart] | GeminiPart | None) -> bool:
    """Whether content is a single text, as it nearly always is."""
    return not isinstance(content, list) or (len(content) == 1 and content[0].text is not None)


def other_blocks(message: GeminiMessage, raw_at: Callable[[int], msgspec.Raw]) -> list[m.Block]:
    """Return the parts of a message that are neither text nor calls: images, files, and parts of unknown shape."""
    found: list[m.Block] = []
    for index, part in enumerate(parts_of(message.content)):
        if part.inline_data is not None:
            found.append(m.Image(part.inline_data.mime_type, part.inline_data.data))
        elif part.file_data is not None:
            found.append(m.Image(part.file_data.mime_type, None, part.file_data.file_uri))
        elif part.text is None and part.function_call is None and part.function_response is None:
            found.append(m.Unknown("part", raw_at(index)))
    return found


def spoken_blocks(message: GeminiMessage, text: str) -> list[m.Block]:
    """Return the thoughts and the text of a reply."""
    blocks: list[m.Block] = []
    for thought in message.thoughts or ():
        head = f"**{thought.subject}**\n\n" if thought.subject else ""
        blocks.append(m.Thinking(f"{head}{thought.description or ''}"))
    if text:
        blocks.append(m.Text(text))
    return blocks


def result_text(call: GeminiToolCall) -> str:
    """Return the result of a call as text, including the error message, which may have its own field."""
    text = _result_text(call)
    if call.error and call.error not in text:
        return f"{text}\n{call.error}" if text else call.error
    return text


def _result_text(call: GeminiToolCall) -> str:
    if isinstance(call.result, str):
        return call.result
    parts = call.result if isinstance(call.result, list) else [call.result] if call.result is not None else []
    texts = [
        response_text(part.function_response) if part.function_response is not None else part.text or ""
        for part in parts
    ]
    return "\n".join(texts)


def response_text(response: FunctionResponse) -> str:
    """Return a tool result as text: its output, its error, or the whole object."""
    value = decode_any(response.response)
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    texts = [value[key] for key in ("output", "error") if isinstance(value.get(key), str)]
    return "\n".join(texts) if texts else msgspec.json.encode(value).decode()


def usage_of(message: GeminiMessage) -> m.Usage | None:
    """Return the usage of a response; its input excludes cached tokens."""
    tokens = message.tokens
    if tokens is None:
        return None
    sent = None if tokens.input is None else max(0, tokens.input - (tokens.cached or 0)) + (tokens.tool or 0)
    received = None if tokens.output is None else tokens.output + (tokens.thoughts or 0)
    return m.Usage(sent, received, tokens.cached, None, tokens.thoughts)
