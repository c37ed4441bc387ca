"""Instructions that tell agents when to use the tools, sent to clients and printed for files such as AGENTS.md."""

from __future__ import annotations

from importlib.resources import files


def instructions() -> str:
    """Return the instructions, in Markdown."""
    return (files(__package__) / "instructions.md").read_text(encoding="utf-8")
