"""Access to the web app: the user's access token, and the browsers that have logged in with it.

Both are stored in one file in the data directory. A running server reads it again when it changes, so
`unspool serve --revoke` takes effect at once. The file contains only hashes of the browsers' secrets.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..core import typed_json
from ..core.errors import UnspoolError
from ..io.listing import read_file
from ..store.private_files import locked, replace_private

_DAY = 86_400.0
SESSION_SECONDS = 90 * _DAY
"""A browser that has not been used for this long has to log in again."""
TOKEN_SECONDS = 30 * _DAY
"""A server that starts with an older token creates a new one."""
_MOST_SESSIONS = 100
_FILE = "web-access.json"
_OLD_FILE = "web-token"
"""Earlier versions stored the token in this file, and sent it as a cookie to all ports of this computer."""


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that has logged in."""

    id_hash: str
    """Hash of the cookie."""
    key_hash: str
    """Hash of the key in the browser's storage. No other origin can read it, and every request that acts needs it."""
    host: str
    """Host name and port under which it logged in."""
    uid: int | None
    """The user of this computer whose browser it is, if known."""
    seen_at: float


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file."""

    token: str
    created_at: float
    name: str
    """The first part of the host name that only this user's browsers know."""
    old_token_hash: str | None = None
    """Hash of the previous token, with which one browser may still log in."""
    sessions: tuple[BrowserSession, ...] = ()


class Login(NamedTuple):
    """The secrets of a browser that has just logged in."""

    cookie: str
    key: str


class Access:
    """Checks tokens and sessions, and creates and revokes them."""

    def __init__(self, record: _Record, path: Path | None, now: Callable[[], float]) -> None:
        self._record = record
        self._path = path
        self._now = now
        self._stamp: tuple[int, int] | None = None

    @classmethod
    def in_memory(cls, token: str) -> Access:
        """Return access with a given token, which is not stored."""
        return cls(_Record(token=token, created_at=0.0, name=_new_name()), None, time.time)

    @classmethod
    def load_or_create(cls, folder: Path, *, rotates: bool = False, now: Callable[[], float] = time.time) -> Access:
        """Load the access of this user, or create it. With `rotates`, replace a token that is too old."""
        access = cls(_new_record(now()), folder / _FILE, now)
        access._create(folder / _OLD_FILE)
        if rotates and now() - access.current.created_at > TOKEN_SECONDS:
            access._rotate()
        return access

    # --- checking ---

    @property
    def current(self) -> _Record:
        """The current contents of the file."""
        if self._path is not None:
            self._load(self._path)
        return self._record

    @property
    def token(self) -> str:
        """The token for programs, and for logging in."""
        return self.current.token

    @property
    def host_name(self) -> str:
        """A name of this computer that its other servers do not use, so browsers send them no cookies for it."""
        return f"{self.current.name}.localhost"

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return _is_same(given, self.token)

    def can_log_in(self, token: str) -> bool:
        """Whether a browser can log in with a token: the current one, or once with the previous one."""
        return self.is_token(token) or _is_same(_hash(token), self.current.old_token_hash or "")

    def session(self, cookie: str, host: str) -> BrowserSession | None:
        """The session of a cookie, if it is valid under this host name and port."""
        wanted = _hash(cookie)
        found = next((one for one in self.current.sessions if _is_same(one.id_hash, wanted)), None)
        if found is None or found.host != host or self._is_expired(found):
            return None
        if self._now() - found.seen_at > _DAY:
            self._change(lambda record: _seen(record, found, self._now()))
        return found

    def is_valid(self, session: BrowserSession) -> bool:
        """Whether a session has not been revoked since it was looked up."""
        return any(one.id_hash == session.id_hash for one in self.current.sessions)

    def _is_expired(self, session: BrowserSession) -> bool:
        return self._now() - session.seen_at > SESSION_SECONDS

    # --- changing ---

    def log_in(self, token: str, host: str, *, uid: int | None = None, old_cookie: str = "") -> Login | None:
        """Create a session that replaces the browser's previous one. Returns None if the token is not valid."""
        login = Login(secrets.token_urlsafe(32), secrets.token_urlsafe(32))

        def add(record: _Record) -> _Record | None:
            uses_old = not _is_same(token, record.token)
            if uses_old and not _is_same(_hash(token), record.old_token_hash or ""):
                return None
            others = [one for one in record.sessions if one.id_hash != _hash(old_cookie) and not self._is_expired(one)]
            new = BrowserSession(
                id_hash=_hash(login.cookie), key_hash=_hash(login.key), host=host, uid=uid, seen_at=self._now()
            )
            return msgspec.structs.replace(
                record,
                sessions=tuple([*others, new][-_MOST_SESSIONS:]),
                old_token_hash=None if uses_old else record.old_token_hash,
            )

        return login if self._change(add) else None

    def revoke(self) -> int:
        """End all sessions and replace the token and the host name. Returns the number of sessions."""
        count = len(self.current.sessions)
        self._change(lambda _: _new_record(self._now()))
        return count

    def _rotate(self) -> None:
        """Replace the token. Browsers stay logged in, and a bookmark with the old token works once more."""
        new = _new_record(self._now())
        self._change(
            lambda record: msgspec.structs.replace(
                record, token=new.token, created_at=new.created_at, old_token_hash=_hash(record.token)
            )
        )

    # --- the file ---

    def _create(self, old: Path) -> None:
        """Write the file if it does not exist. The token of an earlier version is valid for one more login."""
        assert self._path is not None
        with self._errors(), locked(self._path):
            if self._path.exists():
                return
            if old.exists():
                token = old.read_text(encoding="ascii", errors="replace").strip()
                self._record = msgspec.structs.replace(self._record, old_token_hash=_hash(token) if token else None)
            self._save(self._path)
            old.unlink(missing_ok=True)

    def _change(self, change: Callable[[_Record], _Record | None]) -> bool:
        """Apply a change to the current contents of the file, so that no revocation by another process is undone.

        Returns False, and changes nothing, if `change` returns None.
        """
        with self._exclusive():
            changed = change(self.current)
            if changed is None:
                return False
            self._record = changed
            if self._path is not None:
                self._save(self._path)
        return True

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if self._path is None:
            yield
            return
        with self._errors(), locked(self._path):
            yield

    def _load(self, path: Path) -> None:
        with self._errors():
            status = path.stat()
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                self._record = typed_json.decode(read_file(path), type=_Record)
                self._stamp = stamp

    def _save(self, path: Path) -> None:
        replace_private(path, msgspec.json.encode(self._record))
        self._stamp = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, msgspec.DecodeError) as error:
            raise UnspoolError(
                f"{self._path} cannot be used ({error}); make it writable, or remove it to get a new token"
            ) from error


def is_key_of(session: BrowserSession, key: str) -> bool:
    """Whether a key belongs to a session."""
    return _is_same(_hash(key), session.key_hash)


def _new_record(now: float) -> _Record:
    return _Record(token=secrets.token_urlsafe(32), created_at=now, name=_new_name())


def _new_name() -> str:
    return f"u{secrets.token_hex(8)}"


def _seen(record: _Record, session: BrowserSession, now: float) -> _Record:
    sessions = (
        msgspec.structs.replace(one, seen_at=now) if one.id_hash == session.id_hash else one for one in record.sessions
    )
    return msgspec.structs.replace(record, sessions=tuple(sessions))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _is_same(given: str, expected: str) -> bool:
    return bool(expected) and secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())
