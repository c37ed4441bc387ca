"""Copies of files from before an agent changed them, and reverting to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from unspool.agents import AGENTS
from unspool.core.decisions import RecordedDecision
from unspool.core.errors import NotFoundError, UsageError
from unspool.runs import before_images
from unspool.runs.approvals import OpenRequest
from unspool.runs.before_images import ImageStore, read_state, resolved
from unspool.runs.errors import ConflictError
from unspool.runs.protocol import PermissionRequest
from unspool.runs.revert import Reverts
from unspool.store.run_log import RunLog

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")


class Scene:
    """A project, a run that asks to write into it, and the copies that are kept."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        (folder / "data").mkdir()
        self.log = RunLog(folder / "data" / "runs.db")
        spec = SimpleNamespace(folder=str(self.project))
        self.run = SimpleNamespace(id="run1", agent="claude", session="s1", spec=spec)
        self.log.start_run("run1", "claude", "s1", str(self.project), {})
        self.reverts = Reverts(self.log, folder / "data", lambda _: self.run)

    def ask(self, name: str, content: str, request: str = "q1", **facts: Any) -> None:
        """The agent asks to write a file."""
        raw = msgspec.Raw(msgspec.json.encode({"file_path": str(self.project / name), "content": content}))
        asked = PermissionRequest(
            id=request,
            kind="edit",
            tool="Write",
            title=name,
            action=AGENTS["claude"].describe("Write", raw),
            call_id=f"call-{request}",
            **facts,
        )
        opened = OpenRequest(request=asked, digest="d", at=datetime.now(UTC))
        self.reverts.before_images.on_event({"run": "run1", "kind": "asked", "question": opened})

    def allow(self, request: str = "q1", changed: dict[str, str] | None = None) -> None:
        """A person allows it, perhaps with another input."""
        decision = RecordedDecision(
            at=datetime.now(UTC),
            agent="claude",
            session="s1",
            request=request,
            call_ids=[f"call-{request}"],
            tool="Write",
            verdict="allow",
            by="user",
            input=msgspec.UNSET if changed is None else msgspec.Raw(msgspec.json.encode(changed)),
        )
        self.log.record_decision("run1", decision, {})
        self.reverts.before_images.on_event({"run": "run1", "kind": "answered", "request": request, "verdict": "allow"})

    def files(self) -> dict[str, Any]:
        return {Path(file.path).name: file for file in self.reverts.files("claude", "s1")}

    def revert(self, name: str, content_id: str, seen: str | None = None) -> None:
        plan = self.reverts.plan("claude", "s1", str(self.project / name), content_id)
        self.reverts.revert("claude", "s1", plan, plan.now.content_id if seen is None else seen, "the tests")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.log.close()


def test_a_file_is_reverted_to_what_it_was_before_the_request(scene: Scene) -> None:
    path = scene.project / "a.py"
    path.write_text("one\n")
    path.chmod(0o755)
    scene.ask("a.py", "two\n")
    scene.allow()
    path.write_text("two\n")
    file = scene.files()["a.py"]
    assert file.is_changed
    assert "-one\n+two\n" in file.diff
    scene.revert("a.py", file.before.content_id)
    assert path.read_text() == "one\n"
    assert path.stat().st_mode & 0o777 == 0o755
    # The content that it replaced is kept, so that this can be undone.
    undo = scene.files()["a.py"].copies[-1]
    assert undo.request is None
    scene.revert("a.py", undo.state.content_id)
    assert path.read_text() == "two\n"


def test_a_file_that_did_not_exist_is_removed(scene: Scene) -> None:
    scene.ask("new.py", "hello\n")
    (scene.project / "new.py").write_text("hello\n")
    assert scene.files()["new.py"].before.status == "absent"
    scene.revert("new.py", "absent")
    assert not (scene.project / "new.py").exists()


def test_a_revert_needs_the_digest_of_what_it_replaces(scene: Scene) -> None:
    path = scene.project / "a.py"
    path.write_text("one\n")
    scene.ask("a.py", "two\n")
    path.write_text("two\n")
    seen = scene.files()["a.py"]
    path.write_text("changed by another program\n")
    with pytest.raises(ConflictError, match="has changed since you saw it"):
        scene.revert("a.py", seen.before.content_id, seen.now.content_id)
    assert path.read_text() == "changed by another program\n"


def test_the_copy_is_taken_again_when_the_request_is_allowed(scene: Scene) -> None:
    path = scene.project / "a.py"
    path.write_text("when it asked\n")
    scene.ask("a.py", "new\n")
    path.write_text("when it was allowed\n")
    scene.allow()
    first, second = (copy.state.digest for copy in scene.files()["a.py"].copies)
    assert first != second
    scene.ask("a.py", "new\n", "q2")
    scene.allow("q2")
    assert len(scene.files()["a.py"].copies) == 3, "nothing changed between asking and allowing"


def test_a_person_who_chooses_another_file_gets_a_copy_of_that_one(scene: Scene) -> None:
    (scene.project / "b.py").write_text("b\n")
    scene.ask("a.py", "x\n", takes_input=True)
    scene.allow(changed={"file_path": str(scene.project / "b.py"), "content": "x\n"})
    assert scene.files()["b.py"].before.status == "kept"


def test_what_cannot_be_kept_says_why(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_images, "MAX_FILE_BYTES", 10)
    (scene.project / "large").write_text("x" * 11)
    (scene.project / "link").symlink_to("large")
    os.mkfifo(scene.project / "pipe")
    for number, name in enumerate(("large", "link", "pipe")):
        scene.ask(name, "y", f"q{number}")
    states = {name: (file.before.status, file.before.detail) for name, file in scene.files().items()}
    assert states["large"][0] == "too_large"
    assert states["link"] == ("unreadable", "a symbolic link")
    assert states["pipe"] == ("unreadable", "not a regular file")
    with pytest.raises(UsageError, match="The file was not copied before the change"):
        scene.revert("large", "too_large")


def test_nothing_is_written_through_a_link(scene: Scene, tmp_path: Path) -> None:
    folder = scene.project / "src"
    folder.mkdir()
    (folder / "a.py").write_text("one\n")
    scene.ask("src/a.py", "two\n")
    content_id = scene.files()["a.py"].before.content_id
    folder.rename(scene.project / "old")
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConflictError, match="is now a link"):
        scene.revert("src/a.py", content_id)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_only_files_with_a_copy_can_be_reverted(scene: Scene) -> None:
    with pytest.raises(NotFoundError):
        scene.reverts.plan("claude", "s1", "/etc/hosts", "absent")


def test_copies_are_checked_and_bounded(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "before")
    marks = []
    for number, text in enumerate((b"a" * 100, b"b" * 100)):
        (tmp_path / "file").write_bytes(text)
        state, data = read_state(tmp_path / "file")
        store.put(state.digest, data or b"")
        os.utime(tmp_path / "before" / state.digest[:2] / state.digest, (number, number))
        marks.append(state.digest)
    assert store.get(marks[1]) == b"b" * 100
    kept = tmp_path / "before" / marks[1][:2] / marks[1]
    assert kept.stat().st_mode & 0o077 == 0
    store.prune(kept.stat().st_size)
    with pytest.raises(NotFoundError, match="cannot be read"):
        store.get(marks[0])
    kept.write_bytes((tmp_path / "before" / marks[1][:2] / marks[1]).read_bytes()[:-1])
    with pytest.raises(NotFoundError):
        store.get(marks[1])


@pytest.mark.parametrize("name", ["a\0b/c", "c\0", "a\ud800b/c"])
@pytest.mark.parametrize("folder", ["/", "/a\0b", "/a\udc00b"])
def test_paths_that_no_file_can_have(name: str, folder: str) -> None:
    """Logs may contain them. They are shown as they are."""
    assert resolved(name, folder) == f"{folder.rstrip('/')}/{name}"
