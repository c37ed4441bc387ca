"""Embeds Markdown in Markdown, so that the text of a model cannot change the document around it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .sanitize import fence

_DEMOTED = 3
_DEEPEST = 6
_ROUNDS = 8


def safe_lines(text: str) -> list[str]:
    """Return the lines of a text with headings below those of the document, without HTML and with all fences closed."""
    lines = text.rstrip("\n").split("\n")
    for _ in range(_ROUNDS):
        tokens = _parser().parse("\n".join(lines))
        spans = list(_html(tokens))
        if not spans:
            return [*_demoted(lines, tokens), *_missing_end(lines, tokens)]
        for start, end in spans:
            lines[start:end] = [line.replace("\\<", "<").replace("<", "\\<") for line in lines[start:end]]
    mark = fence(text)
    return [mark, *lines, mark]


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _html(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield the line ranges that contain HTML."""
    for token in tokens:
        is_html = token.type == "html_block" or any(part.type == "html_inline" for part in token.children or ())
        if is_html and token.map is not None:
            yield token.map[0], token.map[1]


def _demoted(lines: list[str], tokens: list[Token]) -> list[str]:
    lines = list(lines)
    for token in reversed(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            start, end = token.map
            if token.markup.startswith("#"):
                words = lines[start].lstrip(" ").lstrip("#").strip()
            else:
                words = " ".join(line.strip() for line in lines[start : end - 1])
            depth = min(_DEEPEST, int(token.tag[1:]) + _DEMOTED)
            lines[start:end] = [f"{'#' * depth} {words}".rstrip()]
    return lines


def _missing_end(lines: list[str], tokens: list[Token]) -> list[str]:
    """Return the line that closes a fence left open at the end, if any."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.level != 0 or last.map is None:
        return []
    start, end = last.map
    closing = lines[end - 1].strip() if end - start > 1 else ""
    is_closed = len(closing) >= len(last.markup) and set(closing) == {last.markup[0]}
    return [] if is_closed else [last.markup]
