"""Determines who wrote a user message of Gemini CLI."""

from __future__ import annotations

from ...core import model as m

SESSION_CONTEXT = "<session_context>"
SNAPSHOT = "<state_snapshot>"
SHELL_COMMAND = "I ran the following shell command:"
_INJECTED = (SESSION_CONTEXT, SNAPSHOT, "<hook_context>", "System: ", "<system-reminder>")
NOT_TITLES = (*_INJECTED, SHELL_COMMAND)
"""Beginnings of user messages that are not used as the title of a session."""
_LONGEST_TYPED = 200


class GeminiAuthors:
    """Distinguishes the user messages that a person typed from those that the agent or a program sent."""

    def __init__(self, kind: m.Kind, typed: frozenset[str] | None) -> None:
        """`typed` are the prompts in the prompt log; None if the session did not run in a terminal."""
        self._kind = kind
        self._typed = typed

    @property
    def is_in_terminal(self) -> bool:
        """Whether the session ran in a terminal."""
        return self._typed is not None

    def author_of(self, text: str) -> m.Author:
        """Return the author of a user message."""
        if not text or text.startswith(_INJECTED):
            return "harness"
        if self._kind == "subagent":
            return "model"
        if self._typed is not None and text.strip() not in self._typed and not text.startswith(SHELL_COMMAND):
            return "model" if len(text) > _LONGEST_TYPED else "human"
        return "human"
