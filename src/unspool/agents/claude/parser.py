"""One conversation of Claude Code, line by line: who speaks, how calls end, where it is stopped or compacted."""

from __future__ import annotations

import re

from msgspec import UNSET

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import NONE, UNANSWERED
from ...io.decode import decode_any
from .content import RawAt, blocks_of, command_of, flat_text, rendered_text, text_of, usage_of
from .outcomes import MARKER, TOOL_MARKER
from .schema import ApiMessage, AttachmentBody, Block, Line
from .tool_calls import ClaudeToolCalls
from .tools import SUBAGENT_TOOLS

_HARNESS_TEXT = (
    "<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>", "<bash-stderr>",
    "<system-reminder>", "<bash-notification>", "Caveat: The messages below were generated",
)  # fmt: skip
_SUBAGENT_TEXT = ("<task-notification>", "<agent-notification>", "<teammate-message")
_HOOK_TEXT = ("<user-prompt-submit-hook>", "<session-start-hook>")
_PLACEHOLDERS = ("No response requested.", "(no content)", "")
_COMMAND_TEXT = ("<command-name>", "<command-message>", "<bash-input>")
_NOTIFICATION = re.compile(r"<(?:task|agent)-id>([^<]+)</(?:task|agent)-id>.*?<status>([^<]+)</status>", re.DOTALL)
_STATUS_CODE = re.compile(r"API Error: (\d{3})")
_RATE_LIMIT = re.compile(r"rate.?limit|usage limit|limit reached", re.IGNORECASE)
_LOST_CONNECTION = re.compile(r"connection (?:error|lost|closed|reset)|timed? ?out|ECONNRE|socket", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(r"output token maximum")


class ClaudeParser:
    """Turns the lines of one conversation into messages and events of its draft."""

    def __init__(self, draft: SessionBuilder) -> None:
        self.draft = draft
        self.version: str | None = None
        self.first_prompt: str | None = None
        self.task: str | None = None
        self.pointer: tuple[str, int] | None = None
        self.calls = ClaudeToolCalls(draft)
        self.notified: dict[str, str] = {}
        self.agents_killed = False
        self.ended_by_refusal = False
        self.resumed_at: list[int] = []
        self.shrunk_at: list[int] = []
        self._last = NONE
        self._hang_on = NONE
        self._last_model = NONE
        self._last_prompt = NONE
        self._model_spoke = False
        self._headless = False
        self._watches_size = False
        self._context_size = 0
        self._queue: list[tuple[str, m.Source]] = []
        self._taken_up: list[tuple[str, m.Source]] = []
        self._summary_due: m.Boundary | None = None
        self._kept_due: list[tuple[m.Boundary, list[str]]] = []

    # --- lines ---

    def feed(self, line: Line, source: m.Source, inherited: bool = False) -> None:
        """Take a line that is part of the chain: user, assistant, system or attachment."""
        if line.version != self.version and line.version is not None:
            self.version = line.version
            self.draft.versions[line.version] = None
            self._watches_size = line.version.startswith("2.1.")
        kind = line.type
        if kind == "assistant":
            self._assistant(line, source, inherited)
        elif kind == "user":
            self._user(line, source, inherited)
        elif kind == "attachment":
            self._attachment(line, source, inherited)
        elif kind == "system":
            self._system(line, source, inherited)
        else:
            self._nothing(line, source, inherited)

    def link(self, line: Line) -> None:
        """Take a line that only links others: its children hang on its own parent."""
        if line.uuid is not None:
            parent = line.parent_uuid
            above = self.draft.find(parent) if isinstance(parent, str) else None
            self.draft.alias(line.uuid, self._last if above is None else above)

    def queue(self, line: Line, source: m.Source) -> None:
        """Follow what was typed while a turn ran.

        2.0.x leaves no other trace of a prompt that the running turn took up than its removal from the queue.
        """
        if line.operation == "enqueue":
            self._queue.append((flat_text(line.content)[0], source))
        elif line.operation == "remove" and self._queue:
            self._taken_up.append(self._queue.pop(0))
        elif line.operation in ("dequeue", "popAll"):
            del self._queue[: 1 if line.operation == "dequeue" else None]

    def _add_taken_up(self, line: Line) -> None:
        """Prompts that were taken up, unless a line of their own told of them."""
        for text, source in self._taken_up:
            if text and not text.startswith((*_SUBAGENT_TEXT, *_HARNESS_TEXT)):
                self.draft.add("user", "human", [m.Text(text)], source, None, self._last, line.timestamp, queued=True)
        self._taken_up.clear()

    def point(self, leaf: str) -> None:
        """The agent noted where the conversation stands."""
        self.pointer = (leaf, len(self.draft))

    def finish(self) -> None:
        """After the last line."""
        self.calls.finish()
        for boundary, uuids in self._kept_due:
            found = {index for uuid in uuids if (index := self.draft.find(uuid)) is not None}
            boundary.preserved_message_indices = sorted(found)

    # --- messages ---

    def _add(
        self,
        line: Line,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        message: ApiMessage | None = None,
        inherited: bool = False,
        parent: int | None = None,
        queued: bool = False,
    ) -> int | None:
        """Add the message of a line; None when it repeats one that is there already."""
        draft, recent = self.draft, self.draft.recent
        uuid, above = line.uuid, line.parent_uuid
        late = None
        if parent is None:
            parent = NONE
            if isinstance(above, str):
                found = recent.new.get(above)
                if found is None and recent.old:
                    found = recent.old.get(above)
                if found is None:
                    late = above
                else:
                    parent = found if found > self._hang_on else self._hang_on
            elif above is UNSET:
                parent = self._last
        if uuid is not None and (uuid in recent.new or uuid in recent.old):
            twin = recent.get(uuid) or 0
            if self._repeats(line, twin, parent):
                return None
            detail = f"message {len(draft)} has the id of message {twin}"
            draft.problems.append(m.Problem(reason="duplicate-id", detail=detail, source=source))
        if message is None:
            index = draft.add(role, author, blocks, source, uuid, parent, line.timestamp, inherited, queued)
        else:
            reply = message.id or uuid or ""
            index = draft.add_reply(
                blocks, source, uuid, parent, line.timestamp, message.model, reply, usage_of(message.usage), inherited
            )
        if late is not None:
            draft.wait_for(index, late, source)
        self._hang_on = NONE
        self._last = index
        return index

    def _repeats(self, line: Line, twin: int, parent: int) -> bool:
        """2.0.76 sometimes copies the lines of a fork into the base once more."""
        seconds = line.timestamp.timestamp() if line.timestamp is not None else 0.0
        return self.draft.parents[twin] == parent and self.draft.times[twin] == seconds

    def _raw_at(self, source: m.Source) -> RawAt:
        return lambda place: self.draft.raw_at(source, "message", "content", place)

    # --- the model ---

    def _assistant(self, line: Line, source: m.Source, inherited: bool) -> None:
        message = line.message
        if message is None:
            return self._nothing(line, source, inherited)
        if self._taken_up:
            self._add_taken_up(line)
        blocks = blocks_of(message.content, self._raw_at(source))
        # 2.1.200 also writes what an interrupted answer had come to as "synthetic".
        made_up = message.model == "<synthetic>" and text_of(blocks) in _PLACEHOLDERS
        stands_in = line.is_api_error_message or made_up
        author: m.Author = "harness" if stands_in else "model"
        index = self._add(line, source, "assistant", author, blocks, None if stands_in else message, inherited)
        if index is None:
            return None
        self.calls.next_step()
        if stands_in:
            if line.is_api_error_message:
                self._api_error(line, index, text_of(blocks), inherited)
            elif not inherited:
                self.resumed_at.append(index)
            return None
        if self._watches_size:
            self._watch_size(message)
        self._last_model = index
        self._model_spoke = True
        if blocks and type(blocks[-1]) is m.ToolCall:
            self.calls.begin(index, blocks, line.timestamp)
        if message.stop_reason == "max_tokens" and not inherited:
            self._fail("truncated", index, "the reply reached the output limit", line)
        return None

    def _watch_size(self, message: ApiMessage) -> None:
        """A context that is smaller than it was, without a compaction, was loaded anew."""
        usage = message.usage
        if usage is None:
            return
        size = usage.input_tokens or 0
        size += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        if 0 < size < self._context_size and self._last_prompt >= 0 and not self._model_spoke:
            self.shrunk_at.append(self._last_prompt)
        self._context_size = size or self._context_size

    def _api_error(self, line: Line, index: int, text: str, inherited: bool) -> None:
        if inherited:
            return
        code = _STATUS_CODE.search(text)
        status = line.api_error_status or (int(code[1]) if code else None)
        kind: m.FailureKind = "truncated" if _OUTPUT_LIMIT.search(text) else "api_error"
        self._fail(kind, index, text, line, status=status, ended_turn=True)
        if kind == "api_error" and self._cut_by_system(status, text):
            self.draft.interruptions.append(
                m.Interruption(
                    message_index=index,
                    interrupted_message_index=self._interrupted(),
                    type="system",
                    during="response",
                    timestamp=line.timestamp,
                    evidence=f"API error {status}" if status else "API error",
                    confidence=0.9,
                )
            )

    def _cut_by_system(self, status: int | None, text: str) -> bool:
        """Whether an API error broke off a turn, rather than refusing to begin one."""
        if status == 429 or _RATE_LIMIT.search(text):
            return True
        lost = status >= 500 if status is not None else bool(_LOST_CONNECTION.search(text))
        return self._model_spoke and lost

    def _fail(
        self,
        kind: m.FailureKind,
        index: int,
        text: str,
        line: Line,
        *,
        call_id: str | None = None,
        exit_code: int | None = None,
        status: int | None = None,
        ended_turn: bool = False,
    ) -> None:
        self.draft.failures.append(
            m.Failure(
                kind=kind,
                message_index=index,
                text=text,
                tool_use_id=call_id,
                exit_code=exit_code,
                status=status,
                ended_turn=ended_turn,
                timestamp=line.timestamp,
            )
        )

    # --- the user's side ---

    def _user(self, line: Line, source: m.Source, inherited: bool) -> None:
        message = line.message
        if message is None:
            return self._nothing(line, source, inherited)
        content = message.content
        blocks: list[m.Block]
        if isinstance(content, str):
            text, blocks = content, [m.Text(content)]
        else:
            for block in content or ():
                if block.tool_use_id is not None:
                    return self._tool_results(line, source, content or [], inherited)
            blocks = blocks_of(content, self._raw_at(source))
            text = text_of(blocks)
            if text in (MARKER, TOOL_MARKER):
                return self._marker(line, source, text, inherited)
        if line.is_compact_summary:
            return self._summary(line, source, text, inherited)
        author = self._author(line, text)
        if author == "human" and text.startswith(_COMMAND_TEXT):
            blocks = [command_of(text)]
        queued = author == "human" and line.prompt_source == "queued" and self._hangs_on_open_call(line)
        index = self._add(line, source, "user", author, blocks, inherited=inherited, queued=queued)
        if index is None:
            return None
        if self._taken_up:
            self._taken_up = [entry for entry in self._taken_up if entry[0] != text]
        if author == "human" and not queued:
            self._prompted(line, index, text)
        elif author == "subagent" and (note := _NOTIFICATION.search(text)):
            self.notified[note[1]] = note[2]
        return None

    def _prompted(self, line: Line, index: int, text: str) -> None:
        self.calls.next_step()
        self._last_prompt = index
        self._model_spoke = False
        self._headless = line.prompt_source == "sdk" or _is_headless(line)
        if self.first_prompt is None and not text.startswith(_COMMAND_TEXT):
            self.first_prompt = text

    def _hangs_on_open_call(self, line: Line) -> bool:
        """2.1.200 hangs a prompt that was queued, and taken up when a tool was interrupted, on the call."""
        parent = self.draft.find(line.parent_uuid) if isinstance(line.parent_uuid, str) else None
        return parent is not None and bool(self.draft.flags[parent] & UNANSWERED)

    def _author(self, line: Line, text: str) -> m.Author:
        """Who wrote a user line. Only what a person typed is `human`."""
        if line.is_meta:
            return "harness"
        if line.origin is not None and line.origin.kind is not None:
            return "human" if line.origin.kind == "human" else "subagent" if "task" in line.origin.kind else "harness"
        if text[:1] in "<C":
            if text.startswith(_SUBAGENT_TEXT):
                return "subagent"
            if text.startswith(_HARNESS_TEXT):
                return "harness"
            if text.startswith(_HOOK_TEXT):
                return "hook"
        if self.draft.kind == "main":
            return "human"
        self.task = self.task or text
        return "model"

    def _nothing(self, line: Line, source: m.Source, inherited: bool) -> None:
        block = m.Unknown(line.type, self.draft.raw_at(source))
        self._add(line, source, "system", "harness", [block], inherited=inherited)

    def _tool_results(self, line: Line, source: m.Source, content: list[Block], inherited: bool) -> None:
        blocks, results = self.calls.read(line, content, self._raw_at(source))
        call = self.draft.find_call(results[0][0].call_id)
        author: m.Author = "subagent" if call is not None and call.name in SUBAGENT_TOOLS else "harness"
        index = self._add(line, source, "user", author, blocks, inherited=inherited)
        if index is not None:
            for result, verdict in results:
                self.calls.close(line, index, result, verdict, inherited)

    # --- interruptions ---

    def _marker(self, line: Line, source: m.Source, text: str, inherited: bool) -> None:
        stop = self.calls.stop(line, text, self._headless or _is_headless(line))
        block: m.Block = m.Text(text) if stop.is_refusal else m.InterruptionMark(stop.during)
        index = self._add(line, source, "user", "harness", [block], inherited=inherited)
        if index is None:
            return
        self.calls.settle(stop, inherited)
        self.ended_by_refusal = stop.is_refusal
        if stop.is_refusal or inherited:
            return
        self.draft.interruptions.append(
            m.Interruption(
                message_index=index,
                interrupted_message_index=self._interrupted(),
                type="user",
                during=stop.during,
                timestamp=line.timestamp,
                tool_use_ids=[entry.call_id for entry in stop.results],
                evidence="marker after a refusal text, headless" if stop.is_doubtful else "marker",
                confidence=0.5 if stop.is_doubtful else 1.0,
            )
        )

    def _interrupted(self) -> int | None:
        index = self._last_model if self._model_spoke else self._last_prompt
        return index if index >= 0 else None

    # --- compaction ---

    def _summary(self, line: Line, source: m.Source, text: str, inherited: bool) -> None:
        boundary, self._summary_due = self._summary_due, None
        # 1.0.60 writes no boundary line: the summary begins a new chain. What it follows is the line before it.
        above = self._last if boundary is None and line.parent_uuid is None else None
        mark = m.CompactionMark(text)
        index = self._add(line, source, "user", "harness", [mark], inherited=inherited, parent=above)
        if index is None:
            return
        if boundary is None:
            before = self.draft.parents[index]
            boundary = m.Boundary(
                after_message_index=before if before >= 0 else None,
                message_index=index,
                trigger=None,
                uuid=line.uuid,
                timestamp=line.timestamp,
            )
            self._add_boundary(boundary, inherited)
            # From the second compaction on, 1.0.60 hangs what follows on the first summary.
            self._hang_on = index
        boundary.summary = text
        boundary.summary_source = "inline"
        boundary.summary_message_index = index

    def _boundary(self, line: Line, source: m.Source, inherited: bool) -> None:
        above = self._before_boundary(line)
        index = self._add(line, source, "system", "harness", [m.CompactionMark()], inherited=inherited, parent=above)
        if index is None:
            return
        meta = line.compact_metadata
        trigger = meta.trigger if meta is not None else None
        boundary = m.Boundary(
            after_message_index=above if above >= 0 else None,
            message_index=index,
            trigger="manual" if trigger == "manual" else "auto" if trigger == "auto" else None,
            uuid=line.uuid,
            timestamp=line.timestamp,
        )
        if meta is not None:
            boundary.pre_tokens, boundary.post_tokens = meta.pre_tokens, meta.post_tokens
            boundary.pre_tokens_source = "recorded" if meta.pre_tokens is not None else None
            if meta.preserved_messages is not None:
                kept = meta.preserved_messages
                self._kept_due.append((boundary, kept.all_uuids or kept.uuids))
        self._add_boundary(boundary, inherited)
        self._summary_due = boundary
        self._context_size = 0

    def _add_boundary(self, boundary: m.Boundary, inherited: bool) -> None:
        (self.draft.inherited_boundaries if inherited else self.draft.boundaries).append(boundary)

    def _before_boundary(self, line: Line) -> int:
        """The message after which a compaction came.

        Summing up from or up to a chosen point names the edge of what is kept as the parent; the conversation as
        it was lived reaches to the line before the boundary.
        """
        named = self.draft.find(line.logical_parent_uuid)
        if named is None:
            return self._last
        index = self._last
        while index > named:
            index = self.draft.parents[index]
        return self._last if index == named else named

    # --- system and attachment lines ---

    def _system(self, line: Line, source: m.Source, inherited: bool) -> None:
        kind = line.subtype or "system"
        if kind == "compact_boundary":
            return self._boundary(line, source, inherited)
        if kind == "turn_duration":
            return self.link(line)
        text = flat_text(line.content)[0] or None
        author: m.Author = "harness"
        if kind == "stop_hook_summary":
            author = "hook"
        elif kind == "local_command" and text is not None and text.startswith(_COMMAND_TEXT):
            author = "human"
        if kind == "api_error":
            text = text or flat_text(decode_any(line.error))[0]
        block = command_of(text) if author == "human" and text is not None else m.Attachment(kind, text)
        index = self._add(line, source, "system", author, [block], inherited=inherited)
        if index is None or inherited:
            return None
        if kind == "api_error":
            self._fail("api_error", index, text or "API error", line)
        elif kind == "agents_killed":
            self.agents_killed = True
        return None

    def _attachment(self, line: Line, source: m.Source, inherited: bool) -> None:
        body = line.attachment or AttachmentBody()
        if body.type == "queued_command":
            text = flat_text(body.prompt)[0]
            typed = body.origin is None or body.origin.kind in (None, "human")
            author: m.Author = "human" if typed and not text.startswith(_SUBAGENT_TEXT) else "subagent"
            self._taken_up = [entry for entry in self._taken_up if entry[0] != text]
            self._add(line, source, "user", author, [m.Text(text)], inherited=inherited, queued=author == "human")
            return
        text = rendered_text(line.rendered) or flat_text(body.text)[0]
        author = "hook" if body.type.startswith("hook") else "harness"
        block = m.Attachment(body.type, text or None, body.filename)
        self._add(line, source, "user", author, [block], inherited=inherited)


def _is_headless(line: Line) -> bool:
    return line.entrypoint is not None and line.entrypoint.startswith("sdk")
