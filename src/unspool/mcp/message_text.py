"""Messages as text for responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..agents import agent_named
from ..core import model as m
from ..render.diff import classified_lines
from ..render.sanitize import pretty
from .quoting import name, visible
from .request import moment

_LARGE, _MEDIUM, _SMALL = 800, 250, 100


class MessageBlock(NamedTuple):
    """A block of a message."""

    label: str
    """A description, written by this server."""
    text: str
    """The content to quote, if any."""
    max_tokens: int
    """Maximum number of tokens to show when several messages are requested."""


def heading(message: m.Message) -> str:
    """Return a line that identifies a message."""
    branch = f", on abandoned branch {message.branch}" if message.branch else ""
    return f"message {message.index}, {message.author}, {moment(message.timestamp)}{branch}"


def blocks_of(message: m.Message, agent: str) -> list[MessageBlock]:
    """Return the blocks that have a label or a text."""
    return [block for block in _blocks(message, agent) if block.text or block.label]


def _blocks(message: m.Message, agent: str) -> Iterator[MessageBlock]:
    for block in message.blocks:
        label, text, max_tokens = _described(block, message, agent)
        yield MessageBlock(label, visible(text).strip("\n"), max_tokens)


def _described(block: m.Block, message: m.Message, agent: str) -> tuple[str, str, int]:
    match block:
        case m.Text():
            return "", block.text, _LARGE if message.author in ("human", "model") else _SMALL
        case m.Thinking():
            return ("thinking", block.text, _SMALL) if block.text else ("", "", 0)
        case m.ToolCall():
            action = agent_named(agent).describe(block.name, block.raw_input)
            return f"call of {name(block.name)}", described(action), _MEDIUM
        case m.ToolResult():
            return f"result, {block.outcome}", block.content, _MEDIUM
        case m.Attachment():
            return f"attachment, {name(block.kind)}", block.text or block.path or "", _SMALL
        case m.CompactionMark():
            return "summary of earlier messages", block.summary or "", _LARGE
        case m.InterruptionMark():
            return f"interrupted during {block.during}", "", 0
        case m.Image():
            return "image", "", 0
        case _:
            return f"unknown block, {name(block.kind)}", "", 0


def described(action: m.Action | None) -> str:
    """Return what a call does or would have done, as text."""
    if action is None:
        return ""
    if action.questions:
        return "\n".join(each.question for each in action.questions)
    if action.diff and action.path:
        return f"{action.path}\n{changed_lines(action.diff)}"
    return action.command or action.diff or action.plan or action.path or pretty(action.raw_input)


def changed_lines(diff: str) -> str:
    """Return the removed and added lines of a diff."""
    lines = [line for kind, line in classified_lines(diff) if kind in ("add", "del")]
    return "\n".join(lines) or diff
