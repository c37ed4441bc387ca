"""The documentation is true: its examples run, its links lead somewhere, its reference covers everything."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tools.docs import api_reference, cli_reference, python_reference, schema_reference

from unspool import __version__
from unspool.web.api.openapi import openapi
from unspool.web.api.routes import ENDPOINTS

from .examples import PAGES as PAGES_WITH_EXAMPLES
from .examples import blocks, played

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/README.md")])
EXAMPLES = [(page, block) for page in PAGES_WITH_EXAMPLES for block in blocks(page.read_text(encoding="utf-8"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
MODULE = re.compile(r"`([\w/]+\.py)`")
FENCE = re.compile(r"```\w*")
GENERATED = ROOT / "docs" / "reference"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    ("page", "block"), EXAMPLES, ids=[f"{name_of(page)}: {block.splitlines()[0][2:50]}" for page, block in EXAMPLES]
)
def test_examples_are_real(page: Path, block: str) -> None:
    """Every output is what the command prints; `make regen` updates them."""
    assert played(block) == block, f"run `make regen` to update {name_of(page)}"


def test_the_readme_is_short() -> None:
    """What it is, one picture, how to install it, three examples, links."""
    assert len(README.splitlines()) < 120
    assert README.count("![") == 1
    assert README.count("```console") + README.count("```sh\nunspool run") == 3


def test_the_changelog_names_this_version() -> None:
    assert re.search(rf"^## \[?{re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    """A link to a file of the project has a file behind it; reference pages are generated with the site."""
    targets = [(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not target.exists() and target.parent != GENERATED] == []


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_the_formats_name_modules_that_exist(agent: str) -> None:
    """The page of a format leads to the code that reads it."""
    named = set(MODULE.findall((ROOT / "docs" / "formats" / f"{agent}.md").read_text(encoding="utf-8")))
    package = ROOT / "src" / "unspool"
    places = [package, package / "agents" / agent, ROOT]
    assert named
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_start_on_a_line_of_their_own(page: Path) -> None:
    """A fence followed by more than a language is not a code block, and its example would not be run."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.lstrip().startswith("```") and not FENCE.fullmatch(line.strip())] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_of_prose_are_short(page: Path) -> None:
    """Tables and outputs may be wider."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_the_security_page_names_tests_that_exist() -> None:
    """What it promises is shown by them."""
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    tests = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in folder.glob("0*.md") if f"]({page.name})" not in index] == []


# --- the generated reference ------------------------------------------------------------------------------------------


def test_the_reference_has_every_command() -> None:
    """With every option explained."""
    page = cli_reference.page()
    assert [name for name in cli_reference.commands() if f"\n### {name}\n" not in page] == []
    assert cli_reference.unexplained() == []
    assert "`--tls CERT KEY`" in page


def test_the_reference_explains_every_field_of_the_record() -> None:
    page = schema_reference.page()
    assert "\n## Message\n" in page
    assert schema_reference.unexplained() == []


def test_the_reference_has_every_public_name() -> None:
    assert "### `unspool.load(" in python_reference.page()
    assert python_reference.undocumented() == set()


def test_the_reference_has_every_endpoint() -> None:
    page = api_reference.page()
    endpoints = [
        f"### `{method.upper()} {path}`" for path, methods in openapi(ENDPOINTS)["paths"].items() for method in methods
    ]
    assert endpoints
    assert [endpoint for endpoint in endpoints if endpoint not in page] == []


# --- the site ---------------------------------------------------------------------------------------------------------


class Loaded(HTMLParser):
    """Collects what a browser loads to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_hint = tag == "link" and (values.get("rel") or "") in ("canonical", "next", "prev", "alternate")
        if tag in ("script", "img", "iframe", "source", "link") and not is_hint:
            self.addresses.append(values.get("src") or values.get("href") or "")


def test_the_site_builds_without_remote_resources(tmp_path: Path) -> None:
    """In strict mode, where a broken link or anchor is an error."""
    pytest.importorskip("mkdocs", reason="the packages of the documentation are not installed: make docs")
    pytest.importorskip("material", reason="the packages of the documentation are not installed: make docs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    pages = list(tmp_path.rglob("*.html"))
    assert {"index.html", "reference/cli.html", "reference/schema.html"} <= {
        page.relative_to(tmp_path).as_posix() for page in pages
    }
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses
        assert [address for address in loaded.addresses if address.startswith(("http:", "https:", "//"))] == []
    styles = "".join(style.read_text(encoding="utf-8") for style in tmp_path.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []
