"""What a shell and its user meet: completion, manual pages, suggestions, exit codes, and files that are whole."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tools.docs import man_pages

from unspool.cli.main import EXIT_CODES, commands
from unspool.testing import ClaudeLog

from ..waiting import PATIENCE
from .run import SAMPLES, Run


def completed(script: str, words: list[str]) -> set[str]:
    """What bash offers for the last of some words."""
    program = f"""{script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}; _unspool; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values(run: Run) -> None:
    script = run("completion", "bash").out
    assert completed(script, ["unspool", ""]) == {*commands(), "--help", "--version"}
    assert completed(script, ["unspool", "rej"]) == {"rejections"}
    assert completed(script, ["unspool", "ls", "--pro"]) == {"--project"}
    assert completed(script, ["unspool", "ls", "--kind", ""]) == {"main", "subagent", "all"}
    assert completed(script, ["unspool", "completion", ""]) >= {"bash", "zsh", "fish"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_every_command(run: Run, shell: str) -> None:
    """Where the shell is installed, it accepts the script."""
    script = run("completion", shell).out
    assert [name for name in commands() if name not in script] == []
    assert "--no-sync" in script or "-l no-sync" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=PATIENCE)


def test_the_manual_pages_are_those_of_the_help() -> None:
    """`make regen` updates them."""
    assert {path.name: path.read_text(encoding="utf-8") for path in man_pages.FOLDER.iterdir()} == man_pages.pages()


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no `man`")
def test_the_manual_pages_can_be_read() -> None:
    for name in ("unspool.1", "unspool-search.1"):
        done = subprocess.run(
            ["man", "-l", man_pages.FOLDER / name], capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        assert "EXIT STATUS" in done.stdout
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("lss",), "ls"),
        (("serch", "x"), "search"),
        (("ls", "--prject", "x"), "--project"),
        (("rejections", "--sicne=7d"), "--since"),
        (("ls", "agnet:codex"), "agent:"),
        (("ls", "has:rejektion"), "rejection"),
        (("search", "agnet:codex"), "agent:"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_misspelled(run: Run, arguments: tuple[str, ...], meant: str) -> None:
    """What was probably meant is suggested."""
    done = run(*arguments)
    assert done.code == 2
    assert meant in done.err.splitlines()[-1] + done.err.split("did you mean")[-1]


def test_exit_codes(run: Run, tmp_path: Path) -> None:
    """Each of the table, but the one for Ctrl-C, for which there is a test of its own."""
    assert list(EXIT_CODES) == [0, 1, 2, 130]
    assert run("ls", "--samples").code == 0
    assert run("show", "nosuch", "--samples").code == 1
    assert run("search", "--samples", "xyzzyplugh").code == 1
    assert run("show", "01a1e16", "--samples").code == 2
    assert run("ls", "--nosuch").code == 2
    assert run("ls", "--since", "yesterdayish").code == 2


def test_errors_name_the_real_cause(run: Run, tmp_path: Path) -> None:
    """Not just that there is no such file."""
    (tmp_path / "empty").mkdir()
    log = ClaudeLog()
    log.user("hello")
    log.write(tmp_path / "one")
    for arguments, error in (
        (("schema", "--check", tmp_path), "is a directory"),
        (("schema", "--check", tmp_path / "none"), "no such file"),
        (("show", tmp_path / "none.jsonl"), "no session"),
        (("show", tmp_path / "empty"), "is a directory with no sessions"),
        (("show", SAMPLES), "is a directory with 9 sessions; name one session"),
        (("context", SAMPLES, "--at", "1"), "is a directory with 9 sessions; name one session"),
        (("ls", "--home", tmp_path / "none"), "no such file or directory"),
        (("export", "37c2", "--home", SAMPLES, "-o", tmp_path / "none" / "x.md"), "No such file or directory"),
    ):
        done = run(*arguments)
        assert done.code in (1, 2), arguments
        assert error in done.err, arguments
        assert done.out == ""
    assert "hello" in run("show", tmp_path / "one").out


@pytest.mark.parametrize("existing", [None, b"what was there before"])
@pytest.mark.parametrize("format", ["ndjson", "stream", "markdown", "html"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_an_interrupted_export_leaves_nothing_half_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bytes | None, format: str, is_folder: bool
) -> None:
    """Under the final name is the whole file, or what was there before."""
    folder = tmp_path / "out"
    folder.mkdir()
    (name,) = Path(SAMPLES).glob(".claude/projects/*/37c2*.jsonl")
    suffix = {"markdown": "md", "html": "html"}.get(format, "ndjson")
    target = folder / f"{name.stem}.{suffix}"
    if existing is not None:
        target.write_bytes(existing)
    from unspool.cli.commands import export

    pieces = export._pieces

    def interrupted(*arguments: object) -> object:
        for number, piece in enumerate(pieces(*arguments)):  # type: ignore[arg-type]
            yield piece
            if number == (0 if format == "ndjson" else 2):
                raise KeyboardInterrupt

    monkeypatch.setattr(export, "_pieces", interrupted)
    place = f"{folder}/" if is_folder else target
    monkeypatch.setattr("unspool.cli.main._discard_output", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    done = run("export", "37c2", "--home", SAMPLES, "--format", format, "-o", place)
    assert done.code == 130
    assert [path.read_bytes() for path in folder.iterdir()] == ([] if existing is None else [existing])
