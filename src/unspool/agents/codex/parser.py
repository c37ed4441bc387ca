"""One thread of Codex CLI, line by line: turns, replies, calls, aborts, compactions and going back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from ...core import model as m
from ...core.builder import Call, Recent, SessionBuilder
from ...core.tree import NONE, PROMPT
from ...io.decode import decode_any
from .content import blocks_of, flat_output, input_of, joined_text, query_of, string_of, thinking_of
from .outcomes import CodexVerdict, judge
from .schema import BareLine, Item, Line, Payload, TokenUsage
from .token_usage import TokenMeter
from .tool_calls import Abort, CodexToolCalls, Result, during
from .tools import SPAWN_TOOLS

_INJECTED = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>",
    "<skills_instructions>", "<skill>", "<turn_aborted>", "<user_shell_command>", "<user_action>",
    "<subagent_notification>", "<collaboration_mode>", "<INSTRUCTIONS>", "<apps_instructions>", "<personality_spec>",
    "Another language model started to solve this problem",
)  # fmt: skip
_CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"))
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output", "mcp_tool_call_output"))
_KEPT_BYTES = 4 * 20_000
"""A compaction before 0.118 keeps the newest prompts, up to 20,000 tokens of about four bytes."""
_BATCHED = ((0, 30), (0, 64))
"""Versions that write the lines of a model step at its end, each call followed by its output."""
_SILENT_BEFORE = (0, 30)
"""Up to here neither aborts nor refusals are written: then words in the text are all there is."""
_AT_ONCE = timedelta(seconds=1)


class Spawned(NamedTuple):
    """A thread that was started from this one."""

    message: int | None
    call_id: str | None
    thread_id: str
    how: str


class CodexParser:
    """Turns the lines of one thread into messages and events of its draft.

    Codex writes no parents: each message hangs on the one before it, until the person goes back.
    """

    def __init__(self, draft: SessionBuilder, version: tuple[int, ...]) -> None:
        self.draft = draft
        draft.unanswered = "made_up"
        self.version: tuple[int, ...] = version
        self.first_prompt: str | None = None
        self.spawned: dict[str, Spawned] = {}
        self.finished_agents: set[str] = set()
        self.reviews: list[tuple[int, datetime | None]] = []
        self.is_typescript = False
        self.is_bare = False
        """Its lines, or the elements of its document, have no envelope."""
        self.tip = NONE
        self.went_back: tuple[int, str] | None = None
        self._calls = CodexToolCalls(draft)
        self._tokens = TokenMeter(draft)
        self._model: str | None = None
        self._looks_for_cues = bool(version) and version < _SILENT_BEFORE
        self._turn = 0
        self._replies = 0
        self._reply = ""
        self._in_reply = False
        self._prompts: list[tuple[int, int, int]] = []
        self._summaries: set[int] = set()
        self._lost_due: list[int] = []
        self._texts: Recent[int, int] = Recent()
        self._last_model = NONE
        self._last_prompt = NONE
        self._last_user = (NONE, 0)
        self._spoke = False
        self._said_text = False
        self._prompted_in_turn = False
        self._in_turn = False
        self._first_in_turn: m.Boundary | None = None
        """A compaction that stands before the prompt of its turn, if one follows."""
        self._dropped = self._dropped_before = False
        self._agent_calls: dict[str, str] = {}

    # --- lines ---

    def feed(self, line: Line, source: m.Source, inherited: bool) -> None:
        """Take a line of any kind."""
        kind, payload = line.type, line.payload
        if kind == "response_item":
            self.item(line, payload, source, inherited)
        elif kind == "event_msg":
            self.event(line, payload, source, inherited)
        elif kind == "turn_context":
            self._model = payload.model or self._model
            if payload.approval_policy:
                self._calls.policy = string_of(payload.approval_policy)
            self._in_reply = False
        elif kind == "compacted":
            self._compacted(line, payload, source, inherited)
        elif kind == "token_usage_record":
            self._end_reply()
            self._count(self._tokens.read_record(payload))
        elif kind not in SILENT_KINDS:
            self.draft.unknown_record(f"a record of type {kind!r}", source)

    def feed_bare(self, line: BareLine, source: m.Source) -> str:
        """Take a line without an envelope, as 0.29 and before wrote them."""
        if line.payload is not None:
            self.feed(Line(line.type, line.timestamp, None, line.payload), source, inherited=False)
            return line.type
        if line.record_type is not None:
            return line.record_type
        if not line.type:
            return "head"
        return self.feed_item(line, source)

    def feed_item(self, item: Payload, source: m.Source) -> str:
        """Take an item that stands alone."""
        self.item(Line(type="response_item", payload=item), item, source, inherited=False)
        return item.type

    # --- messages ---

    def _add(
        self,
        line: Line,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        inherited: bool,
        id: str | None = None,
    ) -> int:
        if role == "assistant" and author == "model":
            if not self._in_reply:
                self._replies += 1
                self._reply = str(self._replies)
                self._in_reply = True
            index = self.draft.add_reply(
                blocks, source, id, self.tip, line.timestamp, self._model, self._reply, None, inherited
            )
        else:
            steers = author == "human" and self._in_turn and self._prompted_in_turn
            index = self.draft.add(role, author, blocks, source, id, self.tip, line.timestamp, inherited, steers)
        if self.went_back is not None or self._lost_due:
            self._note_return(line, index, is_prompt=author == "human" and not inherited)
        self.tip = index
        return index

    def _end_reply(self) -> None:
        self._in_reply = False

    def _note_return(self, line: Line, index: int, is_prompt: bool) -> None:
        """The first message after the person went back."""
        if self._lost_due:
            lost, self._lost_due = self._lost_due, []
            evidence = "went back past a compaction"
            self.draft.resumes.append(m.Resume(message_index=index, lost_message_indices=lost, evidence=evidence))
        if self.went_back is None or not is_prompt:
            return
        first, evidence = self.went_back
        self.went_back = None
        dropped = list(range(first, index))
        if dropped:
            self.draft.branch_reasons[dropped[0]] = "rewind"
            self.draft.rollbacks.append(
                m.Rollback(
                    message_index=index, dropped_message_indices=dropped, timestamp=line.timestamp, evidence=evidence
                )
            )

    def item(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        """Take an item of the conversation as the model knows it."""
        kind = payload.type
        if kind == "message":
            self._message(line, payload, source, inherited)
        elif kind == "reasoning":
            block = thinking_of(payload.summary)
            self._last_model = self._add(line, source, "assistant", "model", [block], inherited, payload.id)
        elif kind in _CALLS:
            self._call(line, payload, source, inherited)
        elif kind in _OUTPUTS:
            self._output(line, payload, source, inherited)
        elif kind == "web_search_call":
            search = m.Attachment("web_search", query_of(payload.action))
            self._last_model = self._add(line, source, "assistant", "model", [search], inherited, payload.id)
        elif kind == "agent_message":
            text = joined_text(payload.content)
            self._add(line, source, "user", "subagent", [m.Text(text)], inherited, payload.id)
            self._end_reply()
        elif kind in ("ghost_snapshot", "additional_tools"):
            if kind == "additional_tools":
                self._add(line, source, "system", "harness", [m.Attachment(kind)], inherited, payload.id)
        else:
            unknown = m.Unknown(kind, self.draft.raw_at(source))
            self._add(line, source, "system", "harness", [unknown], inherited, payload.id)

    def _message(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        content = payload.content or ()
        blocks: list[m.Block]
        if len(content) == 1 and (only := content[0].text) is not None:
            text, blocks = only, [m.Text(only)]
        else:
            text, blocks = joined_text(payload.content), self._blocks(payload, source)
        if payload.role == "assistant":
            author: m.Author = "model"
            if line.metadata is not None and line.metadata.compaction_output:
                author = "harness"
            index = self._add(line, source, "assistant", author, blocks, inherited, payload.id)
            self._texts.put(hash(text), index)
            if author == "model":
                self._last_model = index
                self._spoke = self._said_text = True
                if self._looks_for_cues:
                    self._find_cue(line, index, text, inherited)
            return
        self._end_reply()
        if payload.role != "user":
            if self.is_typescript and self._typescript_note(line, source, text):
                return
            self._add(line, source, "system", "harness", blocks, inherited, payload.id)
            return
        author = self._author(payload, text, inherited)
        if self.is_typescript and self._explains_refusal(text):
            author = "human" if self.draft.rejections[-1].reason is not None else "harness"
        if author == "harness" and text.startswith("<"):
            blocks = [m.Attachment(text[1 : text.find(">")].split(" ")[0], text)]
        index = self._add(line, source, "user", author, blocks, inherited, payload.id)
        self._last_user = index, hash(text)
        if author == "human":
            self._prompted(index, text)
        elif author == "subagent":
            self._notified(text)

    def _blocks(self, payload: Payload, source: m.Source) -> list[m.Block]:
        where = () if self.is_bare else ("payload",)
        return blocks_of(payload.content, lambda place: self.draft.raw_at(source, *where, "content", place))

    def _author(self, payload: Payload, text: str, inherited: bool) -> m.Author:
        """Who wrote a user message: 0.166 notes it, before that the injected ones are known by how they begin."""
        if text.startswith("<subagent_notification>"):
            return "subagent"
        passthrough = payload.internal_chat_message_metadata_passthrough
        kinds = passthrough.content_item_kinds if passthrough is not None else None
        if kinds:
            if not any(kind.startswith("user.") for kind in kinds):
                return "harness"
        elif text[:1] in "<#A" and text.startswith(_INJECTED):
            return "harness"
        return "human" if self.draft.kind == "main" or inherited else "model"

    def _prompted(self, index: int, text: str) -> None:
        self._prompts.append((index, hash(text), len(text.encode("utf-8", "replace"))))
        self._last_prompt = index
        self._tokens.note_prompt()
        self._calls.next_turn()
        self._spoke = self._said_text = False
        self._prompted_in_turn = True
        if self._first_in_turn is not None:
            self._first_in_turn.trigger = "auto"
            self._first_in_turn = None
        if self.first_prompt is None:
            self.first_prompt = text

    def _find_cue(self, line: Line, index: int, text: str, inherited: bool) -> None:
        """Versions that write no abort leave only the model's own words about one."""
        if inherited:
            return
        lowered = text.lower()
        cue = next((cue for cue in ("aborted", "cancelled", "rate limiting") if cue in lowered), None)
        if cue is not None:
            self.draft.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=index,
                    type="system" if cue == "rate limiting" else "user",
                    during="tool",
                    timestamp=line.timestamp,
                    evidence=f"the word {cue!r}",
                    confidence=0.2,
                )
            )

    # --- calls and results ---

    def _call(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        call_id = payload.call_id or payload.id or f"call at line {source.line}"
        name = payload.name or payload.type.removesuffix("_call")
        raw = input_of(payload)
        call = m.ToolCall(call_id, name, raw)
        self._last_model = self._add(line, source, "assistant", "model", [call], inherited, payload.id)
        self._spoke = True
        if name in SPAWN_TOOLS:
            self._agent_calls[call_id] = name

    def _output(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        call_id = payload.call_id or ""
        text, parts = flat_output(payload.output)
        verdict = judge(text)
        if verdict.kind == "aborted" and self.is_typescript and '"exit_code"' not in text:
            verdict = CodexVerdict("rejected", "user")
        outcome: m.Outcome = "interrupted" if verdict.kind == "aborted" else verdict.kind
        result = m.ToolResult(call_id, text, outcome, verdict.exit_code, parts, synthetic=verdict.kind == "unknown")
        index = self._add(line, source, "user", "harness", [result], inherited, payload.id)
        if not _BATCHED[0] <= self.version < _BATCHED[1]:
            self._end_reply()
        call = self.draft.close_call(call_id)
        self._calls.close(Result(index, call_id, verdict, call, line.timestamp), text, self._last_model, inherited)
        if call_id in self._agent_calls and not inherited:
            self._agent_answered(call_id, call, text)

    def _agent_answered(self, call_id: str, call: Call | None, text: str) -> None:
        given = decode_any(text)
        thread_id = given.get("agent_id") if isinstance(given, dict) else None
        if isinstance(thread_id, str):
            self._spawn(thread_id, call.message if call else None, call_id, "agent_id")

    def _spawn(self, thread_id: str, message: int | None, call_id: str | None, how: str) -> None:
        if thread_id not in self.spawned:
            self.spawned[thread_id] = Spawned(message, call_id, thread_id, how)

    # --- events ---

    def event(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        """Take a note of what happened. Most of them repeat what an item says."""
        kind = payload.type
        if kind == "token_count":
            usage = self._tokens.read(payload)
            if usage is not None:
                self._end_reply()
                self._count(usage)
        elif kind == "item_completed":
            if payload.item is not None:
                self._finished(line, payload.item, source, inherited)
        elif kind in SILENT_EVENTS:
            return
        elif kind == "user_message":
            self._confirm_prompt(payload.message or "")
        elif kind == "task_started":
            self._end_reply()
            self._in_turn = True
            self._prompted_in_turn = False
            self._first_in_turn = None
        elif kind == "turn_aborted":
            self._in_turn = False
            self._aborted(line, payload, source, inherited)
        elif kind == "thread_rolled_back":
            self._rolled_back(line, payload.num_turns or 0, inherited)
        elif kind in ("error", "stream_error"):
            self._failed(line, source, payload.message or "", payload.codex_error_info, inherited)
        elif kind == "task_complete":
            self._in_turn = False
            if payload.error is not None:
                error = payload.error
                self._failed(line, source, error.message or "", error.codex_error_info, inherited)
        elif kind in ("exec_command_end", "patch_apply_end"):
            self._calls.note_run(payload.call_id)
        elif kind == "collab_agent_spawn_end" and payload.new_thread_id is not None and not inherited:
            call = self.draft.find_call(payload.call_id or "")
            self._spawn(payload.new_thread_id, call.message if call else None, payload.call_id, "spawn event")
        elif kind in ("entered_review_mode", "exited_review_mode"):
            self._review(line, source, kind, inherited)

    def _confirm_prompt(self, text: str) -> None:
        """The event names what was typed, also where that begins like something the harness injects."""
        index, hashed = self._last_user
        if index >= 0 and hashed == hash(text) and self.draft.kind == "main" and not self.draft.flags[index] & PROMPT:
            self.draft.set_author(index, "human")
            self._prompted(index, text)

    def _finished(self, line: Line, item: Item, source: m.Source, inherited: bool) -> None:
        if item.type in ("CommandExecution", "FileChange"):
            self._calls.note_run(item.id, decode_any(item.command))
        elif item.type == "SubAgentActivity":
            if item.agent_thread_id is not None and not inherited:
                if item.kind == "started":
                    call = self.draft.find_call(item.id or "")
                    message = call.message if call else None
                    self._spawn(item.agent_thread_id, message, item.id, "activity item")
                elif item.kind == "completed":
                    self.finished_agents.add(item.agent_thread_id)
        elif item.type == "CollabAgentToolCall" and item.tool == "spawn_agent" and not inherited:
            call = self.draft.find_call(item.id or "")
            for thread_id in item.receiver_thread_ids or ():
                self._spawn(thread_id, call.message if call else None, item.id, "call item")
        elif item.type in ("EnteredReviewMode", "ExitedReviewMode"):
            kind = "entered_review_mode" if item.type == "EnteredReviewMode" else "exited_review_mode"
            self._review(line, source, kind, inherited)

    def _review(self, line: Line, source: m.Source, kind: str, inherited: bool) -> None:
        index = self._add(line, source, "system", "harness", [m.Attachment(kind)], inherited)
        if kind == "entered_review_mode" and not inherited:
            self.reviews.append((index, line.timestamp))

    def _notified(self, text: str) -> None:
        """A sub-agent that was awaited tells its end."""
        start = text.find('"agent_path":"')
        if start >= 0 and '"completed"' in text:
            self.finished_agents.add(text[start + 14 : text.find('"', start + 14)])

    def _failed(self, line: Line, source: m.Source, text: str, info: msgspec.Raw, inherited: bool) -> None:
        index = self._add(line, source, "system", "harness", [m.Attachment("error", text)], inherited)
        if inherited:
            return
        self.draft.failures.append(
            m.Failure(kind="api_error", message_index=index, text=text, ended_turn=True, timestamp=line.timestamp)
        )
        limited = b"usage_limit" in bytes(info) or b"rate_limit" in bytes(info) or "rate limit" in text.lower()
        if limited or self._spoke:
            self.draft.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=self._cut_off(),
                    type="system",
                    during="response",
                    timestamp=line.timestamp,
                    evidence="error event",
                    confidence=0.9,
                )
            )

    def _cut_off(self) -> int | None:
        index = self._last_model if self._spoke else self._last_prompt
        return index if index >= 0 else None

    # --- aborts ---

    def _aborted(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        results = self._calls.since(self._last_model) if self._spoke else []
        index = self._add(line, source, "system", "harness", [m.InterruptionMark(during(results))], inherited)
        self._end_reply()
        if not inherited:
            reason = payload.reason or "interrupted"
            self._calls.aborts.append(
                Abort(index, self._cut_off(), line.timestamp, reason, results, self._calls.policy != "never")
            )

    def finish(self) -> None:
        """After the last line."""
        self._calls.finish()

    # --- the TypeScript CLI (0.1.x) ---

    def _typescript_note(self, line: Line, source: m.Source, text: str) -> bool:
        """Its notes to the person are all it writes of an interruption or a clear."""
        if text == "Terminal cleared":
            index = self._add(line, source, "system", "harness", [m.Attachment("clear", text)], inherited=False)
            if not self.draft.clears or self.draft.clears[-1].after_message_index != index - 1:
                self.draft.clears.append(m.ContextClear(after_message_index=index, evidence="session", confidence=0.9))
            else:
                self.draft.clears[-1].after_message_index = index
            return True
        if "interrupted by user" not in text:
            return False
        what: m.During = "tool" if self.draft.open_calls else "response"
        index = self._add(line, source, "system", "harness", [m.InterruptionMark(what)], inherited=False)
        self.draft.interruptions.append(
            m.Interruption(
                message_index=index, interrupted_message_index=self._cut_off(), type="user", during=what,
                tool_use_ids=list(self.draft.open_calls), evidence="note",
            )
        )  # fmt: skip
        if not self._spoke and self._last_prompt >= 0:
            # The next request goes on from the last complete response: nothing of this turn is in it.
            self.draft.branch_reasons[self._last_prompt] = "interrupted"
            self.tip = self.draft.parents[self._last_prompt]
        return True

    def _explains_refusal(self, text: str) -> bool:
        """The message after a refusal holds the person's words, or one of two fixed answers."""
        last = self._calls.last
        if last is None or last.verdict.kind != "rejected" or last.message != self.tip:
            return False
        if not text.startswith(("Don't do that, keep going", "No, don't do that")):
            self.draft.rejections[-1].reason = text
        return True

    # --- going back ---

    def _rolled_back(self, line: Line, turns: int, inherited: bool) -> None:
        """Drop the last turns: the next message hangs on the one before them."""
        dropped = self._prompts[-turns:] if turns else []
        if not dropped:
            return
        del self._prompts[-turns:]
        self._dropped = True
        self._tokens.forget_size()
        first = dropped[0][0]
        if inherited or self._was_taken_back(line, len(dropped)):
            self.draft.branch_reasons[first] = "interrupted"
        else:
            self.went_back = first, "thread_rolled_back"
        self.tip = self.draft.parents[first]
        self._end_reply()
        if any(index in self._summaries for index, _, _ in dropped):
            self._went_behind_summary()

    def _was_taken_back(self, line: Line, turns: int) -> bool:
        """0.139 takes back a prompt that was stopped before any text was said: the agent's doing, not a rewind."""
        last = self._calls.aborts[-1] if self._calls.aborts else None
        if last is None or last.message != self.tip or turns != 1 or self._said_text:
            return False
        return line.timestamp is None or last.timestamp is None or line.timestamp - last.timestamp < _AT_ONCE

    def _went_behind_summary(self) -> None:
        """Going back past a compaction brings nothing back: what it kept word for word is all there is, if that."""
        if self.version >= (0, 100):
            self._prompts.clear()
            self.tip = NONE
            if self.went_back is not None:
                self.went_back = 0, self.went_back[1]
            return
        kept = {index for index, _, _ in self._prompts}
        lost = []
        index = self.tip
        while index >= 0:
            if index not in kept:
                lost.append(index)
            index = self.draft.parents[index]
        self._lost_due = sorted(lost)

    def go_back(self, target: int, evidence: str) -> None:
        """Go on from an earlier message, or from nothing."""
        if target != self.tip:
            self.went_back = target + 1, evidence
        self._prompts = [entry for entry in self._prompts if entry[0] <= target]
        self.tip = target
        self._end_reply()

    # --- compaction ---

    def _compacted(self, line: Line, payload: Payload, source: m.Source, inherited: bool) -> None:
        history = payload.replacement_history or line.replacement_history
        sealed = any(item.type in ("compaction", "context_compaction") for item in history or ())
        summary = payload.message or ("" if sealed else None)
        above = self.tip
        index = self._add(line, source, "user", "harness", [m.CompactionMark(summary)], inherited)
        self._end_reply()
        boundary = m.Boundary(
            after_message_index=above if above >= 0 else None,
            message_index=index,
            summary_message_index=index,
            trigger=self._trigger(),
            timestamp=line.timestamp,
            pre_tokens=self._tokens.in_context,
            pre_tokens_source="usage" if self._tokens.in_context is not None else None,
            summary=summary,
            summary_source="replacement_history" if history and not payload.message else "inline",
            preserved_message_indices=self._kept(history),
        )
        if boundary.trigger == "manual":
            self._first_in_turn = boundary
        self._dropped_before = self._dropped
        kept = set(boundary.preserved_message_indices)
        self._prompts = [entry for entry in self._prompts if entry[0] in kept]
        self._prompts.append((index, 0, 0))
        self._summaries.add(index)
        (self.draft.inherited_boundaries if inherited else self.draft.boundaries).append(boundary)
        self._tokens.note_compaction(boundary)

    def _trigger(self) -> m.Trigger | None:
        """No field tells; a turn of its own, without a prompt (and none to come), was asked for."""
        if not self.version or self.version < (0, 100):
            last = self._calls.last
            return "auto" if last is not None and last.message == self.draft.parents[self.tip] else None
        return "auto" if self._prompted_in_turn else "manual"

    def _kept(self, history: list[Payload] | None) -> list[int]:
        """Messages that stay in context word for word: those the new history repeats, or the newest prompts."""
        if history is None:
            kept: list[int] = []
            left = _KEPT_BYTES
            for index, _, size in reversed(self._prompts):
                if index in self._summaries:
                    continue
                left -= size
                if left < 0:
                    break
                kept.append(index)
            return sorted(kept)
        found: set[int] = set()
        known = {hashed: index for index, hashed, _ in self._prompts if index not in self._summaries}
        for item in history:
            if item.type == "message" and item.role in ("user", "assistant"):
                hashed = hash(joined_text(item.content))
                place = known.get(hashed) if item.role == "user" else self._texts.get(hashed)
                if place is not None:
                    found.add(place)
        return sorted(found)

    # --- tokens ---

    def _count(self, usage: TokenUsage | None) -> None:
        if usage is not None and self._tokens.count(usage, self._last_model):
            self._note_reload()

    def _note_reload(self) -> None:
        """0.118 to 0.139 forget a compaction on resume, if turns were dropped before it and a review came after it.

        Nothing is written of a resume; that the context is smaller than it was tells of it.
        """
        boundary = self.draft.boundaries[-1] if self.draft.boundaries else None
        if boundary is None or not self._dropped_before or not self.reviews:
            return
        reviewed = self.reviews[-1][0] > boundary.message_index
        if reviewed and (0, 100) <= self.version < (0, 148) and self._last_prompt > boundary.message_index:
            lost = [*boundary.preserved_message_indices, boundary.message_index]
            evidence = "the context shrank by its token count"
            self.draft.resumes.append(
                m.Resume(message_index=self._last_prompt, lost_message_indices=lost, evidence=evidence)
            )


SILENT_EVENTS = frozenset(("agent_message", "agent_reasoning", "context_compacted", "thread_settings_applied"))
"""Events that say nothing, or only what an item says too."""
SILENT_KINDS = frozenset((
    "session_meta", "dynamic_tools_updated", "inter_agent_communication", "inter_agent_communication_metadata",
    "world_state", "security_risk_score", "realtime_item",
))  # fmt: skip
"""Lines that say nothing about the conversation."""
