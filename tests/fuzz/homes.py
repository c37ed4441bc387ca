"""Home directories full of hostile sessions, a file for each."""

from __future__ import annotations

import random
import re
import uuid
from pathlib import Path

from .records import Seed
from .values import VALUES

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMED_ID = re.compile(rb'"(?:sessionId|id)": ?"(' + _ID.pattern.encode() + rb')"')

_TIME = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]{0,12}"')
_NUMBER_OF_TIME = re.compile(rb'("(?:ts|timestamp)": ?)\d{10,13}\b')


def place(home: Path, seed: Seed, data: bytes, name: str) -> Path:
    """Write a log, under an id of its own, to where its agent would write it."""
    relative = seed.path.relative_to(next(parent for parent in seed.path.parents if parent.name == "home"))
    old, new = _session_of(seed), str(uuid.uuid5(uuid.NAMESPACE_URL, name))
    path = home / _renamed(relative, old, new)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.replace(old.encode(), new.encode()))
    return path


def _session_of(seed: Seed) -> str:
    """The id in the name of the log; Gemini CLI has only the beginning of it there."""
    named = _ID.findall(str(seed.path.name))
    inside = _NAMED_ID.search(seed.lines[0])
    if named:
        return str(named[-1])
    return inside[1].decode() if inside is not None else seed.path.stem


def _renamed(path: Path, old: str, new: str) -> Path:
    """The path with the new id; a file that is named after something else gets it as a suffix."""
    for known, other in ((old, new), (old[:8], new[:8])):
        if known in path.name:
            return Path(str(path).replace(known, other))
    return path.with_name(f"{path.stem}{new}{path.suffix}")


def copy_with_times(source: Path, home: Path, text: str, number: str) -> None:
    """Copy a home, with one of the values in place of every time: for times as text, and for times as numbers."""
    for path in source.rglob("*"):
        if path.is_file():
            data = _TIME.sub(VALUES[text], path.read_bytes())
            target = home / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_NUMBER_OF_TIME.sub(rb"\g<1>" + VALUES[number], data))


_BESIDE: dict[str, bytes] = {
    ".claude/history.jsonl": b'{"display":%s,"timestamp":%s,"project":%s,"sessionId":%s}\n',
    ".claude/settings.json": b'{"cleanupPeriodDays":%s,"a":[%s,%s,%s]}',
    ".claude/sessions/1.json": b'{"sessionId":%s,"status":%s,"a":[%s,%s]}',
    ".claude/jobs/one/state.json": b'{"sessionId":%s,"forkParentSessionId":%s,"a":[%s,%s]}',
    ".codex/history.jsonl": b'{"session_id":%s,"ts":%s,"text":%s,"a":%s}\n',
    ".codex/session_index.jsonl": b'{"id":%s,"thread_name":%s,"a":[%s,%s]}\n',
    ".gemini/projects.json": b'{"projects":%s,"a":[%s,%s,%s]}',
    ".gemini/settings.json": b'{"general":{"sessionRetention":{"enabled":%s,"maxAge":%s}},"a":[%s,%s]}',
    ".gemini/tmp/demo/logs.json": b'[{"sessionId":%s,"message":%s,"timestamp":%s,"type":%s}]',
    ".gemini/tmp/demo/.project_root": b"%s%s%s%s",
}
"""Files that sessions are read with."""


def write_beside(home: Path, agent: str, chance: random.Random) -> None:
    """Write such files of an agent, with any values in their fields."""
    for name, text in _BESIDE.items():
        if name.startswith(f".{agent}/"):
            lines = [text % tuple(chance.choices(list(VALUES.values()), k=4)) for _ in range(6)]
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(lines if text.endswith(b"\n") else lines[:1]))
    for log in home.rglob("agent-*.jsonl"):
        value = chance.choice(list(VALUES.values()))
        key = chance.choice([b"agentType", b"toolUseId", b"spawnDepth", b"parentAgentId", b"finished"])
        log.with_suffix(".meta.json").write_bytes(b'{"%s":%s}' % (key, value))
