"""Groups of failures with the same command and message, apart from numbers, paths and other variable parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ..agents import agent_named
from ..core import model as m
from ..core import typed_json
from ..core.events import kind_of
from ..render.sanitize import one_line
from ..store import Store
from ..store.filters import EventFilter
from ..store.rows import EventRow, SessionRow

MOST_FAILURES = 1000
"""Only the most recent failures are grouped, because the call of each has to be read."""
_WIDTH = 160
_LONGEST = 2_000
"""Maximum number of characters that are searched for variable parts, which takes longer than linear time."""
_CHANGING_DIRECTORY = re.compile(r"\s*cd\s+(?:\"[^\"]*\"|'[^']*'|\S+)\s*(?:&&|;)\s*")
_VARIABLE = re.compile(
    r"""(?P<quoted>"[^"\n]{24,}"|'[^'\n]{24,}')
    |(?P<id>\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(?=[a-f]*[0-9])[0-9a-f]{7,}\b|0x[0-9a-f]+)
    |(?P<path>(?<![\w.])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}/?|\b[\w.-]+(?:/[\w.@+-]+)+)
    |(?P<number>\d+(?:[.,:]\d+)*)""",
    re.VERBOSE | re.IGNORECASE,
)
"""The parts that differ between failures of the same kind."""
_ERROR_WORDS = re.compile(
    r"error|exception|fail|fatal|panic|denied|not found|no such|cannot|can't|invalid|refused|unknown|missing|timed out",
    re.IGNORECASE,
)
_PYTEST = re.compile(r"E\s{3,}")
"""The prefix of the lines of an error in the output of pytest."""
_STATUS = re.compile(r"(?:error: )?(?:exit code|process exited with code|command failed)[^a-z]*", re.IGNORECASE)
"""A line that says that something failed, but not what."""


class FailureGroup(msgspec.Struct, kw_only=True):
    """Failures with the same command and message."""

    command: str
    """The command without its variable parts, or the tool; empty if it was not a call that failed."""
    message: str
    count: int = 0
    last_at: datetime | None = None
    sessions: dict[int, SessionRow] = msgspec.field(default_factory=dict)
    latest: dict[int, int] = msgspec.field(default_factory=dict)
    """The message of the latest such failure in each session."""

    def add(self, row: EventRow) -> None:
        """Add a failure. Failures must be added from the most recent to the oldest."""
        self.count += 1
        self.last_at = self.last_at or row.timestamp
        self.sessions.setdefault(row.session.id, row.session)
        self.latest.setdefault(row.session.id, row.message_index or 0)


class FailureGroups(msgspec.Struct, kw_only=True):
    """Groups of failures, largest first."""

    groups: list[FailureGroup]
    grouped: int
    """The number of failures in the groups."""
    total: int


def group_failures(store: Store, filter: EventFilter) -> FailureGroups:
    """Group the most recent failures."""
    rows, total = store.events.page(filter, MOST_FAILURES)
    by_session: dict[int, list[EventRow]] = {}
    for row in rows:
        by_session.setdefault(row.session.id, []).append(row)
    commands = {id: _commands(store, found) for id, found in by_session.items()}
    groups: dict[tuple[str, str], FailureGroup] = {}
    for row in rows:
        failure = typed_json.decode(row.event, type=m.Failure)
        command = commands[row.session.id].get(failure.tool_use_id or "") or row.tool or ""
        key = command, normal_message(failure.text) or kind_of(failure).noun
        groups.setdefault(key, FailureGroup(command=key[0], message=key[1])).add(row)
    beginning = datetime.fromtimestamp(0, UTC)
    ordered = sorted(groups.values(), key=lambda group: (group.count, group.last_at or beginning), reverse=True)
    return FailureGroups(groups=ordered, grouped=len(rows), total=total)


def normal_command(command: str) -> str:
    """Return a command without the parts that differ between its uses."""
    lines = [line for line in command.strip().splitlines() if line.strip()]
    first = _CHANGING_DIRECTORY.sub("", lines[0][:_LONGEST]) if lines else ""
    return one_line(_without_variables(first) + (" …" if len(lines) > 1 else ""), _WIDTH)


def normal_message(text: str) -> str:
    """Return the most informative line of an error, without the parts that differ between occurrences."""
    lines = [_PYTEST.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not _STATUS.fullmatch(line)] or lines
    telling = [line for line in said if _ERROR_WORDS.search(line)]
    # A traceback ends with the error; other programs begin with it.
    line = telling[-1] if telling and "Traceback" in text else next(iter(telling or said), "")
    return one_line(_without_variables(line[:_LONGEST]), _WIDTH)


def _without_variables(text: str) -> str:
    return _VARIABLE.sub(lambda found: {"number": "#", "path": "…", "id": "…"}.get(found.lastgroup or "", "“…”"), text)


# --- calls -----------------------------------------------------------------------------------------------------------


class _Session(msgspec.Struct, frozen=True):
    """A session, in the state in which its calls were read."""

    location: str
    id: int
    name: str
    agent: str
    messages: int


_known: dict[_Session, dict[str, str]] = {}
_MOST_KNOWN = 2000


def _commands(store: Store, rows: Iterable[EventRow]) -> dict[str, str]:
    """Return the commands of calls that failed in one session, by the id of the call."""
    failures = [typed_json.decode(row.event, type=m.Failure) for row in rows]
    wanted = {failure.tool_use_id for failure in failures if failure.tool_use_id is not None}
    session = next(iter(rows)).session if failures else None
    if session is None or not wanted:
        return {}
    key = _Session(store.location, session.id, session.name, session.agent, session.messages)
    known = _known.get(key, {})
    if not wanted <= known.keys():
        known = known | dict.fromkeys(wanted, "") | _read_commands(store, session, wanted)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = known
    return known


def _read_commands(store: Store, session: SessionRow, wanted: set[str]) -> dict[str, str]:
    needles = [id.encode() for id in wanted]
    describe = agent_named(session.agent).describe
    found: dict[str, str] = {}
    for message in store.messages.scan(session.id, lambda data: any(id in data for id in needles)):
        for block in message.blocks:
            if isinstance(block, m.ToolCall) and block.id in wanted:
                found[block.id] = normal_command(describe(block.name, block.raw_input).command or block.name)
        if len(found) == len(wanted):
            break
    return found
