"""The process of Claude Code: what is read from its output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from unspool.runs.drivers.claude_process import ClaudeProcess

from ..harness import run

OUTPUT = rb"""
import sys
sys.stdout.buffer.write(b'{"n":1}\nnoise\n[2]\n{"text":"cut \\ud83d"}\n{"text":"\\ud83d\\ude00 \xff"}\n{"n":3}\n')
"""


def test_messages_with_half_a_character_are_read(tmp_path: Path) -> None:
    """Node cuts texts anywhere; a request in such a message must not be lost."""
    program = tmp_path / "program.py"
    program.write_bytes(OUTPUT)

    async def body() -> list[dict[str, Any]]:
        process = ClaudeProcess([sys.executable, "-I", str(program)], str(tmp_path), {})
        await process.connect()
        try:
            return [message async for message in process.read_messages()]
        finally:
            await process.stop()

    assert run(body()) == [{"n": 1}, {"text": "cut \ufffd"}, {"text": "\U0001f600 \ufffd"}, {"n": 3}]
