"""Generators of damaged and hostile logs, and checks that everything survives them.

`make fuzz` runs them for as long as wanted (`python -m tests.fuzz --help`); `tests/test_hostile.py` runs a sample.
"""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
"""Homes that once made something fail."""
