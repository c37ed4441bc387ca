"""No way out has a secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.formats import FORMATS
from unspool.testing import ClaudeLog, call

from ...formats.receiver import collector
from ...formats.rejecting import reject
from ...redact.leaky import PLANTED, contents, leaked, write_leaky_home
from ..run import Run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session with secrets in prompts, answers, inputs and outputs."""
    return write_leaky_home(tmp_path / "home")


def test_personal_data_in_other_formats(run: Run, tmp_path: Path) -> None:
    """The name of the user is in the path of the project, among others."""
    log = ClaudeLog()
    log.user("where is it?", cwd="/home/hildegard/demo")
    log.model("in /home/hildegard/demo, hildegard", cwd="/home/hildegard/demo")
    log.write(tmp_path / "personal")
    for format in FORMATS:
        out = tmp_path / format.name
        run("export", "--home", tmp_path / "personal", "--format", format.name, "-o", out)
        assert b"hildegard" in contents(out)
        run("export", "--home", tmp_path / "personal", "--format", format.name, "-o", out, "--redact-personal")
        assert b"hildegard" not in contents(out)


def test_traces_that_are_sent(run: Run, home: Path) -> None:
    with collector() as (address, received):
        run("export", "--home", home, "--format", "otel", "--to", address)
        assert leaked(b"".join(request.body for request in received))
        received.clear()
        run("export", "--home", home, "--format", "otel", "--to", address, "--redact")
        assert received
        assert leaked(b"".join(request.body for request in received)) == []


def test_pairs(run: Run, tmp_path: Path) -> None:
    log = ClaudeLog("pairs")
    for number, one in enumerate(PLANTED):
        log.user(f"Use this: {one.text}")
        log.model(call(f"call-{number}", command=f"echo '{one.text}'"))
        reject(log, f"call-{number}", f"not with {one.text}")
        log.model(call(f"other-{number}", command=f"print '{one.text}'"))
        log.result(f"other-{number}", "done")
    log.write(tmp_path / "rejecting")
    assert leaked(run("pairs", "--home", tmp_path / "rejecting").out.encode())
    redacted = run("pairs", "--home", tmp_path / "rejecting", "--redact")
    assert len(redacted.records) == len(PLANTED)
    assert leaked(redacted.out.encode()) == []


def test_exports_for_people_say_that_they_contain_secrets(run: Run, home: Path, tmp_path: Path) -> None:
    result = run("export", "--home", str(home), "--format", "html", "-o", str(tmp_path / "out"))
    assert "--redact replaces them" in result.err


def test_shared_pages(run: Run, home: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("share", "--home", str(home), "-o", str(page))
    assert leaked(page.read_bytes()) == []
    assert f"Redacted {len(PLANTED)} values" in result.err
    assert leaked((result.out + result.err).encode()) == []
    run("share", "--home", str(home), "-o", str(page), "--with-secrets")
    assert leaked(page.read_bytes())
    run("share", "--home", str(home), "-o", f"{tmp_path}/pages/")
    (page,) = (tmp_path / "pages").glob("*-*.html")
    assert page.name in (tmp_path / "pages" / "index.html").read_text()
    assert leaked(page.read_bytes()) == []


def test_a_check_writes_nothing(run: Run, home: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    report = json.loads(run("share", "--home", str(home), "--check", "--json").out)
    assert report["files"] == []
    assert sum(report["redacted"]["counts"].values()) >= len(PLANTED)
    assert [path for path in sorted(tmp_path.rglob("*")) if "data" not in path.parts] == [
        path for path in before if "data" not in path.parts
    ]


def test_secrets_are_listed_and_not_printed(run: Run, home: Path) -> None:
    out = run("secrets", "--home", str(home), "--json").out
    found = [json.loads(line) for line in out.splitlines()]
    assert leaked(out.encode()) == []
    assert len({one["placeholder"] for one in found}) >= len(PLANTED)
    assert len({one["session"]["name"] for one in found}) == 1
    assert all(one["count"] >= 1 and one["message_index"] is not None for one in found)
    assert found[0]["message_index"] == 0
