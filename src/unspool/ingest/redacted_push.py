"""Copies sessions to another store without their secrets.

The other store gets the redacted record of each session and its search index, but not the bytes of log files, because
they contain the secrets. The fingerprint of a session, which includes the version of the rules, shows whether it has to
be copied again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ..core import model as m
from ..core.errors import DamagedError, RedactedStoreError, UnspoolError, UsageError
from ..core.session import Session
from ..redact import Redactor
from ..store import Store
from ..store.compression import pack
from ..store.filters import SessionFilter
from ..store.message_patches import MessagePatches
from ..store.messages import decode_block
from ..store.rows import REDACTED, SessionRow
from ..store.sessions import session_values
from ..store.transfer import add_marks, is_same, marks_of, redacted_marks
from .change_diff import created
from .writer import counted, tools_in


class PushCounts(msgspec.Struct):
    """The number of sessions that were copied, and the failures."""

    new: int = 0
    changed: int = 0
    gone: int = 0
    """Sessions whose files are gone."""
    failures: dict[str, str] = {}
    """Why sessions could not be copied, by name."""


class _RedactedBlock(NamedTuple):
    first: int
    messages: list[m.Message]
    """The messages as they are stored, without patches."""
    data: bytes


def push_redacted(source: Store, target: Store, redactor: Redactor) -> PushCounts:
    """Bring a store up to date with redacted copies of the sessions of this machine.

    Sessions that an earlier push copied with their secrets are replaced, and archived log files are removed. Sessions
    that were forgotten in either store are not added.
    """
    if is_same(source, target):
        raise UsageError("this is your own store, which keeps sessions unredacted; choose another store to push to")
    counts = PushCounts()
    forgotten = {(one.agent, one.name) for store in (source, target) for one in store.forgotten.all()}
    sources = {(row.agent, row.name): (source, row) for row in _own(source)}
    # Sessions that only the other store has are redacted in place.
    known = {(row.agent, row.name): row for row in _own(target)}
    pending = {name: (target, row) for name, row in known.items()} | sources
    for name, (store, row) in reversed(pending.items()):
        fingerprint = _fingerprint(store, row, redactor)
        before = target.sessions.fingerprint(known[name].id) if name in known else ""
        is_copied = before == fingerprint or (store is target and before.startswith(REDACTED))
        if is_copied or (name in forgotten and name not in known):
            continue
        try:
            with target.exclusive(), target.transaction():
                _copy(store, target, row, redactor, fingerprint)
        except UnspoolError as error:
            counts.failures[row.name] = str(error)
            continue
        counts.gone += row.gone_at is not None
        counts.new += row.gone_at is None and name not in known
        counts.changed += row.gone_at is None and name in known
    _remove_files(target)
    return counts


def check_complete(store: Store, with_secrets: bool) -> None:
    """Raise RedactedStoreError if a store has redacted sessions of this machine, unless `with_secrets` is set."""
    if not with_secrets and store.sessions.has_redacted():
        raise RedactedStoreError(
            "this store has the sessions of this computer without their secrets; only `unspool push --redact` can "
            "update it"
        )


def _own(store: Store) -> list[SessionRow]:
    return store.sessions.select(SessionFilter(machine=store.machine))


def _fingerprint(store: Store, row: SessionRow, redactor: Redactor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in (*store.messages.packed_head(row.id), str(row.gone_at).encode()):
        digest.update(part)
    return f"{REDACTED}{redactor.rules} {digest.hexdigest()}"


def _copy(source: Store, target: Store, row: SessionRow, redactor: Redactor, fingerprint: str) -> None:
    """Replace or create a session with a redacted copy."""
    head = redactor.copy(source.messages.load_head(row.id))
    patches = redactor.copy(source.messages.patches(row.id))
    gone_at = source.sessions.gone_at(row.id)
    touched = [(index, redactor.text(path)) for index, path in source.texts.touched_files(row.id)]
    marks = redacted_marks(marks_of(source, row.id), redactor.data)
    blocks: Iterable[_RedactedBlock] = _blocks(source, row, redactor)
    if source is target:
        # `create` clears the session, so its blocks have to be read first.
        blocks = list(blocks)
    copy = target.sessions.create(row.agent, row.name, row.ref)
    tools: dict[str, str] = {}
    for first, messages, data in blocks:
        target.blocks.add(copy, [(first, len(messages), data)])
        for message in messages:
            patches.apply(message)
            tools |= tools_in(message)
            texts, usage = counted(message, tools.get)
            target.texts.add(copy, texts)
            target.usage.insert(copy, usage)
    add_marks(target, copy, marks)
    target.texts.add_touched_files(copy, touched)
    target.usage.add_to_sums(copy, 0)
    _finish(target, copy, row, head, patches, fingerprint)
    target.sessions.set_gone(copy, gone_at)


def _blocks(store: Store, row: SessionRow, redactor: Redactor) -> Iterator[_RedactedBlock]:
    for block, json in store.blocks.each(row.id):
        if json is None:
            raise DamagedError(f"session {row.name}: messages from {block.first} on are damaged")
        redacted = redactor.data(json)
        yield _RedactedBlock(block.first, decode_block(redacted, block.length), pack(redacted))


def _finish(
    target: Store, copy: int, row: SessionRow, head: Session, patches: MessagePatches, fingerprint: str
) -> None:
    """Write the summary of a session, and add it to the change log."""
    counts = {**row.counts, "messages": row.messages}
    target.sessions.update(copy, session_values(head, patches, counts, row.messages), fingerprint)
    info = head.info
    target.usage.set_remainder(copy, info.usage, info.models[-1] if info.models else None, None)
    target.files.set_for_session(copy, [])
    kind, data = created(row.agent, row.name, row.messages)
    target.changes.append(kind, copy, **data)


def _remove_files(store: Store) -> None:
    """Remove the log files of this machine that an earlier push archived, with all their versions."""
    files = store.files.ids()
    if files:
        with store.exclusive(), store.transaction():
            for file in files:
                store.files.remove(file)
