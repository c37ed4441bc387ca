"""How a Claude Code session started, and which session a fork was copied from."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ...core import model as m
from ...io.files import iter_records, stem_of, while_unchanged
from .discovery import ClaudeHome, ProjectFolder
from .families import LIKELY, SURE, Original, Originals, begins_later, originals_at
from .heads import HEAD_SIZE, ClaudeHead
from .schema import TIMES

COPIES = frozenset(("fork", "branch"))
"""Kinds of origins whose lines the session begins with."""
_SAME_MOMENT = timedelta(seconds=30)


def find_origin(session: str, folder: ProjectFolder, home: ClaudeHome) -> m.Origin:
    """Find out how a session started, if not with a cleared context."""
    files = folder.sessions.get(session)
    if files is None:
        return m.Origin(kind="new")
    head = files.head
    if session in home.fork_parents:
        return m.Origin(kind="fork", session=home.fork_parents[session], evidence="job state")
    if head.forked_from is not None:
        return _named("branch", head.forked_from)
    if head.process_session is not None:
        return _named("fork", head.process_session)
    if head.session not in (None, session):
        return _named("fork", _last_writer(head.path))
    return _copy_origin(session, head, folder, home) or m.Origin(kind="new")


def copied_start(session: str, folder: ProjectFolder, home: ClaudeHome) -> m.Origin | None:
    """Find the origin of a fork that begins with a copy of a clear or a plan; None if the session was started by it.

    The first message alone does not show a copy: 1.0.60 writes the caveat before `/clear` with one id for all sessions
    of a process.
    """
    head = folder.sessions[session].head
    family = folder.family_of(head)
    same = family.same_start(session) if family is not None else None
    if same is None or len(same.sessions) < 2:
        return None
    if session in home.fork_parents or any(
        same.has_other(name, session) for name in (head.forked_from, head.process_session)
    ):
        return find_origin(session, folder, home)
    if same.has_other(head.session, session):
        return _named("fork", _last_writer(head.path))
    if same.is_named(session):
        return None
    return _copy_origin(session, head, folder, home)


def _named(kind: m.OriginKind, session: str | None) -> m.Origin:
    return m.Origin(kind=kind, session=session, evidence="named by its lines")


@while_unchanged
def _last_writer(path: Path) -> str | None:
    """Return the session that wrote the last copied message of a fork: in a fork of a fork, not the first one."""
    writer = None
    for record in iter_records(path, TIMES, HEAD_SIZE):
        if record.type in ("user", "assistant"):
            if record.session_id == stem_of(path):
                break
            writer = record.session_id or writer
    return writer


# --- forks that do not name their origin -----------------------------------------------------------------------------


def _copy_origin(session: str, head: ClaudeHead, folder: ProjectFolder, home: ClaudeHome) -> m.Origin | None:
    """Recognise a fork by lines that its original also has: versions before 2.1.3xx record nothing else."""
    family = folder.family_of(head)
    if family is None:
        return None
    original = family.original(_typed_in(head, home))
    if session == original.session:
        return None
    if original.session not in family.heads:
        return _copy_of(original)
    nearest = family.nearest(session, original.session)
    if nearest == original.session:
        return _copy_of(original)
    confidence = SURE if begins_later(head) else LIKELY
    return _copy_of(Original(nearest, "longest shared beginning", confidence))


def _copy_of(original: Original) -> m.Origin:
    evidence = f"same message ids; {original.evidence}"
    return m.Origin(kind="fork", session=original.session, evidence=evidence, confidence=original.confidence)


def _typed_in(head: ClaudeHead, home: ClaudeHome) -> str | None:
    """Return the session in which the first prompt was typed, by the prompt history."""
    if head.prompt is None or head.prompt_at is None:
        return None
    for entry in home.typed.get(head.prompt.strip(), ()):
        if abs(entry.at - head.prompt_at) < _SAME_MOMENT:
            return entry.session
    return None


def originals_of(session: str, folder: ProjectFolder, home: ClaudeHome, origin: m.Origin) -> Originals:
    """Return what a fork was copied from: the files of its origin or, if that is gone, of older forks of it."""
    if origin.kind not in COPIES:
        return Originals()
    if origin.session is not None and origin.session in folder.sessions:
        return originals_at(folder.paths_of(origin.session))
    files = folder.sessions.get(session)
    family = folder.family_of(files.head) if files is not None else None
    if family is None:
        return Originals()

    def is_orphan(id: str) -> bool:
        found = find_origin(id, folder, home).session
        return found is not None and found not in folder.sessions

    # What older forks share belongs to the first of them. Forks whose origin still exists inherit from that.
    return family.orphans(is_orphan, folder.paths_of).before(session)
