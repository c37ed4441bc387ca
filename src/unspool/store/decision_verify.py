"""Verifies the decision log: finds entries that were later changed, removed, replaced or reordered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ..core import typed_json
from ..core.decisions import RecordedDecision
from ..core.errors import UnspoolError
from .decision_chain import BEFORE_START, HEAD_NAME, Break, Head, Link, Start, digest_of_older, links, read_head
from .decision_log import CHAIN_VERSION, FILE_NAME, open_read_only, version_of

FaultKind = Literal["changed", "missing", "replaced", "reordered", "truncated", "head"]


class Fault(msgspec.Struct, frozen=True):
    """A difference between the log and what was written to it."""

    entry: int | None
    """The number of the entry; None if no single one can be named."""
    kind: FaultKind
    text: str


class Verification(msgspec.Struct, kw_only=True):
    """The result of verifying a log."""

    decisions: int = 0
    """The number of decisions in the chain."""
    not_covered: int = 0
    """The number of decisions from before the chain: nothing proves that they are what was written."""
    unprotected: int = 0
    """The number of newest entries that the file does not protect yet: their removal would not be noticed."""
    head: str | None = None
    """The number and hash of the newest entry. Keep a copy to check later that the entry still exists."""
    faults: list[Fault] = []


class _Log(NamedTuple):
    """The rows of a log, and the content of the file with the newest row just before they were read."""

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
    # Read the file first: it only names committed rows, so the row that it names must be found.
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
            start = typed_json.decode(first.content.data, type=Start)
    if start is None or first is None:
        yield Fault(None, "missing", "The first entry of the chain is missing")
    elif first.id != start.first:
        yield Fault(first.id, "changed", f"{_name(first)} has a different number than when it was written")
    elif (len(log.older), digest_of_older(log.older)) != (start.older, start.digest):
        yield Fault(None, "changed", f"Some of {start.older} entries from before the chain were changed or removed")


def _link_faults(chain: list[Link]) -> Iterator[Fault]:
    """The faults in the links of a chain. A changed row does not make the next one faulty."""
    hashes = {link.hash for link in chain}
    previous, number = BEFORE_START, chain[0].id if chain else 0
    for link in chain:
        if link.id != number:
            yield Fault(number, "missing", f"{_numbers(number, link.id - 1)} missing")
        elif link.hash != link.content.hash_after(link.previous or ""):
            yield Fault(link.id, "changed", f"{_name(link)} was changed after it was written")
        elif link.previous != previous and link.previous in hashes:
            yield Fault(link.id, "reordered", f"{_name(link)} was moved after it was written")
        elif link.previous != previous:
            text = f"Entry {link.id - 1} was replaced: {_name(link)} was written after a different one"
            yield Fault(link.id - 1, "replaced", text)
        if link.content.kind == "break":
            yield _break_fault(link)
        previous, number = link.hash or "", link.id + 1


def _break_fault(link: Link) -> Fault:
    """Describe what a writer found when it appended to the log."""
    noted = None
    with suppress(msgspec.DecodeError, TypeError):
        noted = typed_json.decode(link.content.data, type=Break)
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
            known = typed_json.decode(link.content.data, type=_About).session
            if known is None and link.id in later:
                known = typed_json.decode(later[link.id].content.data, type=_About).session
            if link.content.session != known:
                yield Fault(link.id, "changed", f"{_name(link)} was assigned to another session")


# --- the newest row --------------------------------------------------------------------------------------------------


def _head_faults(log: _Log) -> Iterator[Fault]:
    """The faults that the file with the newest row reveals."""
    if isinstance(log.head, Head):
        yield from _absent(log.chain, log.head, f"{HEAD_NAME} names")
    elif log.head is not None:
        yield Fault(None, "head", f"{HEAD_NAME} cannot be read: {log.head}")
    elif len(log.chain) > 1:
        text = f"{HEAD_NAME} is missing, so entries may have been removed after entry {log.chain[-1].id}"
        yield Fault(None, "head", text)


def _absent(chain: list[Link], head: Head, named: str) -> Iterator[Fault]:
    """A fault if a row that was once the newest one is no longer in the chain."""
    last = chain[-1].id if chain else 0
    found = next((link for link in chain if link.id == head.id), None)
    if head.id > last:
        yield Fault(last + 1, "truncated", f"{_numbers(last + 1, head.id)} missing at the end: {named} entry {head.id}")
    elif found is None:
        yield Fault(head.id, "missing", f"Entry {head.id} is missing: {named} it")
    elif found.hash != head.hash:
        yield Fault(head.id, "replaced", f"{_name(found)} was replaced: {named} a different one")


# --- text ------------------------------------------------------------------------------------------------------------


def _numbers(first: int, last: int) -> str:
    return f"Entry {first} is" if first == last else f"Entries {first} to {last} are"


def _name(link: Link) -> str:
    """The number of an entry, with a summary of its current content."""
    with suppress(msgspec.DecodeError, TypeError):
        if link.content.kind == "decision":
            decision = typed_json.decode(link.content.data, type=RecordedDecision)
            about = [decision.verdict.replace("_", " "), decision.tool, f"by {decision.who}" if decision.who else None]
            return f"Entry {link.id} ({' '.join(filter(None, about))}, {decision.at:%Y-%m-%d %H:%M} UTC)"
    return f"Entry {link.id}"
