"""Damaged logs: what crashes, other programs and bad disks do to them, and what nobody would think of."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from .records import Seed, random_field, seeds
from .values import VALUES

_STRING = re.compile(rb'"[A-Za-z0-9_-]{8,40}"')


def mutated(seed: Seed, chance: random.Random) -> bytes:
    """A log with one to five random changes."""
    lines = [*seed.lines]
    for _ in range(chance.randint(1, 5)):
        lines = chance.choice(_CHANGES)(seed, lines, chance) or [*seed.lines]
    return b"\n".join(lines) + b"\n" * chance.randint(0, 1)


def _change_field(seed: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Another value in some field of the record that the log was chosen for."""
    value = VALUES[chance.choice(list(VALUES))]
    changed = seed.mutated(random_field(seed, chance), value).split(b"\n")[seed.position]
    place = min(seed.position, len(lines) - 1)
    return [*lines[:place], changed, *lines[place + 1 :]]


def _drop(_: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randrange(len(lines))
    return [*lines[:place], *lines[place + chance.randint(1, 4) :]]


def _repeat(_: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randrange(len(lines))
    return [*lines[:place], *lines[place : place + chance.randint(1, 4)] * 2, *lines[place + 1 :]]


def _shuffle(_: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    return chance.sample(lines, len(lines))


def _insert(seed: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    """A line of another log."""
    place = chance.randint(0, len(lines))
    other = chance.choice(seeds(seed.agent))
    return [*lines[:place], chance.choice(other.lines), *lines[place:]]


def _exchange(_: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Another id of the same log in some place: parents that follow, calls that answer each other."""
    place = chance.randrange(len(lines))
    here = list(_STRING.finditer(lines[place]))
    everywhere = [found[0] for line in lines for found in _STRING.finditer(line)]
    if not here:
        return lines
    found = chance.choice(here)
    line = lines[place][: found.start()] + chance.choice(everywhere) + lines[place][found.end() :]
    return [*lines[:place], line, *lines[place + 1 :]]


def _damage(_: Seed, lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Bytes that were flipped, lost or overwritten."""
    data = bytearray(b"\n".join(lines))
    start = chance.randrange(len(data) or 1)
    length = chance.randint(1, 60)
    junk = chance.choice(
        [b"", b"\0" * length, b"\xff\xfe", b'"\\ud83d"', b"}{", b"\n", b"[" * 200, chance.randbytes(8)]
    )
    data[start : start + length * chance.randint(0, 1)] = junk
    return bytes(data).split(b"\n")


_CHANGES: list[Callable[[Seed, list[bytes], random.Random], list[bytes]]] = [
    _change_field, _change_field, _drop, _repeat, _shuffle, _insert, _exchange, _exchange, _damage,
]  # fmt: skip
