"""The tables that search reads in addition to messages: indexed texts, and marks for the filters of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from ..core import model as m
from .damage import is_placeholder
from .database import Database
from .indexed_text import (
    AUTHOR_NUMBER,
    FIELD_NUMBER,
    EncodedRow,
    IndexedText,
    TextRow,
    ToolNameOf,
    no_tool_name,
    rows_of,
    texts_of,
)
from .message_patches import Span
from .ranking import bucket
from .rows import NOTHING
from .usage_rows import whole_seconds


class TextIndex:
    """Writes the tables `part`, `place`, `span` and `touch`, and the full-text index of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- texts ---

    def add(self, session: int, texts: Sequence[TextRow | EncodedRow]) -> None:
        """Make texts searchable."""
        if not texts:
            return
        messages, fields, authors, tools, models, times, words = zip(*texts, strict=True)
        buckets = [bucket(row[1], _known(row[5])) for row in texts]
        ids = self._database.words.allocate_ids(buckets)
        id_of = self._database.names.ids({*tools, *models}).__getitem__
        rows = zip(ids, repeat(session), messages, fields, authors, map(id_of, tools), map(id_of, models), times)
        columns = "id, session, message, field, author, tool, model, at"
        self._database.insert("part", columns, rows, sparse="tool, model, at")
        self._database.words.add(ids, words, buckets)

    def remove(self, session: int, messages: Iterable[m.Message]) -> None:
        """Remove the texts of messages. The messages have to be given as they were indexed: FTS5 needs the texts."""
        unknown: list[int] = []
        for message in messages:
            sql = "DELETE FROM part WHERE session = ? AND message = ? RETURNING id, field"
            found = sorted((field, id) for id, field in self._database.rows(sql, session, message.index))
            texts = _by_field(texts_of(message, no_tool_name))
            if is_placeholder(message) or not _is_indexed_as(texts, [field for field, _ in found]):
                unknown += [id for _, id in found]
            else:
                rows = [(id, text.text) for (_, id), text in zip(found, texts, strict=True)]
                self._database.words.remove(rows)
        self._database.words.remove_unknown(unknown)

    def is_indexed_twice(self, session: int, message: m.Message) -> bool:
        """Whether the index has more texts of a message than the message has."""
        sql = "SELECT count(*) FROM part WHERE session = ? AND message = ?"
        ((count,),) = self._database.rows(sql, session, message.index)
        return not is_placeholder(message) and int(count) > len(texts_of(message, no_tool_name))

    def remove_unknown(self, session: int) -> None:
        """Remove all texts of a session whose messages cannot be read as they were indexed."""
        rows = self._database.rows("DELETE FROM part WHERE session = ? RETURNING id", session)
        self._database.words.remove_unknown([int(id) for (id,) in rows])

    def tools(self, session: int, first: int) -> dict[int, list[str | None]]:
        """The tool of each text, by message, from message `first` on; texts are in the order of `tools_by_field`."""
        sql = """SELECT part.message, name.text FROM part LEFT JOIN name ON name.id = part.tool
            WHERE part.session = ? AND part.message >= ? ORDER BY part.field, part.id"""
        found: dict[int, list[str | None]] = {}
        for message, tool in self._database.rows(sql, session, first):
            found.setdefault(message, []).append(tool)
        return found

    def set_author(self, session: int, message: m.Message, author: m.Author) -> None:
        """Correct the author of a message, given as it was indexed, and the field of its text."""
        field = FIELD_NUMBER["user" if author == "human" else "answer" if author == "model" else "note"]
        spoken = {FIELD_NUMBER[name] for name in ("user", "answer", "note")}
        if is_placeholder(message):
            return
        before = self._rows(session, message)
        if before is None:
            before = rows_of(message, _tools_in([message]).get, whole_seconds(message.timestamp))
        rows = [
            (index, field if old in spoken else old, AUTHOR_NUMBER[author], tool, model, at, text)
            for index, old, _, tool, model, at, text in before
        ]
        self.remove(session, [message])
        self.add(session, rows)

    def move(self, session: int, messages: Sequence[m.Message]) -> None:
        """Give the texts of all messages of a session the ids that their ranks require."""
        differing: list[m.Message] = []
        for message in messages:
            if is_placeholder(message):
                continue
            rows = self._rows(session, message)
            if rows is None:
                differing.append(message)
                continue
            self.remove(session, [message])
            self.add(session, rows)
        # All at once: finding unknown texts takes a pass over the whole index.
        self.remove(session, differing)
        tools = _tools_in(messages) if differing else {}
        for message in differing:
            self.add(session, rows_of(message, tools.get, whole_seconds(message.timestamp)))

    def _rows(self, session: int, message: m.Message) -> list[TextRow] | None:
        """The rows of a message that is in the index; None if the index does not have exactly the texts of the message.

        Earlier versions could index a text twice.
        """
        sql = f"""SELECT part.message, part.field, part.author, coalesce(tool.text, ''), coalesce(model.text, ''),
                coalesce(part.at, {NOTHING})
            FROM part LEFT JOIN name AS tool ON tool.id = part.tool LEFT JOIN name AS model ON model.id = part.model
            WHERE part.session = ? AND part.message = ? ORDER BY part.field, part.id"""
        rows = self._database.rows(sql, session, message.index)
        texts = _by_field(texts_of(message, no_tool_name))
        if not _is_indexed_as(texts, [row[1] for row in rows]):
            return None
        return [(*row, text.text) for row, text in zip(rows, texts, strict=True)]

    # --- marks ---

    def set_marks(self, session: int, marks: Iterable[tuple[int, str]]) -> None:
        """Replace the marks that the filter `is:` finds: the index of a message, and what happened to it."""
        self._database.rows("DELETE FROM place WHERE session = ?", session)
        self._database.insert("place", "session, message, kind", [(session, *mark) for mark in sorted(set(marks))])

    def set_spans(self, session: int, spans: list[Span]) -> None:
        """Replace the spans, which the filters `branch:` and `is:compacted` use."""
        self._database.rows("DELETE FROM span WHERE session = ?", session)
        rows = [(session, span.first, span.last, span.branch, span.context) for span in spans]
        self._database.insert("span", "session, first, last, branch, context", rows)

    def add_touched_files(self, session: int, touched: Iterable[tuple[int, str]]) -> None:
        """Add the paths of files that the calls in messages read or write, for the filter `file:`."""
        found = dict.fromkeys(touched)
        if not found:
            return
        names = self._database.names.ids({path for _, path in found})
        rows = {(names[path], session, message) for message, path in found}
        self._database.insert("touch", "path, session, message", sorted(rows))

    def touched_files(self, session: int) -> list[tuple[int, str]]:
        """The touched files of a session: message and path."""
        sql = "SELECT touch.message, name.text FROM touch JOIN name ON name.id = touch.path WHERE touch.session = ?"
        return [(message, path) for message, path in self._database.rows(sql, session)]

    def remove_touched_from(self, session: int, first: int) -> None:
        """Remove the touched files of all messages from `first` on."""
        self._database.rows("DELETE FROM touch WHERE session = ? AND message >= ?", session, first)


def tools_by_field(message: m.Message, tool_name_of: ToolNameOf) -> list[str | None]:
    """The tool of each text of a message."""
    return [text.tool for text in _by_field(texts_of(message, tool_name_of))]


def _by_field(texts: list[IndexedText]) -> list[IndexedText]:
    """Sort texts like `part.field, part.id`: only ids of the same field increase, because fields rank differently."""
    return sorted(texts, key=lambda text: FIELD_NUMBER[text.field])


def _is_indexed_as(texts: list[IndexedText], fields: list[int]) -> bool:
    """Whether the index has the texts of a message, given by field, and no others."""
    return [FIELD_NUMBER[text.field] for text in texts] == fields


def _tools_in(messages: Iterable[m.Message]) -> dict[str, str]:
    """The tools of the calls in messages, by call id."""
    return {block.id: block.name for message in messages for block in message.blocks if isinstance(block, m.ToolCall)}


def _known(at: int) -> int | None:
    return None if at == NOTHING else at
