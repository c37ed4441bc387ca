"""Real agents that try to read unspool's token and to decide about themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.core.errors import UnspoolError, UsageError
from unspool.runs.protocol import RunSpec
from unspool.runs.sandbox import check_sandbox, hidden_paths, sandboxed

from .end_to_end import Whole, whole

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are identified through /proc, and bwrap")
ATTACK = """
import json, os, pathlib, subprocess, sys, urllib.error, urllib.request
base, data, store = sys.argv[1:]
secret = pathlib.Path(data) / "web-access.json"

def attempt(name, work):
    try:
        print(name, "->", work())
    except urllib.error.HTTPError as error:
        print(name, "-> status", error.code)
    except Exception as error:
        print(name, "-> failed", type(error).__name__)

def token():
    return json.loads(secret.read_text())["token"]

def post():
    request = urllib.request.Request(f"{base}/api/runs", b"{}", {"authorization": f"Bearer {token()}"})
    return urllib.request.urlopen(request).status

def run():
    command = [sys.executable, "-m", "unspool", "run", "--detach", "hello"]
    environment = {**os.environ, "UNSPOOL_DATA": data}
    return subprocess.run(command, capture_output=True, text=True, env=environment).stderr.strip()

def through_proc():
    roots = pathlib.Path("/proc").glob("[0-9]*/root")
    return sum(os.path.exists(f"{root}{secret}") for root in roots)

attempt("token", lambda: len(token()) > 20)
attempt("post", post)
attempt("run", run)
attempt("proc", through_proc)
attempt("data", lambda: os.listdir(data))
attempt("store", lambda: len(pathlib.Path(store).read_bytes()))
"""


def attacked(at: Whole) -> list[str]:
    """What an agent finds out with a command that a person has allowed."""
    attack = at.project / "attack.py"
    attack.write_text(ATTACK)
    command = f"{sys.executable} {attack} {at.server.base} {at.data} {at.server.store} > found 2>&1"
    run = at.start(f"@do {at.agent.asking} {command};;say Done.")
    status, reply = at.answer(run, at.asked(run), "allow")
    assert status == 200, reply
    at.until_in(run, "idle")
    assert len(at.server.api("/runs")["runs"]) == 1
    return (at.project / "found").read_text().splitlines()


def test_an_agent_can_read_the_token_and_not_act_with_it(tmp_path: Path) -> None:
    """It runs as the same user. What it sends is recognised, and so are the commands that it starts."""
    with whole(tmp_path, "codex") as at:
        token, post, run, *_ = attacked(at)
    assert token == "token -> True"
    assert post == "post -> status 403"
    assert "decisions about agents are made by people" in run


def test_in_a_sandbox_nothing_of_ours_is_in_reach(tmp_path: Path) -> None:
    """Neither the token nor anything else in the data directory, nor the store elsewhere, not even through /proc."""
    try:
        check_sandbox()
    except UnspoolError as error:
        pytest.skip(str(error))
    with whole(tmp_path, "claude", "--sandbox") as at:
        token, post, run, proc, data, store = attacked(at)
    assert token == "token -> failed FileNotFoundError"
    assert post == "post -> failed FileNotFoundError"
    assert "no server is running" in run
    assert proc == "proc -> 0"
    assert data == "data -> []"
    assert store == "store -> failed PermissionError"


def test_the_command_of_a_sandbox(tmp_path: Path) -> None:
    """Folders are replaced by empty ones and databases by a device; a project inside of them cannot be used."""
    data, store = tmp_path / "data", tmp_path / "other.db"
    (data / "project").mkdir(parents=True)
    store.touch()
    hidden = hidden_paths(data, str(store))
    command = sandboxed(["agent", "--option"], RunSpec(folder=str(tmp_path), hidden=hidden))
    assert command[-3:] == ["--", "agent", "--option"]
    assert f"--tmpfs {data}" in " ".join(command)
    assert f"--ro-bind /dev/null {store}" in " ".join(command)
    assert f"{store}-wal" not in command
    assert sandboxed(["agent"], RunSpec(folder=str(tmp_path))) == ["agent"]
    assert hidden_paths(data, "postgresql://db/x") == (str(data),)
    with pytest.raises(UsageError, match="data directory"):
        sandboxed(["agent"], RunSpec(folder=str(data / "project"), hidden=hidden))
