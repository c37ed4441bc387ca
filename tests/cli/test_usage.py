"""`unspool usage`: the same tokens in every grouping and form, and their cost."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from unspool.store.usage_report import DIMENSIONS

from .run import call_main
from .test_store_commands import folder_to_read, home_to_read, output

__all__ = ["folder_to_read", "home_to_read"]

COUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")

pytestmark = pytest.mark.usefixtures("home_to_read")


@pytest.mark.parametrize("by", [*DIMENSIONS, "day,model,project,agent", "model,agent"])
def test_groups_add_up(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON and CSV alike, and to what `unspool stats` says."""
    stats = json.loads(output(capsys, "stats", "--json"))
    report = json.loads(output(capsys, "usage", "--by", by, "--json"))
    rows = list(csv.DictReader(io.StringIO(output(capsys, "usage", "--by", by, "--csv"))))
    assert len(rows) == len(report["entries"]) > 0
    assert [[row[name] for name in by.split(",")] for row in rows] == [
        [entry[name] for name in by.split(",")] for entry in report["entries"]
    ]
    for name in COUNTS:
        assert sum(int(row[name]) for row in rows) == report["total"]["tokens"][name]
        assert name == "cache_write_1h" or report["total"]["tokens"][name] == sum(e[name] for e in stats["tokens"])
    cost = report["total"]["cost"]["usd"]
    assert cost > 0
    assert sum(float(row["cost_usd"]) for row in rows) == pytest.approx(cost, abs=1e-5 * len(rows))
    assert sum(entry["cost_usd"] for entry in stats["tokens"]) == pytest.approx(cost)


def test_turns_and_sub_agents_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    """To what the session and its sub-agents used."""
    by_session = json.loads(output(capsys, "usage", "--by", "session", "--json"))["entries"]
    found = json.loads(output(capsys, "usage", "3cbae", "--json"))
    own = next(entry for entry in by_session if entry["session"] == found["session"]["name"])
    assert sum(turn["tokens"]["output"] for turn in found["turns"]) == own["tokens"]["output"]
    assert sum(turn["cost"]["usd"] for turn in found["turns"]) == pytest.approx(own["cost"]["usd"])
    parts = [found["usage"]["cost"], *(one["cost"] for one in found["usage"]["subagents"])]
    assert found["usage"]["subagents"]
    assert sum(part["usd"] for part in parts) == pytest.approx(found["usage"]["total"]["usd"])
    lines = output(capsys, "usage", "3cbae").splitlines()
    assert len(lines) == 2 + len(found["turns"]) + len(found["usage"]["subagents"])
    assert lines[-1].startswith("total\t")


def test_filters(capsys: pytest.CaptureFixture[str]) -> None:
    """By agent, model, project and time; `-n` shows what costs most."""
    everything = json.loads(output(capsys, "usage", "--by", "agent,model", "--json"))["entries"]
    for entry in everything:
        filters = ("--agent", entry["agent"], "--model", entry["model"])
        assert json.loads(output(capsys, "usage", "--by", "agent,model", "--json", *filters))["entries"] == [entry]
    for nothing in (("--until", "2020-01-01"), ("--since", "2100-01-01"), ("--project", "no such"), ("--model", "x")):
        assert json.loads(output(capsys, "usage", "--json", *nothing))["entries"] == []
    (most,) = json.loads(output(capsys, "usage", "--by", "agent,model", "--json", "-n", "1"))["entries"]
    assert most["cost"]["usd"] == max(entry["cost"]["usd"] for entry in everything)


def test_own_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """They replace the price of a model."""
    path = tmp_path / "own.toml"
    path.write_text('[[model]]\nnames = ["gpt-5.5"]\nprices = [{ input = 0, output = 1000000 }]\n')
    monkeypatch.setenv("UNSPOOL_PRICES", str(path))
    report = json.loads(output(capsys, "usage", "--by", "model", "--model", "gpt-5.5", "--json"))
    assert report["total"]["cost"]["usd"] == pytest.approx(report["total"]["tokens"]["output"])
    assert str(path) in report["price_source"]


@pytest.mark.parametrize("damage", [b"[[model", b"\xff\xfe", b'[[model]]\nnames = ["x"]\nprices = []\n'])
def test_damaged_prices_leave_only_the_costs_out(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else is shown, the file is named once, and the exit code says that something is missing."""
    commands = [(*words.split(), "--json") for words in ("usage --by model", "usage 3cbae", "stats", "ls --cost")]
    expected = [output(capsys, *command) for command in commands]
    path = tmp_path / "own.toml"
    path.write_bytes(damage)
    monkeypatch.setenv("UNSPOOL_PRICES", str(path))
    for command, before in zip(commands, expected, strict=True):
        assert call_main(command) == 1
        out, err = capsys.readouterr()
        assert err.count("no costs are shown") == 1
        assert str(path) in err
        assert "add one to" not in err
        assert list(map(without_costs, out.splitlines())) == list(map(without_costs, before.splitlines()))


def without_costs(line: str) -> object:
    """The tokens of a line."""
    kept = {"replies", "entries", "usage", "turns", "total", *COUNTS, "tokens", "session", "sessions", "name", "days"}

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {key: strip(part) for key, part in value.items() if key in kept}
        return [strip(part) for part in value] if isinstance(value, list) else value

    return strip(json.loads(line))


def test_a_wrong_grouping_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """With what can be chosen."""
    assert call_main(("usage", "--by", "day,colour")) == 2
    assert "Cannot group by 'colour'; choose from day," in capsys.readouterr().err


def test_lists_show_the_cost_of_each_session(capsys: pytest.CaptureFixture[str]) -> None:
    """The same as by session, for people and for programs; only if they ask for it."""
    by_session = json.loads(output(capsys, "usage", "--by", "session", "--json"))["entries"]
    costs = {entry["session"]: entry["cost"]["usd"] for entry in by_session}
    items = [json.loads(line) for line in output(capsys, "ls", "--cost", "--json").splitlines()]
    assert items
    assert {item["name"]: item["cost_usd"] for item in items} == pytest.approx(
        {item["name"]: costs[item["name"]] for item in items}
    )
    header, *rows = [line.split("\t") for line in output(capsys, "ls", "--cost").splitlines()]
    assert header == ["agent", "session", "last active", "cost", "project", "title"]
    assert [row[3] for row in rows] == [f"${item['cost_usd']:.2f}" for item in items]
    assert "cost" not in output(capsys, "ls").splitlines()[0]
