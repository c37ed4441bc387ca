"""Determines who wrote a user record of Claude Code."""

from __future__ import annotations

import re

from ...core import model as m
from ...core.builder import only_attachments
from .schema import ClaudeRecord

OUTPUT_TEXT = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
HARNESS_TEXT = (
    *OUTPUT_TEXT, "<local-command-caveat>", "<system-reminder>", "<bash-notification>",
    "Caveat: The messages below were generated",
)  # fmt: skip
SUBAGENT_TEXT = ("<task-notification>", "<agent-notification>", "<teammate-message")
TASK_TEXT = '{"task_id":'
"""The beginning of the agent's internal notes about slow calls and sub-agents."""
COMMAND_TEXT = ("<command-name>", "<command-message>", "<bash-input>")
_INJECTED = re.compile(r"\s*<(ide_\w+|system-reminder|ci-monitor-event)\b[^>]*>.*?</\1>\s*", re.DOTALL)
"""An element that the agent, or the editor it runs in, put before the text that a person typed."""
_HOOK_TEXT = ("<user-prompt-submit-hook>", "<session-start-hook>")


def separate_injected(blocks: list[m.Block]) -> list[m.Block]:
    """Return the blocks of a user record, with injected elements as separate attachments."""
    separated: list[m.Block] = []
    for block in blocks:
        text = block.text if type(block) is m.Text else ""
        end = 0
        while (found := _INJECTED.match(text, end)) is not None:
            separated.append(m.Attachment(found[1], found[0].strip()))
            end = found.end()
        if end == 0:
            separated.append(block)
        elif end < len(text):
            separated.append(m.Text(text[end:]))
    return separated


def is_output(first: m.Block) -> bool:
    """Whether a message that begins with this block is the output of a command that the agent ran itself."""
    kind = type(first)
    # This is called for almost every attachment of a session, so it has to be fast.
    return (kind is m.Attachment or kind is m.Text) and bool(first.text) and first.text.startswith(OUTPUT_TEXT)  # type: ignore[union-attr]


class ClaudeAuthors:
    """Distinguishes the user messages that a person typed from those that the agent sent."""

    def __init__(self, kind: m.Kind) -> None:
        self.task: str | None = None
        """The first message to a sub-agent."""
        self._is_main = kind == "main"

    def author_of(self, record: ClaudeRecord, text: str, blocks: list[m.Block]) -> m.Author:
        """Return the author; only what a person typed is `human`."""
        if record.is_meta or (blocks and type(blocks[0]) is m.Attachment and only_attachments(blocks)):
            return "harness"
        origin = record.origin.kind if record.origin is not None else None
        if origin is not None:
            return "human" if origin == "human" else "subagent" if "task" in origin else "harness"
        if text[:1] in "<C{":
            if text.startswith(SUBAGENT_TEXT):
                return "subagent"
            if text.startswith((TASK_TEXT, *HARNESS_TEXT)):
                return "harness"
            if text.startswith(_HOOK_TEXT):
                return "hook"
        if self._is_main:
            return "human"
        self.task = self.task or text
        return "model"
