"""How the command behaves among others: pipes, terminals, signals, help, and text that wants to do harm."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import subprocess
import sys
import termios
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO

import pytest

from unspool._version import __version__
from unspool.cli.main import commands
from unspool.core.errors import NotFoundError
from unspool.testing import ClaudeLog, GeminiLog, call

from ..waiting import PATIENCE, wait_until
from .run import COMMAND, SAMPLES, Run, call_main, environment, on_terminal

NASTY = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\click\x1bPq#\x1b\\\x9b31m\x85\x08\x08\x00\x7f\u202egnp.exe "
    "&#x202e;&#27;[1m"
)
FORBIDDEN = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160)) if code != 13] + ["\u202e"]
OF_RICH = ("\x1b[", "\x1b]8;")


def nasty_home(home: Path) -> Path:
    """Sessions with harmful text wherever text can be."""
    log = ClaudeLog()
    log.user(f"prompt {NASTY}", gitBranch=NASTY)
    log.model(f"answer {NASTY}\n\n```{NASTY}\ncode {NASTY}\n```\n\n[link {NASTY}](http://x/{NASTY})")
    log.model({"type": "thinking", "thinking": f"thought {NASTY}", "signature": "s"})
    log.model(
        call("c1", f"Tool{NASTY}", command=NASTY),
        call(f"c2{NASTY}", "Edit", file_path=NASTY, old_string=NASTY, new_string="y"),
    )
    log.result("c1", f"output {NASTY}", error=True)
    log.result("gone", f"lost {NASTY}")
    log.line("attachment", None, attachment={"type": NASTY, "content": NASTY})
    log.boundary(trigger="manual", preTokens=1)
    log.user(f"summary {NASTY}", isCompactSummary=True)
    log.raw(f'{{"type":"{NASTY}"'.encode())
    log.write(home)
    other = GeminiLog()
    other.lines[0] = other.lines[0].replace(other.session.encode(), b"evil[/b]\\u001b[31m\\u009b")
    other.user("u", NASTY)
    other.message("gemini", "g", NASTY, model=NASTY)
    other.write(home)
    return home


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "--kind", "all"),
        ("show", "{claude}", "--full", "--branches", "all"),
        ("show", "{gemini}"),
        ("export", "--format", "markdown"),
        ("export", "{claude}", "--format", "html"),
        ("export", "{gemini}", "--format", "html"),
        ("context", "{claude}", "--at", "5"),
        ("context", "--each"),
        ("events",),
        ("doctor", "--all"),
        ("show", "\x1b[31mnosuch\x9b"),
        ("show", "{gemini}", "--tip", "nosuch"),
    ],
)
def test_control_characters_are_removed_from_output(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """No escape sequence, control character or turned direction of a transcript reaches the output."""
    home = nasty_home(tmp_path)
    (claude,) = (home / ".claude").rglob("*.jsonl")
    (gemini,) = (home / ".gemini").rglob("*.jsonl")
    names = {"{claude}": str(claude), "{gemini}": str(gemini)}
    done = run(*(names.get(word, word) for word in arguments), "--home", home)
    assert done.out + done.err != ""
    assert [sign for sign in FORBIDDEN if sign in done.out + done.err] == []


def test_control_characters_are_removed_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal there are only the sequences for colours and links that we make ourselves."""
    home = nasty_home(tmp_path)
    (claude,) = (home / ".claude").rglob("*.jsonl")
    (gemini,) = (home / ".gemini").rglob("*.jsonl")
    for path in (claude, gemini):
        shown = on_terminal(("show", path, "--full", "--no-pager"), home).out
        assert "\x1b[2J" not in shown
        assert "\x1b]0" not in shown
        assert [sign for sign in FORBIDDEN if sign in shown.replace("\x1b", "")] == []
        assert shown.count("\x1b") == sum(shown.count(start) for start in OF_RICH) + shown.count("\x1b\\")


def test_json_on_a_terminal(tmp_path: Path) -> None:
    """Characters that control the terminal are escaped; the values are the same as in a pipe."""
    log = ClaudeLog()
    log.user("clear\x9b2J \u202eevil")
    path = log.write(tmp_path)
    path.rename(path.with_name("\u2066\x9b31m.jsonl"))
    shown = on_terminal(("ls", "--json", "--home", tmp_path), tmp_path).out
    assert [sign for sign in FORBIDDEN if sign in shown] == []
    (item,) = map(json.loads, shown.splitlines())
    assert (item["title"], Path(item["path"]).name) == ("clear\x9b2J \u202eevil", "\u2066\x9b31m.jsonl")


@pytest.mark.parametrize("arguments", [("ls",), ("events",)])
def test_tables(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A table with colours on a terminal, tabs elsewhere."""
    shown = on_terminal((*arguments, "--home", SAMPLES), tmp_path).out
    assert "\x1b[" in shown
    assert "\t" not in shown
    plain = run(*arguments, "--home", SAMPLES).out
    assert "\x1b" not in plain
    assert "\t" in plain


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "--format", "stream"),
        ("ls", "--json"),
        ("events",),
        ("context", "--each"),
        ("show", "3cba", "--full"),
    ],
)
def test_a_closed_pipe_is_no_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """`| head -1` ends the command without an error message."""
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--home", SAMPLES, "--home", str(big_home(tmp_path))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def big_home(folder: Path) -> Path:
    """A session whose export fits into no pipe."""
    log = ClaudeLog("big")
    for number in range(3_000):
        log.user(f"prompt {number} " + "x" * 1_000)
        log.model(f"answer {number}")
    log.write(folder / "big")
    return folder / "big"


def test_ctrl_c(tmp_path: Path) -> None:
    """An export that is interrupted exits with 130 and without a message, even if its output is not read."""
    process = subprocess.Popen(
        [*COMMAND, "export", "--format", "stream", "--home", str(big_home(tmp_path))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    wait_until_full(process.stdout)
    process.send_signal(signal.SIGINT)
    try:
        # If it waits for a reader, it must not wait forever.
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


def wait_until_full(pipe: IO[bytes]) -> None:
    """Wait until nothing more is written into a pipe that is not read.

    On a machine so busy that the writer does not run between two looks, this is too early: the command then ends in the
    middle of its work instead of while it waits, and has to end in the same way.
    """
    sizes = [0, 0]

    def is_full() -> bool:
        sizes.append(int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder))
        return 0 < sizes[-1] == sizes[-2] == sizes[-3]

    wait_until(is_full, "a pipe that is full", detail=lambda: f"It holds {sizes[-1]} bytes")


def test_an_encoding_without_all_characters(tmp_path: Path) -> None:
    """Characters that cannot be encoded become question marks."""
    done = subprocess.run(
        [*COMMAND, "show", "37c2", "--home", SAMPLES], capture_output=True, check=False, timeout=PATIENCE,
        env=environment(tmp_path, PYTHONIOENCODING="ascii"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


@pytest.mark.parametrize("arguments", [("show", "37c2"), ("ls",), ("doctor", "--all"), ("context", "--each")])
def test_an_output_that_fails(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same for other commands, whose output is made to be of this kind."""
    out = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert call_main((*arguments, "--home", SAMPLES)) == 0
    out.flush()
    assert out.buffer.getvalue()
    assert out.buffer.getvalue().isascii()
    assert capsys.readouterr().err == ""


READS_LOGS = re.compile(r"unspool\.agents\.(?P<agent>\w+)\.(?:reader|parser|discovery|repair|tools)")


def test_help_loads_next_to_nothing(tmp_path: Path) -> None:
    """It needs the table of event kinds for the names of commands, but not the types of the record."""
    program = "import sys; from unspool.cli.main import main; main([]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE,
        env=environment(tmp_path),
    )  # fmt: skip
    loaded = set(done.stderr.split())
    assert "rejections" in done.stdout
    assert "unspool.core.events" in loaded
    assert loaded & {"msgspec", "unspool.core.model", "unspool.agents"} == set()


def test_simple_commands_start_fast(tmp_path: Path) -> None:
    """What they do not need is not loaded: drawing and templates in a pipe, the database and its search for files."""
    program = """
import sys
from unspool.cli.main import main
for arguments in (("ls",), ("ls", "--json"), ("events",), ("export", "37c2"), ("export", "37c2", "--format", "stream")):
    assert main([*arguments, "--home", sys.argv[1]]) == 0
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, SAMPLES], capture_output=True, text=True, check=False, timeout=PATIENCE,
        env=environment(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "unspool.library" in loaded
    heavy = {
        "asyncio", "jinja2", "markdown_it", "pygments", "rich", "unspool.ingest", "unspool.runs", "unspool.search",
        "unspool.store.store", "unspool.web",
    }  # fmt: skip
    assert loaded & heavy == set()


def test_a_list_from_the_store_starts_fast(tmp_path: Path) -> None:
    """It needs no readers, no search, nothing that finds secrets, no prices, statistics or scripts of the tables."""
    program = """
import sys
from pathlib import Path
from unspool.cli.main import main
main(["sync", "--home", sys.argv[1]]) if sys.argv[2:] else None
texts, read_text = [], Path.read_text
Path.read_text = lambda path, *values: texts.append(path.name) or read_text(path, *values)
assert main(["ls", "--stored"]) == main(["ls"]) == 0
print(*sys.modules, *texts, file=sys.stderr)
"""
    for more in (["sync"], []):
        done = subprocess.run(
            [sys.executable, "-c", program, SAMPLES, *more], capture_output=True, text=True, check=False,
            timeout=PATIENCE, env=environment(tmp_path),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "unspool.store.sessions" in loaded
    heavy = {
        "hashlib", "importlib.resources", "logging", "statistics", "tempfile", "tomllib", "unspool.redact.detect",
        "unspool.search", "unspool.store.search",
    }  # fmt: skip
    assert loaded & heavy == set()
    assert [name for name in loaded if READS_LOGS.fullmatch(name)] == []
    assert not [name for name in loaded if name.endswith(".sql")]


def test_a_session_is_shown_by_one_reader(tmp_path: Path) -> None:
    """Readers of other agents are not loaded."""
    program = """
import sys
from unspool.cli.main import main
assert main(["show", sys.argv[1]]) == 0
print(*sys.modules, file=sys.stderr)
"""
    (path, *_) = Path(SAMPLES).rglob("rollout-*.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False, timeout=PATIENCE,
        env=environment(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    agents = {found["agent"] for name in done.stderr.split() if (found := READS_LOGS.fullmatch(name))}
    assert agents == {"codex"}


def test_help(run: Run) -> None:
    """Without arguments and with `--help`: all commands; each command has help with examples of its own."""
    assert run().out == run("--help").out
    assert run().code == run("--help").code == 0
    for name, text in commands().items():
        assert f"  {name:<15}{text}" in run().lines
        done = run(name, "--help")
        assert done.code == 0
        assert f"unspool {name} " in done.out.split("examples:")[1] + " "


def test_the_version(run: Run) -> None:
    """`--version` says which."""
    assert run("--version") == (0, f"unspool {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", [("list",), ("ls", "--nosuch"), ("--nosuch",), ("export", "--format", "pdf"), ("show",)]
)
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    """Exit code 2, nothing printed, and the usage beside it."""
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: unspool")


def test_options_between_names(run: Run) -> None:
    """Before the command is asked for, after it, or in the middle of its sessions."""
    expected = run("export", "37c2", "cdc4", "--home", SAMPLES).out
    assert expected
    assert run("export", "37c2", "--home", SAMPLES, "cdc4").out == expected
    assert run("--debug", "export", "--home", SAMPLES, "37c2", "cdc4").out == expected


def test_debug_prints_the_traceback() -> None:
    """`--debug` lets an error out as it is."""
    with pytest.raises(NotFoundError, match="nosuch"):
        call_main(("show", "nosuch", "--debug"))
