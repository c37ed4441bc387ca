"""Turns the records of one Codex CLI thread into messages and events."""

from __future__ import annotations

from collections.abc import Callable

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import PROMPT
from ...io.decode import decode_any
from .authors import author_of
from .chain import CodexChain
from .compaction import CodexCompactions
from .content import blocks_of, flat_output, input_of, joined_text, query_of, string_of, thinking_of, tool_of
from .history import PromptHistory
from .interruptions import CodexInterruptions
from .legacy import LegacyFormats
from .outcomes import CodexVerdict, judge
from .rollback import Rollbacks
from .schema import BareRecord, CodexPayload, CodexRecord, TokenUsage
from .subagents import CodexSubagents
from .token_usage import TokenMeter
from .tool_calls import CodexResult, CodexToolCalls
from .turn import CodexTurn
from .unanswered import UnansweredRequests

Blocks = list[m.Block]


class CodexParser:
    """Reads the records of one thread in order. Tables say which method reads which record, item and event."""

    def __init__(self, builder: SessionBuilder, version: tuple[int, ...]) -> None:
        builder.details.unanswered = "made_up"
        self.builder = builder
        self.turn = turn = CodexTurn()
        self.history = PromptHistory()
        self.subagents = CodexSubagents(builder)
        self._calls = CodexToolCalls(builder)
        self._tokens = TokenMeter(builder)
        self.rollbacks = Rollbacks(builder, turn, self.history, self._calls, self._tokens, version)
        self._chain = chain = CodexChain(builder, turn, self.rollbacks, version)
        self._compactions = CodexCompactions(
            builder, chain, turn, self.history, self.rollbacks, self._calls, self._tokens, version
        )
        self._unanswered = UnansweredRequests(builder, turn, self._calls, version)
        self._interruptions = CodexInterruptions(builder, chain, turn, self._calls, version)
        self.legacy = LegacyFormats(builder, chain, turn, self._calls)

    # --- records ---

    def read(self, record: CodexRecord, source: m.Source, inherited: bool) -> None:
        """Read a record of any type."""
        handler = _RECORDS.get(record.type)
        if handler is not None:
            handler(self, record, record.payload, source, inherited)
        elif record.type not in SILENT_RECORDS:
            self.builder.unknown_record(f"a record of type {record.type!r}", source)

    def read_bare(self, record: BareRecord, source: m.Source) -> str:
        """Read a record without an envelope (0.29 and before); returns its type."""
        if record.payload is not None:
            self.read(CodexRecord(record.type, record.timestamp, None, record.payload), source, inherited=False)
            return record.type
        if record.record_type is not None:
            return record.record_type
        if not record.type:
            return "head"
        return self.read_lone_item(record, source)

    def read_lone_item(self, item: CodexPayload, source: m.Source) -> str:
        """Read an item without an envelope; returns its type."""
        self.read_item(CodexRecord(type="response_item", payload=item), item, source, inherited=False)
        return item.type

    def read_item(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        """Read an item of the conversation as the model gets it."""
        handler = _ITEMS.get(payload.type)
        if handler is not None:
            handler(self, record, payload, source, inherited)
        elif payload.type not in _SILENT_ITEMS:
            unknown = m.Unknown(payload.type, self.builder.raw_at(source))
            self._chain.add(record, source, "system", "harness", [unknown], inherited, payload.id)

    def read_event(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        """Read an event. Most events only repeat an item."""
        handler = _EVENTS.get(payload.type)
        if handler is not None:
            handler(self, record, payload, source, inherited)

    def finish(self) -> None:
        """Finish after the last record."""
        self._calls.finish()
        self._unanswered.finish()

    def _turn_context(self, _: CodexRecord, payload: CodexPayload, __: m.Source, ___: bool) -> None:
        self.turn.model = payload.model or self.turn.model
        if payload.approval_policy:
            self._calls.policy = string_of(payload.approval_policy)
            self._calls.reviewer = string_of(payload.approvals_reviewer)
        self.turn.in_reply = False

    def _compacted(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        self._compactions.compacted(record, payload, source, inherited)

    def _token_usage(self, _: CodexRecord, payload: CodexPayload, __: m.Source, inherited: bool) -> None:
        self.turn.in_reply = False
        self._count(self._tokens.read_record(payload), inherited)

    # --- messages ---

    def _message(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        blocks: Blocks
        if isinstance(payload.content, list) and len(payload.content) == 1 and (only := payload.content[0].text):
            text, blocks = only, [m.Text(only)]
        else:
            path, text = self.legacy.content_path, joined_text(payload.content)
            blocks = blocks_of(payload.content, lambda index: self.builder.raw_at(source, *path, index))
        if payload.role == "assistant":
            self._assistant(record, payload, source, inherited, text, blocks)
            return
        self.turn.in_reply = False
        if payload.role == "user":
            self._user(record, payload, source, inherited, text, blocks)
        elif not self.legacy.is_typescript or not self.legacy.read_note(record, source, text):
            self._chain.add(record, source, "system", "harness", blocks, inherited, payload.id)

    def _assistant(
        self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool, text: str, blocks: Blocks
    ) -> None:
        is_summary = record.metadata is not None and record.metadata.compaction_output
        author: m.Author = "harness" if is_summary else "model"
        index = self._chain.add(record, source, "assistant", author, blocks, inherited, payload.id)
        self.history.add_reply(index, text)
        if not is_summary:
            turn = self.turn
            turn.last_model = index
            turn.spoke = turn.has_text = True
            if self._interruptions.needs_cues and not inherited:
                self._interruptions.find_cue(record, index, text)

    def _user(
        self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool, text: str, blocks: Blocks
    ) -> None:
        is_main = self.builder.kind == "main"
        author = author_of(payload, text, is_main=is_main or inherited)
        if self.legacy.is_typescript:
            author = self.legacy.author_after_rejection(text) or author
        if author == "harness" and text.startswith("<"):
            blocks = [m.Attachment(text[1 : text.find(">")].split(" ")[0], text)]
        index = self._chain.add(record, source, "user", author, blocks, inherited, payload.id)
        self.turn.last_user = index, hash(text)
        if author in ("human", "model") and (is_main or not inherited):
            self.history.note_first(text)
        if author == "human":
            self._prompted(index, text)
        elif author == "subagent":
            self.subagents.notified(text)

    def _prompted(self, index: int, text: str) -> None:
        self._unanswered.prompted()
        self.history.add_prompt(index, text)
        self.turn.prompted(index)
        self._tokens.note_prompt()
        self._calls.next_turn()
        self._compactions.prompted()

    def _reasoning(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        block = thinking_of(payload.summary)
        self.turn.last_model = self._chain.add(record, source, "assistant", "model", [block], inherited, payload.id)

    def _web_search(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        block = m.Attachment("web_search", query_of(payload.action))
        self.turn.last_model = self._chain.add(record, source, "assistant", "model", [block], inherited, payload.id)

    def _agent_message(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        block = m.Text(joined_text(payload.content))
        self._chain.add(record, source, "user", "subagent", [block], inherited, payload.id)
        self.turn.in_reply = False

    def _added_tools(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        self._chain.add(record, source, "system", "harness", [m.Attachment(payload.type)], inherited, payload.id)

    # --- calls and results ---

    def _call(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        call_id = payload.call_id or payload.id or f"call at line {source.line}"
        call = m.ToolCall(call_id, tool_of(payload), input_of(payload))
        self.turn.last_model = self._chain.add(record, source, "assistant", "model", [call], inherited, payload.id)
        self.turn.spoke = True
        self.subagents.called(call_id, call.name)
        if not inherited:
            self._unanswered.called(call, self.turn.last_model)

    def _output(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        call_id = payload.call_id or ""
        text, parts = flat_output(payload.output)
        verdict = judge(text)
        if verdict.kind == "aborted" and self.legacy.is_typescript and '"exit_code"' not in text:
            verdict = CodexVerdict("rejected", "user")
        outcome: m.Outcome = "interrupted" if verdict.kind == "aborted" else verdict.kind
        result = m.ToolResult(call_id, text, outcome, verdict.exit_code, parts, synthetic=verdict.kind == "unknown")
        index = self._chain.add(record, source, "user", "harness", [result], inherited, payload.id)
        if self._chain.result_ends_reply:
            self.turn.in_reply = False
        call = self.builder.close_call(call_id)
        entry = CodexResult(index, call_id, verdict, call, record.timestamp)
        self._calls.close(entry, text, self.turn.last_model, inherited)
        if not inherited:
            self.subagents.answered(call_id, call, text)

    # --- events ---

    def _token_count(self, _: CodexRecord, payload: CodexPayload, __: m.Source, inherited: bool) -> None:
        usage = self._tokens.read(payload)
        if usage is not None:
            self.turn.in_reply = False
            self._count(usage, inherited)

    def _count(self, usage: TokenUsage | None, inherited: bool) -> None:
        if usage is not None and self._tokens.count(usage, self.turn.last_model, inherited):
            self._compactions.context_shrank(self.subagents.last_review)

    def _item_completed(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        item = payload.item
        if item is None:
            return
        if item.type in ("CommandExecution", "FileChange"):
            self._calls.note_run(item.id, decode_any(item.command))
        elif item.type in _REVIEW_ITEMS:
            self._review_mode(record, payload, source, inherited)
        elif not inherited:
            self.subagents.read_item(item)

    def _user_message(self, _: CodexRecord, payload: CodexPayload, __: m.Source, ___: bool) -> None:
        """Correct the author: the event has the typed text, even if it begins like an injected one."""
        (index, text_hash), text, builder = self.turn.last_user, payload.message or "", self.builder
        is_last = index >= 0 and text_hash == hash(text)
        if is_last and builder.kind == "main" and not builder.columns.flags[index] & PROMPT:
            builder.set_author(index, "human")
            self.history.note_first(text)
            self._prompted(index, text)

    def _task_started(self, _: CodexRecord, __: CodexPayload, ___: m.Source, ____: bool) -> None:
        self.turn.start()
        self._compactions.turn_started()

    def _task_complete(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        self.turn.is_running = False
        error = payload.error
        if error is not None:
            self._interruptions.failed(record, source, error.message or "", error.codex_error_info, inherited)

    def _aborted(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        self._unanswered.aborted()
        self._interruptions.aborted(record, payload, source, inherited)

    def _rolled_back(self, record: CodexRecord, payload: CodexPayload, _: m.Source, inherited: bool) -> None:
        self.rollbacks.drop_turns(record, payload.num_turns or 0, inherited)

    def _error(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        self._interruptions.failed(record, source, payload.message or "", payload.codex_error_info, inherited)

    def _call_event(self, _: CodexRecord, payload: CodexPayload, __: m.Source, ___: bool) -> None:
        self._calls.read_event(payload)

    def _agent_event(self, _: CodexRecord, payload: CodexPayload, __: m.Source, inherited: bool) -> None:
        if not inherited:
            self.subagents.read_event(payload)

    def _review_mode(self, record: CodexRecord, payload: CodexPayload, source: m.Source, inherited: bool) -> None:
        kind = _REVIEW_ITEMS.get(payload.item.type if payload.item is not None else "", payload.type)
        index = self._chain.add(record, source, "system", "harness", [m.Attachment(kind)], inherited)
        if kind == "entered_review_mode" and not inherited:
            self.subagents.reviews.append((index, record.timestamp))


Handler = Callable[[CodexParser, CodexRecord, CodexPayload, m.Source, bool], None]
"""Reads a record; the last argument says whether it belongs to the thread that this one was forked from."""

_RECORDS: dict[str, Handler] = {
    "response_item": CodexParser.read_item,
    "event_msg": CodexParser.read_event,
    "turn_context": CodexParser._turn_context,
    "compacted": CodexParser._compacted,
    "token_usage_record": CodexParser._token_usage,
}
SILENT_RECORDS = frozenset((
    "session_meta", "dynamic_tools_updated", "inter_agent_communication", "inter_agent_communication_metadata",
    "world_state", "security_risk_score", "realtime_item",
))  # fmt: skip
"""Records that say nothing about the conversation."""

_ITEMS: dict[str, Handler] = {
    "message": CodexParser._message,
    "reasoning": CodexParser._reasoning,
    "function_call": CodexParser._call,
    "custom_tool_call": CodexParser._call,
    "local_shell_call": CodexParser._call,
    "tool_search_call": CodexParser._call,
    "function_call_output": CodexParser._output,
    "custom_tool_call_output": CodexParser._output,
    "tool_search_output": CodexParser._output,
    "mcp_tool_call_output": CodexParser._output,
    "web_search_call": CodexParser._web_search,
    "agent_message": CodexParser._agent_message,
    "additional_tools": CodexParser._added_tools,
}
_SILENT_ITEMS = frozenset(("ghost_snapshot",))

_EVENTS: dict[str, Handler] = {
    "token_count": CodexParser._token_count,
    "item_completed": CodexParser._item_completed,
    "user_message": CodexParser._user_message,
    "task_started": CodexParser._task_started,
    "task_complete": CodexParser._task_complete,
    "turn_aborted": CodexParser._aborted,
    "thread_rolled_back": CodexParser._rolled_back,
    "error": CodexParser._error,
    "stream_error": CodexParser._error,
    "exec_command_end": CodexParser._call_event,
    "patch_apply_end": CodexParser._call_event,
    "collab_agent_spawn_end": CodexParser._agent_event,
    "sub_agent_activity": CodexParser._agent_event,
    "guardian_assessment": CodexParser._call_event,
    "entered_review_mode": CodexParser._review_mode,
    "exited_review_mode": CodexParser._review_mode,
}
SILENT_EVENTS = frozenset(("agent_message", "agent_reasoning", "context_compacted", "thread_settings_applied"))
"""Frequent events that say nothing about the conversation, or repeat an item."""

_REVIEW_ITEMS = {"EnteredReviewMode": "entered_review_mode", "ExitedReviewMode": "exited_review_mode"}
