"""Lists the secrets in a session and their messages, without the values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..core.plural import counted
from ..core.session import Session

if TYPE_CHECKING:
    from .redactor import Redactor

_encode = msgspec.json.Encoder().encode


class Finding(msgspec.Struct, kw_only=True):
    """A value that would be redacted."""

    kind: str
    placeholder: str
    count: int = 0
    """How many times it occurs in messages."""
    messages: list[int] = []
    """The indices of messages that contain it; empty if it is only in the session info, such as the title."""


def find_in_session(session: Session, redactor: Redactor) -> list[Finding]:
    """Return everything that would be redacted in a session, in the order of the first occurrence."""
    found: dict[str, Finding] = {}
    # The session info, such as the title, comes before the messages.
    for placeholder, kind in redactor.occurrences(_encode(msgspec.structs.replace(session, messages=[]))):
        found.setdefault(placeholder, Finding(kind=kind, placeholder=placeholder))
    for message in session.messages:
        for placeholder, kind in redactor.occurrences(_encode(message)):
            one = found.setdefault(placeholder, Finding(kind=kind, placeholder=placeholder))
            one.count += 1
            if one.messages[-1:] != [message.index]:
                one.messages.append(message.index)
    return sorted(found.values(), key=lambda one: one.messages[:1] or [-1])


def describe_contained(findings: Iterable[Finding]) -> str:
    """Return a sentence with the number of secrets that were not redacted; empty if there are none."""
    kinds = [one.kind for one in findings]
    return f"This contains {counted(len(kinds), 'secret')}, not redacted ({_listed(kinds)})." if kinds else ""


def describe_redacted(findings: Iterable[Finding]) -> str:
    """Return a sentence with the number of values that were replaced; empty if there are none."""
    kinds = [one.kind for one in findings]
    were = "was" if len(kinds) == 1 else "were"
    return f"{counted(len(kinds), 'value')} {were} replaced with placeholders ({_listed(kinds)})." if kinds else ""


def _listed(kinds: list[str]) -> str:
    numbers = ((kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
    return ", ".join(f"{number}× {kind}" if number > 1 else kind for number, kind in numbers)
