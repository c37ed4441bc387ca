"""Outputs that were too large for the conversation: what the model had of them, and all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core import model as m
from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ..recordings import recordings

(LARGE,) = recordings("claude", "2.1.325", "large")


def _result(session: Session) -> m.ToolResult:
    (result,) = (block for message in session.messages for block in message.blocks if isinstance(block, m.ToolResult))
    return result


def _said(path: str) -> str:
    return f"<persisted-output>\nOutput too large (39KB). Full output saved to: {path}\n\nPreview (first 2KB):\nab\n"


def _log(path: str, name: str = "session") -> ClaudeLog:
    log = ClaudeLog(name)
    log.user("go")
    log.model(call("c1", "Bash", command="cat many.txt"))
    log.result("c1", _said(path))
    return log


def _save(home: Path, session: str, name: str = "b1.txt", text: str = "all of it") -> Path:
    path = home / ".claude" / "projects" / "-home-dev-demo" / session / "tool-results" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_the_whole_is_beside_what_the_model_had() -> None:
    """In a real session: the record has both, and says which is which."""
    (session,) = LARGE.sessions()
    result = _result(session)
    (file,) = LARGE.home.rglob("tool-results/*")
    assert result.content.startswith("<persisted-output>")
    assert len(result.content) < 3000
    assert result.saved is not None
    assert Path(result.saved.path).name == file.name
    assert result.saved.size == file.stat().st_size == 39690
    assert result.whole == result.saved.text == file.read_text()
    assert "line 1199 of many" in result.whole
    assert "line 1199 of many" not in result.content


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """What the model had is still there."""
    log = _log("/home/dev/.claude/projects/-home-dev-demo/x/tool-results/b1.txt")
    log.write(tmp_path)
    (ref,) = Library(tmp_path).refs()
    result = _result(Library(tmp_path).load(ref))
    assert result.saved == m.SavedOutput("/home/dev/.claude/projects/-home-dev-demo/x/tool-results/b1.txt")
    assert result.whole == result.content


def test_of_a_huge_file_the_beginning(tmp_path: Path) -> None:
    """A record stays small enough to be held."""
    log = _log("/x/y/tool-results/b1.txt")
    log.write(tmp_path)
    _save(tmp_path, log.session, text="x" * (3 << 20))
    (ref,) = Library(tmp_path).refs()
    saved = _result(Library(tmp_path).load(ref)).saved
    assert saved is not None
    assert saved.size == 3 << 20
    assert len(saved.text or "") == 1 << 20


def test_a_fork_finds_what_its_original_saved(tmp_path: Path) -> None:
    """Its lines were copied; the file was not."""
    original = ClaudeLog("original").session
    log = _log(f"/home/dev/.claude/projects/-home-dev-demo/{original}/tool-results/b1.txt", "fork")
    log.write(tmp_path)
    _save(tmp_path, original)
    (ref,) = (ref for ref in Library(tmp_path).refs() if ref.id == log.session)
    assert _result(Library(tmp_path).load(ref)).whole == "all of it"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../secret.txt",
        "/x/../tool-results/../secret.txt",
        "/x/y/tool-results/..",
        "/x/y/tool-results/../../secret.txt",
        "/x/./tool-results/secret.txt",
        "C:\\x\\..\\tool-results\\secret.txt",
        "",
    ],
)
def test_nothing_else_is_read(path: str, tmp_path: Path) -> None:
    """A line may say what it wants: only files in the folder for saved outputs are looked at."""
    log = _log(path)
    file = log.write(tmp_path)
    for place in (file.parent, file.parent.parent, tmp_path, file.parent / "tool-results"):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_text("secret")
    (ref,) = Library(tmp_path).refs()
    saved = _result(Library(tmp_path).load(ref)).saved
    assert saved is None or saved.text is None
