"""Homes with sessions of all agents, and what can happen to their files."""

from __future__ import annotations

import os
from pathlib import Path

from unspool.testing import ClaudeLog, CodexLog, GeminiLog, Log, call

AGENTS = ("claude", "codex", "gemini")


def claude_log(turns: int = 3, name: str = "session") -> ClaudeLog:
    """Prompts, answers and calls. Its lines have ids of their own; with those of another log it would be its copy."""
    log = ClaudeLog(name)
    for turn in range(turns):
        look = call(f"call-{turn}", "Read", file_path=f"/home/dev/demo/{turn}.py")
        log.user(f"please do {name} number {turn}", f"{name} prompt {turn}")
        log.model(f"I look at {turn}", look, name=f"{name} call {turn}")
        log.result(f"call-{turn}", f"the lines of {turn}", f"{name} result {turn}", error=turn % 3 == 2)
        log.model(f"that was {turn}", name=f"{name} answer {turn}")
    return log


def codex_log(turns: int = 3, name: str = "thread") -> CodexLog:
    """Prompts, answers and calls."""
    log = CodexLog(name)
    for turn in range(turns):
        log.turn(f"please do {name} number {turn}", f"that was {turn}")
        log.call(f"call-{turn}", command=["cat", f"{turn}.py"])
        log.output(f"call-{turn}", f"the lines of {turn}")
    return log


def gemini_log(turns: int = 3, name: str = "chat") -> GeminiLog:
    """Prompts, answers and calls, and a message that is repeated."""
    log = GeminiLog(name)
    for turn in range(turns):
        log.user(f"u{turn}", f"please do {name} number {turn}")
        log.model(f"g{turn}", f"I look at {turn}")
        result = {"functionResponse": {"id": f"c{turn}", "name": "read_file", "response": {"output": f"lines {turn}"}}}
        made = {
            "id": f"c{turn}", "name": "read_file", "args": {"absolute_path": f"/home/dev/demo/{turn}.py"},
            "status": "success", "result": [result], "timestamp": log.next_time(),
        }  # fmt: skip
        log.model(f"g{turn}", f"I look at {turn}", [made])
        log.model(f"h{turn}", f"that was {turn}")
    return log


def log_of(agent: str, turns: int = 3, name: str = "one") -> ClaudeLog | CodexLog | GeminiLog:
    """A log of an agent."""
    name = f"{name} of {agent}"
    if agent == "claude":
        return claude_log(turns, name)
    return codex_log(turns, name) if agent == "codex" else gemini_log(turns, name)


def write_home(home: Path, turns: int = 3) -> dict[str, Path]:
    """Two sessions of each agent; the paths of the first ones."""
    for agent in AGENTS:
        log_of(agent, turns, "other").write(home)
    return {agent: log_of(agent, turns).write(home) for agent in AGENTS}


def append(path: Path, data: bytes) -> None:
    """Write on at the end of a file, as agents do."""
    with open(path, "ab") as file:
        file.write(data)
    _touch_later(path)


def put(path: Path, data: bytes) -> None:
    """Rewrite a file."""
    path.write_bytes(data)
    _touch_later(path)


def rest_of(log: Log, before: Log) -> bytes:
    """What one log has more than another."""
    assert log.data.startswith(before.data)
    return log.data[len(before.data) :]


_moment = 0


def _touch_later(path: Path) -> None:
    """Two changes in quick succession must not look like one; clocks of file systems are coarse."""
    global _moment
    _moment += 1
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + _moment * 1_000_000))
