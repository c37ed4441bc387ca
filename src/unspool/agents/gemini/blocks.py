"""The blocks of Gemini CLI's messages, and the message that each tool result belongs to.

Up to 0.44 the log keeps a result in the reply that made the call. Since 0.45 a later message brings it to the model,
and the result moves there. A call that was rejected over ACP is only known by its result at first; a later copy has its
input.
"""

from __future__ import annotations

import msgspec

from ...core import model as m
from ...core.builder import SessionBuilder
from .authors import SHELL_COMMAND
from .content import other_blocks, parts_of, response_text, spoken_blocks
from .conversation import Conversation
from .outcomes import judge
from .schema import REPLY_TYPES, FunctionResponse, GeminiMessage
from .tool_calls import AnsweredCall, GeminiToolCalls, input_of
from .turn import GeminiTurn

_UNKNOWN_INPUT = msgspec.Raw(b"null")


class BlockFactory:
    """Creates the blocks of a session's messages, with each tool result in only one of them."""

    def __init__(
        self, builder: SessionBuilder, conversation: Conversation, calls: GeminiToolCalls, turn: GeminiTurn
    ) -> None:
        self.results_follow = False
        """Whether results have their own messages."""
        self._builder = builder
        self._conversation = conversation
        self._calls = calls
        self._turn = turn
        self._other: dict[str, list[m.Block]] = {}
        self._in_reply: dict[str, tuple[int, list[m.Block]]] = {}
        self._without_input: dict[int, list[m.Block]] = {}

    # --- content ---

    def note_other(self, message: GeminiMessage, source: m.Source, *path: str | int) -> None:
        """Read parts that are not text while the line of the message is in memory."""
        found = other_blocks(message, lambda index: self._builder.raw_at(source, *path, "content", index))
        if found:
            self._other[message.id] = found

    def with_other(self, message: GeminiMessage, blocks: list[m.Block]) -> list[m.Block]:
        """Return blocks followed by the parts of a message that are not text."""
        return [*blocks, *self._other.get(message.id, ())]

    def user_blocks(self, message: GeminiMessage, text: str, typed: str, is_human: bool) -> list[m.Block]:
        """Return the blocks of a user message: a shell command, what a person typed, or a note of the agent."""
        if text.startswith(SHELL_COMMAND):
            return [m.Attachment("shell", text[len(SHELL_COMMAND) :].strip())]
        if is_human:
            return self.with_other(message, [m.Text(typed)])
        return [m.Attachment(text[1 : text.find(">")] if text.startswith("<") else "note", text)]

    def reply_blocks(self, message: GeminiMessage, text: str, answered: list[AnsweredCall]) -> list[m.Block]:
        """Return the text and calls of the model, with the results that no other message has (yet)."""
        blocks = self.with_other(message, spoken_blocks(message, text))
        if not answered:
            return blocks
        blocks += [m.ToolCall(call.id, call.name, input_of(call.args)) for call, _, _ in answered]
        known = self._conversation.indices.get(message.id)
        index = known[-1] if known is not None else len(self._builder)
        for call, output, verdict in answered:
            result = m.ToolResult(
                call.id,
                output,
                verdict.outcome,
                verdict.exit_code,
                sent=not self.results_follow,
                synthetic=verdict.outcome == "unknown",
            )
            blocks.append(result)
            if self.results_follow:
                self._in_reply[call.id] = index, blocks
        return blocks

    # --- results ---

    def result_blocks(self, responses: list[FunctionResponse]) -> list[m.Block]:
        """Return the results that a message brings to the model."""
        blocks: list[m.Block] = []
        for response in responses:
            call_id = response.id or ""
            result = self._take_result(call_id)
            if result is None:
                text = response_text(response)
                verdict = judge(None, text, response.name or "")
                result = m.ToolResult(call_id, text, verdict.outcome, verdict.exit_code)
                if not self._calls.is_known(call_id):
                    self._add_call(call_id, response.name or "?")
            blocks.append(result)
        return blocks

    def _take_result(self, call_id: str) -> m.ToolResult | None:
        """Remove a result from the reply that has it."""
        location = self._in_reply.pop(call_id, None)
        if location is None:
            return None
        index, blocks = location
        found = next((x for x in blocks if type(x) is m.ToolResult and x.call_id == call_id), None)
        if found is not None:
            blocks.remove(found)
            found.sent = True
            self._conversation.replace(index, blocks)
        return found

    def _add_call(self, call_id: str, name: str) -> None:
        """Add a call that is only known by its result to the last reply."""
        index, blocks = self._turn.last_reply, self._turn.reply_blocks
        if index < 0:
            return
        blocks.append(m.ToolCall(call_id, name, _UNKNOWN_INPUT))
        self._without_input.setdefault(index, blocks)
        self._conversation.replace(index, blocks)

    # --- inputs ---

    def learn_from_copy(self, message: GeminiMessage, index: int) -> None:
        """Take the inputs of rejected calls from a later copy of the reply."""
        blocks = self._without_input.get(index)
        if blocks is None or message.type not in REPLY_TYPES:
            return
        inputs = [part.function_call for part in parts_of(message.content) if part.function_call is not None]
        for call, given in zip(_calls_without_input(blocks), inputs, strict=False):
            call.raw_input = input_of(given.args)
            self._calls.learn_input(call)
        if inputs:
            del self._without_input[index]
            self._conversation.replace(index, blocks)

    def learn_from_calls(self, message: GeminiMessage) -> None:
        """Take the inputs of rejected calls from a message that records the calls."""
        if not self._without_input:
            return
        given = {call.id: call for call in message.tool_calls or ()}
        for index, blocks in list(self._without_input.items()):
            for block in _calls_without_input(blocks):
                if block.id in given:
                    block.raw_input = input_of(given[block.id].args)
                    self._calls.learn_input(block)
                    self._conversation.replace(index, blocks)


def _calls_without_input(blocks: list[m.Block]) -> list[m.ToolCall]:
    return [block for block in blocks if type(block) is m.ToolCall and block.raw_input is _UNKNOWN_INPUT]
