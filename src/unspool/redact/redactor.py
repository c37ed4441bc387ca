"""Replaces secrets with placeholders."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from ..core import model as m
from ..core import typed_json
from ..core.session import Session
from .detect import RULES, Secret, find_secrets, may_contain_secrets
from .personal import PersonalData

_DIGITS = 4
"""The digits that distinguish secrets of one kind: enough for a session, and too few to guess a secret."""
_KEY_BYTES = 32
_BATCH = 1 << 16
"""The number of bytes to search at once."""
_BREAKS = re.compile(rb"\s+|\\+[nrt]")
_ENCODE = msgspec.json.Encoder().encode
_T = TypeVar("_T")


def new_key() -> bytes:
    """Return a new key for placeholders. It can be used to check guesses, so it must stay on this machine."""
    return secrets.token_bytes(_KEY_BYTES)


class Report(msgspec.Struct):
    """The number of redactions."""

    counts: dict[str, int] = {}
    """The number of redactions by kind."""
    placeholders: dict[str, int] = {}
    """The number of redactions by placeholder, each of which represents a different secret."""

    def add(self, kind: str, placeholder: str) -> None:
        """Count a redaction."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.placeholders[placeholder] = self.placeholders.get(placeholder, 0) + 1

    @property
    def values(self) -> int:
        """The number of different values that were redacted."""
        return len(self.placeholders)

    @property
    def total(self) -> int:
        """The number of all redactions."""
        return sum(self.counts.values())


class Redactor:
    """Makes copies without secrets. With the same key, a secret always has the same placeholder."""

    def __init__(self, key: bytes | None = None, *, personal: PersonalData | None = None) -> None:
        """Without `personal`, personal data is not redacted."""
        self._key = new_key() if key is None else key
        self._personal = personal
        self.report = Report()

    @property
    def rules(self) -> str:
        """Identifies the rules and options: it is different if other rules or options may find more."""
        return f"{RULES}-personal" if self._personal is not None else RULES

    def text(self, text: str) -> str:
        """Return a redacted copy of a text."""
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.data(data)
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def changed_texts(self, texts: Iterable[str]) -> dict[str, str]:
        """Return redacted copies of the texts in which something is redacted. Faster than `text` for each of them."""
        encoded = {text: text.encode("utf-8", "surrogatepass") for text in texts}
        may = [True] * len(encoded) if self._personal is not None else may_contain_secrets(list(encoded.values()))
        copies = {text: self.text(text) for text, may_change in zip(encoded, may, strict=True) if may_change}
        return {text: copy for text, copy in copies.items() if copy != text}

    def data(self, data: bytes) -> bytes:
        """Return a redacted copy of text or JSON; the same object if there is nothing to redact.

        JSON stays valid: a secret never contains a quotation mark, and placeholders need no escapes.
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
        """Yield redacted copies of texts or lines of JSON, joined in batches. Faster than `data` for each of them."""
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
            # Texts before the error must not be lost.
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
        """Return the placeholder and the kind of each occurrence that would be redacted."""
        return [(self._placeholder(secret, data), secret.kind) for secret in self._found(data)]

    def findings(self, data: bytes) -> dict[str, str]:
        """Return the placeholders that would be used, with their kinds."""
        return dict(self.occurrences(data))

    def _found(self, data: bytes) -> list[Secret]:
        found = find_secrets(data)
        return found if self._personal is None else list(_merged(found, self._personal.find(data)))

    def message(self, message: m.Message) -> m.Message:
        """Return a redacted copy of a message; the same object if there is nothing to redact."""
        return self.copy(message)

    def session(self, session: Session) -> Session:
        """Return a redacted copy of a record, which shares the messages without findings with the original."""
        # The session info comes first: it has the home directory, whose name is then found in messages, too.
        head = self.copy(msgspec.structs.replace(session, messages=[]))
        head.messages = [self.copy(message) for message in session.messages]
        return head

    def copy(self, value: _T) -> _T:
        """Return a redacted copy of a Struct; the same object if there is nothing to redact."""
        data = _ENCODE(value)
        redacted = self.data(data)
        return value if redacted is data else typed_json.decode(redacted, type=type(value))

    def _placeholder(self, secret: Secret, data: bytes) -> str:
        # A private key has line breaks in text and escapes in JSON, but must have the same placeholder in both.
        value = _BREAKS.sub(b"", data[secret.start : secret.end])
        digest = hashlib.blake2b(value, key=self._key, digest_size=8).hexdigest()[:_DIGITS]
        return f"‹{secret.kind}:{digest}›"


def _merged(found: list[Secret], others: list[Secret]) -> Iterator[Secret]:
    """Merge two lists in order, without items of the second list that overlap one of the first."""
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
