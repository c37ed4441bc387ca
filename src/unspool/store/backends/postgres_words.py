"""The full-text index in PostgreSQL: vectors of words, with the era of their text as one more word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

from ...search.query import All, AnyOf, Node, Not, Words, to_tsquery
from ..database import MatchIndex, Row, WordIndex
from ..ranking import first_id, first_id_sql
from ..tsvector import era_lexeme, era_of, first_bucket, vectors

_POSITION = first_id_sql()
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
MIN_MATCHES_FOR_ERAS = 10_000
"""From this number of expected matches on, eras are searched in turn. Fewer matches are sorted faster."""
_GROUPS = (1, 1, 2, 4, 8, 16)
"""The number of eras in each of the first steps. All others are searched in the last step."""


class Connections(Protocol):
    """The methods of the database that the index needs."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""

    def run_outside_transaction(self, sql: str, *values: object) -> list[Row]:
        """Run a statement outside the transaction."""

    def insert(self, table: str, columns: str, rows: list[Row]) -> None:
        """Insert many rows."""


class VectorIndex(WordIndex):
    """Words in the table `words`, or in several rows of `piece` if a text does not fit into one vector."""

    def __init__(self, database: Connections) -> None:
        self._database = database
        self._eras: set[int] = set()
        """The eras that are known to be in the table `era`."""

    def allocate_ids(self, buckets: Sequence[int]) -> list[int]:
        """Reserve an id for each text."""
        # The ids of several machines cannot be in the order of ranks; rows are sorted when they are selected.
        first = int(self._database.rows("SELECT take_part_ids(?)", len(buckets))[0][0])
        return list(range(first, first + len(buckets)))

    def add(self, ids: Sequence[int], texts: Sequence[str | bytes], buckets: Sequence[int]) -> None:
        """Index texts: those that fit into one vector in `words`, longer ones in `piece`."""
        self._add_eras({era_of(bucket) for bucket in buckets})
        whole: list[Row] = []
        pieces: list[Row] = []
        for id, text, bucket in zip(ids, texts, buckets, strict=True):
            clean = storable_text(text if isinstance(text, str) else text.decode())
            made = [(id, vector) for vector in vectors(clean, era_of(bucket))]
            if len(made) == 1:
                whole += made
            else:
                pieces += made
        self._database.insert("words", "part, words", whole)
        self._database.insert("piece", "part, words", pieces)

    def _add_eras(self, eras: set[int]) -> None:
        """Commit new eras at once: machines that add the same ones in a transaction would wait for each other."""
        if new := sorted(eras - self._eras):
            sql = "INSERT INTO era (number) SELECT unnest(?::bigint[]) ON CONFLICT DO NOTHING"
            self._database.run_outside_transaction(sql, new)
            self._eras.update(new)

    def remove(self, rows: list[tuple[int, str]]) -> None:
        """Do nothing: the rows were deleted together with those of `part`."""

    def remove_unknown(self, ids: list[int]) -> None:
        """Do nothing: the rows were deleted together with those of `part`."""

    def index(self, node: Node | None) -> MatchIndex:
        """Return the SQL that selects all rows that match, in one statement."""
        return MatchIndex("part", "TRUE", [], _POSITION) if node is None else _matching(node)

    def in_order(self, node: Node | None) -> Iterator[MatchIndex]:
        """Yield the same SQL in one step, or era by era if many rows match."""
        if self._expected(node) < MIN_MATCHES_FOR_ERAS:
            yield self.index(node)
            return
        eras = [int(number) for (number,) in self._database.rows("SELECT number FROM era ORDER BY number DESC")]
        start = 0
        for size in _GROUPS:
            if some := eras[start : start + size]:
                yield _matching(node, some)
            start += size
        if start < len(eras):
            below = first_id(first_bucket(eras[start - 1]))
            found = self.index(node)
            yield found._replace(condition=f"{found.condition} AND {_POSITION} < {below}")

    def _expected(self, node: Node | None) -> int:
        """The number of matching texts that the query planner of the server estimates."""
        condition, values = ("TRUE", []) if node is None else ("words @@ ?::tsquery", [to_tsquery(node)])
        sql = f"EXPLAIN (FORMAT JSON) SELECT FROM words WHERE {condition}"
        (((plan,),),) = self._database.rows(sql, *values)
        return int(plan["Plan"]["Plan Rows"])


def _matching(node: Node | None, eras: Sequence[int] = ()) -> MatchIndex:
    """The SQL for texts that match a query, of some eras or of all."""
    of_eras = [f"({' | '.join(map(era_lexeme, eras))})"] if eras else []
    if node is None:
        condition = """part.id IN (
            SELECT part FROM words WHERE words @@ ?::tsquery
            UNION ALL SELECT part FROM piece WHERE words @@ ?::tsquery)"""
        return MatchIndex("part", condition, [*of_eras, *of_eras], _POSITION)
    # A text in pieces has its words in several rows: each word is looked up alone and the results are combined.
    leaves = list(_leaves(node))
    condition = f"""part.id IN (
        SELECT part FROM words WHERE words @@ ?::tsquery
        UNION ALL SELECT part FROM piece WHERE words @@ ?::tsquery GROUP BY part HAVING {_over_pieces(node)})"""
    searched = (" & ".join([f"({to_tsquery(part)})", *of_eras]) for part in (node, AnyOf(tuple(leaves))))
    return MatchIndex("part", condition, [*searched, *map(to_tsquery, leaves)], _POSITION)


def _leaves(node: Node) -> Iterator[Words]:
    if isinstance(node, Words):
        yield node
    else:
        parts = (node.part,) if isinstance(node, Not) else node.parts
        yield from chain.from_iterable(map(_leaves, parts))


def _over_pieces(node: Node) -> str:
    """A query as a condition over all pieces of a text, with one placeholder for each leaf."""
    if isinstance(node, Words):
        return "bool_or(words @@ ?::tsquery)"
    if isinstance(node, Not):
        return f"NOT {_over_pieces(node.part)}"
    operator = " AND " if isinstance(node, All) else " OR "
    return f"({operator.join(map(_over_pieces, node.parts))})"


def storable_text(text: str) -> str:
    """Text without what PostgreSQL cannot store: NUL and unpaired surrogates."""
    return text if text.isascii() and "\0" not in text else _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
