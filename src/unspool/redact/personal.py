"""Finds personal data in text and JSON: names of users and hosts, home directories and e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .detect import Secret

_HOME = re.compile(rb"(?:/(?:home|Users)/|[A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/))([A-Za-z0-9._-]{2,64})")
"""A home directory. In JSON, the backslashes of a Windows path are doubled, in nested JSON more than once."""
_EMAIL = re.compile(
    rb"(?:\\[nrt])?([A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)+[A-Za-z]{2,24})(?![A-Za-z0-9@])"
)
_EVERYBODY = frozenset({b"root", b"user", b"shared", b"public", b"runner", b"ubuntu", b"node", b"app", b"guest"})
"""Names of users that do not identify a person."""
_NO_PERSON = (b"noreply@", b"no-reply@", b"git@", b"@example.com", b"@example.org", b"@example.net")
_SHORTEST = 3


class PersonalData:
    """Finds personal data. User names in home directories are then found everywhere else, too."""

    def __init__(self, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._users: set[bytes] = set()
        self._hosts = frozenset(name.encode() for name in hosts if len(name) >= _SHORTEST)
        self._names: re.Pattern[bytes] | None = None
        self._add_users(name.encode() for name in users)

    def learn(self, data: bytes) -> None:
        """Remember the user names in home directories, so that `find` also finds them elsewhere."""
        self._add_users(match[1] for match in _HOME.finditer(data))

    def _add_users(self, names: Iterable[bytes]) -> None:
        new = {name for name in names if len(name) >= _SHORTEST and name.lower() not in _EVERYBODY} - self._users
        if new or self._names is None:
            self._users |= new
            # The longest names come first, because one name may be the beginning of another.
            known = sorted(self._users | self._hosts, key=lambda name: (-len(name), name))
            pattern = b"|".join(map(re.escape, known)) or rb"(?!)"
            # In JSON, a name may follow the letter of an escape sequence such as `\n`.
            self._names = re.compile(rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(" + pattern + rb")(?![A-Za-z0-9])")

    def find(self, data: bytes) -> list[Secret]:
        """Return personal data in order, without overlaps."""
        self.learn(data)
        found, end = [], 0
        for one in sorted(self._all(data), key=lambda one: (one.start, -one.end)):
            if one.start >= end:
                found.append(one)
                end = one.end
        return found

    def _all(self, data: bytes) -> Iterator[Secret]:
        assert self._names is not None
        for match in _EMAIL.finditer(data):
            address = match[1].lower()
            if not address.startswith(_NO_PERSON) and not address.endswith(_NO_PERSON):
                yield Secret("email", *match.span(1))
        for match in self._names.finditer(data):
            yield Secret("host" if match[1] in self._hosts else "user", *match.span(1))
