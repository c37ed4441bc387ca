"""Turns the records of one Claude Code conversation into messages and events."""

from __future__ import annotations

from collections.abc import Callable

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import CONTINUED, UNANSWERED
from ...io.decode import decode_any
from .authors import COMMAND_TEXT, ClaudeAuthors, separate_injected
from .chain import ClaudeChain
from .compaction import ClaudeCompactions
from .content import attachment_blocks, blocks_of, command_of, flat_text, text_of
from .hooks import stop_hooks
from .interruptions import ClaudeInterruptions, is_headless
from .outcomes import MARKER, TOOL_MARKER
from .plans import ClaudePlans
from .queue import PromptQueue, Queued
from .resumes import ResumeSigns
from .schema import SYNTHETIC, AttachmentBody, ClaudeBlock, ClaudeRecord
from .subagents import SubagentCalls
from .tool_calls import ClaudeToolCalls
from .tools import SUBAGENT_TOOLS
from .turn import ClaudeTurn

_PLACEHOLDERS = ("No response requested.", "(no content)", "")


class ClaudeParser:
    """Reads the records of one conversation in order."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.version: str | None = None
        self.turn = ClaudeTurn()
        self.chain = ClaudeChain(builder)
        self.queue = PromptQueue(builder)
        self.subagents = SubagentCalls()
        self.calls = ClaudeToolCalls(builder, self.subagents)
        self.plans = ClaudePlans(builder, self.calls)
        self.authors = ClaudeAuthors(builder.kind)
        self.resumes = ResumeSigns(self.turn)
        self.interruptions = ClaudeInterruptions(builder, self.chain, self.turn, self.calls)
        self._compactions = ClaudeCompactions(builder, self.chain)

    # --- records ---

    def read(self, record: ClaudeRecord, source: m.Source, inherited: bool = False) -> None:
        """Read a record that is part of the chain: user, assistant, system or attachment.

        `inherited` if it belongs to the session this one was forked from.
        """
        if record.version != self.version and record.version is not None:
            self.version = record.version
            self.builder.details.versions[record.version] = None
            self.resumes.read_version(record.version)
        _HANDLERS.get(record.type, ClaudeParser._unknown)(self, record, source, inherited)

    def finish(self) -> None:
        """Finish after the last record."""
        self.calls.finish()
        self._compactions.finish()

    def progress(self, record: ClaudeRecord) -> None:
        """Read a record about something that runs: a hook, a tool, or a sub-agent."""
        self.chain.link(record)
        if record.data is None:
            return
        if record.data.hook_name is not None:
            self.resumes.read_hook(record.data.hook_name, len(self.builder))
        elif record.running_call is not None:
            self.calls.runs(record.running_call)

    def _unknown(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        """Keep a record of unknown shape as it is."""
        block = m.Unknown(record.type, self.builder.raw_at(source))
        self.chain.add(record, source, "system", "harness", [block], inherited=inherited)

    # --- the model ---

    def _assistant(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        message = record.message
        if message is None:
            return self._unknown(record, source, inherited)
        if self.queue.taken and message.id != self.builder.replies.current.key:
            self._add_taken(record)
        blocks = blocks_of(message.content, self.builder.raw_at, source)
        # 2.1.200 also marks the beginning of an interrupted response as "synthetic".
        is_placeholder = message.model == SYNTHETIC and text_of(blocks) in _PLACEHOLDERS
        if record.is_api_error_message or is_placeholder:
            return self._harness_reply(record, source, blocks, inherited)
        index = self.chain.add(record, source, "assistant", "model", blocks, message, inherited)
        if index is None:
            return None
        if not self.builder.columns.flags[index] & CONTINUED:
            self.calls.next_step()
        if self.resumes.watches_size:
            self.resumes.read_usage(message.usage)
            self.resumes.measure(index, blocks)
        turn = self.turn
        turn.last_model = index
        turn.model_spoke = True
        if blocks and type(blocks[-1]) is m.ToolCall:
            self.subagents.called(index, blocks, record.timestamp)
        if message.stop_reason == "max_tokens" and not inherited:
            self.interruptions.add_error("truncated", index, "the reply reached the output limit", record)
        return None

    def _add_taken(self, record: ClaudeRecord) -> None:
        """Add the entries that the turn took from the queue, and read the notifications of sub-agents among them."""
        for entry in self.queue.taken:
            if entry.author == "subagent":
                self.subagents.read_notification(entry.text)
        self.queue.add_taken(record, self.chain.last)

    def _harness_reply(self, record: ClaudeRecord, source: m.Source, blocks: list[m.Block], inherited: bool) -> None:
        """Read a reply that the harness wrote instead of the model."""
        index = self.chain.add(record, source, "assistant", "harness", blocks, inherited=inherited)
        if index is None:
            return
        self.calls.next_step()
        if inherited:
            return
        if record.is_api_error_message:
            self.interruptions.api_error(record, index, text_of(blocks))
        else:
            self.resumes.placeholders.append(index)

    # --- the user's side ---

    def _user(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        message = record.message
        if message is None:
            return self._unknown(record, source, inherited)
        content = message.content
        blocks: list[m.Block]
        if isinstance(content, str):
            text, blocks = content, [m.Text(content)]
        else:
            for block in content or ():
                if block.tool_use_id is not None:
                    return self._tool_results(record, source, content or [], inherited)
            blocks = blocks_of(content, self.builder.raw_at, source)
            text = text_of(blocks)
            if text in (MARKER, TOOL_MARKER):
                if self.plans.is_expected:
                    return self._about_plan(record, source, blocks)
                return self.interruptions.read_marker(record, source, text, inherited)
        if record.is_compact_summary:
            return self._compactions.read_summary(record, source, text, inherited)
        return self._user_text(record, source, text, blocks, inherited)

    def _user_text(
        self, record: ClaudeRecord, source: m.Source, text: str, blocks: list[m.Block], inherited: bool
    ) -> None:
        if "<" in text and not record.is_meta and text.lstrip()[:1] == "<":
            blocks = separate_injected(blocks)
            text = text_of(blocks)
        is_plan = self.plans.is_passed_on(record, text)
        author: m.Author = "harness" if is_plan else self.authors.author_of(record, text, blocks)
        if author == "human" and text.startswith(COMMAND_TEXT):
            blocks = [command_of(text)]
        # Messages before a clear in the same file stay on the path, but are not in context.
        above = self.chain.last if is_plan and not inherited and self.calls.has_refused_plan else None
        queued = author == "human" and record.prompt_source == "queued" and self._follows_open_call(record)
        if self.queue.taken:
            self.queue.recorded(text)
            if author == "human" and not queued:
                self._add_taken(record)
        index = self.chain.add(record, source, "user", author, blocks, inherited=inherited, parent=above, queued=queued)
        if index is None:
            return
        if self.resumes.watches_size:
            self.resumes.measure(index, blocks)
        if is_plan and not inherited:
            self.plans.cleared(record, index)
        if is_plan or (author == "human" and not queued):
            self._prompted(record, index)
        elif author == "subagent":
            self.subagents.read_notification(text)

    def _about_plan(self, record: ClaudeRecord, source: m.Source, blocks: list[m.Block]) -> None:
        """Add a record about the plan that the session starts with; its event belongs to the old session."""
        self.chain.add(record, source, "user", "harness", blocks, parent=self.chain.last)

    def _prompted(self, record: ClaudeRecord, index: int) -> None:
        self.calls.next_step()
        self.turn.prompted(index, is_headless=record.prompt_source == "sdk" or is_headless(record))

    def _follows_open_call(self, record: ClaudeRecord) -> bool:
        """Whether a queued prompt follows an open call: 2.1.200 attaches it to the call that was interrupted for it."""
        parent = self.builder.find(record.parent_uuid) if isinstance(record.parent_uuid, str) else None
        return parent is not None and bool(self.builder.columns.flags[parent] & UNANSWERED)

    def _tool_results(
        self, record: ClaudeRecord, source: m.Source, content: list[ClaudeBlock], inherited: bool
    ) -> None:
        blocks, results = self.calls.read(record, content, source)
        if self.plans.is_expected:
            for judged in results:
                judged.result.outcome = "ok"
            return self._about_plan(record, source, blocks)
        call = self.builder.calls.find(results[0].result.call_id)
        author: m.Author = "subagent" if call is not None and call.name in SUBAGENT_TOOLS else "harness"
        index = self.chain.add(record, source, "user", author, blocks, inherited=inherited)
        if index is None:
            return None
        if self.resumes.watches_size:
            self.resumes.measure(index, blocks)
        for judged in results:
            self.calls.close(record, index, judged, inherited)
        return None

    # --- system and attachment records ---

    def _system(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        kind = record.subtype or "system"
        if kind == "compact_boundary":
            if self._compactions.read_boundary(record, source, inherited):
                self.resumes.compacted()
            return
        if kind == "microcompact_boundary":
            self._compactions.read_partial(record, source, inherited)
            return
        if kind == "turn_duration":
            self.chain.link(record)
            return
        text = flat_text(record.content)[0] or None
        author: m.Author = "harness"
        block: m.Attachment | None = None
        if kind == "stop_hook_summary":
            author, block = "hook", stop_hooks(self.builder.raw_at(source))
        elif kind == "local_command" and text is not None and text.startswith(COMMAND_TEXT):
            author = "human"
        if kind == "api_error":
            text = text or flat_text(decode_any(record.error))[0]
        if block is None:
            block = command_of(text) if author == "human" and text is not None else m.Attachment(kind, text)
        index = self.chain.add(record, source, "system", author, [block], inherited=inherited)
        if index is None or inherited:
            return
        if kind == "api_error":
            self.interruptions.add_error("api_error", index, text or "API error", record)
        elif kind == "agents_killed":
            self.subagents.all_killed = True

    def _attachment(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        body = record.attachment or AttachmentBody()
        if body.type == "queued_command":
            text = flat_text(body.prompt)[0]
            typed = body.origin is None or body.origin.kind in (None, "human")
            author = Queued(text, source).author if typed else "subagent"
            self.queue.recorded(text)
            if author == "subagent":
                self.subagents.read_notification(text)
            is_typed = author == "human"
            self.chain.add(record, source, "user", author, [m.Text(text)], inherited=inherited, queued=is_typed)
            return
        author = "hook" if body.type.startswith("hook") else "harness"
        blocks = attachment_blocks(body, record.rendered, self.builder.raw_at, source)
        # Text that was sent to the model was decoded with the line; only other fields have to be checked.
        if body.filename is not None or not record.rendered:
            for block in blocks:
                if type(block) is m.Attachment and block.text is not None and "\ufffd" in block.text:
                    self.builder.check_text(block.text.encode(), source)
        index = self.chain.add(record, source, "user", author, blocks, inherited=inherited)
        if body.hook_name is not None and index is not None and not inherited:
            self.resumes.read_hook(body.hook_name, index)


_HANDLERS: dict[str, Callable[[ClaudeParser, ClaudeRecord, m.Source, bool], None]] = {
    "assistant": ClaudeParser._assistant,
    "attachment": ClaudeParser._attachment,
    "user": ClaudeParser._user,
    "system": ClaudeParser._system,
}
"""The method that reads each type of record; all other types are kept as they are."""
