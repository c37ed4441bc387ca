"""The store: what it holds and how it is asked, the same for every database behind it.

The SQL here runs on all of them. What differs (how rows are poured in, how words are indexed and searched, how the
tables came to be) is left to the two that build on it.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import count, repeat
from typing import Any

import msgspec

from ..core import model as m
from ..core.errors import NotFoundError
from ..core.session import Session
from ..search.query import Filters, Node, Query, matches
from ..search.snippet import snippet
from ..search.tokenizer import words_in
from .compression import pack, unpack
from .message_patches import Facts, Span
from .rows import NOTHING, EventRow, FileRow, JournalEntry, SessionRow, StoredSession
from .search import CANDIDATES, Conditions, Found, Hit, Match, literal_in, rank
from .text_index import AUTHOR_NUMBER, AUTHORS, FIELD_NUMBER, FIELDS, Part, TextRow, parts_of
from .usage_rows import Acts

Row = Sequence[Any]

BLOCK = 64
"""Messages that are stored together, at most."""
_MESSAGES = msgspec.json.Decoder(list[m.Message])
_MESSAGE = msgspec.json.Decoder(m.Message)
_LINES = msgspec.json.Decoder(list[msgspec.Raw])
_HEAD = msgspec.json.Decoder(Session)
_FACTS = msgspec.json.Decoder(Facts)
_SESSION_COLUMNS = """session.id, machine.name, session.agent, session.name, session.ref, session.kind, session.parent,
    session.origin, session.project, session.title, session.started, session.ended, session.status, session.messages,
    session.counts, session.gone_at"""
NEWEST_FIRST = "session.ended DESC NULLS LAST, session.id DESC"
_NO_MESSAGE = -1
_JOURNAL = 100_000
"""Changes that are remembered."""
_CLOSELY = 1 << 20
"""Of a long text so much is looked at to find out which of several was meant."""
_OF_SESSION = ("block", "event", "place", "span", "touch", "act")
"""Tables whose rows belong to one session and to nothing else."""


class Store(ABC):
    """All sessions of one machine, or of a team."""

    machine: int
    """This machine, among those whose sessions are here."""
    place: str
    """The path or address by which `open_store` opens it."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {"": NOTHING}

    # --- what each database does its own way ---

    @abstractmethod
    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement; `?` stands for a value."""

    @abstractmethod
    def insert(self, table: str, columns: str, rows: Iterable[Row], sparse: str = "") -> None:
        """Add many rows. In the columns named in `sparse`, `NOTHING` stands for nothing."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing; one writer at a time."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read several things as they are at one moment, whatever others write meanwhile."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Be the only one that brings this machine's sessions up to date; a second one waits."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @property
    def is_lost(self) -> bool:
        """The connection is gone: another has to be opened."""
        return False

    @abstractmethod
    def _take_ids(self, count: int) -> int:
        """The first of so many new ids of parts."""

    @abstractmethod
    def _add_words(self, first: int, texts: Sequence[str]) -> None:
        """Index texts, under ids that follow each other."""

    @abstractmethod
    def _drop_words(self, rows: list[tuple[int, str]]) -> None:
        """Take texts out of the index."""

    @abstractmethod
    def _with_words(self, node: Node) -> tuple[str, str, list[object]]:
        """What to select from, so that only parts with some words are left: tables, a condition, its values."""

    # --- files ---

    def files(self) -> dict[str, FileRow]:
        """This machine's files by their path; those that are gone too."""
        sql = """SELECT id, agent, path, device, inode, size, changed, kept, mark, gone_at FROM file
            WHERE machine = ? AND replaced_at IS NULL"""
        return {row[2]: FileRow(*row) for row in self.rows(sql, self.machine)}

    def file_at(self, path: str) -> FileRow | None:
        """One of this machine's files."""
        sql = """SELECT id, agent, path, device, inode, size, changed, kept, mark, gone_at FROM file
            WHERE machine = ? AND path = ? AND replaced_at IS NULL"""
        found = self.rows(sql, self.machine, path)
        return FileRow(*found[0]) if found else None

    def put_file(self, row: FileRow) -> int:
        """Note how a file was seen; an id of 0 makes a new one."""
        facts = (row.agent, row.path, row.device, row.inode, row.size, row.changed, row.kept, row.mark, row.gone_at)
        if row.id:
            columns = (
                "agent = ?, path = ?, device = ?, inode = ?, size = ?, changed = ?, kept = ?, mark = ?, gone_at = ?"
            )
            self.rows(f"UPDATE file SET {columns} WHERE id = ?", *facts, row.id)
            return row.id
        columns = "machine, agent, path, device, inode, size, changed, kept, mark, gone_at"
        sql = f"INSERT INTO file ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        return int(self.rows(sql, self.machine, *facts)[0][0])

    def replace_file(self, id: int) -> None:
        """Leave the bytes of a file as they are; what is at its path now is another one."""
        self.rows("UPDATE file SET replaced_at = ? WHERE id = ?", time.time(), id)

    def put_chunk(self, file: int, start: int, length: int, data: bytes) -> None:
        """Keep some bytes of a file, packed."""
        self.insert("chunk", "file, start, length, data", [(file, start, length, data)])

    def chunks(self, file: int, start: int = 0) -> Iterator[bytes]:
        """The kept bytes of a file, from the chunk on in which they begin."""
        sql = "SELECT start FROM chunk WHERE file = ? AND start + length > ? ORDER BY start"
        for (begin,) in self.rows(sql, file, start):
            ((data,),) = self.rows("SELECT data FROM chunk WHERE file = ? AND start = ?", file, begin)
            yield unpack(data)

    def chunk_start(self, file: int, offset: int) -> int:
        """Where the chunk begins that holds some byte."""
        sql = "SELECT coalesce(max(start), 0) FROM chunk WHERE file = ? AND start <= ?"
        return int(self.rows(sql, file, offset)[0][0])

    def drop_chunks(self, file: int, start: int = 0) -> None:
        """Forget bytes of a file: it was written anew, or they go into a larger chunk."""
        self.rows("DELETE FROM chunk WHERE file = ? AND start >= ?", file, start)

    # --- writing sessions ---

    def stored(self, agent: str, ref: str) -> dict[str, StoredSession]:
        """The sessions that were read from one place, by name: most often one."""
        sql = "SELECT id, name, messages, sealed, around FROM session WHERE machine = ? AND agent = ? AND ref = ?"
        return {row[1]: StoredSession(*row) for row in self.rows(sql, self.machine, agent, ref)}

    def around(self, agent: str) -> dict[str, str]:
        """What the surroundings of each session of an agent were when it was read."""
        sql = "SELECT ref, around FROM session WHERE machine = ? AND agent = ?"
        return {row[0]: row[1] for row in self.rows(sql, self.machine, agent)}

    def has(self, agent: str, name: str) -> bool:
        """Whether a session of this machine is here."""
        sql = "SELECT 1 FROM session WHERE machine = ? AND agent = ? AND name = ?"
        return bool(self.rows(sql, self.machine, agent, name))

    def has_unsettled(self, agent: str) -> bool:
        """Whether sessions have grown since they were last read as a whole."""
        sql = "SELECT 1 FROM session WHERE machine = ? AND agent = ? AND around = '' LIMIT 1"
        return bool(self.rows(sql, self.machine, agent))

    def new_session(self, agent: str, name: str, ref: str) -> int:
        """Make room for a session; one of this name that was read from elsewhere gives way."""
        sql = "SELECT id FROM session WHERE machine = ? AND agent = ? AND name = ?"
        for (id,) in self.rows(sql, self.machine, agent, name):
            self.empty_session(id)
            self.rows("UPDATE session SET ref = ? WHERE id = ?", ref, id)
            return int(id)
        columns = "machine, agent, name, ref, kind, status, messages, sealed, counts, head, facts, around"
        sql = f"""INSERT INTO session ({columns})
            VALUES (?, ?, ?, ?, 'main', 'empty', 0, 0, '{{}}', ?, ?, '') RETURNING id"""
        return int(self.rows(sql, self.machine, agent, name, ref, b"", b"")[0][0])

    def empty_session(self, id: int) -> None:
        """Take out everything a session holds; it is about to be written anew."""
        self.drop_parts(id, self.messages(id))
        for table in _OF_SESSION:
            self.rows(f"DELETE FROM {table} WHERE session = ?", id)
        self.rows("UPDATE session SET messages = 0, sealed = 0 WHERE id = ?", id)

    def put_block(self, session: int, first: int, count: int, data: bytes) -> None:
        """Keep messages: JSON of a list of them, packed."""
        self.insert("block", "session, first, count, data", [(session, first, count, data)])

    def drop_tail(self, session: int, first: int) -> None:
        """Forget the messages from one on, but not the words in them: they are about to be written again."""
        self.rows("DELETE FROM block WHERE session = ? AND first >= ?", session, first)
        self.rows("DELETE FROM act WHERE session = ? AND message >= ?", session, first)
        self.rows("DELETE FROM touch WHERE session = ? AND message >= ?", session, first)

    def put_texts(self, session: int, texts: list[TextRow]) -> None:
        """Make texts searchable."""
        if not texts:
            return
        first = self._take_ids(len(texts))
        messages, fields, authors, tools, models, times, words = zip(*texts, strict=True)
        id_of = self._name_ids({*tools, *models}).__getitem__
        rows = zip(
            count(first), repeat(session), messages, fields, authors, map(id_of, tools), map(id_of, models), times
        )
        self.insert("part", "id, session, message, field, author, tool, model, at", rows, sparse="tool, model, at")
        self._add_words(first, words)

    def drop_parts(self, session: int, messages: Iterable[m.Message]) -> None:
        """Take messages out of the index; their texts are needed to find their words."""
        for message in messages:
            sql = "DELETE FROM part WHERE session = ? AND message = ? RETURNING id"
            ids = sorted(int(row[0]) for row in self.rows(sql, session, message.index))
            texts = [part.text for part in parts_of(message, _no_name)]
            self._drop_words(list(zip(ids, texts, strict=True)))

    def tools(self, session: int, first: int) -> dict[int, list[str | None]]:
        """The tools of the texts of each message, from a message on."""
        sql = """SELECT part.message, name.text FROM part LEFT JOIN name ON name.id = part.tool
            WHERE part.session = ? AND part.message >= ? ORDER BY part.id"""
        found: dict[int, list[str | None]] = {}
        for message, tool in self.rows(sql, session, first):
            found.setdefault(message, []).append(tool)
        return found

    def set_author(self, session: int, message: int, author: m.Author) -> None:
        """A later line told who wrote a message."""
        number = AUTHOR_NUMBER[author]
        field = FIELD_NUMBER["user" if author == "human" else "answer" if author == "model" else "note"]
        spoken = [FIELD_NUMBER[name] for name in ("user", "answer", "note")]
        sql = "UPDATE part SET author = ? WHERE session = ? AND message = ?"
        self.rows(sql, number, session, message)
        sql = "UPDATE part SET field = ? WHERE session = ? AND message = ? AND field IN (?, ?, ?)"
        self.rows(sql, field, session, message, *spoken)

    def put_acts(self, session: int, acts: Acts) -> None:
        """Add what can be counted."""
        if acts.plain:
            messages, places, kinds, tools, outcomes, times = zip(*acts.plain, strict=True)
            names = map(self._name_ids({*tools}).__getitem__, tools)
            rows = zip(repeat(session), messages, places, kinds, names, outcomes, times)
            columns = "session, message, place, kind, name, outcome, at"
            self.insert("act", columns, rows, sparse="name, outcome, at")
        if acts.paid:
            messages, places, kinds, models, *rest = zip(*acts.paid, strict=True)
            names = map(self._name_ids({*models}).__getitem__, models)
            rows = zip(repeat(session), messages, places, kinds, names, *rest)
            sparse = "name, at, input, output, cache_read, cache_write, reasoning"
            self.insert("act", f"session, message, place, kind, {sparse}", rows, sparse=sparse)

    def drop_acts(self, session: int, message: int) -> None:
        """Forget what was counted of a message."""
        self.rows("DELETE FROM act WHERE session = ? AND message = ?", session, message)

    def put_rest_of_usage(self, session: int, total: m.Usage, model: str | None, at: float | None) -> None:
        """Tokens of a session that belong to none of its messages, such as those of a compaction."""
        names = ("input", "output", "cache_read", "cache_write", "reasoning")
        self.drop_acts(session, _NO_MESSAGE)
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
        (known,) = self.rows(f"SELECT {sums} FROM act WHERE session = ?", session)
        rest = [(getattr(total, name) or 0) - int(value) for name, value in zip(names, known, strict=True)]
        if any(rest):
            acts = Acts()
            acts.add_paid(_NO_MESSAGE, 0, "other", model, whole_seconds(at), m.Usage(*rest))
            self.put_acts(session, acts)

    def put_touches(self, session: int, touches: Iterable[tuple[int, str]]) -> None:
        """Note which messages are about which files."""
        found = dict.fromkeys(touches)
        if not found:
            return
        names = self._name_ids({path for _, path in found})
        rows = {(names[path], session, message) for message, path in found}
        self.insert("touch", "path, session, message", sorted(rows))

    def put_events(self, session: int, events: list[tuple[str, int | None, float | None, str | None, bytes]]) -> None:
        """Replace the events of a session."""
        self.rows("DELETE FROM event WHERE session = ?", session)
        columns = "session, place, kind, message, at, tool, data"
        self.insert("event", columns, [(session, place, *event) for place, event in enumerate(events)])

    def put_places(self, session: int, places: Iterable[tuple[int, str]]) -> None:
        """Replace the marks of messages to which something happened."""
        self.rows("DELETE FROM place WHERE session = ?", session)
        self.insert("place", "session, message, kind", [(session, *place) for place in sorted(set(places))])

    def put_spans(self, session: int, spans: list[Span]) -> None:
        """Replace the runs of messages that are not simply alive."""
        self.rows("DELETE FROM span WHERE session = ?", session)
        rows = [(session, span.first, span.last, span.branch, span.context) for span in spans]
        self.insert("span", "session, first, last, branch, context", rows)

    def put_head(self, session: int, values: dict[str, object], around: str) -> None:
        """Write what is known of a session as a whole: the values of `head_values`."""
        values = {**values, "around": around, "gone_at": None}
        columns = ", ".join(f"{name} = ?" for name in values)
        self.rows(f"UPDATE session SET {columns} WHERE id = ?", *values.values(), session)

    def put_progress(self, session: int, messages: int, sealed: int, ended: float | None) -> None:
        """A session has grown; what it is as a whole has to be found by reading it again."""
        sql = """UPDATE session SET messages = ?, sealed = ?, ended = coalesce(?, ended), gone_at = NULL, around = ''
            WHERE id = ?"""
        self.rows(sql, messages, sealed, ended, session)

    def put_session_files(self, session: int, files: Iterable[int]) -> None:
        """Replace the list of files a session was read from."""
        self.rows("DELETE FROM session_file WHERE session = ?", session)
        self.insert("session_file", "session, place, file", [(session, place, id) for place, id in enumerate(files)])

    def present(self, agent: str) -> list[tuple[int, str, str | None]]:
        """Sessions that are not marked as gone: number, what they were read from, and the path of each file of them.

        There is no path where a file is gone, or something else is in its place.
        """
        sql = """SELECT session.id, session.ref, file.path FROM session
            LEFT JOIN session_file ON session_file.session = session.id
            LEFT JOIN file ON file.id = session_file.file AND file.gone_at IS NULL AND file.replaced_at IS NULL
            WHERE session.machine = ? AND session.agent = ? AND session.gone_at IS NULL"""
        return [(row[0], row[1], row[2]) for row in self.rows(sql, self.machine, agent)]

    def files_of(self, session: int) -> list[tuple[int, str, str]]:
        """The files a session was read from: number, agent and path."""
        sql = """SELECT file.id, file.agent, file.path FROM session_file JOIN file ON file.id = session_file.file
            WHERE session_file.session = ? ORDER BY session_file.place"""
        return [(row[0], row[1], row[2]) for row in self.rows(sql, session)]

    def files_beside(self, session: int) -> list[tuple[int, str, str]]:
        """Files that are no session themselves, in the folder that has the name of this one's log."""
        found = []
        for _, _, path in self.files_of(session):
            folder = path.removesuffix(".jsonl")
            sql = """SELECT file.id, file.agent, file.path FROM file JOIN session ON session.machine = file.machine
                WHERE session.id = ? AND substr(file.path, 1, ?) IN (?, ?) AND file.replaced_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM session_file WHERE session_file.file = file.id) ORDER BY file.path"""
            inside = (f"{folder}/", f"{folder}\\")
            found += [(row[0], row[1], row[2]) for row in self.rows(sql, session, len(folder) + 1, *inside)]
        return found

    def file_of(self, session: int, path: str) -> int | None:
        """The file at a path on the machine that a session is from: its own, or that of its origin."""
        sql = """SELECT file.id FROM file JOIN session ON session.machine = file.machine
            WHERE session.id = ? AND file.path = ? ORDER BY file.replaced_at IS NOT NULL, file.id DESC LIMIT 1"""
        found = self.rows(sql, session, path)
        return int(found[0][0]) if found else None

    def set_gone(self, session: int, at: float | None) -> None:
        """Mark a session whose files are no longer there, or are back."""
        self.rows("UPDATE session SET gone_at = ? WHERE id = ?", at, session)

    def forget(self, session: int) -> None:
        """Remove a session for good, with its bytes where no other session needs them.

        Those of before a cut go too, and what lay in the folder of the session.
        """
        self.empty_session(session)
        sql = """SELECT id FROM file WHERE (machine, path) IN (
                SELECT file.machine, file.path FROM session_file JOIN file ON file.id = session_file.file
                WHERE session_file.session = ?)
            AND id NOT IN (SELECT file FROM session_file WHERE session <> ?)"""
        files = [row[0] for row in self.rows(sql, session, session)]
        if files:
            # While another session still needs the log, it needs what lies in the folder too.
            files += [file for file, _, _ in self.files_beside(session)]
        self.rows("DELETE FROM session_file WHERE session = ?", session)
        self.rows("DELETE FROM session WHERE id = ?", session)
        for file in files:
            self.drop_chunks(file)
            self.rows("DELETE FROM file WHERE id = ?", file)

    def note(self, kind: str, session: int | None, **data: object) -> None:
        """Write a change into the journal; `index.changes` has the kinds and what belongs to each."""
        self.insert("journal", "at, kind, session, data", [(time.time(), kind, session, json.dumps(data))])

    def prune_journal(self, keep: int = _JOURNAL) -> None:
        """Forget old changes; the numbers of the others stay."""
        last = self.last_entry()
        if self.first_entry() <= last - keep:
            self.rows("DELETE FROM journal WHERE seq <= ?", last - keep)

    # --- reading ---

    def sessions(
        self, where: str = "TRUE", *values: object, order: str = NEWEST_FIRST, limit: int | None = None, offset: int = 0
    ) -> list[SessionRow]:
        """Sessions, the newest first."""
        sql = f"""SELECT {_SESSION_COLUMNS} FROM session JOIN machine ON machine.id = session.machine
            WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"""
        return [session_row(row) for row in self.rows(sql, *values, 2**53 if limit is None else limit, offset)]

    def find(self, name: str) -> SessionRow:
        """A session by its id, or the beginning of it; the main session where its sub-agents fit too."""
        beginning = f"{_literal(name).lower()}%"
        fits = self.sessions("session.name = ?", name) or self.sessions("lower(session.name) LIKE ?", beginning)
        mains = [row for row in fits if row.kind == "main"] or fits
        if len(mains) != 1:
            what = "no session" if not mains else f"{len(mains)} sessions"
            shown = ": " + ", ".join(row.name for row in mains[:5]) if mains else "; `unspool ls` shows what there is"
            raise NotFoundError(f"{what} in the store whose id begins with {name!r}{shown}")
        return mains[0]

    def load(self, id: int) -> Session:
        """The whole record of a session."""
        head, facts = self._head(id)
        head.messages = list(self._complete(self._blocks(id, 0, None), facts))
        return head

    def head(self, id: int) -> Session:
        """The record of a session without its messages."""
        return self._head(id)[0]

    def messages(self, id: int, first: int = 0, last: int | None = None, facts: Facts | None = None) -> list[m.Message]:
        """Messages of a session, the last one not included; `facts` where they are known already."""
        return list(self._complete(self._blocks(id, first, last), self.facts(id) if facts is None else facts))

    def packed_head(self, id: int) -> tuple[bytes, bytes]:
        """The record of a session without its messages, and the facts, as they are kept."""
        found = self.rows("SELECT head, facts FROM session WHERE id = ?", id)
        return (bytes(found[0][0]), bytes(found[0][1])) if found else (b"", b"")

    def packed_blocks(self, id: int, first: int = 0, *, backwards: bool = False) -> Iterator[tuple[int, bytes]]:
        """Messages as JSON lists, each with the number of its first message: from a block on, or from it back."""
        direction, order = ("<=", "DESC") if backwards else (">", "ASC")
        sql = f"SELECT first FROM block WHERE session = ? AND first {direction} ? ORDER BY first {order}"
        for (start,) in self.rows(sql, id, first if backwards else first - BLOCK):
            for (data,) in self.rows("SELECT data FROM block WHERE session = ? AND first = ?", id, start):
                yield start, unpack(data)

    def prompts(self, id: int) -> list[int]:
        """The messages that a person wrote."""
        sql = "SELECT message FROM act WHERE session = ? AND kind = 'prompt' ORDER BY message"
        return [row[0] for row in self.rows(sql, id)]

    def facts(self, id: int) -> Facts:
        """What is known of a session's messages beside what their blocks hold."""
        found = self.rows("SELECT facts FROM session WHERE id = ?", id)
        return _FACTS.decode(unpack(found[0][0])) if found and found[0][0] else Facts()

    def _head(self, id: int) -> tuple[Session, Facts]:
        return unpacked_head(*self.packed_head(id))

    def _blocks(self, id: int, first: int, last: int | None) -> Iterator[m.Message]:
        sql = "SELECT first, data FROM block WHERE session = ? AND first > ? AND first < ? ORDER BY first"
        for start, data in self.rows(sql, id, first - BLOCK, 2**53 if last is None else last):
            # Only what is asked for becomes objects.
            lines = _LINES.decode(unpack(data))
            for line in lines[max(0, first - start) : None if last is None else max(0, last - start)]:
                yield _MESSAGE.decode(line)

    @staticmethod
    def _complete(messages: Iterable[m.Message], facts: Facts) -> Iterator[m.Message]:
        for message in messages:
            facts.apply(message)
            facts.place(message)
            yield message

    def events(self, kinds: Sequence[str], where: str = "TRUE", *values: object) -> list[EventRow]:
        """Events across sessions, the newest first."""
        marks = ", ".join("?" * len(kinds))
        sql = f"""SELECT {_SESSION_COLUMNS}, event.kind, event.message, event.at, event.tool, event.data
            FROM event JOIN session ON session.id = event.session JOIN machine ON machine.id = session.machine
            WHERE event.kind IN ({marks}) AND {where} ORDER BY event.at DESC NULLS LAST, session.id, event.place"""
        return [_event_row(row) for row in self.rows(sql, *kinds, *values)]

    # --- searching ---

    def search(self, query: Query, limit: int = 20, hits: int = 3, now: datetime | None = None) -> list[Found]:
        """The best sessions, each with its best hits."""
        ranked = rank(self.matches(query, CANDIDATES), now)[:limit]
        if not ranked:
            return []
        marks = ", ".join("?" * len(ranked))
        rows = {row.id: row for row in self.sessions(f"session.id IN ({marks})", *(entry.session for entry in ranked))}
        return [
            Found(
                session=rows[entry.session], score=round(entry.score, 4), more=max(0, len(entry.matches) - hits),
                hits=[self._hit(match, query.match) for match in entry.matches[:hits]],
            )
            for entry in ranked
        ]  # fmt: skip

    def matches(self, query: Query, limit: int) -> list[Match]:
        """Everything that fits, the newest first."""
        tables, condition, values = "part", "TRUE", list[object]()
        if query.match is not None:
            tables, condition, values = self._with_words(query.match)
        filters = Conditions(query.filters)
        sql = f"""SELECT part.session, part.message, part.field, part.author, part.at
            FROM {tables} JOIN session ON session.id = part.session
            WHERE {condition} AND {filters.text} ORDER BY part.id DESC LIMIT ?"""
        return [Match(*row) for row in self.rows(sql, *values, *filters.values, limit)]

    def _hit(self, match: Match, node: Node | None) -> Hit:
        field = FIELDS[match.field]
        texts = [
            part.text
            for message in self.messages(match.session, match.message, match.message + 1)
            for part in parts_of(message, _no_name)
            if part.field == field
        ]
        text = texts[0] if texts else ""
        if len(texts) > 1 and node is not None:
            text = next((one for one in texts if matches(node, words_in(one[:_CLOSELY]))), text)
        return Hit(
            message_index=match.message, field=field, author=AUTHORS[match.author], timestamp=_moment(match.at),
            snippet=snippet(text, node),
        )  # fmt: skip

    def search_exactly(self, pattern: str, filters: Filters, limit: int = 1000) -> Iterator[tuple[int, Part, int, int]]:
        """Every place that a regular expression finds: the session, the text, and where in it."""
        compiled, literal = re.compile(pattern), literal_in(pattern)
        chosen = Conditions(filters)
        sql = f"""SELECT DISTINCT part.session FROM part JOIN session ON session.id = part.session
            WHERE {chosen.text} ORDER BY part.session DESC"""
        found = 0
        for (session,) in (
            self.rows(sql, *chosen.values) if filters else self.rows("SELECT id FROM session ORDER BY id DESC")
        ):
            for part, place in self._exact_in(session, compiled, literal):
                yield session, part, *place
                found += 1
                if found >= limit:
                    return

    def _exact_in(
        self, session: int, pattern: re.Pattern[str], literal: bytes
    ) -> Iterator[tuple[Part, tuple[int, int]]]:
        for (first,) in self.rows("SELECT first FROM block WHERE session = ? ORDER BY first", session):
            ((data,),) = self.rows("SELECT data FROM block WHERE session = ? AND first = ?", session, first)
            data = unpack(data)
            if literal not in data:
                continue
            for message in _MESSAGES.decode(data):
                for part in parts_of(message, _no_name):
                    for match in pattern.finditer(part.text):
                        yield part, match.span()

    def last_entry(self) -> int:
        """The number of the newest change."""
        return int(self.rows("SELECT coalesce(max(seq), 0) FROM journal")[0][0])

    def first_entry(self) -> int:
        """The number of the oldest change that is remembered, or 0; who has not seen the one before missed some."""
        return int(self.rows("SELECT coalesce(min(seq), 0) FROM journal")[0][0])

    def journal(self, since: int = 0, limit: int = 1000) -> list[JournalEntry]:
        """Changes after a number; `first_entry` tells whether there were more of them."""
        sql = "SELECT seq, at, kind, session, data FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
        return [
            JournalEntry(seq=seq, at=_moment(at), kind=kind, session=session, data=msgspec.Raw(data.encode()))  # type: ignore[arg-type]
            for seq, at, kind, session, data in self.rows(sql, since, limit)
        ]

    # --- names ---

    def _name_ids(self, names: set[str]) -> dict[str, int]:
        """Numbers that stand for names of tools, models and paths, at least for those; the empty one is `NOTHING`."""
        for name in sorted(name for name in names if name not in self._names):
            self.rows("INSERT INTO name (text) VALUES (?) ON CONFLICT (text) DO NOTHING", name)
            ((id,),) = self.rows("SELECT id FROM name WHERE text = ?", name)
            self._names[name] = int(id)
        return self._names

    def forget_names(self) -> None:
        """A transaction that failed may have taken back names that were remembered."""
        self._names = {"": NOTHING}


def unpacked_head(head: bytes, facts: bytes) -> tuple[Session, Facts]:
    """What `packed_head` gave, to be read."""
    if not head:
        return _NO_SESSION, Facts()
    return _HEAD.decode(unpack(head)), _FACTS.decode(unpack(facts))


def head_values(head: Session, facts: Facts, counts: dict[str, int], sealed: int) -> dict[str, object]:
    """The columns of a session, by their names."""
    info = head.info
    project = (info.project.path or info.project.name) if info.project is not None else None
    return {
        "kind": info.kind, "parent": info.parent, "origin": info.origin.session, "project": project,
        "title": info.title, "started": _seconds(info.started_at), "ended": _seconds(info.ended_at),
        "status": info.status, "messages": counts["messages"], "sealed": sealed, "counts": json.dumps(counts),
        "head": pack(msgspec.json.encode(head)), "facts": pack(msgspec.json.encode(facts)),
    }  # fmt: skip


def session_row(row: Row) -> SessionRow:
    """A row of the session columns."""
    return SessionRow(
        id=row[0], machine=row[1], agent=row[2], name=row[3], ref=row[4], kind=row[5], parent=row[6], origin=row[7],
        project=row[8], title=row[9], started_at=_moment(row[10]), ended_at=_moment(row[11]), status=row[12],
        messages=row[13], counts=json.loads(row[14]), gone_at=_moment(row[15]),
    )  # fmt: skip


def _event_row(row: Row) -> EventRow:
    kind, message, at, tool, data = row[16:]
    return EventRow(
        session=session_row(row), kind=kind, message_index=message, timestamp=_moment(at), tool=tool,
        event=msgspec.Raw(bytes(data)),
    )  # fmt: skip


def whole_seconds(at: float | None) -> int:
    """A moment for a column of many."""
    return NOTHING if at is None else int(at)


def _no_name(_: str) -> None:
    return None


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _literal(text: str) -> str:
    """Text in which LIKE sees no pattern; ids hold neither of its signs."""
    return text.replace("%", "").replace("_", "")


_NO_SESSION: Any = None
