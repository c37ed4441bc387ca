"""Tools for testing readers of agents' logs, including those in other packages.

`Log` and its subclasses build logs line by line. `find_recordings` finds recordings of real sessions, and
`check_recording` compares what unspool reads from one with what actually happened. `check_home` checks the guarantees
of every reader, for any home directory. `registered` registers an agent for the duration of a test:

    with registered(AcmeAgent()):
        assert check_home(home) == []

The command `python -m unspool.testing CORPUS` checks all recordings in a folder.
"""

from __future__ import annotations

from .builders import START, Log, load, texts, write_file
from .claude import ClaudeLog, call
from .codex import CodexLog
from .conformance import check_home, check_recording, registered, wrong_contexts, wrong_counts
from .facts import wrong_facts
from .gemini import GeminiLog
from .recordings import Recording, find_recordings

__all__ = [
    "START",
    "ClaudeLog",
    "CodexLog",
    "GeminiLog",
    "Log",
    "Recording",
    "call",
    "check_home",
    "check_recording",
    "find_recordings",
    "load",
    "registered",
    "texts",
    "write_file",
    "wrong_contexts",
    "wrong_counts",
    "wrong_facts",
]
