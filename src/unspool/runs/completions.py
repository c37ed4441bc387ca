"""Completions for words in a message: commands that the agent offers, and files of the project."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

MAX_SHOWN = 20
MAX_FILES = 20_000
"""The most files of a project that are searched."""
_GIT_SECONDS = 3.0
_FRESH_SECONDS = 10.0
"""How long a list of files is cached."""
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "venv", "target", "build", "dist"}


class OfferedCommand(msgspec.Struct, frozen=True):
    """A command that the agent understands in a message."""

    name: str
    """Without the slash."""
    description: str = ""


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completion for a word."""

    text: str
    detail: str = ""


def offered_commands(given: object) -> list[OfferedCommand]:
    """Return the commands in an agent's list, without entries that have no name."""
    named = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return [
        OfferedCommand(each["name"], description if isinstance(description, str) else "")
        for each in named
        if isinstance(each.get("name"), str)
        for description in [each.get("description")]
    ]


def complete(word: str, commands: Sequence[OfferedCommand], folder: str) -> list[Completion]:
    """Return the completions of a word that starts with `/` or `@`, best first."""
    typed = word[1:].casefold()
    if word.startswith("/"):
        named = [each for each in commands if typed in each.name.casefold()]
        found = [Completion(f"/{each.name}", each.description) for each in named]
    elif word.startswith("@"):
        found = [Completion(f"@{path}") for path in project_files(folder) if typed in path.casefold()]
    else:
        return []
    return sorted(found, key=lambda one: _rank(one.text[1:].casefold(), typed))[:MAX_SHOWN]


def _rank(text: str, typed: str) -> tuple[bool, bool, int, str]:
    """Sort texts that start with the typed text first, then file names that start with it, then short texts."""
    return not text.startswith(typed), not text.rpartition("/")[2].startswith(typed), len(text), text


def project_files(folder: str) -> tuple[str, ...]:
    """Return the relative paths of a project's files: those that git tracks or would add, else all but hidden ones."""
    return _files_at(folder, int(time.monotonic() / _FRESH_SECONDS))


@lru_cache(maxsize=16)
def _files_at(folder: str, _: int) -> tuple[str, ...]:
    found = _from_git(folder)
    return found if found is not None else tuple(_from_disk(folder))


def _from_git(folder: str) -> tuple[str, ...] | None:
    # A repository can configure a program that monitors its files. It must not run because a person types a message.
    options = ("-c", "core.fsmonitor=false", "-C", folder)
    command = ("git", *options, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    names = done.stdout.decode("utf-8", "replace").split("\0")
    return tuple(sorted({name for name in names[: MAX_FILES + 1] if name}))[:MAX_FILES]


def _from_disk(folder: str) -> Iterator[str]:
    count = 0
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            if count >= MAX_FILES:
                return
            if not name.startswith("."):
                count += 1
                yield os.path.relpath(os.path.join(current, name), folder)
