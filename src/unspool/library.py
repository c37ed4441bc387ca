"""Finds and reads sessions in home directories, folders and single files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EACCES
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from .agents import AGENTS, Agent, BuilderFactory, Peek, SessionRef, SessionSource, finish
from .core import model as m
from .core.assemble import SessionAssembler, TipRule
from .core.builder import SessionBuilder
from .core.context import ContextMap
from .core.decisions import Evidence, apply_decisions, main_session, no_evidence
from .core.errors import NotFoundError, UnspoolError
from .core.problems import NOT_READ
from .core.resolve import LATEST, ambiguous, looks_like_path, matching, no_sessions, resolve_name
from .core.session import Session
from .core.sinks import DropMessages, KeepMessages, MessageSink
from .core.stream import StreamLine, stream_lines
from .core.views import Branches, OrphanMode, View
from .io.faults import report_fault
from .io.listing import identity_of, may_be_folder, open_file, unlisted_in, walk_files, why_no_file

_HEADS = (1 << 14, 1 << 20)
"""Bytes that are read to recognise a file; the larger number if the first record is too long for the smaller one."""
_DONE = object()


class SessionReading(NamedTuple):
    """A session whose messages are read one by one."""

    head: Session
    """The record; it has its messages only if the whole session is in memory."""
    messages: Iterable[m.Message]
    contexts: ContextMap


class Library:
    """The sessions in some locations. It caches what it looks up, so long-running programs should create new ones."""

    def __init__(
        self, *locations: str | Path, environ: Mapping[str, str] | None = None, evidence: Evidence | None = None
    ) -> None:
        """`locations` are home directories, agents' folders, other folders or files; by default the user's home.

        `evidence` returns decisions that were recorded while agents ran, which take precedence over what the files
        suggest. Without it, the files alone decide.
        """
        self._evidence = evidence or no_evidence
        self._sources: dict[tuple[str, Path], SessionSource] = {}
        self._listed: dict[tuple[str, object], Path] = {}
        """The folders whose sessions are all listed, by agent and identity; each is opened when it is first needed."""
        self._files: dict[Path, SessionRef] = {}
        if not locations:
            self._add_default(os.environ if environ is None else environ)
        for location in map(expanded, locations):
            with _isolated(location, is_only=len(locations) == 1):
                self._add_location(location)

    @classmethod
    def empty(cls, evidence: Evidence | None = None) -> Library:
        """A library that lists no sessions but can read any."""
        library = cls.__new__(cls)
        library._evidence = evidence or no_evidence
        library._sources, library._listed, library._files = {}, {}, {}
        return library

    # --- locations ---

    def _add_default(self, environ: Mapping[str, str]) -> None:
        for agent in AGENTS.values():
            info = agent.info
            named = environ.get(info.variable)
            root = expanded(named) if named else Path.home() / info.folder
            self._list(info.name, root / info.folder if named and info.variable_is_home else root)

    def _add_location(self, location: Path) -> None:
        if _file_of(location) is not None:
            self._add_files(self.refs_of(location))
            return
        if not location.is_dir():
            raise NotFoundError(f"{location}: no such file or directory")
        is_home = False
        for agent in AGENTS.values():
            root = location / agent.info.folder
            if root.is_dir():
                self._list(agent.info.name, root)
            elif location.name == agent.info.folder or agent.has_layout(location):
                self._list(agent.info.name, location)
            else:
                continue
            is_home = True
        if not is_home:
            self._add_files(self._loose(location))

    def _list(self, name: str, root: Path) -> None:
        # Several paths can refer to the same folder.
        self._listed.setdefault((name, identity_of(str(root)) or root), root)

    def _add_files(self, refs: Iterable[SessionRef]) -> None:
        for ref in refs:
            self._files.setdefault(ref.path.resolve(), ref)

    def _open(self, name: str, root: Path) -> SessionSource:
        key = name, root
        if key not in self._sources:
            self._sources[key] = AGENTS[name].open(root)
        return self._sources[key]

    def _loose(self, folder: Path) -> list[SessionRef]:
        """Session files in a folder without any agent's layout, such as an export or a copy."""
        found = []
        suffixes = session_suffixes()
        for path in walk_files(folder):
            if path.name.endswith(suffixes):
                with suppress(OSError):
                    found += self._recognise(path)
        return found

    def ref_of(self, path: Path) -> SessionRef:
        """The session in a file, wherever the file is."""
        refs = self.refs_of(path)
        if len(refs) > 1:
            raise ambiguous(str(path), [ref.id for ref in refs])
        return refs[0]

    def refs_of(self, path: Path) -> list[SessionRef]:
        """The sessions in a file, wherever the file is: several if it is a database, otherwise one."""
        path = path.absolute()
        if _file_of(path) is None:
            raise NotFoundError(f"{path}: {why_no_file(path)}")
        try:
            refs = self._recognise(path)
        except OSError as error:
            raise UnspoolError(f"{path}: {error.strerror}") from error
        if not refs:
            names = ", ".join(agent.info.title for agent in AGENTS.values())
            raise NotFoundError(f"{path}: not a session file of {names}")
        return refs

    def _recognise(self, path: Path) -> list[SessionRef]:
        """Return the sessions in a file; empty if there are none."""
        file = _file_of(path) or path
        agent = _agent_of(file) or _agent_at(file)
        if agent is None:
            return []
        source = self._open(agent.info.name, agent.root_of(file))
        ref = source.ref(path)
        return [ref] if ref is not None else [ref for ref in source.refs() if file in ref.path.parents]

    def homes(self) -> list[tuple[str, Path]]:
        """The agents' folders whose sessions are all listed, as absolute paths, because these are stored."""
        return [(agent, _absolute(root)) for (agent, _), root in self._listed.items()]

    # --- sessions ---

    def refs(self) -> Iterator[SessionRef]:
        """All sessions, each once; files without a conversation are left out."""
        yield from self._files.values()
        known: dict[tuple[str, str], Path] = {}
        for (agent, _), root in self._listed.items():
            if _is_missing(root):
                continue
            try:
                for ref in self._open(agent, root).refs():
                    is_link = known.setdefault((ref.agent, ref.id), ref.path) is not ref.path and _is_same_file(
                        known[ref.agent, ref.id], ref.path
                    )
                    if not is_link and (not self._files or ref.path.resolve() not in self._files):
                        yield ref
            except Exception as error:
                # The other folders can still be read.
                _warn(root, error)

    def inline_subagents(self, ref: SessionRef) -> list[SessionRef]:
        """Sub-agents that are recorded in the log of a session; finding them requires reading it."""
        if ref.is_inside or not self._source(ref).has_inline_subagents(ref):
            return []
        source = self._source(ref)
        builders = finish(source.read(ref, lambda id, kind: SessionBuilder(ref.agent, id, kind, DropMessages())))
        return [
            replace(ref, id=builder.id, kind=builder.kind, parent=ref.id, is_inside=True) for builder in builders[1:]
        ]

    def peek(self, ref: SessionRef) -> Peek:
        """Return what is known about a session without reading all of it."""
        if not ref.is_inside:
            return self._source(ref).peek(ref)
        session = self.load(ref)
        info, size = session.info, sum(message.source.length for message in session.messages)
        return Peek.of(info, size)

    def load(self, ref: SessionRef, tip: TipRule = "agent") -> Session:
        """Read a whole session."""
        return next(self.load_all(ref, tip))

    def load_all(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[Session]:
        """Read a session and the sub-agents that are recorded in the same log."""
        for assembler in self._assemble(ref, tip, KeepMessages):
            session = assembler.session()
            is_plain = branches == "all" and orphans == "mark"
            yield session if is_plain else View(session, assembler.branch, branches, orphans).whole()

    def stream(
        self, ref: SessionRef, tip: TipRule = "agent", branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> Iterator[StreamLine]:
        """Read a session in small pieces, in constant memory however long it is: the log is read twice."""
        for assembler in self._assemble(ref, tip, DropMessages):
            view = View(assembler.header([]), assembler.branch, branches, orphans)
            assembler.builder.forget()
            shown = (view.message(message) for message in self._replay(_of_file(ref), assembler))
            yield from stream_lines(view.head(), (message for message in shown if message is not None))

    def read_all(self, ref: SessionRef, *, in_pieces: bool = False) -> Iterator[SessionReading]:
        """Read a session and the sub-agents in the same log; `in_pieces` in constant memory, as `stream` does."""
        for assembler in self._assemble(ref, "agent", DropMessages if in_pieces else KeepMessages):
            head = assembler.header([]) if in_pieces else assembler.session()
            if in_pieces:
                assembler.builder.forget()
            messages = self._replay(_of_file(ref), assembler) if in_pieces else head.messages
            yield SessionReading(head, messages, assembler.contexts)

    def _assemble(self, ref: SessionRef, tip: TipRule, sink: Callable[[], MessageSink]) -> Iterator[SessionAssembler]:
        builders = self._read_builders(ref, lambda id, kind: SessionBuilder(ref.agent, id, kind, sink()))
        for builder in builders:
            assembler = SessionAssembler(builder, tip if builder is builders[0] else "agent")
            self._apply_evidence(assembler)
            yield assembler

    def _apply_evidence(self, assembler: SessionAssembler) -> None:
        builder = assembler.builder
        decisions = self._evidence(builder.agent, main_session(builder.id))
        apply_decisions(assembler, decisions, AGENTS[builder.agent].describe)

    def _read_builders(self, ref: SessionRef, make: BuilderFactory) -> list[SessionBuilder]:
        builders = finish(self._source(ref).read(_of_file(ref), make))
        if not ref.is_inside:
            return builders
        found = [builder for builder in builders if builder.id == ref.id]
        if not found:
            raise NotFoundError(f"{ref.path} no longer contains sub-agent {ref.id}; try `unspool ls --kind all`")
        return found

    def _replay(self, ref: SessionRef, assembler: SessionAssembler) -> Iterator[m.Message]:
        """Read the log a second time and complete each message with what the first pass found."""
        source, builder, expected = self._source(ref), assembler.builder, len(assembler.builder)
        ready: list[m.Message] = []
        steps = source.read(ref, lambda id, _: builder.replay(ready.append) if id == builder.id else None)
        count = 0
        more = True
        while more and count < expected:
            more = next(steps, _DONE) is not _DONE
            for message in ready[: expected - count]:
                builder.complete(message)
                assembler.complete(message)
                count += 1
                yield message
            ready.clear()
        if count < expected:
            raise UnspoolError(f"{ref.path} changed while it was read: {count} of {expected} messages; try again")

    def _source(self, ref: SessionRef) -> SessionSource:
        return self._open(ref.agent, ref.root)

    # --- names ---

    def find(self, name: str) -> SessionRef:
        """A session by path, id, unique prefix of an id, or `latest`; see `core.resolve`."""
        if looks_like_path(name) or name.endswith(session_suffixes()):
            path = expanded(name)
            if path.exists() or _file_of(path) is not None:
                return self.ref_of(path)
        refs = list(self.refs())
        if name == LATEST:
            return _latest(refs)
        candidates = refs
        if "/" in name and not matching(name, refs, _id_of):
            # A sub-agent that is part of its parent's file is not listed: it is found by reading that file.
            parents = matching(name.split("/")[0], refs, _id_of)
            candidates = [inner for parent in parents for inner in self.inline_subagents(parent)]
        found = resolve_name(name, candidates, _id_of, lambda: len(refs))
        if len(found) > 1:
            # Copies of a session share its id; only their paths differ.
            raise ambiguous(name, [str(ref.path) for ref in found])
        return found[0]


def _latest(refs: Iterable[SessionRef]) -> SessionRef:
    mains = [ref for ref in refs if ref.kind == "main"]
    if not mains:
        raise no_sessions()
    return max(mains, key=last_written)


def without_conversation(library: Library) -> Iterator[tuple[str, Path]]:
    """The files that a library leaves out because they contain no conversation, each with the name of its agent."""
    for name, root in library.homes():
        for path in AGENTS[name].without_conversation(root):
            yield name, path


class Unlisted(NamedTuple):
    """A file or folder that no list shows."""

    agent: str
    path: Path
    reason: str
    """The kind of problem."""
    detail: str


def not_listed(library: Library) -> Iterator[Unlisted]:
    """Yield what no list shows of the agents' folders, although it may contain sessions.

    These are folders that cannot be read, pipes or devices with the name of a log, files in place of folders, and logs
    of sessions that are read from other logs.
    """
    listed = (path for ref in library.refs() for path in (ref.path, *ref.more))
    known = set(map(os.path.realpath, chain(listed, (path for _, path in without_conversation(library)))))
    for name, root in library.homes():
        agent = AGENTS[name]
        for path in (root, *(root / subpath for subpath in agent.info.paths)):
            if wrong := _wrong_kind(path, is_folder=path is root or not path.suffix):
                yield Unlisted(name, path, "unreadable", f"{wrong}: left out")
        for path, why in (item for subpath in agent.info.paths for item in unlisted_in(root / subpath)):
            if may_be_folder(path):
                advice = "; check its permissions" if why == os.strerror(EACCES) else ""
                detail = f"{why}: the contents of this folder are missing{advice}"
                yield Unlisted(name, path, "unreadable", detail)
            elif agent.is_log(path):
                yield Unlisted(name, path, "unreadable", f"{why}: left out")
        for path in _unread_logs(agent, root, known):
            yield Unlisted(name, path, NOT_READ, "left out: another log has the same session")


def _unread_logs(agent: Agent, root: Path, known: set[str]) -> Iterator[Path]:
    """Yield the logs that are not `known`, next to others that are."""
    logs: list[tuple[Path, str]] = []
    # A folder that cannot be read is reported by whoever lists its sessions.
    with suppress(OSError):
        logs += ((log.path, os.path.realpath(log.path)) for log in agent.logs(root) if log.path.parent != root)
    # Other folders contain what the agent itself has copied, such as transcripts for background jobs.
    folders = {path.relative_to(root).parts[0] for path, real in logs if real in known}
    for path, real in logs:
        if real not in known and path.relative_to(root).parts[0] in folders and _is_session_log(agent, path):
            yield path


def _is_session_log(agent: Agent, path: Path) -> bool:
    try:
        return _agent_of(path) is agent
    except OSError as error:
        report_fault(error, path)
        return False


def _wrong_kind(path: Path, *, is_folder: bool) -> str | None:
    """Return what is at a path instead of the file or folder that an agent creates there; None if it is that."""
    if is_folder:
        return "a file instead of a directory" if os.path.isfile(path) else None
    return "a directory instead of a file" if os.path.isdir(path) else None


def last_written(ref: SessionRef) -> int:
    """When a session on disk was last written to, in nanoseconds since 1970."""
    log = AGENTS[ref.agent].log
    return max(log(path).modified() for path in (ref.path, *ref.more))


def _agent_of(file: Path) -> Agent | None:
    """The agent that wrote a file."""
    with open_file(file) as opened:
        for size in _HEADS:
            opened.seek(0)
            head = opened.read(size)
            found = next((agent for agent in AGENTS.values() if agent.recognises(file, head)), None)
            if found is not None or len(head) < size:
                return found
    return None


def _agent_at(file: Path) -> Agent | None:
    """Return the agent whose folder of sessions contains a file: the first lines of the file may be damaged."""
    for agent in AGENTS.values():
        root = agent.root_of(file)
        is_inside = any(file.is_relative_to(root / subpath) for subpath in agent.info.paths)
        if is_inside and (root.name == agent.info.folder or agent.has_layout(root)) and agent.is_log(file):
            return agent
    return None


def _file_of(path: Path) -> Path | None:
    """The file at a path, or the database that contains the log at a path; None if there is neither."""
    if path.is_file():
        return path
    if path.is_dir():
        return None
    return next((parent for parent in path.parents if parent.is_file()), None)


def _of_file(ref: SessionRef) -> SessionRef:
    """The session in whose log a sub-agent is recorded; for any other session, the session itself."""
    return replace(ref, id=ref.parent, kind="main", parent=None, is_inside=False) if ref.is_inside else ref


def _id_of(ref: SessionRef) -> str:
    return ref.id


def session_suffixes() -> tuple[str, ...]:
    """Return the suffixes that the names of session files can have."""
    return tuple({suffix for agent in AGENTS.values() for suffix in agent.info.suffixes})


def _is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths, of sessions with the same id, refer to the same file."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def _warn(root: Path, error: Exception) -> None:
    # Imported late: most programs log nothing, and start faster without it.
    from logging import getLogger

    # What cannot be listed is never just left out, whatever the reason: commands report it and exit with status 1.
    report_fault(error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}"), root)
    getLogger(__name__).warning("Sessions in %s cannot be listed: %s: %s", root, type(error).__name__, error)


@contextmanager
def _isolated(location: Path, *, is_only: bool) -> Iterator[None]:
    """Report a location that cannot be read instead of raising an error, unless there are no others to read."""
    try:
        yield
    except OSError as error:
        if is_only:
            raise
        if not report_fault(error, location):
            _warn(location, error)


def _is_missing(root: Path) -> bool:
    """Whether an agent's folder does not exist, so that its reader need not be loaded."""
    try:
        root.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _absolute(root: Path) -> Path:
    """Return the absolute path of a folder. Links are only resolved if the path contains `..`, which may follow one."""
    return root.resolve() if ".." in root.parts else root.absolute()


def expanded(name: str | Path) -> Path:
    """Expand `~` in a path; a `~name` of an unknown user stays as it is."""
    if isinstance(name, Path) and not str(name).startswith("~"):
        return name
    return Path(os.path.expanduser(name))
