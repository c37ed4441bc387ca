"""Determines who wrote a user message of Codex CLI."""

from __future__ import annotations

from ...core import model as m
from .schema import CodexPayload

_INJECTED = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>",
    "<skills_instructions>", "<skill>", "<turn_aborted>", "<user_shell_command>", "<user_action>",
    "<subagent_notification>", "<collaboration_mode>", "<INSTRUCTIONS>", "<apps_instructions>", "<personality_spec>",
    "<recommended_plugins>",    "Another language model started to solve this problem",
)  # fmt: skip


def author_of(payload: CodexPayload, text: str, is_main: bool) -> m.Author:
    """Return the author: 0.166 records it; before, injected messages are recognised by how they begin.

    `is_main` is False for the prompts of a sub-agent, which the model writes.
    """
    if text.startswith("<subagent_notification>"):
        return "subagent"
    passthrough = payload.internal_chat_message_metadata_passthrough
    kinds = passthrough.content_item_kinds if passthrough is not None else None
    if kinds:
        if not any(kind.startswith("user.") for kind in kinds):
            return "harness"
    elif text[:1] in "<#A" and text.startswith(_INJECTED):
        return "harness"
    return "human" if is_main else "model"
