"""Tables on terminals of every width: what identifies a row is never cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspool.cli._shared.table import AGENT, PROJECT, SESSION, TITLE, Column, fit
from unspool.cli.commands.stats import MODEL_COLUMNS

from .run import SAMPLES, on_terminal

COLUMNS = (AGENT, SESSION, PROJECT, TITLE, Column("size", drop=2))
WIDTHS = (6, 13, 20, 60, 5)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


def lines_of(shown: str) -> list[str]:
    """What stays on the terminal: a command that takes long has shown its progress in the same lines before."""
    lines = _COLOUR.sub("", shown).replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


def test_progress_does_not_stay_on_the_terminal() -> None:
    progress = "\r1 sessions …\r            \r"
    assert lines_of(f"{progress}agent  title\r\n\x1b[1mclaude\x1b[0m  a\r\n") == ["agent  title", "claude  a"]


def test_everything_fits_where_there_is_room() -> None:
    assert fit(COLUMNS, WIDTHS, 200) == dict(enumerate(WIDTHS))


@pytest.mark.parametrize("available", range(45, 120))
def test_a_table_is_as_wide_as_the_terminal(available: int) -> None:
    """Title and project shrink; the title is not narrower than it may be, and the agent and id are whole."""
    shown = fit(COLUMNS, WIDTHS, available)
    assert sum(shown.values()) + 2 * (len(shown) - 1) <= available
    assert (shown[0], shown[1]) == WIDTHS[:2]
    assert shown[3] >= (TITLE.shrinks_to or 0)


def test_columns_are_dropped_in_a_fixed_order() -> None:
    """The project before the size, which has the higher number; the others never."""
    dropped = [frozenset(set(range(5)) - set(fit(COLUMNS, WIDTHS, width))) for width in range(120, 10, -1)]
    assert list(dict.fromkeys(dropped)) == [frozenset(), frozenset({2}), frozenset({2, 4})]


def test_a_long_title_does_not_cut_a_short_project() -> None:
    assert fit((PROJECT, TITLE), (12, 300), 80) == {0: 12, 1: 66}


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "arguments",
    [("ls",), ("ls", "--kind", "all"), ("ls", "--events"), ("events",)],
    ids=" ".join,
)
def test_ids_dates_and_agents_are_whole(tmp_path: Path, arguments: tuple[str, ...], width: int) -> None:
    """Each row has an agent, an id and a time that can be copied."""
    shown = on_terminal((*arguments, "--home", SAMPLES), tmp_path, COLUMNS=str(width)).out
    header, *rows = (line for line in lines_of(shown) if not line.endswith(" sessions"))
    assert header.split()[0] in ("agent", "event")
    assert rows
    for row in rows:
        assert re.search(r"\b(claude|codex|gemini)  ", row), row
        assert re.search(r"\b[0-9a-f]{8}-[0-9a-f]{4}(?:/\w+)?  ", row), row
        assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", row), row
        assert len(row) <= width, row


def test_names_and_numbers_of_models_are_never_cut() -> None:
    """With billions of tokens at 80 columns: what matters less is left out, and the rest is whole."""
    widths = (26, 9, 13, 12, 15, 13, 11, 14)
    shown = fit(MODEL_COLUMNS, widths, 80)
    assert all(width == widths[place] for place, width in shown.items())
    assert [MODEL_COLUMNS[place].header for place in shown] == ["model", "input", "output", "cost"]
