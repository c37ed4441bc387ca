"""What a kind of secret is, and the parts that their patterns are made of.

Patterns are searched in text as it is and in JSON, where a line break is `\\n` and a quotation mark `\\"`. Triggers are
compiled by RE2, which reads all of them in one pass, and patterns by Python's `re`, which finds out which one it was.
"""

from __future__ import annotations

from typing import NamedTuple

BEFORE = r"(?:^|[^A-Za-z0-9]|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\[[0-9;]{0,8}m)"
"""What may be before a token: no letter or digit, unless they end an escape sequence of JSON or of a terminal."""
LONGEST_BEFORE = 10
AFTER = r"(?=[^A-Za-z0-9]|$)"
CUT = "(?=…)"
"""Follows what was shortened to be shown."""
SLASH = r"\\*/"
"""A slash; some programs escape it in JSON."""
WORD = r"[A-Za-z0-9_-]"
HEX = r"[0-9a-f]"


class SecretKind(NamedTuple):
    """A kind of secret."""

    name: str
    """Its name in placeholders and reports."""
    trigger: str
    """A short regular expression that occurs at the beginning of every match of the pattern. RE2 searches for all
    triggers at once, which is only fast if they contain no large counts."""
    pattern: str
    """A regular expression whose only group is the secret."""
    is_certain: bool = True
    """False: only a value that looks random is one."""
    before: int = 0
    """How far before the trigger the secret may begin."""


def token(name: str, prefix: str, rest: str, *, is_exact: bool = False, is_certain: bool = True) -> SecretKind:
    """A token with a prefix of its own, wherever it is; one of an exact length must not be followed by more."""
    after = AFTER if is_exact else ""
    return SecretKind(name, BEFORE + prefix, f"{BEFORE}({prefix}(?:{rest}{after}|{WORD}{{8,}}{CUT}))", is_certain)


def infix(name: str, before: str, middle: str, rest: str, length: int) -> SecretKind:
    """A token that is recognised by something in its middle, which `length` characters are before."""
    return SecretKind(name, middle, f"{BEFORE}({before}{middle}{rest})", before=length + LONGEST_BEFORE)


def hashed(prefix: str, rest: str) -> SecretKind:
    """A password as systems store it, after a dollar sign: weak ones can be found out."""
    return SecretKind("password-hash", rf"{BEFORE}\${prefix}", rf"{BEFORE}\$({prefix}{rest})")
