"""Sub-agents that are recorded in the file of the session that started them.

1.0.x writes their records there. 2.1.12 to 2.1.63 repeat them in records about the progress of the call, which are
the only ones left if the sub-agent's own file is gone.
"""

from __future__ import annotations

from collections.abc import Collection

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.sinks import DropMessages
from ...io.decode import Damage, Location
from ..base import BuilderFactory
from .parser import ClaudeParser
from .schema import RECORDS, ClaudeRecord, Progress

_AGENT_PROGRESS = "agent_progress"
_INSIDE = Location(1, 0, 0)


class InlineAgents:
    """Finds the conversation of each sub-agent in the file of a session."""

    def __init__(self, main: ClaudeParser, make: BuilderFactory, with_files: Collection[str]) -> None:
        """`with_files` are the sub-agents that have their own file."""
        self.parsers: list[ClaudeParser] = []
        self._main = main
        self._make = make
        self._with_files = with_files
        self._by_record: dict[str, ClaudeParser] = {}
        self._by_agent: dict[str, ClaudeParser] = {}
        self._by_name: dict[str, ClaudeParser] = {}

    def of_sidechain(self, record: ClaudeRecord) -> ClaudeParser:
        """Return the conversation that a sidechain record belongs to."""
        parent = record.parent_uuid if isinstance(record.parent_uuid, str) else ""
        parser = self._by_record.get(parent) or self._conversation(str(record.uuid))
        if record.uuid is not None:
            self._by_record[record.uuid] = parser
        return parser

    def of_progress(self, record: ClaudeRecord) -> ClaudeParser:
        """Return the conversation of a record about progress. A sidechain continues after such a record."""
        parent = record.parent_uuid if record.is_sidechain and isinstance(record.parent_uuid, str) else ""
        parser = self._by_record.get(parent)
        if parser is None:
            return self._main
        if record.uuid is not None:
            self._by_record[record.uuid] = parser
        return parser

    def read_progress(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        """Read the message in a record about the progress of a sub-agent, unless the sub-agent has a file."""
        data = record.data
        if data is None or data.type != _AGENT_PROGRESS or data.agent_id is None or data.agent_id in self._with_files:
            return
        parser = self._by_agent.get(data.agent_id)
        if parser is None:
            parser = self._by_agent[data.agent_id] = self._conversation(data.agent_id)
            parser.subagents.started_by = record.running_call
        for inner in _messages_in(data):
            inner.version = record.version
            parser.builder.bytes_at = lambda _offset, _length: bytes(data.message)
            parser.read(inner, source, inherited)

    def _conversation(self, agent: str) -> ClaudeParser:
        # A first record that is written twice, or has no id, must not start another session with the same name.
        if agent not in self._by_name:
            self._by_name[agent] = self._start(agent)
        return self._by_name[agent]

    def _start(self, agent: str) -> ClaudeParser:
        above = self._main.builder
        id = f"{above.id}/{agent}"
        builder = self._make(id, "subagent") or SessionBuilder("claude", id, "subagent", DropMessages())
        builder.details.parent = above.id
        builder.details.origin = m.Origin(kind="subagent", session=above.id)
        builder.details.files = above.details.files
        builder.bytes_at = above.bytes_at
        parser = ClaudeParser(builder)
        parser.calls.saved = self._main.calls.saved
        self.parsers.append(parser)
        return parser


def _messages_in(data: Progress) -> list[ClaudeRecord]:
    """Return the record of the sub-agent. It has no parent, so it follows the one before."""
    found = [item for item in RECORDS.line(bytes(data.message), _INSIDE) if not isinstance(item, Damage)]
    return [record for record, _ in found if record.message is not None]
