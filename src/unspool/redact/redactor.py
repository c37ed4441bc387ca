"""Replaces secrets with placeholders."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from ..core import model as m
from ..core.session import Session
from .detect import RULES, Secret, find_secrets, may_contain_secrets
from .personal import PersonalData

_DIGITS = 4
"""Digits that distinguish the secrets of one kind: enough for a session, and too few to guess a secret from."""
_KEY_BYTES = 32
_BATCH = 1 << 16
"""How much is searched at once."""
_BREAKS = re.compile(rb"\s+|\\+[nrt]")
_ENCODE = msgspec.json.Encoder().encode
_T = TypeVar("_T")


def new_key() -> bytes:
    """A key for placeholders. With it, guesses can be checked, so it stays on this machine."""
    return secrets.token_bytes(_KEY_BYTES)


class Report(msgspec.Struct):
    """What was taken out."""

    counts: dict[str, int] = {}
    """How often, by kind."""
    placeholders: dict[str, int] = {}
    """How often, by placeholder: each represents another secret."""

    def add(self, kind: str, placeholder: str) -> None:
        """Count one."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.placeholders[placeholder] = self.placeholders.get(placeholder, 0) + 1

    @property
    def values(self) -> int:
        """How many different values were redacted."""
        return len(self.placeholders)

    @property
    def total(self) -> int:
        """How many places were redacted."""
        return sum(self.counts.values())


class Redactor:
    """Makes copies without secrets. The same secret has the same placeholder in everything made with one key."""

    def __init__(self, key: bytes | None = None, *, personal: PersonalData | None = None) -> None:
        """Without `personal`, personal data stays."""
        self._key = new_key() if key is None else key
        self._personal = personal
        self.report = Report()

    @property
    def rules(self) -> str:
        """Names what is taken out: it differs if another version of the rules, or other options, may find more."""
        return f"{RULES}-personal" if self._personal is not None else RULES

    def text(self, text: str) -> str:
        """A redacted copy of a text."""
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.data(data)
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """A redacted copy of text or JSON, which stays valid JSON; the same object if there is nothing to redact.

        A secret never contains a quotation mark, and placeholders have nothing that JSON would escape.
        """
        parts: list[bytes] = []
        end = 0
        for secret in self._found(data):
            placeholder = self._placeholder(secret, data)
            self.report.add(secret.kind, placeholder)
            parts += data[end : secret.start], placeholder.encode()
            end = secret.end
        return b"".join((*parts, data[end:])) if parts else data

    def stream(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Redacted copies of texts or lines of JSON, some of them joined. Costs less than `data` for each of them."""
        batch: list[bytes] = []
        size = 0
        try:
            for text in texts:
                batch.append(text)
                size += len(text)
                if size >= _BATCH:
                    yield self._joined(batch)
                    batch, size = [], 0
        except Exception:
            # What came before an error is not lost.
            yield self._joined(batch)
            raise
        if batch:
            yield self._joined(batch)

    def _joined(self, texts: list[bytes]) -> bytes:
        if self._personal is not None:
            return b"".join(map(self.data, texts))
        found = may_contain_secrets(texts)
        return b"".join(self.data(text) if may else text for text, may in zip(texts, found, strict=True))

    def occurrences(self, data: bytes) -> list[tuple[str, str]]:
        """The placeholder and the kind of each place that would be redacted."""
        return [(self._placeholder(secret, data), secret.kind) for secret in self._found(data)]

    def findings(self, data: bytes) -> dict[str, str]:
        """The placeholders of what would be redacted, with the kind of each."""
        return dict(self.occurrences(data))

    def _found(self, data: bytes) -> list[Secret]:
        found = find_secrets(data)
        return found if self._personal is None else list(_merged(found, self._personal.find(data)))

    def message(self, message: m.Message) -> m.Message:
        """A redacted copy of a message; the same object if there is nothing to redact."""
        return self.copy(message)

    def session(self, session: Session) -> Session:
        """A redacted copy of a record. Messages in which nothing was found are shared with it."""
        # First what is known about the session as a whole: it has the home directory, whose name is personal data.
        head = self.copy(msgspec.structs.replace(session, messages=[]))
        head.messages = [self.copy(message) for message in session.messages]
        return head

    def copy(self, value: _T) -> _T:
        """A redacted copy of a Struct; the same object if there is nothing to redact."""
        data = _ENCODE(value)
        redacted = self.data(data)
        return value if redacted is data else msgspec.json.decode(redacted, type=type(value))

    def _placeholder(self, secret: Secret, data: bytes) -> str:
        # A private key has line breaks in text and escapes in JSON, and is the same key.
        value = _BREAKS.sub(b"", data[secret.start : secret.end])
        digest = hashlib.blake2b(value, key=self._key, digest_size=8).hexdigest()[:_DIGITS]
        return f"‹{secret.kind}:{digest}›"


def _merged(found: list[Secret], others: list[Secret]) -> Iterator[Secret]:
    """Both in order, without those of the second list that overlap one of the first."""
    end, remaining = 0, iter(found)
    following = next(remaining, None)
    for other in others:
        while following is not None and following.start < other.end:
            yield following
            end, following = following.end, next(remaining, None)
        if other.start >= end:
            yield other
    if following is not None:
        yield following
    yield from remaining
