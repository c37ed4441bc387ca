"""Templates are compiled once, and nothing depends on that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.render.compiled_templates import template_environment


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("<p>{{ word }}</p>")
    return tmp_path


def kept(package: Path) -> list[Path]:
    return list((package / "__pycache__").glob("template-*"))


def rendered(package: Path) -> str:
    return template_environment(package).get_template("page.html").render(word="<b>")


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The names of the templates that are compiled from now on."""
    from jinja2 import Environment

    found: list[str | None] = []
    compile = Environment.compile

    def watched(self: Environment, source: str, name: str | None = None, *args: object, **options: object) -> object:
        found.append(name)
        return compile(self, source, name, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Environment, "compile", watched)
    return found


def test_a_template_is_compiled_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when it has changed."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    names = compiled(monkeypatch)
    assert rendered(package) == rendered(package) == "<p>&lt;b&gt;</p>"
    assert names == ["page.html"]
    (package / "templates" / "page.html").write_text("<i>{{ word }}</i>")
    assert rendered(package) == "<i>&lt;b&gt;</i>"
    assert names == ["page.html"] * 2
    assert len(kept(package)) == 1


def test_damaged_files_are_replaced(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they end."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    rendered(package)
    (path,) = kept(package)
    whole = path.read_bytes()
    for data in (b"", *(whole[:end] for end in range(1, len(whole), 7))):
        path.write_bytes(data)
        assert rendered(package) == "<p>&lt;b&gt;</p>"
        assert path.read_bytes() == whole


def test_nothing_is_written_where_nothing_may_be(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither if Python was asked to write nothing, nor if the directory cannot be written to."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(package) == "<p>&lt;b&gt;</p>"
    assert kept(package) == []
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (package / "__pycache__").write_text("not a directory")
    assert rendered(package) == "<p>&lt;b&gt;</p>"
