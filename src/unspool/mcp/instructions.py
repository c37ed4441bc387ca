"""The text that tells agents when to use the tools, for the protocol and for files such as AGENTS.md."""

from __future__ import annotations

from importlib.resources import files


def instructions() -> str:
    """The text, in Markdown."""
    return (files(__package__) / "instructions.md").read_text(encoding="utf-8")
