"""The table of formats: what the documentation says about them, and what they need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unspool.core.errors import UsageError
from unspool.formats import FORMATS, find_format
from unspool.formats.atif import ATIF_VERSION, SUFFIX
from unspool.formats.inspect_log import LOG_VERSION
from unspool.formats.otel import CONVENTIONS

from ..examples import ROOT
from .inspect_schema import FOLDER, SCHEMA

GUIDE = ROOT / "docs" / "guides" / "other-formats.md"
LIBRARIES = ("atif", "opentelemetry-proto", "openai", "anthropic")


def test_the_guide_names_formats_and_versions() -> None:
    """Those that are written, and those of the libraries that the tests validate with."""
    guide = GUIDE.read_text(encoding="utf-8")
    for format in FORMATS:
        assert re.search(rf"^\| `{format.name}` \|.*\| `\{format.suffix}` \|$", guide, re.MULTILINE), format.name
    assert ATIF_VERSION in guide
    assert f"semantic conventions {CONVENTIONS}" in guide
    assert f"log format {LOG_VERSION}" in guide
    pins = dict(re.findall(r"^([\w-]+)==(.+)$", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
    assert [name for name in LIBRARIES if f"`{name}` {pins[name]}" not in guide] == []
    comment = json.loads((FOLDER / SCHEMA).read_text(encoding="utf-8"))["$comment"]
    assert f"`{comment.replace(' ', '` ')}" in guide


def test_versions_in_the_table() -> None:
    assert find_format("atif").version == ATIF_VERSION
    assert find_format("atif").suffix == SUFFIX
    assert find_format("otel").version.endswith(CONVENTIONS)
    assert find_format("inspect").version.endswith(str(LOG_VERSION))


def test_unknown_formats() -> None:
    with pytest.raises(UsageError, match="did you mean inspect"):
        find_format("inspekt")
    with pytest.raises(UsageError, match="choose from atif, otel"):
        find_format("?")


WRITE = """
import sys, unspool
from unspool.formats import FORMATS, Options
session = unspool.load("37c23", home=unspool.samples())
for format in FORMATS:
    writer = format.open(Options())
    assert writer.begin(session) + b"".join(writer.session(session)) + writer.end()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_no_format_needs_its_library(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITE], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = set(done.stdout.split())
    assert "unspool" in loaded
    assert loaded & {"atif", "opentelemetry", "google", "inspect_ai", "openai", "anthropic", "pydantic"} == set()
