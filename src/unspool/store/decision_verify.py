"""Verifies the decision log: finds what was changed, removed, replaced, reordered or cut off after it was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ..core.decisions import RecordedDecision
from ..core.errors import UnspoolError
from .decision_chain import BEFORE_START, HEAD_NAME, Break, Head, Link, Start, digest_of_older, links, read_head
from .decision_log import CHAIN_VERSION, FILE_NAME, open_read_only, version_of

FaultKind = Literal["changed", "missing", "replaced", "reordered", "truncated", "head"]


class Fault(msgspec.Struct, frozen=True):
    """A place where the log is not what was written."""

    entry: int | None
    """The number of the entry; None if no single one can be named."""
    kind: FaultKind
    text: str


class Verification(msgspec.Struct, kw_only=True):
    """What the verification of a log has found."""

    decisions: int = 0
    """Decisions in the chain."""
    not_covered: int = 0
    """Decisions from before there was a chain: nothing shows that they are what was written."""
    unprotected: int = 0
    """The newest entries, if the file does not name them yet: their removal would not be noticed."""
    head: str | None = None
    """The number and hash of the newest entry. A copy kept elsewhere shows later whether it is still there."""
    faults: list[Fault] = []


class _Log(NamedTuple):
    """The rows of a log, and what the file with the newest row said just before they were read."""

    older: list[Link]
    chain: list[Link]
    head: Head | str | None
    has_chain: bool


def verify_decisions(folder: Path, expected: Head | None = None) -> Verification:
    """Verify the decision log in a data directory; `expected` is an entry that has to be in it."""
    try:
        log = _read(folder)
    except sqlite3.Error as error:
        raise UnspoolError(f"Cannot read {folder / FILE_NAME}: {error}") from error
    faults = [*_start_faults(log), *_link_faults(log.chain), *_session_faults([*log.older, *log.chain])]
    faults += _head_faults(log)
    if expected is not None:
        faults += _absent(log.chain, expected, "you expected")
    last = log.chain[-1] if log.chain else None
    behind = last.id - log.head.id if last is not None and isinstance(log.head, Head) else 0
    return Verification(
        decisions=sum(link.content.kind == "decision" for link in log.chain),
        not_covered=len(log.older),
        unprotected=max(0, behind),
        head=f"{last.id}:{last.hash}" if last is not None else None,
        faults=_first_of_each(faults),
    )


def _read(folder: Path) -> _Log:
    # The file first: it only names rows that are committed, so each row that it names must be found.
    head = read_head(folder)
    path = folder / FILE_NAME
    if not path.exists():
        return _Log([], [], head, has_chain=False)
    with closing(open_read_only(path)) as connection:
        if version_of(connection) < CHAIN_VERSION:
            return _Log(links(connection, is_chained=False), [], head, has_chain=False)
        found = links(connection)
    start = next((at for at, link in enumerate(found) if link.hash is not None), len(found))
    return _Log(found[:start], found[start:], head, has_chain=True)


def _first_of_each(faults: list[Fault]) -> list[Fault]:
    """The faults in the order of the log, one for each entry."""
    in_order = sorted(faults, key=lambda fault: fault.entry or 0)
    by_entry = groupby(in_order, key=lambda fault: fault.entry)
    return [fault for entry, group in by_entry for fault in (group if entry is None else [next(group)])]


class _About(msgspec.Struct):
    """The session in the data of a row."""

    session: str | None = None


# --- the rows --------------------------------------------------------------------------------------------------------


def _start_faults(log: _Log) -> Iterator[Fault]:
    if not log.has_chain:
        return
    first = log.chain[0] if log.chain else None
    start = None
    if first is not None and first.content.kind == "start":
        with suppress(msgspec.DecodeError, TypeError):
            start = msgspec.json.decode(first.content.data, type=Start)
    if start is None or first is None:
        yield Fault(None, "missing", "The first entry of the chain is missing")
    elif first.id != start.first:
        yield Fault(first.id, "changed", f"{_name(first)} has another number than when it was written")
    elif (len(log.older), digest_of_older(log.older)) != (start.older, start.digest):
        yield Fault(None, "changed", f"Of {start.older} entries from before the chain, some were changed or removed")


def _link_faults(chain: list[Link]) -> Iterator[Fault]:
    """Where the links of a chain are broken. A row that is changed does not make the next one wrong."""
    places = {link.hash for link in chain}
    previous, number = BEFORE_START, chain[0].id if chain else 0
    for link in chain:
        if link.id != number:
            yield Fault(number, "missing", f"{_numbers(number, link.id - 1)} missing")
        elif link.hash != link.content.hash_after(link.previous or ""):
            yield Fault(link.id, "changed", f"{_name(link)} was changed after it was written")
        elif link.previous != previous and link.previous in places:
            yield Fault(link.id, "reordered", f"{_name(link)} was written in another place")
        elif link.previous != previous:
            text = f"Entry {link.id - 1} was replaced: {_name(link)} was written after another one"
            yield Fault(link.id - 1, "replaced", text)
        if link.content.kind == "break":
            yield _break_fault(link)
        previous, number = link.hash or "", link.id + 1


def _break_fault(link: Link) -> Fault:
    """What a writer found when it was to append to the log."""
    noted = None
    with suppress(msgspec.DecodeError, TypeError):
        noted = msgspec.json.decode(link.content.data, type=Break)
    if noted is None or noted.head is None:
        return Fault(link.id, "head", f"When entry {link.id} was written, {HEAD_NAME} was missing or damaged")
    text = f"When entry {link.id} was written, entry {noted.head.id} had been removed or replaced"
    return Fault(link.id, "truncated", text)


def _session_faults(found: list[Link]) -> Iterator[Fault]:
    """Decisions that are listed under another session than the one in which they were made."""
    later = {link.content.subject: link for link in found if link.content.kind == "session"}
    for link in found:
        if link.content.kind != "decision":
            continue
        with suppress(msgspec.DecodeError, TypeError):
            known = msgspec.json.decode(link.content.data, type=_About).session
            if known is None and link.id in later:
                known = msgspec.json.decode(later[link.id].content.data, type=_About).session
            if link.content.session != known:
                yield Fault(link.id, "changed", f"{_name(link)} was assigned to another session")


# --- the newest row --------------------------------------------------------------------------------------------------


def _head_faults(log: _Log) -> Iterator[Fault]:
    """What the file with the newest row shows."""
    if isinstance(log.head, Head):
        yield from _absent(log.chain, log.head, f"{HEAD_NAME} names")
    elif log.head is not None:
        yield Fault(None, "head", f"{HEAD_NAME} cannot be read: {log.head}")
    elif len(log.chain) > 1:
        text = f"{HEAD_NAME} is missing, so entries may have been removed after entry {log.chain[-1].id}"
        yield Fault(None, "head", text)


def _absent(chain: list[Link], head: Head, named: str) -> Iterator[Fault]:
    """Whether a row that was the newest one at some time is no longer in the chain."""
    last = chain[-1].id if chain else 0
    found = next((link for link in chain if link.id == head.id), None)
    if head.id > last:
        yield Fault(last + 1, "truncated", f"{_numbers(last + 1, head.id)} missing at the end: {named} entry {head.id}")
    elif found is None:
        yield Fault(head.id, "missing", f"Entry {head.id} is missing: {named} it")
    elif found.hash != head.hash:
        yield Fault(head.id, "replaced", f"{_name(found)} was replaced: {named} another one")


# --- words -----------------------------------------------------------------------------------------------------------


def _numbers(first: int, last: int) -> str:
    return f"Entry {first} is" if first == last else f"Entries {first} to {last} are"


def _name(link: Link) -> str:
    """An entry by its number, with what it says now."""
    with suppress(msgspec.DecodeError, TypeError):
        if link.content.kind == "decision":
            decision = msgspec.json.decode(link.content.data, type=RecordedDecision)
            about = [decision.verdict.replace("_", " "), decision.tool, f"by {decision.who}" if decision.who else None]
            return f"Entry {link.id} ({' '.join(filter(None, about))}, {decision.at:%Y-%m-%d %H:%M} UTC)"
    return f"Entry {link.id}"
