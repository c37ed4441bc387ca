"""Finds secrets in text and in JSON."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from math import log2
from typing import NamedTuple

import re2

from .kinds import ASSIGNMENT_TRIGGER, GENERIC, KINDS
from .shapes import BEFORE, SecretKind

_MEMORY = 64 << 20
"""The memory limit for the automaton of all triggers. With less, RE2 uses a slower algorithm."""
_LONGEST_TRIGGER = 256
_LEAST_ENTROPY = 2.8
"""The minimum entropy of a secret in bits per character. Words have less."""
_LEAST_LENGTH = 8
_LEAST_OF_PASSWORD = 2.0
_SHORTEST_PASSWORD = 6
_LONG = 16
"""Values of at least this length are rarely words."""
_CASE_CHANGES = 0.25
"""The minimum rate of case changes: every second letter in random text, at most every fifth in camel case."""
_MADE_UP = re.compile(
    rb"(?i)x{4,}|\*{3,}|\.{3}|^<|^\$|^%[a-z(]|^\{|\$\{|\{\{|example|placeholder|redacted|changeme|change_me|your[_-]|my[_-]?secret|"
    rb"dummy|sample|(?:^|[^a-z0-9])(?:fake|foo|bar|none|null|undefined|true|false|string|todo)(?:$|[^a-z0-9])|"
    rb"^(.)\1+$"
)
"""Placeholders that people write instead of a secret."""
_SEQUENCE = re.compile(rb"(?i)012345|123456789|abcdef0|deadbeef")
"""Typed sequences. They rule out values that should look random, but tokens with them are still redacted."""
_CODE = re.compile(
    rb"^(?:os\.|process\.|self\.|this\.|env\.|config\.|settings\.|args\.|import|await|new |return|function|request\.)|"
    rb"^[a-zA-Z_]+(?:\.[a-zA-Z_]+)+$|^\./|^~/|^/(?:[a-z._-]+/)*[a-z._-]*$|"
    rb"^/(?:home|Users|usr|etc|var|opt|tmp|run|mnt|root|proc|dev|app|srv|data|work|private)/|://|"
    rb"^[A-Z][A-Z_]+$|^[a-z]+(?:[_-][a-z]+)*$|^\d+(?:[.,:/-]\d+)*$|"
    rb"^[a-z_]+=|^[a-z]+(?:[A-Z][a-z]+)*$|^(?:[A-Z][a-z]+)+$|^[A-Z][a-z]+(?:[-_.][A-Z]?[a-z]+)+$|^v?\d+\.\d+"
)
"""References, paths, constants, numbers and names, which are not secrets."""
_SIGNS = re.compile(rb"[!@#$%^&*+=?~]")
"""Characters that occur in passwords but not in the names of variables."""
_TURNS = re.compile(rb"[a-zA-Z](?=[0-9])|[0-9](?=[a-zA-Z])")
_LEAST_TURNS = 4
_WELL_KNOWN = frozenset(
    b"password pass passwd postgres root admin secret test tests testing user username guest mysql token pwd "
    b"mypassword postgresql minioadmin rabbitmq redis mongo example local dev".split()
)
"""Passwords of local databases and of tutorials."""

RULES = hashlib.blake2b(
    repr(
        (
            KINDS,
            _MADE_UP.pattern,
            _SEQUENCE.pattern,
            _CODE.pattern,
            sorted(_WELL_KNOWN),
            _LEAST_ENTROPY,
            _LONG,
            _CASE_CHANGES,
        )
    ).encode(),
    digest_size=4,
).hexdigest()
"""Identifies the rules: it is different in versions that may find different secrets."""


class Secret(NamedTuple):
    """A secret in some data."""

    kind: str
    start: int
    end: int


@cache
def _pattern(kind: SecretKind) -> re.Pattern[bytes]:
    """Compile the pattern of a kind. Most patterns are never needed."""
    return re.compile(kind.pattern.encode())


@cache
def _which() -> re2.Set:
    """Return a matcher for the kinds whose trigger matches at the beginning of data."""
    triggers = re2.Set.MatchSet(_options())
    for kind in KINDS:
        triggers.Add(kind.trigger.encode())
    triggers.Compile()
    return triggers


def _kinds_at(data: bytes, start: int) -> list[SecretKind]:
    """Return the kinds whose trigger matches at this position, in the order of `KINDS`."""
    return [KINDS[number] for number in sorted(_which().Match(data[start : start + _LONGEST_TRIGGER]) or ())]


@cache
def _infixes() -> tuple[re.Pattern[bytes], list[SecretKind]]:
    """Return a pattern of all triggers that are inside of a token, and their kinds."""
    found = [kind for kind in KINDS if kind.before]
    return re.compile("|".join(f"(?:{kind.trigger})" for kind in found).encode()), found


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.never_capture = True
    # Match bytes, as the patterns do: a token may follow any character.
    options.encoding = re2.Options.Encoding.LATIN1
    return options


@cache
def _any() -> re2._Regexp[bytes]:
    """Return a pattern that matches the triggers of all kinds.

    RE2 creates the states of its automaton while it reads. There are far fewer if common prefixes and suffixes of
    triggers are factored out.
    """
    triggers = list(dict.fromkeys(kind.trigger for kind in KINDS))
    tokens = [trigger.removeprefix(BEFORE) for trigger in triggers if trigger.startswith(BEFORE)]
    names = [trigger.removesuffix(ASSIGNMENT_TRIGGER) for trigger in triggers if trigger.endswith(ASSIGNMENT_TRIGGER)]
    others = [
        trigger for trigger in triggers if not trigger.startswith(BEFORE) and not trigger.endswith(ASSIGNMENT_TRIGGER)
    ]
    factored = (f"{BEFORE}(?:{_either(tokens)})", f"(?:{_either(names)}){ASSIGNMENT_TRIGGER}", _either(others))
    return re2.compile("|".join(factored).encode(), _options())


def _either(patterns: list[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def may_contain_secrets(texts: Sequence[bytes]) -> list[bool]:
    """Return for each text whether it has a trigger, and so may contain a secret.

    Texts are searched together, which is faster than one at a time if they are short.
    """
    found = [False] * len(texts)
    data, search = b"\n".join(texts), _any().search
    ends = list(accumulate(len(text) + 1 for text in texts))
    position = 0
    while match := search(data, position):
        # The match may extend into the next text, so both are marked.
        first, last = bisect_right(ends, match.start()), bisect_left(ends, match.end())
        found[first : last + 1] = [True] * (last + 1 - first)
        # Continue at the separator, because the character before a token may be part of the match. No trigger is that
        # short, so the search advances.
        position = ends[last] - 1
    return found


def find_secrets(data: bytes) -> list[Secret]:
    """Return the secrets in text (UTF-8) or JSON in order, without overlaps."""
    found: list[Secret] = []
    search, position = _any().search, 0
    while match := search(data, position):
        secret, position = _examined(data, match.start(), position)
        if secret is not None:
            found.append(secret)
    return found


def _examined(data: bytes, start: int, after: int) -> tuple[Secret | None, int]:
    """Return the secret at a trigger, if any, and the position to continue from."""
    for kind in _kinds_at(data, start):
        match = _match(kind, data, start, after)
        if match is None:
            continue
        begin, end = match.span(1)
        end -= _trailing(data[begin:end])
        if not _is_secret(kind, data[begin:end]):
            continue
        if kind.name in GENERIC and (exact := _more_exact(data, begin)) is not None:
            return exact, exact.end
        return Secret(kind.name, begin, end), max(end, start + 1)
    return None, start + 1


def _is_secret(kind: SecretKind, value: bytes) -> bool:
    if kind.is_certain:
        return not _is_made_up(value) and value.lower() not in _WELL_KNOWN
    return is_random(value, kind.name)


def _match(kind: SecretKind, data: bytes, start: int, after: int) -> re.Match[bytes] | None:
    pattern = _pattern(kind)
    if not kind.before:
        return pattern.match(data, start)
    # The token may start before the trigger, but not before the end of the previous secret.
    match = pattern.search(data, max(after, start - kind.before), start + kind.before + 128)
    return match if match is not None and match.start() <= start else None


def _more_exact(data: bytes, begin: int) -> Secret | None:
    """Return the secret of a specific kind that starts where a generic one was found, if any."""
    trigger, infixes = _infixes()
    more = infixes if trigger.search(data, begin, begin + _LONGEST_TRIGGER) is not None else ()
    for kind in chain(_kinds_at(data, max(0, begin - 1)), _kinds_at(data, begin), more):
        if kind.name in GENERIC:
            continue
        match = _match(kind, data, max(0, begin - 1), 0) or _match(kind, data, begin, 0)
        if match is not None and match.start(1) <= begin + len("Bearer ") and not _is_made_up(match[1]):
            return Secret(kind.name, *match.span(1))
    return None


def _trailing(value: bytes) -> int:
    """Return the number of trailing characters that are punctuation of the surrounding sentence."""
    return len(value) - len(value.rstrip(b".:!?"))


def _is_made_up(value: bytes) -> bool:
    return _MADE_UP.search(value) is not None


def is_random(value: bytes, kind: str = "secret") -> bool:
    """Return whether a value looks like a generated secret or, for passwords, like one that a person chose."""
    is_password = kind == "password"
    if len(value) < (_SHORTEST_PASSWORD if is_password else _LEAST_LENGTH) or _is_made_up(value):
        return False
    if _SEQUENCE.search(value) is not None:
        return False
    if _CODE.search(value) is not None or entropy(value) < (_LEAST_OF_PASSWORD if is_password else _LEAST_ENTROPY):
        return False
    digits = sum(48 <= byte <= 57 for byte in value)
    if digits == len(value):
        return False
    if digits >= (2 if len(value) >= _LONG else 1):
        return len(value) >= _LONG or is_password or _has_classes(value) or _is_mixed(value)
    if is_password:
        return _has_classes(value) and _SIGNS.search(value) is not None
    return len(value) >= _LONG and _case_changes(value) > _CASE_CHANGES


def _has_classes(value: bytes) -> bool:
    """Return whether a value has at least three of: lower case, upper case, digits, other characters."""
    text = value.decode("utf-8", "replace")
    classes = (str.islower, str.isupper, str.isdigit, lambda char: not char.isalnum())
    return sum(any(map(has, text)) for has in classes) >= 3


def _is_mixed(value: bytes) -> bool:
    """Return whether letters and digits alternate often, unlike in names with a number."""
    return len(_TURNS.findall(value)) >= _LEAST_TURNS


def _case_changes(value: bytes) -> float:
    letters = [byte for byte in value if 65 <= byte <= 90 or 97 <= byte <= 122]
    changes = sum((one ^ other) & 32 != 0 for one, other in pairwise(letters))
    return changes / max(1, len(letters))


def entropy(value: bytes) -> float:
    """Return the Shannon entropy in bits per byte."""
    total = len(value)
    counts = (value.count(byte) for byte in set(value))
    return -sum(count / total * log2(count / total) for count in counts)
