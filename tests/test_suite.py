"""The suite itself: what it prints at the end of a run, and that a run leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .needs import NEEDS
from .waiting import is_running, wait_until

ROOT = Path(__file__).parents[1]
INNER = """
import os, pathlib, subprocess, tempfile
import pytest

@pytest.mark.parametrize("name", ["with a space"])
def test_that_fails(name):
    assert not name

def test_that_is_skipped():
    pytest.skip("no Java on the PATH")

def test_that_leaves_something_behind():
    pathlib.Path(tempfile.mkdtemp(), "file").write_text("kept")
    pathlib.Path.home().joinpath("settings").write_text("changed")
    process = subprocess.Popen(["sleep", "600"])
    print(f"pid={process.pid} home={pathlib.Path.home()} temp={tempfile.gettempdir()}")
    process.returncode = 0
"""
CLOCK = re.compile(
    r"wait_for_timeout\(|time\.sleep\(|asyncio\.sleep\((?!0\))|perf_counter|\btimeout=\d|\.(?:wait|join|get)\([\d.]+\)"
    r"|monotonic\(\)"
)
"""Waiting for seconds, or measuring them."""
SETUP = """
import tests.isolation
tests.isolation._GRACE_SECONDS = 0
pytest_plugins = ["tests.isolation", "tests.summary"]
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run prints whose tests do everything they should not."""
    folder = tmp_path_factory.mktemp("inner")
    (folder / "test_inner.py").write_text(INNER)
    (folder / "conftest.py").write_text(SETUP)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:randomly", "-p", "no:schemathesis", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return done.stdout


def test_a_failure_prints_the_command_that_runs_it_again(output: str) -> None:
    """It can be pasted into a shell."""
    assert re.search(r"^\S*python\S* -m pytest 'test_inner.py::test_that_fails\[with a space\]'$", output, re.MULTILINE)


def test_the_summary_says_what_was_left_out(output: str) -> None:
    """How many tests, and why."""
    assert re.search(r"= Left out =+\n +1 test +no Java on the PATH\n", output)


def test_a_process_that_is_left_behind_fails_the_run(output: str) -> None:
    """It is named, and ended."""
    found = re.search(r"pid=(\d+)", output)
    assert found
    assert re.search(rf"= Processes left behind =+\n{found[1]} sleep 600\n", output)
    wait_until(lambda: not is_running(int(found[1])), "the process to be ended")


def test_files_are_written_to_a_folder_that_goes_away(output: str) -> None:
    """Temporary files and the home directory alike."""
    found = re.search(r"home=(\S+) temp=(\S+)", output)
    assert found
    assert not Path(found[1]).exists()
    assert not Path(found[2]).exists()
    assert Path(found[1]).is_relative_to(found[2])


def test_modules_that_need_something_exist() -> None:
    """A module that was moved would lose its mark unnoticed."""
    assert [path for paths in NEEDS.values() for path in paths if not (ROOT / "tests" / path).is_file()] == []


def test_no_test_depends_on_the_clock() -> None:
    """`tests.waiting` waits for conditions and bounds CPU time. An exception says why in a comment on its line."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _modules()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if CLOCK.search(line) and " # " not in line
    ]
    assert found == []


def _modules() -> list[Path]:
    found = []
    for folder, folders, names in os.walk(ROOT / "tests"):
        # There are thousands of folders in it.
        folders[:] = [name for name in folders if name != "corpus"]
        found += [Path(folder, name) for name in names if name.startswith("test_") and name.endswith(".py")]
    return sorted(found)
