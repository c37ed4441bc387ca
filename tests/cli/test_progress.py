"""The progress line: only on a terminal, and never in the way of the output."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unspool.cli._shared import progress


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def slow(clock: Clock, seconds: float) -> Iterator[int]:
    """Items that take a while."""
    for number in range(1, 4):
        clock.now += seconds
        yield number


def on_terminal(monkeypatch: pytest.MonkeyPatch, *, out: bool, err: bool) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: out, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: err, raising=False)


def test_long_work_shows_a_line(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many there were so far; it is removed at the end."""
    on_terminal(monkeypatch, out=False, err=True)
    assert list(progress.with_progress(slow(clock, 1), "sessions")) == [1, 2, 3]
    out, err = capsys.readouterr()
    assert out == ""
    assert [text for text in err.split("\r") if text.strip()] == [f"{count} sessions …" for count in (1, 2, 3)]
    assert err.endswith(f"\r{' ' * len('3 sessions …')}\r")


@pytest.mark.parametrize(("seconds", "err"), [(0.1, True), (10, False)])
def test_short_work_and_files_get_none(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: float, err: bool
) -> None:
    on_terminal(monkeypatch, out=False, err=err)
    assert list(progress.with_progress(slow(clock, seconds), "sessions")) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_output_on_the_same_terminal_has_a_line_of_its_own(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is removed before an item is passed on, because that may be printed."""
    on_terminal(monkeypatch, out=True, err=True)
    for number in progress.with_progress(slow(clock, 1), "files"):
        err = capsys.readouterr().err
        assert err == "" if number == 1 else err == f"\r{number - 1} files …\r{' ' * len('1 files …')}\r"
