"""What Codex CLI writes that no recording has, or that is easily taken for something else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unspool import load
from unspool.agents.codex.outcomes import judge
from unspool.agents.codex.tools import patch_of
from unspool.library import Library
from unspool.model import ToolCall
from unspool.testing import CodexLog

RAN = "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code {}\nOutput:\n{}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("exec command rejected by user", "rejected"),
        ("Wall time: 0.0001 seconds\nOutput:\nuser rejected MCP tool call", "rejected"),
        ("user cancelled MCP tool call", "rejected"),
        (RAN.format(0, "log.txt:7: exec command rejected by user"), "ok"),
        (RAN.format(1, "grep: patch rejected by user"), "error"),
        ("Wall time: 0.2 seconds\nOutput:\nthe page says: user rejected MCP tool call", "ok"),
    ],
)
def test_only_the_agents_own_words_tell_a_refusal(text: str, kind: str) -> None:
    """What a program prints may say the same."""
    assert judge(text).kind == kind


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Exit code: 3\nProcess exited with code 0", 3),
        ("Process exited with code -9\nExit code: 0", -9),
        ("Exit codes are numbers\nProcess exited with code 4", 4),
        ("Process exited with code unknown\nExit code 5", 5),
        ("it exited with code 6", None),
    ],
)
def test_the_first_exit_code_counts(text: str, code: int | None) -> None:
    """The words alone are none."""
    assert judge(text).exit_code == code


def test_a_message_into_a_running_turn_is_marked(tmp_path: Path) -> None:
    """The turn took it up; one that comes after the end of a turn, or opens one, is none."""
    log = CodexLog()
    for words in ("first", "second"):
        log.event("task_started")
        log.item("message", role="user", content=[{"type": "input_text", "text": words}])
        log.call(f"call-{words}", command=["ls"])
        log.output(f"call-{words}", "a.txt")
        log.item("message", role="user", content=[{"type": "input_text", "text": f"{words} of all"}])
        log.item("message", role="assistant", content=[{"type": "output_text", "text": "done"}])
        log.event("task_complete")
    log.item("message", role="user", content=[{"type": "input_text", "text": "put in from outside"}])
    said = [message for message in log.load(tmp_path).messages if message.author == "human"]
    assert [message.queued for message in said] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("namespace", "name", "known_as"),
    [
        ("mcp__unspool", "search", "mcp__unspool__search"),
        ("mcp__unspool__", "search", "mcp__unspool__search"),
        ("mcp__codex_apps__github", "_fetch_pr", "mcp__codex_apps__github_fetch_pr"),
        ("collaboration", "spawn_agent", "spawn_agent"),
        (None, "mcp__unspool__search", "mcp__unspool__search"),
    ],
)
def test_tools_of_mcp_servers_have_the_name_of_their_server(
    tmp_path: Path, namespace: str | None, name: str, known_as: str
) -> None:
    log = CodexLog()
    log.item("function_call", name=name, namespace=namespace, arguments="{}", call_id="call-1")
    session = load(log.write(tmp_path))
    assert [block.name for message in session.messages for block in message.blocks if isinstance(block, ToolCall)] == [
        known_as
    ]


def test_a_patch_without_end_is_none() -> None:
    """It is searched in linear time, though the text repeats its first words."""
    assert patch_of(msgspec.json.encode("*** Begin Patch\n" * 100_000)) is None
    assert patch_of(b'{"input":"x *** Begin Patch\\n*** End Patch y"}') == "*** Begin Patch\n*** End Patch"


@pytest.mark.parametrize("folder", ["0 backup", "9 backup"])
def test_the_longest_copy_of_a_rollout_counts(tmp_path: Path, folder: str) -> None:
    """Whichever folder comes first: a backup that ends earlier does not hide the rest of the thread."""
    log = CodexLog()
    for turn in range(3):
        log.turn(f"prompt {turn}", f"answer {turn}")
    path = log.write(tmp_path)
    copy = tmp_path / ".codex" / "sessions" / folder / path.name
    copy.parent.mkdir()
    copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    (ref,) = Library(tmp_path).refs()
    assert ref.path == path
    path.rename(copy)
    copy.with_suffix(".jsonl.zst").write_bytes(b"")
    (ref,) = Library(tmp_path).refs()
    assert ref.path == copy
