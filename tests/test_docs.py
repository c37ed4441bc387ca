"""What is written about the program is true of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspool import __version__
from unspool.cli.main import commands

from .readme import blocks, played

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/README.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
MODULE = re.compile(r"`([\w/]+\.py)`")


@pytest.mark.parametrize("block", blocks(README), ids=lambda block: block.split("\n")[0][2:50])
def test_the_examples_of_the_readme_are_real(block: str) -> None:
    """Every output in it is what the command prints today; `make regen` brings it up to date."""
    assert played(block) == block


def test_the_readme_has_examples_of_every_use() -> None:
    """Ten of them, and none of the commands is left out."""
    assert len(re.findall(r"^\*\*\d+\. ", README, re.MULTILINE)) >= 10
    assert [name for name in commands() if f"unspool {name}" not in README] == []


def test_the_changes_name_this_version() -> None:
    """A reader finds what is new."""
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project has a file behind it."""
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_the_formats_name_modules_that_exist(agent: str) -> None:
    """The page of a format leads to the code that reads it."""
    named = set(MODULE.findall((ROOT / "docs" / "formats" / f"{agent}.md").read_text()))
    package = ROOT / "src" / "unspool"
    places = [package, package / "agents" / agent, ROOT]
    assert named
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page: Path) -> None:
    """A page can be read as it is; tables and outputs may be wider."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]
    assert long == []
