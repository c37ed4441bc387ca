"""Hooks for MkDocs: add the generated pages, and point links outside of `docs/` to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs import api_reference, cli_reference, python_reference, schema_reference, tables_reference

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/unspool/unspool"
GENERATED = {
    "reference/cli.md": cli_reference.page,
    "reference/python.md": python_reference.page,
    "reference/schema.md": schema_reference.page,
    "reference/tables.md": tables_reference.page,
    "reference/http.md": api_reference.page,
}
_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated from the code."""
    for path, make in GENERATED.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links to project files that are not part of the site to the repository."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    return _LINK.sub(lambda link: _outside(folder, link[1], page), markdown)


def _outside(folder: Path, link: str, page: Page) -> str:
    target = (folder / link).resolve()
    if target.is_relative_to(ROOT / "docs") and not target.is_dir():
        return link
    if not target.exists():
        raise PluginError(f"{page.file.src_uri}: {link} does not exist")
    return f"{REPOSITORY}/{'tree' if target.is_dir() else 'blob'}/main/{target.relative_to(ROOT).as_posix()}"
