"""The title of a Claude Code session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...core import model as m
from .._metadata import choose_title
from .authors import COMMAND_TEXT, ClaudeAuthors, separate_injected
from .content import command_of, flat_text, text_of
from .outcomes import MARKER, TOOL_MARKER
from .plans import is_plan, plan_in
from .schema import ClaudeBlock, ClaudeRecord

TITLE_RECORDS = frozenset(("summary", "custom-title", "ai-title"))
_SUMMARIES_ELSEWHERE = (2, 1)
"""Before this version, summaries may be in separate files."""
_CLEAR = "/clear"


_WRITERS: frozenset[m.Author] = frozenset(("human", "model"))
"""Authors of prompts: the model writes those of sub-agents."""


def has_summaries_elsewhere(version: tuple[int, ...]) -> bool:
    """Whether other files may have the title of a session that was started with this version."""
    return version < _SUMMARIES_ELSEWHERE


class ClaudeTitles:
    """Collects the possible titles of a session.

    A recorded title comes first: one that a person gave, then one that a model wrote, then a summary. Without one it is
    the first prompt of a person, or the heading of the plan that the session was started with; then the first command.
    A file that only has the conversation of a sub-agent is titled by its task.
    """

    def __init__(self, kind: m.Kind) -> None:
        self.first_prompt: str | None = None
        """The first prompt of a person, the task of a sub-agent, or a plan that was passed on earlier."""
        self.kind: m.Kind = kind
        self._authors = ClaudeAuthors(kind)
        self._command: str | None = None
        self._tasks: ClaudeTitles | None = None
        """The task of a sub-agent in the same file."""
        self._has_messages = False
        self._given: str | None = None
        self._generated: str | None = None
        self._summaries: dict[str, str] = {}

    @property
    def is_recorded(self) -> bool:
        """Whether there is a title other than a summary."""
        return (self._given or self._generated) is not None

    @property
    def leaves(self) -> list[str]:
        """The messages that summaries refer to; only a summary of this session counts."""
        return list(self._summaries)

    def _read_title(self, record: ClaudeRecord) -> None:
        """Read a record with a title; later ones replace earlier ones."""
        if record.custom_title:
            self._given = record.custom_title
        elif record.ai_title:
            self._generated = record.ai_title
        elif record.summary and record.leaf_uuid:
            self._summaries.pop(record.leaf_uuid, None)
            self._summaries[record.leaf_uuid] = record.summary

    def add_summaries(self, summaries: Mapping[str, str]) -> None:
        """Add summaries from other files, by the message they refer to; those of its own files take precedence."""
        self._summaries = {**summaries, **self._summaries}

    def read(self, record: ClaudeRecord) -> None:
        """Read any record, for a title or for the first prompt."""
        if record.type in TITLE_RECORDS:
            self._read_title(record)
        elif self.first_prompt is None:
            self._has_messages |= record.message is not None
            text = self._prompt_in(record)
            if text.startswith(COMMAND_TEXT):
                # A /clear that starts a new session says nothing about it.
                if self._command is None or self._command.startswith(_CLEAR):
                    self._command = command_of(text).text
            elif text.strip():
                self.first_prompt = plan_in(text) or text

    def read_task(self, record: ClaudeRecord) -> None:
        """Read a record of a sub-agent that is in the same file."""
        if self._tasks is None:
            self._tasks = ClaudeTitles("subagent")
        if self._tasks.first_prompt is None:
            self._tasks.read(record)

    def _prompt_in(self, record: ClaudeRecord) -> str:
        """Return a prompt of a person, the task of a sub-agent, or a plan that was passed on; else an empty text."""
        message = record.message
        if record.type == "system" and record.subtype == "local_command":
            text = flat_text(record.content)[0]
            return text if text.startswith(COMMAND_TEXT) else ""
        if record.type != "user" or message is None or record.is_compact_summary:
            return ""
        text = message.content if isinstance(message.content, str) else _text_in(message.content or ())
        if text in (MARKER, TOOL_MARKER):
            return ""
        blocks = separate_injected([m.Text(text)])
        if not is_plan(text) and self._authors.author_of(record, text_of(blocks), blocks) not in _WRITERS:
            return ""
        return text_of(blocks)

    def add_prompts(self, others: ClaudeTitles) -> None:
        """Add the first prompts and commands of a file that continues the session."""
        self.first_prompt = self.first_prompt or others.first_prompt
        self._command = self._command or others._command
        self._tasks = self._tasks or others._tasks
        self._has_messages |= others._has_messages

    def choose(self, contains: Callable[[str], bool]) -> str | None:
        """Return the title; `contains` says whether a message is in the session."""
        summary = next((self._summaries[leaf] for leaf in reversed(self._summaries) if contains(leaf)), None)
        task = self._tasks.first_prompt if self._tasks is not None and not self._has_messages else None
        return choose_title(self._given or self._generated or summary, self.first_prompt or task, self._command)


def _text_in(content: Iterable[ClaudeBlock]) -> str:
    """Return the text of a prompt; a record with tool results is not a prompt, even if it has a text."""
    blocks = list(content)
    if any(block.tool_use_id is not None for block in blocks):
        return ""
    return "\n".join(block.text for block in blocks if block.type == "text" and block.text)
