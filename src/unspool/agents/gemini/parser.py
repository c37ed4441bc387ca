"""One session of Gemini CLI, record by record. The log is append-only, the conversation is not.

The agent writes a message again to complete it, drops a tail, and replaces the whole conversation to compress it or
to erase a turn that was stopped. What it erased still happened: it stays, as a line that was left.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import MODEL, NONE
from .content import (
    is_plain,
    other_blocks,
    parts_of,
    response_text,
    responses_of,
    result_text,
    spoken_blocks,
    text_of,
    usage_of,
)
from .outcomes import judge
from .schema import FunctionResponse, Message
from .tool_calls import BY_RESULT, Ended, GeminiToolCalls, input_of

_CONTEXT = "<session_context>"
_SNAPSHOT = "<state_snapshot>"
_SHELL = "I ran the following shell command:"
_INJECTED = (_CONTEXT, _SNAPSHOT, "<hook_context>", "System: ", "<system-reminder>")
_ACKNOWLEDGED = "Got it. Thanks for the additional context!"
_CANCELLED = "Request cancelled."
_RESTORED = "Restored project to the state before the tool call."
_COMPRESSED = re.compile(r"^Context compressed from|exceeded the compress threshold")
_TOKENS = re.compile(r"compressed from: (\d+) to (\d+) tokens")
_LOOP = re.compile(r"loop (?:was )?detect", re.IGNORECASE)
_API_STATUS = re.compile(r'"code":\s*(\d{3})')
_UNKNOWN = msgspec.Raw(b"null")
_LOST_CONNECTION = re.compile(r"fetch failed|connection|network|socket|timed? ?out", re.IGNORECASE)


class _Held(NamedTuple):
    """A message that may be a copy: the next record tells."""

    message: Message
    source: m.Source


class GeminiParser:
    """Turns the records of one session into messages and events of its draft."""

    def __init__(self, draft: SessionBuilder, typed: frozenset[str] | None) -> None:
        self.draft = draft
        draft.unanswered = "sent"
        self.first_prompt: str | None = None
        self.calls = GeminiToolCalls(draft)
        self._typed = typed
        self._live: list[int] = []
        self._index: dict[str, list[int]] = {}
        self._held: list[_Held] = []
        self._others: dict[str, list[m.Block]] = {}
        self._record = 0
        self._texts: dict[int, list[int]] = {}
        self._results: dict[str, tuple[int, list[m.Block]]] = {}
        self._last_reply = NONE
        self._last_blocks: list[m.Block] = []
        self._last_prompt = NONE
        self._went_back: tuple[int, str] | None = None
        self._boundary_due = False
        self._reset_due: list[int] | None = None
        self._erased: int | None = None
        self._after_header = False
        self._restored = False
        self._results_apart = False
        self._context_tokens: int | None = None
        self._calls_without_input: dict[int, list[m.Block]] = {}
        self._is_beside = False
        """This file was written together with the one before it, and only adds to what that says."""

    # --- records ---

    def message(self, message: Message, source: m.Source) -> None:
        """A message, new or said again."""
        self._record += 1
        if not is_plain(message.content):
            self._note_others(message, source)
        known = self._index.get(message.id)
        if known is None and self._held and any(held.message.id == message.id for held in self._held):
            self._release()
            known = self._index.get(message.id)
        if known is not None:
            if self._held:
                self._release()
            self._say_again(message, source, known[-1])
        elif message.model is UNSET and message.type in ("user", "gemini"):
            self._held.append(_Held(message, source))
        else:
            if self._held:
                self._release()
            self._new(message, source)

    def _note_others(self, message: Message, source: m.Source, *path: str | int) -> None:
        """Parts that are no words: read at once, as long as their line is at hand."""
        found = other_blocks(message, lambda place: self.draft.raw_at(source, *path, "content", place))
        if found:
            self._others[message.id] = found

    def header(self, again: bool) -> None:
        """A header in mid-file: the session was loaded anew."""
        self._release()
        self._after_header = again

    def rewind(self, id: str) -> None:
        """The person went back to before a message."""
        self._release()
        self._is_beside = False
        places = self._index.get(id)
        cut = self._live.index(places[0]) if places and places[0] in self._live else 0
        dropped = self._live[cut:]
        self._live = self._live[:cut]
        if dropped:
            self._went_back = dropped[0], "$rewindTo"
            # The first of them may come back: a result that was chosen stays with its call.
            self.draft.branch_reasons.update(dict.fromkeys(dropped, "rewind"))

    def replace_all(self, messages: list[Message], source: m.Source) -> None:
        """The conversation is from now on exactly this list."""
        self._record += 1
        self._reset_due = None
        for place, message in enumerate(messages):
            if not is_plain(message.content):
                self._note_others(message, source, "$set", "messages", place)
        if self._held and {held.message.id for held in self._held} == {message.id for message in messages}:
            self._take_copies()
        self._release()
        after_header, self._after_header = self._after_header, False
        snapshot = next((x for x in messages if x.id not in self._index and text_of(x).startswith(_SNAPSHOT)), None)
        if snapshot is not None:
            self._compress(messages, snapshot, source)
            return
        places = [index for message in messages for index in self._places(message, source)]
        places = list(dict.fromkeys(places))
        if after_header and self._live and len(places) < len(self._live):
            # The agent itself no longer sees what came before; it counts only if the session goes on from here.
            self._reset_due = places
            return
        self._move_to(places)

    def end_file(self) -> None:
        """After the last record of a file; the session may go on in another."""
        self._release()
        self._is_beside = False

    def finish(self) -> None:
        """After the last record."""
        self._release()
        self._settle_erased(last=True)

    @property
    def tip(self) -> int | None:
        """The last message of the conversation as it stands."""
        return self._live[-1] if self._live else None

    # --- copies ---

    def _take_copies(self) -> None:
        """Refusing a turn, and going back to a saved chat, record what is left once more, under new ids."""
        for held in self._held:
            places = self._originals(held.message)
            if places:
                self._index[held.message.id] = places
        self._held = [held for held in self._held if held.message.id not in self._index]

    def _originals(self, message: Message) -> list[int]:
        """The messages that a copy repeats; the first copy holds the session context and the first prompt in one."""
        kind = "user" if message.type == "user" else "gemini"
        found: list[int] = []
        for text in [part.text for part in parts_of(message.content) if part.text and not part.thought] or [""]:
            places = self._texts.get(hash((kind, text.strip())))
            if places:
                later = [place for place in places if not found or place > found[-1]]
                found.append(later[0] if later else places[-1])
        if not found and (responses := responses_of(message)):
            found = self._texts.get(hash(("result", responses[0].id or "")), [])[-1:]
        return found

    def _release(self) -> None:
        held, self._held = self._held, []
        for message, source in held:
            self._new(message, source)

    def _places(self, message: Message, source: m.Source) -> list[int]:
        """Where a message of a replaced conversation stands already, or where it is put."""
        places = self._index.get(message.id)
        if places is None:
            places = self._originals(message)
            if places:
                self._index[message.id] = places
        if places:
            self._learn_calls(message, places[-1])
            return places
        return [self._new(message, source)]

    # --- messages ---

    def _new(self, message: Message, source: m.Source) -> int:
        if self._reset_due is not None:
            places, self._reset_due = self._reset_due, None
            self._is_beside = self._is_older(message)
            if not self._is_beside:
                self._move_to(places)
        if self._is_beside:
            return self._learn_inputs(message)
        kind = message.type
        if kind == "gemini":
            return self._reply(message, source)
        if kind == "user":
            return self._user(message, source)
        return self._note(message, source)

    def _add(
        self,
        message: Message,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        usage: m.Usage | None = None,
    ) -> int:
        parent = self._live[-1] if self._live else NONE
        id, at = message.id or None, message.timestamp
        if author == "model" and role == "assistant":
            model = message.model if isinstance(message.model, str) else None
            index = self.draft.add_reply(blocks, source, id, parent, at, model, id or f"{len(self.draft)}", usage)
        else:
            index = self.draft.add(role, author, blocks, source, id, parent, at)
        self._live.append(index)
        if message.id:
            self._index[message.id] = [index]
        return index

    def _reply(self, message: Message, source: m.Source) -> int:
        text = text_of(message)
        # What follows a snapshot is put into the model's mouth; it never said it.
        author: m.Author = "harness" if text == _ACKNOWLEDGED else "model"
        blocks = self._reply_blocks(message, text)
        index = self._add(message, source, "assistant", author, blocks, usage_of(message))
        self._remember("gemini", text, index)
        self._last_reply, self._last_blocks = index, blocks
        self._note_tokens(message)
        if message.tool_calls:
            self.calls.close(message.tool_calls, index)
        return index

    def _say_again(self, message: Message, source: m.Source, index: int) -> None:
        """A message completed by the results of its calls. What was learnt before is not lost.

        Over ACP one message collects the calls of all later turns too: those are told where they happened.
        """
        if message.type != "gemini" or (message.tool_calls is None and not message.tokens):
            return
        calls = message.tool_calls or []
        later = [call for call in calls if not self.calls.is_known(call.id)] if self._is_past(index) else []
        if later:
            message.tool_calls, message.content, message.thoughts = later, None, None
            message.id = ""
            self._reply(message, source)
            return
        self.draft.replace(index, self._reply_blocks(message, text_of(message)), self._record, usage_of(message))
        self._note_tokens(message)
        self.calls.close(calls, index)

    def _is_past(self, index: int) -> bool:
        """Whether the conversation has gone on since a reply."""
        return self._last_reply > index or self._last_prompt > index

    def _reply_blocks(self, message: Message, text: str) -> list[m.Block]:
        """What the model said and called. Results stay here until a message of their own brings them (0.45)."""
        blocks = [*spoken_blocks(message, text), *self._others.get(message.id, ())]
        calls = message.tool_calls
        if not calls:
            return blocks
        blocks += [m.ToolCall(call.id, call.name, input_of(call.args)) for call in calls]
        index = self._index[message.id][-1] if message.id in self._index else len(self.draft)
        for call in calls:
            text = result_text(call)
            verdict = judge(call.status, text, call.name)
            result = m.ToolResult(
                call.id, text, verdict.outcome, verdict.exit_code,
                sent=not self._results_apart, synthetic=verdict.outcome == "unknown",
            )  # fmt: skip
            blocks.append(result)
            if self._results_apart:
                self._results[call.id] = index, blocks
        return blocks

    def _note_tokens(self, message: Message) -> None:
        if message.tokens is not None and message.tokens.input:
            self._context_tokens = message.tokens.input

    def _user(self, message: Message, source: m.Source) -> int:
        responses = responses_of(message)
        if responses:
            return self._tool_results(message, source, responses)
        text = text_of(message)
        typed = text if message.display_content is None else text_of(message, shown=True)
        self._results_apart = self._results_apart or text.startswith(_CONTEXT)
        if text.startswith(_SNAPSHOT):
            return self._add(message, source, "user", "harness", [m.CompactionMark(text)])
        author = self._author(text)
        if author == "human":
            self._leave_reruns()
        if text.startswith(_SHELL):
            blocks: list[m.Block] = [m.Attachment("shell", text[len(_SHELL) :].strip())]
        elif author == "human":
            blocks = [m.Text(typed), *self._others.get(message.id, ())]
        else:
            blocks = [m.Attachment(text[1 : text.find(">")] if text.startswith("<") else "note", text)]
        index = self._add(message, source, "user", author, blocks)
        for part in parts_of(message.content):
            if part.text:
                self._remember("user", part.text, index)
        if author == "human":
            self._prompted(message, index, typed)
        return index

    def _author(self, text: str) -> m.Author:
        """Who wrote a user message. What was typed in a terminal also stands in the prompt log."""
        if not text or text.startswith(_INJECTED):
            return "harness"
        if self.draft.kind == "subagent":
            return "model"
        if self._typed is not None and text.strip() not in self._typed and not text.startswith(_SHELL):
            return "model" if len(text) > 200 else "human"
        return "human"

    def _leave_reruns(self) -> None:
        """A call that /restore ran again is no part of what the model knows: no message brought its result."""
        last = self._live[-1] if self._live else NONE
        if self._restored and last == self._last_reply and last > self._last_prompt:
            self._live.pop()
            self.draft.branch_reasons[last] = "retry"
        self._restored = False

    def _prompted(self, message: Message, index: int, text: str) -> None:
        self._settle_erased(last=False)
        self._last_prompt = index
        self.calls.interruption = None
        if self.first_prompt is None:
            self.first_prompt = text
        if self._went_back is not None:
            first, evidence = self._went_back
            self._went_back = None
            dropped = self._dead_since(first, index)
            self.draft.rollbacks.append(
                m.Rollback(
                    message_index=index, dropped_message_indices=dropped, timestamp=message.timestamp, evidence=evidence
                )
            )

    def _dead_since(self, first: int, index: int) -> list[int]:
        live = set(self._live)
        return [place for place in range(first, index) if place not in live]

    def _remember(self, kind: str, text: str, index: int) -> None:
        text = text.strip()
        if text:
            self._texts.setdefault(hash((kind, text)), []).append(index)

    # --- notes of the interface ---

    def _note(self, message: Message, source: m.Source) -> int:
        text = text_of(message)
        if text == _CANCELLED:
            return self._cancelled(message, source)
        block: m.Block = m.Attachment(message.type, text)
        is_compression = message.type == "info" and (not text or _COMPRESSED.search(text))
        if is_compression and not self._boundary_due:
            block = m.CompactionMark()
        index = self._add(message, source, "system", "harness", [block])
        if is_compression:
            self._note_compression(message, index, text)
        elif message.type == "error":
            self._api_error(message, index, text)
        elif text.startswith(_RESTORED):
            self._restored = True
        elif _LOOP.search(text):
            self._interrupt(message, index, "system", "loop detection", 0.8)
        if self._erased is not None and (message.type == "error" or _LOOP.search(text)):
            self._erased = None
        return index

    def _cancelled(self, message: Message, source: m.Source) -> int:
        """The same note ends a turn that was stopped, and a turn whose calls were all refused."""
        refused = self.calls.take_refusal(self._last_reply) and self._last_reply > self._last_prompt
        during: m.During = "response"
        block: m.Block = m.Attachment("info", _CANCELLED) if refused else m.InterruptionMark(during)
        index = self._add(message, source, "system", "harness", [block])
        if not refused and not self._completes_interruption(message, index):
            self._interrupt(message, index, "user", _CANCELLED, 1.0)
        return index

    def _completes_interruption(self, message: Message, index: int) -> bool:
        """A call that was stopped told of the interruption before the note did."""
        known = self.calls.interruption
        if known is None or known.evidence != BY_RESULT:
            return False
        known.message_index, known.timestamp = index, message.timestamp
        known.evidence, known.confidence = _CANCELLED, 1.0
        return True

    def _interrupt(self, message: Message, index: int, who: m.Interrupter, evidence: str, sure: float) -> None:
        spoke = self._last_reply > self._last_prompt
        cut_off = self._last_reply if spoke else self._last_prompt
        self.calls.interruption = m.Interruption(
            message_index=index,
            interrupted_message_index=cut_off if cut_off >= 0 else None,
            type=who,
            during="response",
            timestamp=message.timestamp,
            evidence=evidence,
            confidence=sure,
        )
        self.draft.interruptions.append(self.calls.interruption)

    def _api_error(self, message: Message, index: int, text: str) -> None:
        code = _API_STATUS.search(text)
        status = int(code[1]) if code else None
        self.draft.failures.append(
            m.Failure(
                kind="api_error", message_index=index, text=text, status=status, ended_turn=True,
                timestamp=message.timestamp,
            )
        )  # fmt: skip
        lost = status >= 500 if status is not None else bool(_LOST_CONNECTION.search(text))
        if status == 429 or (lost and self._last_reply > self._last_prompt >= 0):
            self._interrupt(message, index, "system", "API error", 0.9)

    # --- calls ---

    def _tool_results(self, message: Message, source: m.Source, responses: list[FunctionResponse]) -> int:
        """Results as the model got them (0.45 and later). Those the reply itself holds are not told twice."""
        blocks: list[m.Block] = []
        for response in responses:
            call_id = response.id or ""
            result = self._take_result(call_id)
            if result is None:
                text = response_text(response)
                verdict = judge(None, text, response.name or "")
                result = m.ToolResult(call_id, text, verdict.outcome, verdict.exit_code)
                if not self.calls.is_known(call_id):
                    self._add_call(call_id, response.name or "?")
            blocks.append(result)
        index = self._add(message, source, "user", "harness", blocks)
        for response in responses:
            call_id = response.id or ""
            self._remember("result", call_id, index)
            if not self.calls.is_known(call_id):
                name, text = response.name or "?", response_text(response)
                self.calls.judge(Ended(index, call_id, name, text, message.timestamp))
        return index

    def _add_call(self, call_id: str, name: str) -> None:
        """A call that was refused over ACP is known by its result alone, until a later copy tells its input."""
        if self._last_reply < 0:
            return
        self._last_blocks.append(m.ToolCall(call_id, name, _UNKNOWN))
        self._calls_without_input.setdefault(self._last_reply, self._last_blocks)
        self.draft.replace(self._last_reply, self._last_blocks, self._record)

    def _take_result(self, call_id: str) -> m.ToolResult | None:
        """Move a result from the reply that holds it to the message that brought it to the model."""
        place = self._results.pop(call_id, None)
        if place is None:
            return None
        index, blocks = place
        found = next((x for x in blocks if type(x) is m.ToolResult and x.call_id == call_id), None)
        if found is not None:
            blocks.remove(found)
            found.sent = True
            self.draft.replace(index, blocks, self._record)
        return found

    def _learn_calls(self, message: Message, index: int) -> None:
        """A later copy of a reply holds the input of calls that were refused before they were recorded."""
        blocks = self._calls_without_input.get(index)
        if blocks is None or message.type != "gemini":
            return
        inputs = [part.function_call for part in parts_of(message.content) if part.function_call is not None]
        calls = [block for block in blocks if type(block) is m.ToolCall and block.raw_input is _UNKNOWN]
        for call, given in zip(calls, inputs, strict=False):
            call.raw_input = input_of(given.args)
            self.calls.learn_input(call)
        if inputs:
            del self._calls_without_input[index]
            self.draft.replace(index, blocks, self._record)

    def _is_older(self, message: Message) -> bool:
        """Whether a message was said before the last one that is known: then no session went on from it.

        Over ACP a program that starts at the end of a minute writes two files at once: one with the conversation, one
        with the calls and what they were given.
        """
        return message.timestamp is not None and message.timestamp.timestamp() < self.draft.times[self._live[-1]]

    def _learn_inputs(self, message: Message) -> int:
        """The calls of a message whose results are known already."""
        given = {call.id: call for call in message.tool_calls or ()}
        for index, blocks in list(self._calls_without_input.items()):
            waiting = [block for block in blocks if type(block) is m.ToolCall and block.raw_input is _UNKNOWN]
            for block in waiting:
                if block.id in given:
                    block.raw_input = input_of(given[block.id].args)
                    self.calls.learn_input(block)
                    self.draft.replace(index, blocks, self._record)
        return self._live[-1]

    # --- replaced conversations ---

    def _move_to(self, places: list[int]) -> None:
        """Go on from another list of messages; what is no longer in it was left."""
        before, self._live = self._live, places
        kept = set(places)
        gone = [place for place in before if place not in kept]
        if not gone or not before:
            return
        reason = self._why_left(gone)
        for place in gone:
            self.draft.branch_reasons.setdefault(place, reason)
        if self._went_back is None and self._last_prompt in gone and self.calls.interruption is None:
            self._erased = self._last_prompt

    def _why_left(self, gone: list[int]) -> m.BranchReason:
        """Turns that were stopped or refused are erased by the agent; answered ones by a person at a terminal."""
        stopped = {interruption.message_index for interruption in self.draft.interruptions}
        stopped.update(rejection.message_index for rejection in self.draft.rejections)
        if self.calls.interruption is not None or not stopped.isdisjoint(gone):
            return "interrupted"
        answered = any(self.draft.flags[place] & MODEL for place in gone)
        return "rewind" if answered and self._typed is not None else "interrupted"

    def _settle_erased(self, last: bool) -> None:
        """A turn that was erased without a word: in a terminal an error or a note tells why, elsewhere nothing does."""
        erased, self._erased = self._erased, None
        if erased is None or self._typed is not None or (last and self._last_reply < 0):
            return
        self.draft.interruptions.append(
            m.Interruption(
                message_index=erased,
                interrupted_message_index=erased,
                type="user",
                during="response",
                evidence="the turn was erased",
                confidence=0.5,
            )
        )

    def _compress(self, messages: list[Message], snapshot: Message, source: m.Source) -> None:
        """Older messages were replaced by a snapshot; the newest are kept, under new ids."""
        before = list(self._live)
        after = messages.index(snapshot)
        kept: list[int] = []
        for message in messages[:after] + messages[after + 1 :]:
            places = self._index.get(message.id) or self._originals(message)
            if places:
                kept += places
                self._index[message.id] = places
        summary = text_of(snapshot)
        index = self._add(snapshot, source, "user", "harness", [m.CompactionMark(summary)])
        self._live = [index]
        for message in messages[after + 1 :]:
            if message.id not in self._index:
                self._new(message, source)
        self.draft.boundaries.append(
            m.Boundary(
                after_message_index=before[-1] if before else None,
                message_index=index,
                summary_message_index=index,
                trigger=None,
                timestamp=snapshot.timestamp,
                pre_tokens=self._context_tokens,
                pre_tokens_source="usage" if self._context_tokens is not None else None,
                summary=summary,
                summary_source="inline",
                preserved_message_indices=sorted(set(kept)),
            )
        )
        self._boundary_due = True

    def _note_compression(self, message: Message, index: int, text: str) -> None:
        """The note that follows a snapshot, or, before 0.45, all there is of a compression."""
        trigger: m.Trigger = "auto" if text else "manual"
        if self._boundary_due:
            self._boundary_due = False
            self.draft.boundaries[-1].trigger = trigger
            return
        counts = _TOKENS.search(text)
        tokens = int(counts[1]) if counts else self._context_tokens
        self.draft.boundaries.append(
            m.Boundary(
                after_message_index=index - 1 if index else None,
                message_index=index,
                trigger=trigger,
                timestamp=message.timestamp,
                pre_tokens=tokens,
                post_tokens=int(counts[2]) if counts else None,
                pre_tokens_source="recorded" if counts else "usage" if tokens is not None else None,
                context_recorded=False,
            )
        )
