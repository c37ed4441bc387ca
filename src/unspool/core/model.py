"""The session record: what one session of any agent says, as plain values.

These Structs are the schema. The JSON Schema in `docs/schema/` is generated from them, every exported record
validates against it, and nothing here knows the name of a field in some agent's log.

Times are aware UTC. What an agent did not record is `None`, which is not zero. Optional fields that hold their
default are left out of the JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

SCHEMA = "unspool/1"
"""Name and version of the record; changes when a reader of the old form would misread the new one."""

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
Refuser = Literal["user", "rule", "hook", "mode", "host"]
FailureKind = Literal["tool_error", "tool_use_error", "api_error", "truncated"]
Interrupter = Literal["user", "system"]
FileRole = Literal["log", "base", "memory", "metadata"]
Trigger = Literal["auto", "manual"]
Unanswered = Literal["omitted", "made_up", "sent"]
OrphanReason = Literal["killed", "running", "compacted", "unknown"]
AgentStatus = Literal["completed", "failed", "interrupted", "killed", "running", "unknown"]
BranchReason = Literal["rewind", "interrupted", "resumed", "retry", "fork"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where a record stands; enough to fetch its bytes again."""

    file: int
    """Place of the file in `session.files`."""
    line: int
    """Counted from 1, blank lines included, as an editor shows it."""
    offset: int
    """Byte offset of the first byte (in a compressed log: of the unpacked bytes)."""
    length: int
    """Bytes, newline excluded."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one model request, or their sum. Cached input is not counted in `input`."""

    input: int | None = None
    output: int | None = None
    """Reasoning included."""
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


# --- blocks ----------------------------------------------------------------------------------------------------------


class Text(msgspec.Struct, tag="text", gc=False):
    """Words, said by the message's author."""

    text: str


class Thinking(msgspec.Struct, tag="thinking", omit_defaults=True, gc=False):
    """What the model thought; often only a summary, or nothing but a sealed envelope."""

    text: str
    encrypted: bool = False
    """The agent keeps the thought in a form only the provider can read."""


class Image(msgspec.Struct, tag="image", omit_defaults=True, gc=False):
    """A picture: its bytes in base64 where the log has them, else where it was."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class ToolCall(msgspec.Struct, tag="tool_call", rename={"raw_input": "input"}, gc=False):
    """The model asks for a tool."""

    id: str
    name: str
    raw_input: msgspec.Raw
    """The input as JSON, byte for byte as the model gave it; `input` decodes it."""

    @property
    def input(self) -> Any:
        """The decoded input: usually a dict."""
        return msgspec.json.decode(self.raw_input)


MADE_UP_RESULT = "[no result was recorded for this call: the session ended before it was done]"
"""What stands in the place of a result that was never recorded."""


class SavedOutput(msgspec.Struct, omit_defaults=True, gc=False):
    """An output that was too large for the conversation: the agent saved it, and gave the model its beginning."""

    path: str
    """The file, as the agent names it."""
    size: int | None = None
    """Of the file; None where it is gone."""
    text: str | None = None
    """What is in it, at most its first mebibyte."""


class ToolResult(msgspec.Struct, tag="tool_result", omit_defaults=True, gc=False):
    """What a tool call gave back. The output of an interrupted tool is kept as far as it got."""

    call_id: str
    content: str
    outcome: Outcome
    exit_code: int | None = None
    parts: list[Image | Unknown] = []
    """What came back besides text."""
    sent: bool = True
    """False: the agent did not pass it on to the model."""
    synthetic: bool = False
    """Made up by unspool, on request or in a repaired copy, for a call that never finished."""
    saved: SavedOutput | None = None
    """The whole output, where `content` is only what the model was given of it."""

    @property
    def whole(self) -> str:
        """All that the tool gave back, as far as it is there."""
        return self.saved.text if self.saved is not None and self.saved.text is not None else self.content


class InterruptionMark(msgspec.Struct, tag="interruption", gc=False):
    """The place where a turn was stopped; the same event stands in `interruptions`."""

    during: During


class CompactionMark(msgspec.Struct, tag="compaction", omit_defaults=True, gc=False):
    """The place where older messages were replaced by a summary; see `compaction.boundaries`."""

    summary: str | None = None


class Attachment(msgspec.Struct, tag="attachment", omit_defaults=True, gc=False):
    """Something the harness put beside the conversation: a file, a reminder, a hook's output, a UI note."""

    kind: str
    """The agent's own name for it."""
    text: str | None = None
    path: str | None = None


class Unknown(msgspec.Struct, tag="unknown", gc=False):
    """A part we can name but not read. Kept as it is, never dropped."""

    kind: str
    raw: msgspec.Raw


Block = Text | Thinking | ToolCall | ToolResult | Image | InterruptionMark | CompactionMark | Attachment | Unknown


class Message(msgspec.Struct, omit_defaults=True, gc=False):
    """One record of the log that says something to the model, by the model, or about the conversation."""

    index: int
    """Place in `messages`, which are in the order of the log."""
    role: Role
    author: Author
    """Who wrote it. A `user` message is often the harness speaking; only `human` was typed by a person."""
    blocks: list[Block]
    source: Source
    id: str | None = None
    """The agent's id: unique within a file at best, never across files."""
    parent_index: int | None = None
    timestamp: datetime | None = None
    model: str | None = None
    reply: int | None = None
    """Index of the first message of the same model response: a response may be written as several records."""
    usage: Usage | None = None
    """Tokens of the response, on its last record only, so that a sum counts each once."""
    branch: int = 0
    """0 is the active path; others are listed in `branches`."""
    context: ContextState = "live"
    """Whether the model still has it at the tip, and if not, why."""
    link: Link = "recorded"
    """`stitched`: the recorded parent is missing; the message was hung on the one before it."""
    queued: bool = False
    """A prompt typed while a turn ran, which that turn took up."""
    inherited: bool = False
    """Copied from, or pointing into, the session this one was forked from. Its events are listed there."""


# --- events ----------------------------------------------------------------------------------------------------------


class Boundary(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Older messages were replaced by a summary."""

    after_message_index: int | None
    """The last message before it."""
    message_index: int
    """The message that marks the place: what is before it is no longer in context."""
    trigger: Trigger | None
    summary_message_index: int | None = None
    """The message that carries the summary."""
    uuid: str | None = None
    timestamp: datetime | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    pre_tokens_source: Literal["recorded", "usage"] | None = None
    """`usage`: taken from the usage of the last request before it."""
    summary: str | None = None
    """`""` where the provider keeps it sealed; absent where the agent did not record it."""
    summary_source: Literal["inline", "session-memory", "replacement_history"] | None = None
    replaced_message_indices: list[int] = []
    preserved_message_indices: list[int] = []
    """Messages before the boundary that the model keeps word for word."""
    context_recorded: bool = True
    """False: the agent replaced its context by something of which the log holds nothing."""


class Compaction(msgspec.Struct, omit_defaults=True):
    """All compactions of a session."""

    boundaries: list[Boundary]
    inherited: list[Boundary] = []
    """Those of the session this one was forked from, as far as they shape its context."""


class ContextClear(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The person emptied the context (`/clear`, `/new`)."""

    after_message_index: int | None
    timestamp: datetime | None = None
    evidence: Literal["history", "session", "logs"]
    confidence: float
    next_session: str | None = None
    """Where the conversation goes on, if the agent began a new session."""


class Interruption(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A turn or a running tool was stopped before it was done."""

    message_index: int | None
    """The record that tells of it."""
    interrupted_message_index: int | None
    """What was cut off: the last model message, or the prompt that got no answer."""
    type: Interrupter
    during: During
    timestamp: datetime | None = None
    tool_use_ids: list[str] = []
    evidence: str
    confidence: float = 1.0


class Question(msgspec.Struct, omit_defaults=True):
    """A question the model asked the person."""

    question: str
    options: list[str] = []


class Action(msgspec.Struct, omit_defaults=True, rename={"raw_input": "input"}):
    """What was refused: the model's input, and what it would have done."""

    raw_input: msgspec.Raw
    path: str | None = None
    diff: str | None = None
    """Unified diff of a refused edit, rebuilt from the input."""
    command: str | None = None
    questions: list[Question] = []
    plan: str | None = None

    @property
    def input(self) -> Any:
        """The decoded input."""
        return msgspec.json.decode(self.raw_input)


class Rejection(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A proposed action was refused."""

    message_index: int
    """The record that tells of the refusal."""
    tool_use_id: str | None
    tool_name: str | None
    reason: str | None = None
    """The words of whoever refused; absent where none were given."""
    timestamp: datetime | None = None
    rejection_type: RejectionType
    by: Refuser
    evidence: str
    confidence: float = 1.0
    action: Action | None = None
    sibling_tool_use_ids: list[str] = []
    """Parallel calls that fell with this one."""


class Rollback(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The person went back to an earlier point and went on from there."""

    message_index: int | None
    """The first message of the new line."""
    dropped_message_indices: list[int]
    timestamp: datetime | None = None
    evidence: str


class Failure(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Something failed and was not refused."""

    kind: FailureKind
    message_index: int
    text: str
    tool_use_id: str | None = None
    exit_code: int | None = None
    status: int | None = None
    """HTTP status of an API error."""
    ended_turn: bool = False
    timestamp: datetime | None = None


class Orphan(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A tool call without a result of its own."""

    message_index: int
    tool_use_id: str
    tool_name: str
    reason: OrphanReason


class Subagent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A sub-agent that was started from this session."""

    message_index: int | None
    tool_use_id: str | None
    agent_id: str | None
    session: str | None
    """Id of its own record; absent where it left no file."""
    status: AgentStatus = "unknown"
    linked_by: str | None = None
    """Which evidence ties it to the call."""
    agent_type: str | None = None
    description: str | None = None


class Resume(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The agent was started again on this session, and what its reload lost from the context."""

    message_index: int
    """The first message after it."""
    lost_message_indices: list[int] = []
    evidence: str


class Branch(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line of the conversation that is not the active one."""

    id: int
    root_index: int
    """Its first message."""
    tip_index: int
    length: int
    reason: BranchReason
    parent_index: int | None = None
    """The message it hangs on; absent for a second beginning."""


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line that was damaged, salvaged or not understood."""

    reason: str
    """Short code to group by."""
    detail: str
    source: Source | None = None
    record: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The record itself, where it is whole but of a kind we do not know. (`Raw | None` can be written but not read.)"""


# --- the record ------------------------------------------------------------------------------------------------------


class Project(msgspec.Struct, omit_defaults=True):
    """The folder the session worked in."""

    path: str | None
    name: str


class Git(msgspec.Struct, omit_defaults=True):
    """State of the project's repository when the session began."""

    branch: str | None = None
    commit: str | None = None


class Origin(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How the session began."""

    kind: OriginKind
    session: str | None = None
    message: str | None = None
    """Id of the message in that session after which this one goes on."""
    evidence: str | None = None
    confidence: float = 1.0


class LogFile(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A file the record was read from, and what became of its lines."""

    path: str
    size: int
    """Bytes that were read (unpacked)."""
    lines: int = 0
    """Lines that are not blank."""
    records: dict[str, int] = {}
    """How many records of each of the agent's own kinds."""
    damaged: int = 0
    """Lines that are no intact record."""
    role: FileRole = "log"
    """`base`: only a beginning of it belongs to this session."""


class SessionInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a list of sessions shows."""

    id: str
    agent: str
    kind: Kind
    versions: list[str]
    """Of the agent, in order of appearance."""
    project: Project | None
    title: str | None
    started_at: datetime | None
    ended_at: datetime | None
    models: list[str]
    origin: Origin
    status: Status
    tip: int | None
    """Index of the last message of the active path."""
    tip_rule: str
    """How the tip was chosen."""
    usage: Usage
    """Of all replies of this session, inherited ones left out, each counted once."""
    files: list[LogFile]
    git: Git | None = None
    parent: str | None = None
    """Of a sub-agent: the session that started it."""
    archived: bool = False
    """Set aside by the agent's own archive command."""
    unanswered: Unanswered = "omitted"
    """What the agent does with a call without a result in its next requests: leave it out, make up a result, or
    send it as it is."""


class End(msgspec.Struct):
    """Last line of a session in the stream form."""

    session: str
    counts: dict[str, int]
