"""Turns a session into entries for display: calls with their results, notes, and events at the messages they belong to.

The renderers differ only in how they draw these entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from ..core import model as m
from ..core.decisions import RecordedDecision
from ..core.events import ENTRY_KINDS, EventKind
from ..core.notebook_cells import NotebookCell
from ..core.problems import kind_of_problem
from ..core.session import Session, first_from
from ..core.views import Branches
from .event_text import compaction_label, fork_label, subagent_label, timeline_label
from .receipts import Receipt, decisions_by_call, receipt_of

EntryKind: TypeAlias = str
"""`prompt`, `answer`, `thinking`, `call`, `note`, `notes`, `image`, `fork`, or the name of a kind of event."""

Describe = Callable[[str, msgspec.Raw], m.Action]
"""Returns what a tool call does, given the name and the input of the tool."""


class ResultReader(Protocol):
    """Interprets the inputs and results of one agent's tools."""

    def answers(self, action: m.Action, result: m.ToolResult) -> dict[str, str]:
        """Return a person's answers to the questions of a call, by question."""
        ...

    def markdown_of(self, name: str, result: m.ToolResult) -> str | None:
        """Return a result as Markdown, if it is prose."""
        ...

    def cells_written(self, name: str, raw_input: msgspec.Raw) -> list[NotebookCell]:
        """Return the notebook cells that a call writes or changes."""
        ...

    def cells_read(self, name: str, raw_input: msgspec.Raw, result: m.ToolResult) -> list[NotebookCell]:
        """Return the cells of a notebook that is the result of a call."""
        ...


class MessageEvent(Protocol):
    """An event that belongs to a message."""

    @property
    def message_index(self) -> int | None:
        """The index of the message."""
        ...


class CallView(msgspec.Struct, kw_only=True):
    """A tool call with its result and the events that concern it."""

    id: str
    name: str
    target: str | None
    """The most informative argument: a path, a command or a question."""
    action: m.Action
    result: m.ToolResult | None
    rejection: m.Rejection | None
    orphan: m.Orphan | None
    subagent: m.Subagent | None
    change: m.InputChange | None = None
    """Set if a person changed the input: `action` is then what ran."""
    index: int
    """The index of the call's message."""
    place: int
    """The position of the call among the blocks of that message."""
    result_index: int | None = None
    """The same for the result, in `result_index` and `result_place`."""
    result_place: int = 0
    seconds: float | None = None
    """How long it took."""
    receipt: Receipt | None = None
    """Who decided about it, if unspool ran the agent and the agent asked."""
    answers: dict[str, str] = {}
    """A person's answers to its questions, by question."""
    folder: str = ""
    """The target in two parts, if it is a path: the folder, relative to the project, and the name."""
    file: str = ""
    reason_index: int | None = None
    """For a rejection: the index of the prompt that contains the reason, if the reason is shown there."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the call is recorded as unfinished, and its result is missing or has an unknown outcome."""
        return self.orphan is not None and (self.result is None or self.result.outcome == "unknown")


class CallContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a call and its result that is more than plain text."""

    markdown: str | None = None
    """The result as Markdown, if it is prose."""
    cells_written: list[NotebookCell] = []
    """The notebook cells that the call writes or changes."""
    cells_read: list[NotebookCell] = []
    """The cells of the notebook that is the result."""


class Entry(msgspec.Struct, kw_only=True):
    """One entry of a transcript."""

    kind: EntryKind
    index: int | None
    """The index of the message it belongs to."""
    key: str = ""
    """Unique within the session, and stable when messages are added."""
    place: int = 0
    """The position of its block in the message; for `fork`, the id of the branch."""
    text: str = ""
    label: str = ""
    """A short name."""
    branch: int = 0
    context: m.ContextState = "live"
    timestamp: datetime | None = None
    model: str | None = None
    call: CallView | None = None
    content: CallContent = CallContent()
    """For `call`."""
    image: m.Image | None = None
    picture: tuple[int, int] | None = None
    """For `image`: the index of its message, and its position among the images of that message."""
    session: str | None = None
    """The session in which the conversation continues."""
    notes: list[Entry] = []
    """For `notes`: the consecutive notes."""
    is_harness: bool = False
    """For `note` and `notes`: written by the agent program or its hooks, not by a person, a model or unspool."""
    is_damage: bool = False
    """For `problem`: whether something was lost or changed."""


class _Found(NamedTuple):
    """A result, its message, and its position among the blocks of the message."""

    result: m.ToolResult
    message: m.Message
    position: int


class _EventIndex:
    """The events of a session by the call or the message they belong to."""

    def __init__(self, session: Session) -> None:
        self.rejections: dict[str | None, list[tuple[int, m.Rejection]]] = {}
        for rejection in session.rejections:
            self.rejections.setdefault(rejection.tool_use_id, []).append((rejection.message_index, rejection))
        self.changes = {change.tool_use_id: change for change in session.input_changes}
        self.orphans = {orphan.tool_use_id: orphan for orphan in session.orphans}
        self.subagents = {agent.tool_use_id: agent for agent in session.subagents}
        self.boundaries = {
            boundary.message_index: boundary
            for boundary in (*session.compaction.inherited, *session.compaction.boundaries)
        }
        self.summaries = {boundary.summary_message_index for boundary in self.boundaries.values()}
        self.events_at = {kind: _by_message(kind, session) for kind in ENTRY_KINDS}
        self.forks: dict[int, list[m.Branch]] = {}
        for branch in session.branches:
            self.forks.setdefault(-1 if branch.parent_index is None else branch.parent_index, []).append(branch)


class Transcript:
    """Yields the entries to show of a session: of all branches, or of the active path only.

    To show a part of a session, pass its `messages`, in which calls are matched with their results, and `branch_of`,
    which returns the branch of any message. `decisions` are the decisions about its calls.
    """

    def __init__(
        self,
        session: Session,
        describe: Describe,
        branches: Branches = "all",
        messages: Sequence[m.Message] | None = None,
        branch_of: Callable[[int], int] | None = None,
        decisions: Iterable[RecordedDecision] = (),
        results: ResultReader | None = None,
    ) -> None:
        self._session = session
        self._messages = session.messages if messages is None else messages
        self._branch_of = branch_of or (lambda index: session.messages[index].branch)
        self._project = session.info.project.path if session.info.project is not None else None
        self._hides_abandoned = branches == "active"
        self._describe = describe
        self._reader = results
        self._results = _results_in(self._messages)
        self._shown: dict[str, set[str]] = {}
        """The contents of the results that calls show, by the id of the calls: thousands of them may share it."""
        for message in self._messages:
            for block in message.blocks:
                if isinstance(block, m.ToolCall):
                    found = self._result(block.id, message.index)
                    self._shown.setdefault(block.id, set()).update([found.result.content] if found is not None else [])
        self._prompts = {
            message.text.strip(): message.index for message in reversed(self._messages) if message.author == "human"
        }
        self._index = _EventIndex(session)
        self._decisions = decisions_by_call(decisions)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, in the order of the log."""
        yield from self.root_forks()
        for message in self._messages:
            if not (self._hides_abandoned and message.branch):
                yield from self.entries_of(message)
        yield from self.unmentioned_subagents()
        for number, problem in enumerate(self._session.problems):
            yield problem_entry(number, problem)

    def root_forks(self) -> Iterator[Entry]:
        """Yield entries for branches that begin at the start of the session."""
        return self._fork_notes(-1)

    def entries_of(self, message: m.Message) -> Iterator[Entry]:
        """Yield the entries of one message."""
        found = _without_repeats([*self._message(message), *self._events(message)])
        for number, entry in enumerate(found):
            entry.key = f"{message.index}.{number}"
            yield entry
        yield from self._fork_notes(message.index)

    def unmentioned_subagents(self) -> Iterator[Entry]:
        """Yield entries for sub-agents that no message mentions."""
        for number, agent in enumerate(self._session.subagents):
            if agent.message_index is None:
                yield Entry(
                    kind="note", index=None, key=f"agent{number}", label="sub-agent", text=subagent_label(agent)
                )

    # --- messages ---

    def _message(self, message: m.Message) -> Iterator[Entry]:
        for position, block in enumerate(message.blocks):
            for entry in (self._block(message, block, position), *self._pictures(message.index, block)):
                if entry is not None:
                    entry.place = entry.place or position
                    entry.branch, entry.context = message.branch, message.context
                    entry.timestamp, entry.model = message.timestamp, message.model
                    entry.is_harness = entry.kind == "note" and _is_harness(message, block)
                    yield entry

    def _pictures(self, index: int, block: m.Block) -> Iterator[Entry]:
        """Yield entries for the parts of a call's result other than text."""
        found = self._result(block.id, index) if isinstance(block, m.ToolCall) else None
        for part in found.result.parts if found is not None else ():
            if found is not None and isinstance(part, m.Image):
                yield _image(index, part, found.message)
            else:
                yield Entry(kind="note", index=index, label=part.kind if isinstance(part, m.Unknown) else "")

    def _block(self, message: m.Message, block: m.Block, position: int) -> Entry | None:
        index = message.index
        if isinstance(block, m.Text):
            return self._text_entry(message, block.text)
        if isinstance(block, m.Thinking):
            return Entry(kind="thinking", index=index, text=block.text) if block.text else None
        if isinstance(block, m.ToolCall):
            call = self._call(block, message, position)
            return Entry(kind="call", index=index, call=call, content=self._content(call))
        if isinstance(block, m.ToolResult):
            return self._unshown_result(index, block)
        if isinstance(block, m.Image):
            return _image(index, block, message)
        if isinstance(block, m.CompactionMark):
            return self._compaction(index, block)
        if isinstance(block, m.Attachment):
            is_typed = message.author == "human"
            kind: EntryKind = "prompt" if is_typed else "note"
            return Entry(kind=kind, index=index, text=block.text or "", label=attachment_label(block))
        if isinstance(block, m.Unknown):
            return Entry(kind="note", index=index, label=block.kind)
        return None

    def _unshown_result(self, index: int, result: m.ToolResult) -> Entry | None:
        """Return an entry for a result that no call shows; None if a call shows it or one with the same content."""
        if result.call_id not in self._shown:
            return Entry(kind="note", index=index, text=result.content, label="result without its call")
        if result.content in self._shown[result.call_id]:
            return None
        return Entry(kind="note", index=index, text=result.content, label="another result of the same call")

    def _text_entry(self, message: m.Message, text: str) -> Entry | None:
        if not text.strip():
            return None
        if message.author == "human":
            label = "queued" if message.queued else ""
            return Entry(kind="prompt", index=message.index, text=text, label=label)
        if message.author == "model" and message.role == "assistant":
            return Entry(kind="answer", index=message.index, text=text)
        label = "task" if message.author == "model" else message.author
        return Entry(kind="note", index=message.index, text=text, label=label)

    def _call(self, call: m.ToolCall, message: m.Message, position: int) -> CallView:
        found = self._result(call.id, message.index)
        result = found.result if found is not None else None
        _, rejection = first_from(self._index.rejections.get(call.id, []), message.index)
        change = self._index.changes.get(call.id)
        # A rejection may describe the action better than the input, and after a change something else ran.
        recorded = rejection.action if rejection is not None else change.ran if change is not None else None
        action = recorded or self._describe(call.name, call.raw_input)
        question = action.questions[0].question if action.questions else None
        decided = self._decisions.get(call.id)
        target = action.command or action.path or question or _first_string(action)
        folder, file = split_path(target, self._project) if target is not None and target == action.path else ("", "")
        return CallView(
            id=call.id,
            name=call.name,
            target=target,
            folder=folder,
            file=file,
            action=action,
            result=result,
            rejection=rejection,
            orphan=self._index.orphans.get(call.id),
            subagent=self._index.subagents.get(call.id),
            change=change,
            index=message.index,
            place=position,
            result_index=found.message.index if found is not None else None,
            result_place=found.position if found is not None else 0,
            seconds=_seconds_between(message, found.message) if found is not None else None,
            receipt=receipt_of(decided, action, result, change) if decided else None,
            answers=self._reader.answers(action, result) if self._reader and action.questions and result else {},
            reason_index=self._prompts.get((rejection.reason or "").strip()) if rejection is not None else None,
        )

    def _content(self, call: CallView) -> CallContent:
        """Return the content that only the reader of the agent's results can extract."""
        reader, raw, result = self._reader, call.action.raw_input, call.result
        if reader is None:
            return CallContent()
        is_ok = result is not None and result.outcome == "ok"
        return CallContent(
            markdown=reader.markdown_of(call.name, result) if result is not None and is_ok else None,
            cells_written=reader.cells_written(call.name, raw),
            cells_read=reader.cells_read(call.name, raw, result) if result is not None and is_ok else [],
        )

    def _result(self, call_id: str, index: int) -> _Found | None:
        """Return the result of a call in a message. The same id may be used again on another branch."""
        return first_from(self._results.get(call_id, []), index)[1]

    def _compaction(self, index: int, block: m.CompactionMark) -> Entry | None:
        boundary = self._index.boundaries.get(index)
        if boundary is None:
            # The summary is a separate message, and is shown with its boundary.
            return (
                None
                if index in self._index.summaries
                else Entry(kind="note", index=index, label="summary", text=block.summary or "")
            )
        return Entry(kind="compaction", index=index, label=compaction_label(boundary), text=boundary.summary or "")

    # --- events ---

    def _events(self, message: m.Message) -> Iterator[Entry]:
        for kind, events in self._index.events_at.items():
            for event in events.get(message.index, ()):
                entry = _event_entry(kind, event, message.index)
                entry.branch, entry.context, entry.timestamp = message.branch, message.context, message.timestamp
                yield entry

    def _fork_notes(self, index: int) -> Iterator[Entry]:
        for branch in self._index.forks.get(index, ()):
            label = ", ".join([fork_label(branch), *self._event_labels(branch)])
            yield Entry(kind="fork", index=branch.root_index, key=f"fork{branch.id}", place=branch.id, label=label)

    def _event_labels(self, branch: m.Branch) -> list[str]:
        """Return the numbers of events on a branch, for readers who do not open it."""
        return [f"{count} {word}" for word, count in self._event_counts.get(branch.id, {}).items()]

    @cached_property
    def _event_counts(self) -> dict[int, Counter[str]]:
        """The number of events on each branch, by the word for them."""
        session = self._session
        kinds: dict[str, Iterable[MessageEvent]] = {
            "rejected": session.rejections, "interrupted": session.interruptions, "failed": session.errors,
            "compacted": session.compaction.boundaries,
        }  # fmt: skip
        found: dict[int, Counter[str]] = {}
        for word, events in kinds.items():
            for event in events:
                if event.message_index is not None:
                    found.setdefault(self._branch_of(event.message_index), Counter())[word] += 1
        return found


def _without_repeats(entries: list[Entry]) -> list[Entry]:
    """Remove answers and notes that only repeat the text of a failure."""
    failures = [entry for entry in entries if entry.kind == "error" and entry.text.strip()]
    said = [entry for entry in entries if entry.kind in ("answer", "note") and entry.text.strip()]
    repeats = [(entry, failure) for failure in failures for entry in said if _says_the_same(entry, failure)]
    for entry, failure in repeats:
        # The message has the complete text, so the failure links to its block.
        failure.text, failure.place = max(entry.text, failure.text, key=len), entry.place
    repeated = {id(entry) for entry, _ in repeats}
    return [entry for entry in entries if id(entry) not in repeated]


def _says_the_same(entry: Entry, failure: Entry) -> bool:
    one, other = entry.text.strip(), failure.text.strip()
    return one == other or (one.startswith(other) and "\n" not in one[len(other) :].strip())


def _results_in(messages: Iterable[m.Message]) -> dict[str, list[tuple[int, _Found]]]:
    found: dict[str, list[tuple[int, _Found]]] = {}
    for message in sorted(messages, key=lambda message: message.index):
        for position, block in enumerate(message.blocks):
            if isinstance(block, m.ToolResult):
                found.setdefault(block.call_id, []).append((message.index, _Found(block, message, position)))
    return found


def folded(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Merge consecutive notes into one entry, so that they take little space in the conversation."""
    run: list[Entry] = []
    for entry in entries:
        if entry.kind == "note" and (not run or _group(run[0]) == _group(entry)):
            run.append(entry)
            continue
        yield from _fold(run)
        run = [entry] if entry.kind == "note" else []
        if not run:
            yield entry
    yield from _fold(run)


def _group(entry: Entry) -> tuple[object, ...]:
    """Return the properties that notes must share to be merged."""
    return entry.branch, entry.context, entry.is_harness


def _is_harness(message: m.Message, block: m.Block) -> bool:
    return message.author in ("harness", "hook") and not isinstance(block, m.ToolResult)


def _fold(run: list[Entry]) -> list[Entry]:
    if len(run) < 2:
        return run
    first = run[0]
    label = ", ".join(dict.fromkeys(entry.label for entry in run))
    return [
        Entry(
            kind="notes", index=first.index, key=first.key, label=label, branch=first.branch, context=first.context,
            notes=run, is_harness=first.is_harness,
        )
    ]  # fmt: skip


def pictures_of(message: m.Message) -> list[m.Image]:
    """Return all images in a message, including those in tool results."""
    found: list[m.Image] = []
    for block in message.blocks:
        if isinstance(block, m.Image):
            found.append(block)
        elif isinstance(block, m.ToolResult):
            found += [part for part in block.parts if isinstance(part, m.Image)]
    return found


def attachment_label(attachment: m.Attachment) -> str:
    """Describe an attachment and its hooks, with semicolons: the labels of merged notes are joined with commas."""
    hooks = "; ".join(map(_hook, attachment.hooks))
    return f"{attachment.kind} ({hooks})" if hooks else attachment.kind


def _hook(hook: m.Hook) -> str:
    """Return the name of a hook, and its exit code if it failed."""
    code = f", exit code {hook.exit_code}" if hook.exit_code else ""
    return f"{hook.name or hook.event or 'hook'}{code}"


def _image(index: int, image: m.Image, message: m.Message) -> Entry:
    number = next(number for number, other in enumerate(pictures_of(message)) if other is image)
    label = image.media_type or "image"
    return Entry(kind="image", index=index, image=image, picture=(message.index, number), label=label)


def problem_entry(number: int, problem: m.Problem) -> Entry:
    """Return the entry of a problem, such as a line that could not be read."""
    where = f"line {problem.source.line}: " if problem.source is not None else ""
    kind = kind_of_problem(problem)
    return Entry(
        kind="problem",
        index=None,
        key=f"problem{number}",
        label=kind.one,
        text=where + problem.detail,
        is_damage=kind.is_damage,
    )


def split_path(path: str, project: str | None) -> tuple[str, str]:
    """Split a path into folder and file name. The folder is relative to the project if it is inside."""
    root = (project or "").rstrip("/")
    shown = path.removeprefix(f"{root}/") if root and path != f"{root}/" else path
    folder, slash, name = shown.rpartition("/")
    return folder + slash, name


def _seconds_between(call: m.Message, result: m.Message) -> float | None:
    if call.timestamp is None or result.timestamp is None:
        return None
    return max(0.0, (result.timestamp - call.timestamp).total_seconds())


def _first_string(action: m.Action) -> str | None:
    """Return the first string among the arguments of an unknown tool."""
    given = action.input
    if isinstance(given, str):
        return given
    values = given.values() if isinstance(given, dict) else ()
    return next((value for value in values if isinstance(value, str) and value), None)


def _by_message(kind: EventKind, session: Session) -> dict[int, list[Any]]:
    """Return the events of a kind by message, except those about a tool call, which are shown with the call."""
    found: dict[int, list[Any]] = {}
    for event in kind.of(session):
        index = kind.index_of(event)
        if index is not None and getattr(event, "tool_use_id", None) is None:
            found.setdefault(index, []).append(event)
    return found


def _event_entry(kind: EventKind, event: Any, index: int) -> Entry:
    if isinstance(event, m.Failure):
        return Entry(kind=kind.name, index=index, label=event.kind.replace("_", " "), text=event.text)
    onward = getattr(event, "next_session", None)
    return Entry(kind=kind.name, index=index, label=timeline_label(event), session=onward)
