"""What is found in a session, and where, without the values."""

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
    """One value that would be redacted."""

    kind: str
    placeholder: str
    count: int = 0
    """In how many places of the messages it is."""
    messages: list[int] = []
    """The messages that have it; none if it is only in what is known about the session as a whole, such as its
    title."""


def find_in_session(session: Session, redactor: Redactor) -> list[Finding]:
    """Everything that would be redacted in a session, in the order in which it first occurs."""
    found: dict[str, Finding] = {}
    # The title comes before the messages it was taken from.
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
    """How many secrets are in something that was not redacted; empty if there are none."""
    kinds = [one.kind for one in findings]
    return f"This contains {counted(len(kinds), 'secret')}, not redacted ({_listed(kinds)})." if kinds else ""


def describe_redacted(findings: Iterable[Finding]) -> str:
    """How many values were replaced; empty if there are none."""
    kinds = [one.kind for one in findings]
    were = "was" if len(kinds) == 1 else "were"
    return f"{counted(len(kinds), 'value')} {were} replaced with placeholders ({_listed(kinds)})." if kinds else ""


def _listed(kinds: list[str]) -> str:
    numbers = ((kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
    return ", ".join(f"{number}× {kind}" if number > 1 else kind for number, kind in numbers)
