"""Turns the records of one Gemini CLI session into messages and events."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from ...core import model as m
from ...core.builder import SessionBuilder
from .authors import NOT_TITLES, SESSION_CONTEXT, SNAPSHOT, GeminiAuthors
from .blocks import BlockFactory
from .clears import NewFile
from .compaction import GeminiCompactions
from .content import is_plain, parts_of, response_text, responses_of, text_of, usage_of
from .conversation import Conversation
from .copies import Copies, HeldMessage
from .interruptions import CANCELLED, GeminiInterruptions
from .rewinds import Reload, Rewinds
from .schema import REPLY_TYPES, FunctionResponse, GeminiMessage
from .tool_calls import Ended, GeminiToolCalls, answered_calls
from .turn import GeminiTurn

_ACKNOWLEDGED = "Got it. Thanks for the additional context!"
_RESTORED = "Restored project to the state before the tool call."


class GeminiParser:
    """Reads the records of one session in order.

    Each record is an edit of the conversation (see `conversation`); the objects that handle it keep their own state.
    """

    def __init__(self, builder: SessionBuilder, typed: frozenset[str] | None) -> None:
        """`typed` are the prompts in the prompt log; None if the session did not run in a terminal."""
        builder.details.unanswered = "sent"
        self.builder = builder
        self.first_prompt: str | None = None
        self.calls = GeminiToolCalls(builder)
        self.conversation = Conversation(builder)
        self._authors = GeminiAuthors(builder.kind, typed)
        self._turn = GeminiTurn()
        self._copies = Copies(self.conversation)
        self._blocks = BlockFactory(builder, self.conversation, self.calls, self._turn)
        self._interruptions = GeminiInterruptions(builder, self.calls, self._turn, self._authors.is_in_terminal)
        self._compactions = GeminiCompactions(builder)
        self._rewinds = Rewinds(builder, self.conversation, self.calls, self._authors.is_in_terminal)
        self._reload = Reload()
        self._new_file = NewFile(builder)

    # --- records ---

    def message(self, message: GeminiMessage, source: m.Source) -> None:
        """Read a message: a new one, a known one that is repeated, or one that may be a copy."""
        if not is_plain(message.content):
            self._blocks.note_other(message, source)
        known = self.conversation.indices.get(message.id)
        if known is None and self._copies.held and self._copies.is_held(message.id):
            self._release()
            known = self.conversation.indices.get(message.id)
        if known is not None:
            # A copy of a file repeats its messages, and starts no conversation.
            self._new_file.is_open = False
            if self._copies.held:
                self._release()
            self._repeated(message, source, known[-1])
        elif message.model is UNSET and (message.type == "user" or message.type in REPLY_TYPES):
            self._copies.held.append(HeldMessage(message, source))
        else:
            if self._copies.held:
                self._release()
            self._new(message, source)

    def header(self, again: bool) -> None:
        """Read a header; `again` if the file had one before."""
        self._release()
        self._reload.after_header = again

    def rewind(self, id: str) -> None:
        """Read a rewind: a person went back to before a message."""
        self._release()
        self._reload.only_adds = False
        self._rewinds.rewind(id)

    def replace_all(self, messages: list[GeminiMessage], source: m.Source) -> None:
        """Read a list that replaces the whole conversation."""
        self._reload.indices = None
        for position, message in enumerate(messages):
            if not is_plain(message.content):
                self._blocks.note_other(message, source, "$set", "messages", position)
        sources = self._copies.take_copied(messages)
        self._release()
        after_header, self._reload.after_header = self._reload.after_header, False
        snapshot = self._copies.find_snapshot(messages) if not sources else None
        if snapshot is not None:
            self._compress(messages, snapshot, source)
            return
        copied = [self._copies.indices_of(message) for message in messages]
        # New messages follow those that remain in the conversation, not its old end.
        before, self.conversation.live = self.conversation.live, []
        for message, known in zip(messages, copied, strict=True):
            self._keep(message, sources.get(message.id, source), known)
        indices, self.conversation.live = list(dict.fromkeys(self.conversation.live)), before
        if after_header and len(indices) < len(self.conversation.live):
            self._reload.indices = indices
        else:
            self._reset(indices)

    def begin_document(self) -> None:
        """Begin a file that is one document; the session may have had others before."""
        self._new_file.begin(self._turn.last_reply, self._compactions.context_tokens)

    def end_file(self) -> None:
        """Finish a file; the session may continue in another."""
        self._release()
        self._reload.end_file()

    def finish(self) -> None:
        """Finish after the last record."""
        self._release()
        self._interruptions.settle_erased(is_last=True)

    # --- messages ---

    def _release(self) -> None:
        """Add the messages that were held back, because they are not copies."""
        held, self._copies.held = self._copies.held, []
        for message, source in held:
            self._new(message, source)

    def _keep(self, message: GeminiMessage, source: m.Source, known: list[int]) -> None:
        """Add a message of the list that replaces the conversation, or the messages that it repeats."""
        live = self.conversation.live
        if known:
            self._blocks.learn_from_copy(message, known[-1])
            live += known
            return
        start = len(live)
        parts, pieces = self._copies.split(message)
        live += parts
        for piece in pieces:
            self._new(piece, source)
        if len(live) > start:
            self.conversation.indices[message.id] = live[start:]

    def _new(self, message: GeminiMessage, source: m.Source) -> None:
        reload = self._reload
        if reload.indices is not None:
            indices = reload.decide(message, self.builder.sink.time_of(self.conversation.last))
            if not reload.only_adds:
                self._reset(indices)
        if reload.only_adds:
            self._blocks.learn_from_calls(message)
        else:
            _HANDLERS.get(message.type, GeminiParser._note)(self, message, source)

    def _reset(self, indices: list[int]) -> None:
        dropped = self._rewinds.reset(indices)
        if not self._rewinds.is_pending:
            self._interruptions.note_erased(dropped)

    # --- replies ---

    def _reply(self, message: GeminiMessage, source: m.Source) -> int:
        text = text_of(message)
        # The agent itself writes the reply to a snapshot, in the name of the model.
        author: m.Author = "harness" if text == _ACKNOWLEDGED else "model"
        answered = answered_calls(message.tool_calls or [])
        blocks = self._blocks.reply_blocks(message, text, answered)
        index = self.conversation.add(message, source, "assistant", author, blocks, usage_of(message))
        self._copies.remember("gemini", text, index)
        self._turn.last_reply, self._turn.reply_blocks = index, blocks
        self._compactions.note_tokens(message)
        if self._new_file.is_open and message.tokens is not None and message.tokens.input:
            self._new_file.request(message.tokens.input)
        self.calls.close(answered, index)
        return index

    def _repeated(self, message: GeminiMessage, source: m.Source, index: int) -> None:
        """Read a reply again, completed by the results of its calls.

        Over ACP one message collects the calls of all later turns too; those are added where they happened.
        """
        if message.type not in REPLY_TYPES or (message.tool_calls is None and not message.tokens):
            return
        calls = message.tool_calls or []
        later = [call for call in calls if not self.calls.is_known(call.id)] if self._turn.is_after(index) else []
        if later:
            message.tool_calls, message.content, message.thoughts = later, None, None
            message.id = ""
            self._reply(message, source)
            return
        answered = answered_calls(calls)
        blocks = self._blocks.reply_blocks(message, text_of(message), answered)
        self.conversation.replace(index, blocks, usage_of(message))
        self._compactions.note_tokens(message)
        self.calls.close(answered, index)

    # --- user messages ---

    def _user(self, message: GeminiMessage, source: m.Source) -> int:
        responses = responses_of(message)
        if responses:
            return self._tool_results(message, source, responses)
        text = text_of(message)
        typed = text if message.display_content is None else text_of(message, shown=True)
        self._blocks.results_follow = self._blocks.results_follow or text.startswith(SESSION_CONTEXT)
        if text.startswith(SNAPSHOT):
            return self.conversation.add(message, source, "user", "harness", [m.CompactionMark(text)])
        author = self._authors.author_of(text)
        if author == "human":
            self._rewinds.drop_restored_call(self._turn)
        blocks = self._blocks.user_blocks(message, text, typed, author == "human")
        index = self.conversation.add(message, source, "user", author, blocks)
        for part in parts_of(message.content):
            if part.text:
                self._copies.remember("user", part.text, index)
        if author == "human":
            self._prompted(message, index)
        # The model writes the task of a sub-agent.
        if author in ("human", "model") and self.first_prompt is None and not typed.startswith(NOT_TITLES):
            self.first_prompt = typed
        return index

    def _prompted(self, message: GeminiMessage, index: int) -> None:
        self._interruptions.settle_erased(is_last=False)
        self._turn.last_prompt = index
        self.calls.interruption = None
        self._rewinds.prompted(message, index)

    def _tool_results(self, message: GeminiMessage, source: m.Source, responses: list[FunctionResponse]) -> int:
        """Add results in the message that brings them to the model (0.45 and later)."""
        index = self.conversation.add(message, source, "user", "harness", self._blocks.result_blocks(responses))
        for response in responses:
            call_id = response.id or ""
            self._copies.remember("result", call_id, index)
            if not self.calls.is_known(call_id):
                name, text = response.name or "?", response_text(response)
                self.calls.judge(Ended(index, call_id, name, text, message.timestamp))
        return index

    # --- notes of the interface ---

    def _note(self, message: GeminiMessage, source: m.Source) -> int:
        text = text_of(message)
        if text == CANCELLED:
            return self._cancelled(message, source)
        is_compression = self._compactions.is_note(message, text)
        block: m.Block = m.Attachment(message.type, text)
        if is_compression and not self._compactions.note_is_due:
            block = m.CompactionMark()
        index = self.conversation.add(message, source, "system", "harness", [block])
        if is_compression:
            self._compactions.read_note(message, index, text)
        elif message.type != "error" and text.startswith(_RESTORED):
            self._turn.was_restored = True
        else:
            self._interruptions.read_note(message, index, text)
        self._interruptions.explain_erased(message, text)
        return index

    def _cancelled(self, message: GeminiMessage, source: m.Source) -> int:
        """Read the note at the end of a turn that was stopped, or whose calls were all rejected."""
        is_rejection = self._interruptions.closes_rejection()
        block: m.Block = m.Attachment("info", CANCELLED) if is_rejection else m.InterruptionMark("response")
        index = self.conversation.add(message, source, "system", "harness", [block])
        if not is_rejection:
            self._interruptions.cancelled(message, index)
        return index

    # --- compression ---

    def _compress(self, messages: list[GeminiMessage], snapshot: GeminiMessage, source: m.Source) -> None:
        """Replace older messages with a snapshot; the newest are kept, with new ids."""
        last = self.conversation.tip
        position = messages.index(snapshot)
        kept: set[int] = set()
        for message in messages[:position] + messages[position + 1 :]:
            kept.update(self._copies.indices_of(message))
        summary = text_of(snapshot)
        index = self.conversation.add(snapshot, source, "user", "harness", [m.CompactionMark(summary)])
        self.conversation.reset([index])
        for message in messages[position + 1 :]:
            if self.conversation.indices.get(message.id) is None:
                self._new(message, source)
        self._compactions.add_snapshot(snapshot, index, summary, last, kept)


_HANDLERS: dict[str, Callable[[GeminiParser, GeminiMessage, m.Source], int]] = {
    **dict.fromkeys(REPLY_TYPES, GeminiParser._reply),
    "user": GeminiParser._user,
}
"""The method that reads each type of message; all other types are notes of the interface."""
