"""The kinds of problems that a record can have: what they are called, and which of them are damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from . import model as m

CONTEXT_DOUBT = "context-doubt"
"""The reason of a problem: the size of a request contradicts the context that the record has for it."""

NOT_READ = "not-read"
"""The reason of a problem: no session is read from a log."""


class ProblemKind(NamedTuple):
    """One kind of problem."""

    one: str
    many: str
    is_damage: bool
    """Whether bytes were lost or changed. Otherwise the files are intact, but not what unspool expects."""


PROBLEM_KINDS = {
    "torn": ProblemKind("incomplete line", "incomplete lines", True),
    "not-json": ProblemKind("line that is not JSON", "lines that are not JSON", True),
    "nul-bytes": ProblemKind("line with NUL bytes", "lines with NUL bytes", True),
    "too-deep": ProblemKind("line nested too deeply", "lines nested too deeply", True),
    "not-a-record": ProblemKind("line without a record", "lines without a record", True),
    "salvaged": ProblemKind("partly damaged line", "partly damaged lines", True),
    "leftover": ProblemKind("fragment of a line", "fragments of lines", True),
    "invalid-utf8": ProblemKind("line with invalid UTF-8", "lines with invalid UTF-8", True),
    "unreadable": ProblemKind("unreadable file", "unreadable files", True),
    "broken-compression": ProblemKind("damaged compressed file", "damaged compressed files", True),
    "damaged-in-store": ProblemKind("part damaged in the store", "parts damaged in the store", True),
    "cycle": ProblemKind("circular reference", "circular references", True),
    "unpaired-surrogate": ProblemKind("line with an incomplete character", "lines with an incomplete character", False),
    "missing-parent": ProblemKind("missing parent", "missing parents", False),
    "duplicate-id": ProblemKind("duplicate id", "duplicate ids", False),
    "unknown-record": ProblemKind("record of an unknown kind", "records of an unknown kind", False),
    "unknown-shape": ProblemKind("record with unexpected fields", "records with unexpected fields", False),
    NOT_READ: ProblemKind("log that is not read", "logs that are not read", False),
    CONTEXT_DOUBT: ProblemKind("doubtful context", "doubtful contexts", False),
    "more-problems": ProblemKind("incomplete list of problems", "incomplete lists of problems", False),
}
"""All kinds, by the reason in the record."""


def kind_of_problem(problem: m.Problem) -> ProblemKind:
    """Return the kind of a problem. A reason that is not in the table comes from the reader of another package."""
    name = problem.reason.replace("-", " ")
    return PROBLEM_KINDS.get(problem.reason) or ProblemKind(name, name, True)


def count_problems(problems: Iterable[m.Problem]) -> list[str]:
    """Return the number of problems of each kind in words, the most frequent first."""
    counts = Counter(kind_of_problem(problem) for problem in problems)
    return [f"{count:,} {kind.one if count == 1 else kind.many}" for kind, count in counts.most_common()]
