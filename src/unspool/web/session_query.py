"""One session in the store: its record, its branches, its messages, and the bytes they were read from.

Everything is read piece by piece, so that a page of a very long session takes no longer than one of a short session.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache

import msgspec
import zstandard

from ..agents import agent_named
from ..core import model as m
from ..core.errors import NotFoundError
from ..core.explain import Explainer, Explanation
from ..core.session import Session
from ..runs.session_runs import SessionRun
from ..store import Store
from ..store.blocks import BLOCK
from ..store.message_patches import MessagePatches
from ..store.messages import unpack_head
from ..store.resume import resume_command
from ..store.rows import SessionRow
from .branch_path import BranchPath, BranchPaths
from .run_states import open_calls, run_on
from .session_list import is_live

PAGE_SIZE = 50
"""Messages of a branch on one page."""


class SessionQuery:
    """Reads one session. Created for each request; decoded records without messages are cached between requests."""

    def __init__(self, store: Store, row: SessionRow) -> None:
        self.store = store
        self.row = row

    @cached_property
    def _packed(self) -> tuple[bytes, bytes]:
        return self.store.messages.packed_head(self.row.id)

    @cached_property
    def _unpacked(self) -> tuple[Session, MessagePatches]:
        return _unpack(*self._packed)

    @cached_property
    def head(self) -> Session:
        """The record without its messages."""
        head = self._unpacked[0]
        return msgspec.structs.replace(head, orphans=self.with_open_calls(head.orphans)) if head.orphans else head

    def with_open_calls(self, orphans: list[m.Orphan]) -> list[m.Orphan]:
        """Mark calls that are running or waiting. In the log, they look the same as calls whose agent was killed."""
        run = self.run
        is_open = run.is_in_turn if run is not None else self.is_live
        if not is_open:
            return orphans
        return open_calls(
            orphans, run.waiting_calls if run else frozenset(), self.store.usage.last_prompt(self.row.id) or 0
        )

    @cached_property
    def run(self) -> SessionRun | None:
        """The supervisor's run on the session, if any."""
        return run_on(self.row)

    @cached_property
    def is_live(self) -> bool:
        """Whether an agent is working on the session. For agents of other programs, this also depends on the time."""
        return is_live(self.row)

    @property
    def patches(self) -> MessagePatches:
        """The changes that later records made to messages that are already stored."""
        return self._unpacked[1]

    @cached_property
    def prompts(self) -> list[int]:
        """The messages that begin a turn, on all branches."""
        return self.store.usage.prompts(self.row.id)

    def turn_starts(self, branch: int = 0) -> list[int]:
        """Return the prompts on a branch."""
        path = self.path(branch)
        return [index for index in self.prompts if index in path]

    def version(self) -> str:
        """Return a digest that changes whenever the stored session or the state of its agent changes."""
        digest = hashlib.blake2b(digest_size=9)
        for part in (*self._packed, msgspec.json.encode((self.row, self.run, self.is_live))):
            digest.update(part)
        return digest.hexdigest()

    # --- branches ---

    @cached_property
    def paths(self) -> BranchPaths:
        """The messages of all branches."""
        return BranchPaths(self.row.messages, self.patches.spans, self.head.branches)

    def path(self, branch: int = 0) -> BranchPath:
        """Return a branch, from the first message of the session to its tip."""
        self.check_branch(branch)
        return self.paths.full(branch)

    def branch_of(self, index: int) -> int:
        """Return the branch that a message belongs to."""
        return self.paths.branch_of(index)

    def pages(self, branch: int = 0) -> int:
        """Return the number of pages of a branch, at least one."""
        return max(1, -(-len(self.path(branch)) // PAGE_SIZE))

    def page_of(self, index: int, branch: int = 0) -> int:
        """Return the page that a message is on."""
        return self.path(branch).position_of(index) // PAGE_SIZE

    def check_branch(self, branch: int) -> None:
        """Raise `NotFoundError` for a branch that does not exist."""
        if branch and all(other.id != branch for other in self.head.branches):
            last = max((other.id for other in self.head.branches), default=0)
            raise NotFoundError(f"session {self.row.name} has branches 0 to {last}; there is no branch {branch}")

    # --- messages ---

    def message(self, index: int) -> m.Message:
        """Return one message. Raises `NotFoundError` if it does not exist."""
        found = self.messages(index, index + 1) if index >= 0 else []
        if not found:
            last = self.row.messages - 1
            raise NotFoundError(f"session {self.row.name} has messages 0 to {last}; there is no message {index}")
        return found[0]

    def messages(self, first: int, last: int) -> list[m.Message]:
        """Return messages in the order of the log, from `first` to the one before `last`."""
        return self.store.messages.read(self.row.id, first, last, patches=self.patches)

    def request_tokens(self, message: m.Message) -> int | None:
        """Return the input tokens of the request that a message is the response to, if they were recorded."""
        if message.reply is None:
            return None
        for other in self.messages(message.reply, message.reply + BLOCK):
            if other.reply == message.reply and other.usage is not None:
                usage = other.usage
                return sum(part or 0 for part in (usage.input, usage.cache_read, usage.cache_write))
        return None

    def explanation(self, index: int) -> Explanation:
        """Return the rules and the evidence for what the record says about a message."""
        return Explainer(self.head, self.message, agent_named(self.row.agent).rules).explain(index)

    # --- the log ---

    def raw(self, index: int) -> bytes:
        """Return the bytes of the log record that a message was read from."""
        source = self.message(index).source
        path = self.head.info.files[source.file].path if source.file < len(self.head.info.files) else ""
        file = self.store.files.find_for_session(self.row.id, path)
        if file is None:
            raise NotFoundError(f"the store does not have the bytes of message {index} of session {self.row.name}")
        if path.endswith(".zst"):
            data = b"".join(self.store.files.chunks(file))
            with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
                return reader.read(source.offset + source.length)[source.offset :]
        return self._bytes(file, source.offset, source.length)

    def _bytes(self, file: int, offset: int, length: int) -> bytes:
        start = self.store.files.chunk_start(file, offset)
        found = bytearray()
        for chunk in self.store.files.chunks(file, offset):
            found += chunk
            if len(found) >= offset - start + length:
                break
        return bytes(found[offset - start : offset - start + length])

    def resume_command(self) -> str | None:
        """Return the shell command that resumes the session, if it can be resumed on this machine."""
        return resume_command(self.store, self.row)


@lru_cache(maxsize=32)
def _unpack(head: bytes, patches: bytes) -> tuple[Session, MessagePatches]:
    return unpack_head(head, patches)
