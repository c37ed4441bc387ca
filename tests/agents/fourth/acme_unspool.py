"""Reads the sessions of Acme, a made-up agent.

Acme keeps a session as lines of JSON in `~/.acme/talks/<id>.acme`. Acme Desk keeps the same records as rows of one
database, `~/.acme-desk/desk.db`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec

from unspool.agents import Agent, AgentInfo, BuilderFactory, Colour, Peek, SessionRef, Steps
from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.proposed_actions import input_of, text_in
from unspool.core.sinks import DropMessages
from unspool.io.decode import RecordDecoder
from unspool.io.files import log_of, read_batches
from unspool.io.sources import LineFile, LogSource, SqliteSource, query


class Line(msgspec.Struct):
    """A record: the first one describes the session, each of the others is a message."""

    kind: str
    at: datetime
    text: str | None = None
    folder: str | None = None
    tool: str | None = None
    call: str | None = None
    given: str | None = None


LINES = RecordDecoder(Line, lambda record: "kind" in record)


class AcmeSource:
    """Sessions in an `.acme` folder."""

    agent = "acme"

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def live(self) -> dict[str, m.Status]:
        """Acme does not say which sessions are open."""
        return {}

    def refs(self) -> Iterator[SessionRef]:
        """One session per file."""
        for path in sorted((self.root / "talks").glob("*.acme")):
            yield self._ref(path.stem, path)

    def ref(self, path: Path) -> SessionRef | None:
        """A session has the name of its file."""
        return self._ref(path.stem, path) if path.is_file() else None

    def _ref(self, id: str, path: Path) -> SessionRef:
        return SessionRef(agent=self.agent, id=id, kind="main", root=self.root, path=path)

    def contains(self, ref: SessionRef) -> bool:
        """Whether it is in the folder."""
        return any(known.path == ref.path for known in self.refs())

    def peek(self, ref: SessionRef) -> Peek:
        """Everything is in the first two lines."""
        found = [line for batch in read_batches(self.log(ref), LINES, log_of(ref.path)) for line in batch.records]
        if not found:
            return Peek()
        return Peek(
            title=next((line.text for line in found if line.kind == "prompt"), None),
            project=m.Project(found[0].folder, Path(found[0].folder).name) if found[0].folder else None,
            started_at=found[0].at,
            ended_at=found[-1].at,
        )

    def has_inline_subagents(self, ref: SessionRef) -> bool:  # noqa: ARG002 - the protocol names it
        """Acme has no sub-agents."""
        return False

    def fingerprint(self, ref: SessionRef) -> str:  # noqa: ARG002 - the protocol names it
        """Nothing outside its log shapes a session."""
        return ""

    def log(self, ref: SessionRef) -> LogSource:
        """Where the bytes of a session come from."""
        return LineFile(ref.path)

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        """Read a session."""
        builder = make(ref.id, ref.kind) or SessionBuilder(ref.agent, ref.id, ref.kind, DropMessages())
        log = log_of(ref.path)
        builder.details.files.append(log)
        for batch in read_batches(self.log(ref), LINES, log):
            builder.bytes_at = batch.bytes_at
            for damage in batch.damages:
                builder.damage(0, damage)
            for line, *place in batch.rows():
                log.records[line.kind] = log.records.get(line.kind, 0) + 1
                _add(builder, line, m.Source(0, *place))
            yield
        for id, call in builder.calls.open.items():
            builder.events.orphans.append(
                m.Orphan(message_index=call.message, tool_use_id=id, tool_name=call.name, reason="unknown")
            )
        return [builder]


def _add(builder: SessionBuilder, line: Line, source: m.Source) -> None:
    parent = len(builder) - 1
    if line.kind == "session":
        builder.details.project = m.Project(line.folder, Path(line.folder).name) if line.folder else None
        builder.details.versions["1.0"] = None
    elif line.kind == "prompt":
        builder.details.title = builder.details.title or line.text
        builder.add("user", "human", [m.Text(line.text or "")], source, None, parent, line.at)
    elif line.kind == "answer":
        blocks: list[m.Block] = [m.Text(line.text or "")]
        if line.call is not None and line.tool is not None:
            blocks.append(m.ToolCall(line.call, line.tool, msgspec.Raw((line.given or "{}").encode())))
        builder.add_reply(blocks, source, None, parent, line.at, "acme-1", f"reply {source.line}")
    elif line.kind in ("result", "refused") and line.call is not None:
        call = builder.close_call(line.call)
        outcome: m.Outcome = "ok" if line.kind == "result" else "rejected"
        index = builder.add(
            "user", "harness", [m.ToolResult(line.call, line.text or "", outcome)], source, None, parent, line.at
        )
        if line.kind == "refused":
            builder.events.rejections.append(
                m.Rejection(
                    message_index=index,
                    tool_use_id=line.call,
                    tool_name=call.name if call else None,
                    reason=line.text,
                    timestamp=line.at,
                    rejection_type="command",
                    by="user",
                    evidence="record",
                )
            )
    else:
        builder.unknown_record(f"kind {line.kind}", source)


class AcmeAgent(Agent):
    """Acme: one file per session."""

    info = AgentInfo(
        name="acme",
        title="Acme Coder",
        letter="A",
        colour=Colour("#7a1fa2", "#ce93d8"),
        folder=".acme",
        variable="ACME_HOME",
        paths=("talks",),
        suffixes=(".acme",),
        resume=("acme", "continue", "{id}"),
        source=AcmeSource,
    )

    def recognises(self, path: Path, head: bytes) -> bool:
        """Known by its suffix and its first record."""
        return path.suffix == ".acme" and head.startswith(b'{"kind":"session"')

    def describe(self, name: str, raw_input: msgspec.Raw) -> m.Action:  # noqa: ARG002 - the protocol names it
        """Its only tool runs commands."""
        return m.Action(raw_input, command=text_in(input_of(raw_input), "command"))


class DeskSource(AcmeSource):
    """Sessions in the database of Acme Desk."""

    agent = "acme-desk"

    @cached_property
    def _sources(self) -> dict[Path, SqliteSource]:
        return {source.path: source for source in sources_in(self.root)}

    def refs(self) -> Iterator[SessionRef]:
        """One session per row of the list of sessions."""
        for path, source in self._sources.items():
            yield self._ref(source.session, path)

    def ref(self, path: Path) -> SessionRef | None:
        """A log in the database; the database itself is no session."""
        source = self._sources.get(path)
        return self._ref(source.session, path) if source is not None else None

    def log(self, ref: SessionRef) -> LogSource:
        """Rows of the database."""
        return self._sources[ref.path]


def sources_in(root: Path) -> list[SqliteSource]:
    """The sessions of a database, with when each was last changed."""
    database = root / "desk.db"
    if not database.is_file():
        return []
    found = query(database, "SELECT id, changed FROM session ORDER BY id")
    return [SqliteSource(database, row["id"], ROWS, row["changed"]) for row in found]


ROWS = (
    "SELECT 'session' AS kind, at, folder FROM session WHERE id = :session",
    "SELECT kind, at, text, tool, call, given FROM message WHERE session = :session ORDER BY rowid",
)


class DeskAgent(AcmeAgent):
    """Acme Desk: all sessions in one database."""

    info = AgentInfo(
        name="acme-desk",
        title="Acme Desk",
        letter="D",
        folder=".acme-desk",
        paths=("desk.db", "desk.db-wal"),
        suffixes=(".db",),
        source=DeskSource,
    )

    def recognises(self, path: Path, head: bytes) -> bool:
        """Known by its name."""
        return path.name == "desk.db" and head.startswith(b"SQLite format 3")

    def is_log(self, path: Path) -> bool:
        """The database and what SQLite writes beside it."""
        return path.name.startswith("desk.db")

    def logs(self, root: Path) -> Iterator[LogSource]:
        """One per session."""
        return iter(sources_in(root))

    def log(self, path: Path) -> LogSource:
        """The rows of a session."""
        database, session = SqliteSource.session_at(path)
        changed = next((source.modified() for source in sources_in(database.parent) if source.path == path), 0)
        return SqliteSource(database, session, ROWS, changed)
