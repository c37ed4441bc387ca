"""Metadata that every agent records, each in its own field: the version, the project, a title."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from ..core import model as m
from ..io.decode import decode_any

_TITLE_LENGTH = 200
_WORD = re.compile(r"\w")


@lru_cache(maxsize=1024)
def version_of(text: str | None) -> tuple[int, ...]:
    """A version as a tuple of numbers that can be compared; empty if unknown. A home has few different ones."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text or "")[:3])


def choose_title(recorded: str | None, prompt: str | None, command: str | None = None) -> str | None:
    """The title of a session: the recorded one, else the first prompt of a person, else the first command.

    JSON is only used if there is nothing else.
    """
    texts = [text for text in (recorded, prompt, command) if text]
    texts.sort(key=_is_json)
    return next((title for text in texts if (title := _first_line(text))), None)


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and isinstance(decode_any(text), dict | list)


def _first_line(text: str) -> str | None:
    """The first line that has a letter or a digit, so not a code fence or a horizontal rule."""
    lines = (line.strip() for line in text.splitlines())
    return next((line[:_TITLE_LENGTH] for line in lines if _WORD.search(line)), None)


def digest(facts: object) -> str:
    """A short hash of some facts, to see whether any of them changed."""
    return hashlib.blake2b(repr(facts).encode("utf-8", "replace"), digest_size=12).hexdigest()


def project_of(folder: str | None) -> m.Project | None:
    """The project of a session, from the directory in which the agent worked."""
    if not folder:
        return None
    return m.Project(folder, folder.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or folder)
