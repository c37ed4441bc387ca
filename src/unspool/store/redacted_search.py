"""Search without secrets: neither the words nor the filters of a query match them, so they cannot be guessed.

The database contains the secrets, so it only provides candidates. What remains of them depends on nothing but the
redacted data, and the sessions are ranked and counted afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..search.query import Node, matches
from ..search.tokenizer import words_in
from .damage import is_placeholder
from .database import Database
from .filters import is_like, like_sql
from .indexed_text import no_tool_name, rows_of
from .message_patches import MessagePatches
from .messages import StoredMessages
from .rows import NOTHING

if TYPE_CHECKING:
    from ..redact import Redactor
    from .search import Match


class RedactedMatches:
    """Selects the matches of a search whose texts match without their secrets as well.

    Only the first matches of a session are checked while sessions are ranked. The others are set aside, and checked if
    the session is shown.
    """

    def __init__(self, messages: StoredMessages, node: Node | None, redactor: Redactor, first: int) -> None:
        """`first` is the number of matches of a session that are needed to rank it."""
        self._messages = messages
        self._node = node
        self._redactor = redactor
        self._first = first
        self._kept: Counter[int] = Counter()
        self._aside: dict[int, list[Match]] = {}
        self._texts: dict[tuple[int, int], Counter[int]] = {}
        """By session and message: how many texts of each field match, and belong to none of the kept matches."""
        self._patches: tuple[int, MessagePatches] | None = None
        """Those of the session that was read last."""

    def select(self, candidates: Iterable[Match]) -> list[Match]:
        """The first matches of each session that remain, in the same order."""
        return [match for match in candidates if self._is_first(match)]

    def _is_first(self, match: Match) -> bool:
        if self._kept[match.session] >= self._first:
            self._aside.setdefault(match.session, []).append(match)
            return False
        is_kept = self._remains(match)
        self._kept[match.session] += is_kept
        return is_kept

    def further(self, session: int, most: int) -> list[Match]:
        """Up to `most` further matches of a session."""
        found: list[Match] = []
        for match in self._aside.get(session, []):
            if len(found) >= most:
                break
            if self._remains(match):
                found.append(match)
        return found

    def _remains(self, match: Match) -> bool:
        key = match.session, match.message
        if key not in self._texts:
            self._texts[key] = self._matching(match)
        # Two texts of a field are two matches in the index: no more of them remain than there are texts.
        texts = self._texts[key]
        remains = texts[match.field] > 0
        texts[match.field] -= remains
        return remains

    def _matching(self, match: Match) -> Counter[int]:
        """The number of matching texts of each field of a message."""
        if self._patches is None or self._patches[0] != match.session:
            self._patches = match.session, self._messages.patches(match.session)
        found: Counter[int] = Counter()
        for message in self._messages.read(match.session, match.message, match.message + 1, patches=self._patches[1]):
            if not is_placeholder(message):
                for row in rows_of(self._redactor.message(message), no_tool_name, NOTHING):
                    found[row[1]] += self._node is None or matches(self._node, words_in(row[-1]))
        return found


class RedactedValues:
    """Compares the values of filters, such as paths and names, without their secrets."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._database = database
        self._redactor = redactor

    def like(self, column: str, pattern: str) -> str:
        """The same as `like_sql`, except for values that only match because of a secret.

        `column` is qualified with the table, which has an `id`.
        """
        table, like = column.partition(".")[0], like_sql(column, pattern)
        rows = self._database.rows(f"SELECT {table}.id, {column} FROM {table} WHERE {like}", pattern)
        changed = self._redactor.changed_texts({text for _, text in rows})
        hidden = [int(id) for id, text in rows if text in changed and not is_like(changed[text], pattern)]
        # Written into the statement: there may be more ids than a statement may have values.
        return f"({like} AND {table}.id NOT IN ({', '.join(map(str, hidden))}))" if hidden else like
