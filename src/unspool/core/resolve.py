"""Resolves names of sessions: an id, the beginning of an id, or `latest`. The same rules apply everywhere.

A name may be, in this order:

1. the id of a session, in any case;
2. the last part of the id of a sub-agent, which is `PARENT/OWN`, in any case;
3. the beginning of an id, of its last part, or of each of its parts (`PARENT/OWN` with both shortened); in any case,
   and only if it matches one id.

Looking up a path is left to the callers, which know about files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from .errors import AmbiguousError, NotFoundError

T = TypeVar("T")

LATEST = "latest"
"""The name of the main session that was written to last."""
_SHOWN = 5


def looks_like_path(name: str) -> bool:
    """Whether a name may be the path of a session file."""
    return "/" in name or "\\" in name or name.endswith((".jsonl", ".json", ".zst"))


def resolve_name(name: str, candidates: Iterable[T], id_of: Callable[[T], str], total: Callable[[], int]) -> list[T]:
    """Return the candidates that a name refers to: one, or several copies of one session that share an id.

    `total` returns the number of all sessions, for the error message if none matches.
    """
    found = matching(name, candidates, id_of)
    if not found:
        raise NotFoundError(f"no session {name!r} among {total():,}; `unspool ls` lists them")
    ids = list(dict.fromkeys(map(id_of, found)))
    if len(ids) > 1:
        raise ambiguous(name, ids)
    return found


def matching(name: str, candidates: Iterable[T], id_of: Callable[[T], str]) -> list[T]:
    """Return the candidates that match a name best: those with this id, or else those whose id begins with it."""
    wanted = name.casefold()
    levels: tuple[list[T], ...] = ([], [], [], [])
    for candidate in candidates:
        id = id_of(candidate)
        level = _level(name, wanted, id)
        if level is not None:
            levels[level].append(candidate)
    return next((level for level in levels if level), [])


def _level(name: str, wanted: str, id: str) -> int | None:
    """Return how well a name matches an id: 0 is best, None is no match."""
    if id == name:
        return 0
    whole = id.casefold()
    own = whole.rsplit("/", 1)[-1]
    if whole == wanted:
        return 1
    if own == wanted:
        return 2
    # The id of a sub-agent begins with its parent's id, but the beginning of that only refers to the parent.
    parts = whole.split("/") if "/" in wanted else [own]
    starts = wanted.split("/")
    is_match = len(parts) >= len(starts) and all(map(str.startswith, parts, starts))
    return 3 if is_match else None


def ambiguous(name: str, choices: list[str]) -> AmbiguousError:
    """Return the error for a name that matches several sessions."""
    shown = ", ".join(choices[:_SHOWN]) + (", …" if len(choices) > _SHOWN else "")
    return AmbiguousError(f"{name!r} matches {len(choices):,} sessions: {shown}")


def no_sessions() -> NotFoundError:
    """Return the error for `latest` if there are no sessions."""
    return NotFoundError("there are no sessions yet")
