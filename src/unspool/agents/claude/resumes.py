"""Signs that Claude Code loaded a session again.

Only hooks leave a record at that moment. Without them, the signs are repairs by the agent, or a smaller context,
because 2.1.0 to 2.1.59 lose parts of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...core import model as m
from .._metadata import version_of
from .schema import ClaudeUsage
from .turn import ClaudeTurn

_HOOK = "SessionStart"
_RESUME_HOOK = "SessionStart:resume"
_CHARS_PER_TOKEN = 4
_BLOCK_OVERHEAD = 40
"""Estimated number of characters of JSON around a call or a result."""


_CHAIN_ONLY = ((2, 1, 0), (2, 1, 60))
"""Versions that, on resume, lose results of parallel calls that are not on the chain (seen in 2.1.0 to 2.1.59)."""


def is_chain_only(version: tuple[int, ...]) -> bool:
    """Whether a resume with a version follows only the chain of parents."""
    return _CHAIN_ONLY[0] <= version < _CHAIN_ONLY[1]


class Shrink(NamedTuple):
    """A prompt before which the context got smaller without a compaction."""

    prompt: int
    tokens: int
    """The number of tokens that are missing, including those added since the last request."""


class ResumeSigns:
    """Collects signs that a session was resumed."""

    def __init__(self, turn: ClaudeTurn) -> None:
        self.placeholders: list[int] = []
        """Replies that the harness wrote instead of the model."""
        self.hooks: list[int] = []
        """The first messages after hooks ran because the session was resumed."""
        self.has_hooks = False
        """Whether hooks are recorded: if so, a smaller context is no sign of a resume. Headless resumes run none."""
        self.shrinks: list[Shrink] = []
        self.watches_size = False
        """Whether the size of the context has to be tracked: in versions that lose messages, and without hooks."""
        self._turn = turn
        self._size = 0
        self._added = 0
        self._tokens: dict[int, int] = {}

    def read_version(self, version: str) -> None:
        """Read the version that writes the next records."""
        self.watches_size = is_chain_only(version_of(version)) and not self.has_hooks

    def read_hook(self, name: str, next_message: int) -> None:
        """Read the record of a hook."""
        if name.startswith(_HOOK):
            self.has_hooks = True
            self.watches_size = False
            if name == _RESUME_HOOK:
                self.hooks.append(next_message)

    def read_usage(self, usage: ClaudeUsage | None) -> None:
        """Compare the size of the context with that of the last request."""
        if usage is None:
            return
        size = usage.input_tokens or 0
        size += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        if 0 < size < self._size and self._turn.last_prompt >= 0 and not self._turn.model_spoke:
            self.shrinks.append(Shrink(self._turn.last_prompt, self._size - size + self._added))
        if size not in (0, self._size):
            self._size, self._added = size, 0

    def measure(self, index: int, blocks: Iterable[m.Block]) -> None:
        """Estimate the tokens of a message."""
        length = 0
        for block in blocks:
            if type(block) is m.Text:
                length += len(block.text)
            elif type(block) is m.ToolResult:
                length += len(block.content) + _BLOCK_OVERHEAD
            elif type(block) is m.ToolCall:
                length += len(block.name) + len(bytes(block.raw_input)) + _BLOCK_OVERHEAD
        tokens = length // _CHARS_PER_TOKEN
        self._tokens[index] = tokens
        self._added += tokens

    def tokens_of(self, messages: Iterable[int]) -> int:
        """Estimate the number of tokens in some messages."""
        return sum(self._tokens.get(index, 0) for index in messages)

    def compacted(self) -> None:
        """Forget the size of the context, which a compaction makes smaller."""
        self._size = 0
