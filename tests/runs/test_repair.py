"""Repaired copies and the real programs: each reads the copy in a home of its own, and continues as if nothing was lost
but what was lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.agents import unanswered
from unspool.core import model as m
from unspool.core.errors import UnspoolError
from unspool.core.session import Session
from unspool.library import Library
from unspool.repair import Repair, repair_session
from unspool.runs.drivers.claude import ClaudeDriverFactory
from unspool.runs.drivers.codex import CodexDriverFactory
from unspool.runs.processes import end_group
from unspool.testing import texts

from ..isolation import run_environment
from ..waiting import finished
from .harness import run
from .models.claude import ClaudeModel
from .models.codex import CodexModel, text_of


def program(find: Callable[[], str]) -> str:
    try:
        return find()
    except UnspoolError as error:
        pytest.skip(str(error))


async def ran(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a program to its end, and return its output."""
    folder.mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**run_environment(), **environment},
        start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await finished(process.communicate(), f"the end of {command[0]}")
    finally:
        await end_group(process.pid)
    assert process.returncode == 0, complained.decode()[-2000:]
    return said.decode()


def log_of(home: Path) -> Path:
    (path,) = [path for path in home.rglob("*.jsonl") if "subagents" not in path.parts and path.name != "history.jsonl"]
    return path


def damaged(source: Path, home: Path, target: Path, damage: Callable[[list[bytes]], list[bytes]]) -> Path:
    """A home with a damaged copy of the log."""
    copy = target / source.relative_to(home)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"\n".join(damage(source.read_bytes().split(b"\n")[:-1])))
    return copy


def repaired(home: Path, target: Path) -> Repair:
    library = Library(home)
    (ref,) = [ref for ref in library.refs() if ref.kind == "main"]
    return repair_session(library, ref, target)


def read(home: Path) -> Session:
    library = Library(home)
    (ref,) = [ref for ref in library.refs() if ref.kind == "main"]
    return library.load(ref)


def place_of(lines: list[bytes], *words: bytes) -> int:
    """The last line with all these words."""
    return max(place for place, line in enumerate(lines) if all(word in line for word in words))


# --- Claude Code ------------------------------------------------------------------------------------------------------


class Claude:
    """Claude Code, headless."""

    def __init__(self, model: ClaudeModel, project: Path) -> None:
        self._program = program(ClaudeDriverFactory().find_program)
        self._model = model
        self._project = project

    async def say(self, home: Path, text: str, session: str | None = None) -> str:
        home.mkdir(exist_ok=True)
        command = [self._program, "-p", text, "--allowedTools", "Bash"]
        command += ["--resume", session] if session else []
        return await ran(command, self._project, {"HOME": str(home), **self._model.environment})


def spoken(request: dict[str, Any]) -> str:
    return json.dumps([message for message in request["messages"] if message["role"] != "system"])


def pairs(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The calls and the results of a request of the Messages API."""
    blocks = [
        block for message in request["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def lost_results(path: Path) -> int:
    """How many calls in a log of Claude Code have no result. It may write a result before the next call."""
    log = path.read_bytes()
    calls = set(re.findall(rb'"type":"tool_use","id":"(\w+)"', log))
    return len(calls - set(re.findall(rb'"tool_use_id":"(\w+)"', log)))


def tear_claude(lines: list[bytes]) -> list[bytes]:
    """The first result is torn, the answer to it glued to the line before, zeros in between, and the end is missing."""
    result = place_of(lines, b'"tool_result"', b'"content":"one"')
    answer = place_of(lines, b'"type":"assistant"', b'"first done"')
    lines[answer - 1 : answer + 1] = [lines[answer - 1] + lines[answer]]
    lines[result] = lines[result][:90]
    end = place_of(lines, b'"type":"assistant"', b'"tool_use"', b"echo three")
    return [*lines[:result], b"\0" * 4096 + lines[result], *lines[result + 1 : end + 1], lines[end][:200]]


def test_claude_resumes_a_repaired_copy(tmp_path: Path) -> None:
    """The whole conversation reaches the model, with a word on each result that was lost; unrepaired it does not."""

    async def body() -> None:
        async with ClaudeModel() as model:
            claude = Claude(model, tmp_path / "project")
            await claude.say(tmp_path / "home", "@do run echo one ;; say first done")
            source = log_of(tmp_path / "home")
            await claude.say(tmp_path / "home", "@do both echo two // echo three ;; say second", source.stem)
            lost = lost_results(damaged(source, tmp_path / "home", tmp_path / "torn", tear_claude))
            assert lost >= 2
            done = repaired(tmp_path / "torn", tmp_path / "mended")
            assert done.changes == {"lines left out": 2, "lines split": 1, "results added": lost}
            assert done.left == {}

            said = await claude.say(tmp_path / "mended", "@do say third done", source.stem)
            assert "third done" in said
            request = model.requests[-1]
            calls, results = pairs(request)
            assert len(calls) == 3
            assert sorted(calls) == sorted(results)
            assert spoken(request).count(m.MADE_UP_RESULT) == lost
            for words in ("run echo one", '"text": "first done"', "both echo two", "say third done"):
                assert words in spoken(request)

            await claude.say(tmp_path / "torn", "@do say third done", source.stem)
            assert len(pairs(model.requests[-1])[0]) == 2
            assert '"text": "first done"' not in spoken(model.requests[-1])

        session = read(tmp_path / "mended")
        assert session.id == source.stem
        assert session.problems == []
        assert unanswered(session) == {}
        prompts = texts(session, [message for message in session.active_path() if message.author == "human"])
        assert [prompt[:12] for prompt in prompts] == ["@do run echo", "@do both ech", "@do say thir"]

    run(body())


# --- Codex ------------------------------------------------------------------------------------------------------------


class Codex:
    """Codex, headless."""

    def __init__(self, model: CodexModel, project: Path) -> None:
        self._program = program(CodexDriverFactory().find_program)
        self._model = model
        self._project = project

    async def say(self, home: Path, text: str, session: str | None = None) -> str:
        (home / ".codex").mkdir(parents=True, exist_ok=True)
        (home / ".codex" / "config.toml").write_text(self._model.config())
        command = [self._program, "exec", "--skip-git-repo-check", "--json"]
        command += ["resume", session, text] if session else [text]
        return await ran(command, self._project, {"HOME": str(home), "OPENAI_API_KEY": "dummy"})


def tear_codex(lines: list[bytes]) -> list[bytes]:
    """The first line and a result are torn, and the last call has no result."""
    result = place_of(lines, b'"function_call_output"', b'"call_0_')
    first = next(place for place, line in enumerate(lines) if b'"function_call_output"' in line)
    assert first < result
    lines[first] = lines[first][:70]
    lines[0] = b"\0" * 100 + lines[0][:100]
    return lines[: place_of(lines, b'"function_call"') + 1]


def test_codex_resumes_a_repaired_copy(tmp_path: Path) -> None:
    """It rejects the torn rollout, accepts the copy, and sends the whole thread with a note on each lost result."""

    async def body() -> None:
        async with CodexModel() as model:
            codex = Codex(model, tmp_path / "project")
            await codex.say(tmp_path / "home", "@do run echo one ;; say first done")
            source = log_of(tmp_path / "home")
            thread = source.stem[-36:]
            await codex.say(tmp_path / "home", "@do run echo two ;; say second", thread)
            damaged(source, tmp_path / "home", tmp_path / "torn", tear_codex)
            done = repaired(tmp_path / "torn", tmp_path / "mended")
            assert done.changes == {"headers added": 1, "lines left out": 2, "results added": 2}
            assert done.left == {}

            with pytest.raises(AssertionError, match="session metadata"):
                await codex.say(tmp_path / "torn", "@do say third done", thread)
            said = await codex.say(tmp_path / "mended", "@do say third done", thread)
            assert "third done" in said
            items = model.last["input"]
            outputs = [text_of(item) for item in items if item.get("type") == "function_call_output"]
            assert outputs == [m.MADE_UP_RESULT, m.MADE_UP_RESULT]
            words = [text_of(item) for item in items if item.get("role") in ("user", "assistant")]
            assert [text for text in words if not text.startswith("<")] == [
                "@do run echo one ;; say first done",
                "first done",
                "@do run echo two ;; say second",
                "@do say third done",
            ]

        session = read(tmp_path / "mended")
        assert session.id == thread
        assert session.problems == []
        assert session.orphans == []

    run(body())
