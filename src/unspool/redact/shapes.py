"""The definition of a kind of secret, and the building blocks of their patterns.

Patterns are searched in plain text and in JSON, where a line break is `\\n` and a quotation mark `\\"`. RE2 searches
for the triggers of all kinds in one pass; Python's `re` then matches the patterns of the kinds that were triggered.
"""

from __future__ import annotations

from typing import NamedTuple

BEFORE = r"(?:^|[^A-Za-z0-9]|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\[[0-9;]{0,8}m)"
"""The text before a token: no letter or digit, unless it ends an escape sequence of JSON or of a terminal."""
LONGEST_BEFORE = 10
AFTER = r"(?=[^A-Za-z0-9]|$)"
CUT = "(?=…)"
"""Follows a token that was truncated for display."""
SLASH = r"\\*/"
"""A slash, which some programs escape in JSON."""
WORD = r"[A-Za-z0-9_-]"
HEX = r"[0-9a-f]"


class SecretKind(NamedTuple):
    """A kind of secret."""

    name: str
    """The name in placeholders and reports."""
    trigger: str
    """A short regular expression that occurs at the beginning of every match of the pattern. RE2 searches for all
    triggers at once, which is only fast if they contain no large counts."""
    pattern: str
    """A regular expression whose only group is the secret."""
    is_certain: bool = True
    """If False, only values that look random are secrets."""
    before: int = 0
    """The maximum number of characters between the start of the secret and its trigger."""


def token(name: str, prefix: str, rest: str, *, is_exact: bool = False, is_certain: bool = True) -> SecretKind:
    """Define a token with a unique prefix. With `is_exact`, no letter or digit may follow it."""
    after = AFTER if is_exact else ""
    # Possessive and limited, because a text may repeat the prefix: each repetition would read the rest of the word.
    cut = f"{WORD}{{8,1024}}+{CUT}"
    return SecretKind(name, BEFORE + prefix, f"{BEFORE}({prefix}(?:{rest}{after}|{cut}))", is_certain)


def infix(name: str, before: str, middle: str, rest: str, length: int) -> SecretKind:
    """Define a token that is recognised by a part in the middle, preceded by up to `length` characters."""
    return SecretKind(name, middle, f"{BEFORE}({before}{middle}{rest})", before=length + LONGEST_BEFORE)


def hashed(prefix: str, rest: str) -> SecretKind:
    """Define a password hash, which follows a dollar sign. Weak passwords can be recovered from it."""
    return SecretKind("password-hash", rf"{BEFORE}\${prefix}", rf"{BEFORE}\$({prefix}{rest})")
