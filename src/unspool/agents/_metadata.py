"""Metadata that every agent records, each in its own field: the version, the project, a title."""

from __future__ import annotations

import hashlib
import re

from ..core import model as m

_TITLE_LENGTH = 200


def version_of(text: str | None) -> tuple[int, ...]:
    """A version as numbers that can be compared; empty when it is unknown."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text or "")[:3])


def title_of(prompt: str | None) -> str | None:
    """A title from a prompt: its first line that is not blank."""
    return next((line.strip()[:_TITLE_LENGTH] for line in (prompt or "").splitlines() if line.strip()), None)


def digest(facts: object) -> str:
    """A short text that differs when the facts differ."""
    return hashlib.blake2b(repr(facts).encode("utf-8", "replace"), digest_size=12).hexdigest()


def project_of(folder: str | None) -> m.Project | None:
    """The project, by the directory in which the agent worked."""
    if not folder:
        return None
    return m.Project(folder, folder.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or folder)
