"""The session record: what one session of any agent contains, as plain values.

These Structs are the schema: the JSON Schema in `docs/schema/` and the reference are generated from them, and every
exported record validates against it. No agent's own field names appear here. Times are aware UTC. `None` means that the
agent did not record a value, which is not zero. Optional fields that hold their default are left out of the JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from ..io.decode import decode_any
from .actions import Action as Action
from .actions import Question as Question
from .actions import Task as Task

SCHEMA = "unspool/1"
"""Name and version of the record; changes when a reader of the old format would misread the new one."""

Kind = Literal["main", "subagent"]
Role = Literal["user", "assistant", "system"]
Author = Literal["human", "model", "harness", "hook", "subagent", "operator"]
ContextState = Literal["live", "compacted", "cleared", "rewound", "abandoned"]
Outcome = Literal["ok", "error", "rejected", "interrupted", "tool_use_error", "unknown"]
Link = Literal["recorded", "stitched"]
Status = Literal["complete", "interrupted", "waiting", "running", "killed", "empty"]
OriginKind = Literal["new", "clear", "fork", "branch", "resume", "subagent", "review"]
During = Literal["response", "tool", "subagent", "approval"]
RejectionType = Literal["edit", "command", "option", "plan", "permission", "other"]
RejectedBy = Literal["user", "rule", "hook", "mode", "host"]
FailureKind = Literal["tool_error", "tool_use_error", "api_error", "truncated"]
InterruptedBy = Literal["user", "system"]
FileRole = Literal["log", "base", "memory", "metadata"]
Trigger = Literal["auto", "manual"]
CompactionScope = Literal["messages", "results"]
Unanswered = Literal["omitted", "made_up", "sent"]
OrphanReason = Literal["killed", "running", "waiting", "compacted", "unknown"]
AgentStatus = Literal["completed", "failed", "interrupted", "killed", "running", "unknown"]
BranchReason = Literal["rewind", "interrupted", "resumed", "retry", "fork"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where a record is in its file; enough to fetch its bytes again."""

    file: int
    """Index of the file in `session.files`."""
    line: int
    """Line number, counted from 1 with blank lines included, as an editor shows it."""
    offset: int
    """Byte offset of the first byte. In a compressed log, an offset in the decompressed bytes."""
    length: int
    """Length in bytes, without the newline."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one model request, or a sum of several."""

    input: int | None = None
    """Input tokens, without cached input."""
    output: int | None = None
    """Output tokens, including reasoning."""
    cache_read: int | None = None
    """Input tokens read from the provider's cache."""
    cache_write: int | None = None
    """Input tokens written to the provider's cache."""
    reasoning: int | None = None
    """Output tokens spent on reasoning."""
    cache_write_1h: int | None = None
    """The part of `cache_write` that stays in the cache for an hour, which costs more than five minutes."""


# --- blocks ----------------------------------------------------------------------------------------------------------


class Text(msgspec.Struct, tag="text", gc=False):
    """Text by the message's author."""

    text: str
    """The text, usually Markdown."""


class Thinking(msgspec.Struct, tag="thinking", omit_defaults=True, gc=False):
    """The model's reasoning: in full, as a summary, or encrypted."""

    text: str
    """The readable part; empty if there is none."""
    encrypted: bool = False
    """True: the agent keeps the reasoning in a form that only the provider can read."""


class Image(msgspec.Struct, tag="image", omit_defaults=True, gc=False):
    """An image: its bytes if the log has them, otherwise its address."""

    media_type: str | None = None
    """The MIME type, such as `image/png`."""
    data: str | None = None
    """The bytes in base64."""
    url: str | None = None
    """The address or path of the image."""


class ToolCall(msgspec.Struct, tag="tool_call", rename={"raw_input": "input"}, gc=False):
    """A call of a tool by the model."""

    id: str
    """The agent's id of the call. Its result has the same id."""
    name: str
    """The name of the tool, as the agent calls it."""
    raw_input: msgspec.Raw
    """The input as JSON, byte for byte as the model gave it; in Python, `input` decodes it."""

    @property
    def input(self) -> Any:
        """The decoded input: usually a dict."""
        return decode_any(self.raw_input)


MADE_UP_RESULT = "[no result was recorded for this call: the session ended before it was done]"
"""The content of a result that unspool adds for an unfinished call."""


class SavedOutput(msgspec.Struct, omit_defaults=True, gc=False):
    """An output too large for the conversation: the agent saved it to a file and gave the model the beginning."""

    path: str
    """The file, as the agent names it."""
    size: int | None = None
    """Size of the file in bytes; None if the file is gone."""
    text: str | None = None
    """The content of the file, at most the first mebibyte."""


class ToolResult(msgspec.Struct, tag="tool_result", omit_defaults=True, gc=False):
    """The result of a tool call. For an interrupted tool, the output up to that point."""

    call_id: str
    """The id of the call."""
    content: str
    """The output as text, as the model received it."""
    outcome: Outcome
    """How the call ended. `error`: the tool ran and failed; `tool_use_error`: the call itself was invalid."""
    exit_code: int | None = None
    """Exit code of a command."""
    parts: list[Image | Unknown] = []
    """Output other than text."""
    sent: bool = True
    """False: the agent did not pass the result on to the model."""
    synthetic: bool = False
    """True: added by unspool for an unfinished call, on request or in a repaired copy."""
    saved: SavedOutput | None = None
    """The whole output, if `content` is only a part of it."""

    @property
    def whole(self) -> str:
        """The whole output, as far as it is available."""
        return self.saved.text if self.saved is not None and self.saved.text is not None else self.content


class InterruptionMark(msgspec.Struct, tag="interruption", gc=False):
    """Marks where a turn was interrupted; `interruptions` has the event."""

    during: During
    """What the agent was doing when it was interrupted."""


class CompactionMark(msgspec.Struct, tag="compaction", omit_defaults=True, gc=False):
    """Marks where older messages were replaced with a summary; `compaction.boundaries` has the event."""

    summary: str | None = None
    """The summary, if this message carries it."""


class Hook(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """A command set up by the user, which the agent program ran at an event."""

    name: str | None = None
    """The event with its subject, such as `SessionStart:resume` or `PreToolUse:Bash`."""
    event: str | None = None
    """The event, such as `SessionStart`."""
    command: str | None = None
    """The command that ran."""
    exit_code: int | None = None
    """Its exit code; 0 if it succeeded."""
    call_id: str | None = None
    """The call that it ran for."""


class Attachment(msgspec.Struct, tag="attachment", omit_defaults=True, gc=False):
    """Something the agent program added to the conversation: a file, a reminder, the output of a hook, a UI note."""

    kind: str
    """The agent's own name for it."""
    text: str | None = None
    """Its text, if it has any."""
    path: str | None = None
    """The file it refers to."""
    hooks: list[Hook] = []
    """The hooks whose output it is."""


class Unknown(msgspec.Struct, tag="unknown", gc=False):
    """A block of a kind that unspool does not know. Kept unchanged, never dropped."""

    kind: str
    """The agent's own name for it."""
    raw: msgspec.Raw
    """The block as it is in the log."""


Block = Text | Thinking | ToolCall | ToolResult | Image | InterruptionMark | CompactionMark | Attachment | Unknown


class Message(msgspec.Struct, omit_defaults=True, gc=False):
    """One record of the log that is part of the conversation, or a note about it."""

    index: int
    """Index in `messages`, which are in the order of the log."""
    role: Role
    """The role in the model's API."""
    author: Author
    """Who wrote it. A `user` message is often written by the agent program (`harness`); only `human` was typed."""
    blocks: list[Block]
    """The content: text, tool calls, results, and so on."""
    source: Source
    """Where the record is in its file."""
    id: str | None = None
    """The agent's id: at best unique within a file, never across files."""
    parent_index: int | None = None
    """Index of the message before it in the conversation; absent for the first one."""
    timestamp: datetime | None = None
    """When it was written."""
    model: str | None = None
    """The model that wrote it."""
    reply: int | None = None
    """Index of the first message of the same model response: one response may be written as several records."""
    usage: Usage | None = None
    """Tokens of the response, only on its last record, so that a sum counts each response once."""
    branch: int = 0
    """The branch it is on. 0 is the active path; `branches` lists the others."""
    context: ContextState = "live"
    """Whether it is still in context at the tip, and if not, why."""
    link: Link = "recorded"
    """`stitched`: the recorded parent is missing, and the message was attached to the one before it."""
    queued: bool = False
    """True: a prompt typed during a turn and picked up by that turn."""
    inherited: bool = False
    """True: copied from, or pointing into, the session this one was forked from. Its events are listed there."""

    @property
    def text(self) -> str:
        """The text blocks of the message, separated by blank lines."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, Text))


# --- events ----------------------------------------------------------------------------------------------------------


class Boundary(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A compaction: older messages were replaced with a summary, or old tool results were dropped."""

    after_message_index: int | None
    """The last message before the compaction."""
    message_index: int
    """The message that marks the compaction: everything before it left the context."""
    trigger: Trigger | None
    """`auto`: the context was full; `manual`: the user asked for it."""
    summary_message_index: int | None = None
    """The message that carries the summary."""
    uuid: str | None = None
    """The agent's id of the compaction."""
    timestamp: datetime | None = None
    """When it happened."""
    pre_tokens: int | None = None
    """Tokens in context before."""
    post_tokens: int | None = None
    """Tokens in context after."""
    pre_tokens_source: Literal["recorded", "usage"] | None = None
    """Where `pre_tokens` comes from. `usage`: from the usage of the last request before the compaction."""
    summary: str | None = None
    """The summary; empty if the provider keeps it encrypted, absent if the agent did not record it."""
    summary_source: Literal["inline", "session-memory", "replacement_history"] | None = None
    """Where the summary was found."""
    replaced_message_indices: list[int] = []
    """Messages that left the context."""
    preserved_message_indices: list[int] = []
    """Messages before the compaction that the model keeps word for word."""
    scope: CompactionScope = "messages"
    """What was compacted. `results`: only the content of old tool results and attachments; the messages stay."""
    dropped_tool_use_ids: list[str] = []
    """The calls whose results were dropped from the context."""
    context_recorded: bool = True
    """False: the agent replaced its context with something that is not in the log."""


class Compaction(msgspec.Struct, omit_defaults=True):
    """All compactions of a session."""

    boundaries: list[Boundary]
    """The compactions of this session."""
    inherited: list[Boundary] = []
    """Compactions of the session this one was forked from that still shape its context."""


class ContextClear(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The user cleared the context (`/clear`, `/new`)."""

    after_message_index: int | None
    """The last message before it."""
    timestamp: datetime | None = None
    """When it happened."""
    evidence: Literal["history", "session", "logs"]
    """The evidence for it: the prompt history, the session itself, or other logs of the agent."""
    confidence: float
    """How certain it is, from 0 to 1."""
    next_session: str | None = None
    """The session that continues, if the agent started a new one."""


class Interruption(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A turn or a running tool was stopped before it finished."""

    message_index: int | None
    """The message that records it."""
    interrupted_message_index: int | None
    """The message that was cut off: the last one of the model, or the prompt that got no answer."""
    type: InterruptedBy
    """Who interrupted."""
    during: During
    """What the agent was doing when it was interrupted."""
    timestamp: datetime | None = None
    """When it happened."""
    tool_use_ids: list[str] = []
    """The calls that were stopped."""
    evidence: str
    """The evidence for it in the files."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""


class Rejection(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A proposed action was rejected."""

    message_index: int
    """The message that records it."""
    tool_use_id: str | None
    """The id of the rejected call."""
    tool_name: str | None
    """The name of the tool."""
    reason: str | None = None
    """The reason that was given, in the words of the person or rule; absent if there was none."""
    timestamp: datetime | None = None
    """When it happened."""
    rejection_type: RejectionType
    """The kind of action that was rejected."""
    by: RejectedBy
    """Who or what rejected it."""
    evidence: str
    """The evidence for it in the files."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""
    action: Action | None = None
    """What the call would have done."""
    sibling_tool_use_ids: list[str] = []
    """Parallel calls that were cancelled together with this one."""
    asked_to_clarify: bool = False
    """True: the user did not answer a question, but wanted to talk about it first."""


class InputChange(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A person changed the input of a call before allowing it, so that something else ran than the model asked for."""

    message_index: int
    """The message that contains the call."""
    tool_use_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    timestamp: datetime | None = None
    """When it happened."""
    asked: Action
    """What the model asked for."""
    ran: Action
    """What ran instead."""
    evidence: str
    """The evidence for it."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""


class Rollback(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The user went back to an earlier point and continued from there."""

    message_index: int | None
    """The first message after it."""
    dropped_message_indices: list[int]
    """The messages that were abandoned."""
    timestamp: datetime | None = None
    """When it happened."""
    evidence: str
    """The evidence for it in the files."""


class Failure(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Something failed (and was not rejected)."""

    kind: FailureKind
    """What failed: a tool, the call of a tool, a request to the API, or a response that was cut off."""
    message_index: int
    """The message that records it."""
    text: str
    """The error message."""
    tool_use_id: str | None = None
    """The id of the call."""
    exit_code: int | None = None
    """Exit code of a command."""
    status: int | None = None
    """HTTP status of an API error."""
    ended_turn: bool = False
    """True: the turn ended with it."""
    timestamp: datetime | None = None
    """When it happened."""


class Orphan(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An unfinished call: a tool call without a result."""

    message_index: int
    """The message that contains the call."""
    tool_use_id: str
    """The id of the call."""
    tool_name: str
    """The name of the tool."""
    reason: OrphanReason
    """Why there is no result."""

    @property
    def is_open(self) -> bool:
        """Whether the call can still get a result: it is running, or waits for a decision."""
        return self.reason in ("running", "waiting")


class Subagent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A sub-agent that was started from this session."""

    message_index: int | None
    """The message that started it."""
    tool_use_id: str | None
    """The id of the call that started it."""
    agent_id: str | None
    """The agent's own id for it."""
    session: str | None
    """The id of its session record; absent if it left no file."""
    status: AgentStatus = "unknown"
    """How it ended."""
    linked_by: str | None = None
    """What in the files connects it to the call."""
    agent_type: str | None = None
    """The kind of sub-agent."""
    description: str | None = None
    """Its task in a few words."""


class Resume(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The agent was started again with this session."""

    message_index: int
    """The first message after it."""
    lost_message_indices: list[int] = []
    """Messages that the agent did not load into the context again."""
    evidence: str
    """The evidence for it in the files."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""


class Branch(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A branch of the conversation that is not the active path."""

    id: int
    """Its number, from 1; messages on it have it as `branch`."""
    root_index: int
    """Its first message."""
    tip_index: int
    """Its last message."""
    length: int
    """The number of messages on it."""
    reason: BranchReason
    """Why it was abandoned."""
    parent_index: int | None = None
    """The message it branches off from; absent if the conversation was restarted from the beginning."""


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line that is damaged, was salvaged or is not understood, or a fact that contradicts the record."""

    reason: str
    """A short code to group by."""
    detail: str
    """What is wrong, in a sentence."""
    source: Source | None = None
    """Where the line is."""
    message_index: int | None = None
    """The message concerned, if the problem is not about a line."""
    record: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The record, if it is intact but of an unknown kind. (`Raw | None` can be encoded but not decoded.)"""


# --- the record ------------------------------------------------------------------------------------------------------


class Project(msgspec.Struct, omit_defaults=True):
    """The directory the session worked in."""

    path: str | None
    """The path, if the agent recorded it."""
    name: str
    """The last part of the path, or what the agent calls the project."""


class Git(msgspec.Struct, omit_defaults=True):
    """State of the project's Git repository when the session started."""

    branch: str | None = None
    """The branch that was checked out."""
    commit: str | None = None
    """The commit that was checked out."""


class Origin(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How the session started."""

    kind: OriginKind
    """`new`, or how it follows from another session."""
    session: str | None = None
    """That other session."""
    message: str | None = None
    """The id of the message in that session after which this one continues."""
    evidence: str | None = None
    """The evidence for it in the files."""
    confidence: float = 1.0
    """How certain it is, from 0 to 1."""


class LogFile(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A file that the record was read from, with counts of its lines."""

    path: str
    """The path of the file."""
    size: int
    """Bytes that were read, decompressed."""
    lines: int = 0
    """Lines that are not blank."""
    records: dict[str, int] = {}
    """The number of records of each of the agent's own kinds."""
    damaged: int = 0
    """Lines that are not an intact record."""
    role: FileRole = "log"
    """What the file is for. `base`: only the beginning of it belongs to this session."""
    text: str | None = None
    """The text of a `memory` file, which the agent keeps next to the log."""


Event = (
    Boundary
    | ContextClear
    | Interruption
    | Rejection
    | InputChange
    | Rollback
    | Failure
    | Orphan
    | Subagent
    | Resume
    | Branch
    | Problem
)
"""Any event; `events` has the table of their kinds."""


class SessionInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Facts about a session, without its content."""

    id: str
    """The session's id. The id of a sub-agent begins with the id of the session that started it."""
    agent: str
    """The agent's short name, as in the table of agents."""
    kind: Kind
    """A session of its own, or a sub-agent."""
    versions: list[str]
    """Versions of the agent that wrote it, in order of appearance."""
    project: Project | None
    """The directory it worked in."""
    title: str | None
    """The title given by the agent or the user, or else the first prompt."""
    started_at: datetime | None
    """The earliest time in the log."""
    ended_at: datetime | None
    """The latest time in the log."""
    models: list[str]
    """Models that were used, in order of appearance."""
    origin: Origin
    """How it started."""
    status: Status
    """How it ended, or that it is still running."""
    tip: int | None
    """Index of the last message of the active path."""
    tip_rule: str
    """How the tip was chosen."""
    usage: Usage
    """Tokens of all replies of this session, each counted once, without inherited ones."""
    files: list[LogFile]
    """The files it was read from."""
    git: Git | None = None
    """State of the Git repository."""
    parent: str | None = None
    """For a sub-agent: the session that started it."""
    archived: bool = False
    """True: archived with the agent's own command."""
    unanswered: Unanswered = "omitted"
    """What the agent does with an unfinished call in later requests: omit it, make up a result, or send it as it is."""
    plan: str | None = None
    """The subscription that the agent was used with, if the log names one. It is not billed by tokens."""


class End(msgspec.Struct):
    """Last line of a session in the stream format."""

    session: str
    """The id of the session."""
    counts: dict[str, int]
    """The number of messages and of events of each kind."""
