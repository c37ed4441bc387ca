"""What search reads besides the messages: indexed texts, and the marks that the filters of a query look at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, repeat

from ..core import model as m
from .damage import is_placeholder
from .database import Database
from .indexed_text import AUTHOR_NUMBER, FIELD_NUMBER, TextRow, no_tool_name, texts_of
from .message_patches import Span


class TextIndex:
    """Writes the tables `part`, `place`, `span` and `touch`, and the full-text index of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- texts ---

    def add(self, session: int, texts: list[TextRow]) -> None:
        """Make texts searchable."""
        if not texts:
            return
        first = self._database.words.allocate_ids(len(texts))
        messages, fields, authors, tools, models, times, words = zip(*texts, strict=True)
        id_of = self._database.names.ids({*tools, *models}).__getitem__
        rows = zip(
            count(first), repeat(session), messages, fields, authors, map(id_of, tools), map(id_of, models), times
        )
        columns = "id, session, message, field, author, tool, model, at"
        self._database.insert("part", columns, rows, sparse="tool, model, at")
        self._database.words.add(first, words)

    def remove(self, session: int, messages: Iterable[m.Message]) -> None:
        """Remove the texts of messages. The messages have to be given as they were indexed: FTS5 needs the texts."""
        unknown: list[int] = []
        for message in messages:
            sql = "DELETE FROM part WHERE session = ? AND message = ? RETURNING id"
            ids = sorted(int(row[0]) for row in self._database.rows(sql, session, message.index))
            if is_placeholder(message):
                unknown += ids
                continue
            texts = [text.text for text in texts_of(message, no_tool_name)]
            self._database.words.remove(list(zip(ids, texts, strict=True)))
        self._database.words.remove_unknown(unknown)

    def remove_unknown(self, session: int) -> None:
        """Remove all texts of a session whose messages cannot be read as they were indexed."""
        rows = self._database.rows("DELETE FROM part WHERE session = ? RETURNING id", session)
        self._database.words.remove_unknown([int(id) for (id,) in rows])

    def tools(self, session: int, first: int) -> dict[int, list[str | None]]:
        """The tool of each text, by message, from a message on."""
        sql = """SELECT part.message, name.text FROM part LEFT JOIN name ON name.id = part.tool
            WHERE part.session = ? AND part.message >= ? ORDER BY part.id"""
        found: dict[int, list[str | None]] = {}
        for message, tool in self._database.rows(sql, session, first):
            found.setdefault(message, []).append(tool)
        return found

    def set_author(self, session: int, message: int, author: m.Author) -> None:
        """Correct the author of a message, and the field of what it said."""
        field = FIELD_NUMBER["user" if author == "human" else "answer" if author == "model" else "note"]
        spoken = [FIELD_NUMBER[name] for name in ("user", "answer", "note")]
        sql = "UPDATE part SET author = ? WHERE session = ? AND message = ?"
        self._database.rows(sql, AUTHOR_NUMBER[author], session, message)
        sql = "UPDATE part SET field = ? WHERE session = ? AND message = ? AND field IN (?, ?, ?)"
        self._database.rows(sql, field, session, message, *spoken)

    # --- marks ---

    def set_marks(self, session: int, marks: Iterable[tuple[int, str]]) -> None:
        """Replace the marks that `is:` looks for: a message and what happened to it."""
        self._database.rows("DELETE FROM place WHERE session = ?", session)
        self._database.insert("place", "session, message, kind", [(session, *mark) for mark in sorted(set(marks))])

    def set_spans(self, session: int, spans: list[Span]) -> None:
        """Replace the spans, which `branch:` and `is:compacted` look at."""
        self._database.rows("DELETE FROM span WHERE session = ?", session)
        rows = [(session, span.first, span.last, span.branch, span.context) for span in spans]
        self._database.insert("span", "session, first, last, branch, context", rows)

    def add_touched_files(self, session: int, touched: Iterable[tuple[int, str]]) -> None:
        """Add the paths of files that the calls in messages read or write, which `file:` looks for."""
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
        """Remove the touched files of all messages from one on."""
        self._database.rows("DELETE FROM touch WHERE session = ? AND message >= ?", session, first)
