"""Finds the title of a Claude Code session without reading the whole file, for lists of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...core import model as m
from ...io.files import iter_records, read_blocks, read_end, read_start, while_unchanged
from ...io.lines import block_of
from .._metadata import version_of
from .discovery import AGENT_FILE
from .heads import ClaudeHead
from .schema import RECORDS, ClaudeRecord
from .titles import TITLE_RECORDS, ClaudeTitles, has_summaries_elsewhere

_UUID = re.compile(rb'"uuid":"([^"]*)"')
_STEP = 1 << 16
_END_SIZE = 1 << 16
"""Bytes to read at both ends: the agent repeats titles from time to time, to find them there itself."""
_LAST_SUMMARIES = (2, 1, 30)
"""Before this version, a summary may be anywhere in a file (seen up to 2.1.22)."""


def title_in(head: ClaudeHead, paths: Iterable[Path], summaries: Mapping[str, str]) -> str | None:
    """Return the title of a session; `summaries` are those in other files."""
    titles, version, paths = ClaudeTitles(_kind_of(head.path)), version_of(head.version), tuple(paths)
    for path in paths:
        for record in _titles_at_ends(path):
            titles.read(record)
    if not titles.is_recorded and version < _LAST_SUMMARIES:
        for record in (record for path in paths for record in _summaries_in(path)):
            titles.read(record)
        if has_summaries_elsewhere(version):
            titles.add_summaries(summaries)
    found = _ids_in(paths, titles.leaves) if not titles.is_recorded else set()
    if not titles.is_recorded and not found:
        for path in paths:
            titles.add_prompts(_prompts_in(path))
    return titles.choose(found.__contains__)


@while_unchanged
def _titles_at_ends(path: Path) -> list[ClaudeRecord]:
    blocks = (read_start(path, _END_SIZE), read_end(path, _END_SIZE))
    lines = (line for block in blocks if block is not None for line in block.lines())
    return [record for line in lines if b'-title"' in line for record in _title_records(line)]


@while_unchanged
def _summaries_in(path: Path) -> list[ClaudeRecord]:
    blocks = (block for block in read_blocks(path) if b'"type":"summary"' in block)
    lines = (line for block in blocks for line in block_of(block).lines())
    return [record for line in lines if b'"summary"' in line for record in _title_records(line)]


def _title_records(line: bytes) -> list[ClaudeRecord]:
    return [record for record in RECORDS.records_in(line) if record.type in TITLE_RECORDS]


def _ids_in(paths: tuple[Path, ...], ids: list[str]) -> set[str]:
    """Return the ids of the messages that are in the files."""
    # There may be very many, so the files are not searched for each of them.
    wanted = {id.encode(): id for id in ids}
    blocks = (block for path in paths for block in read_blocks(path)) if wanted else ()
    return {wanted[id] for block in blocks for id in _UUID.findall(block) if id in wanted}


@while_unchanged
def _prompts_in(path: Path) -> ClaudeTitles:
    """Read a file up to the first prompt."""
    titles = ClaudeTitles(_kind_of(path))
    for record in iter_records(path, RECORDS, _STEP):
        if not record.is_sidechain or titles.kind == "subagent":
            titles.read(record)
            if titles.first_prompt is not None:
                break
        else:
            titles.read_task(record)
    return titles


def _kind_of(path: Path) -> m.Kind:
    return "subagent" if AGENT_FILE.match(path.name) else "main"
