"""The recorder: what it finds different between recordings, and that it records what is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.record.__main__ import Report, lines_of
from tools.record.reading import Check, checked, records_of, shapes_in
from tools.record.scenes import SCENES, truth_of
from tools.record.shapes import RecordingsShape, compare

from unspool.agents import AGENTS
from unspool.agents.shapes import Json
from unspool.core.errors import UnspoolError
from unspool.runs.registry import DRIVERS
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, wrong_counts

from ..recordings import recordings
from ..waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def shape_of(agent: str, *recordings: list[Json]) -> RecordingsShape:
    shape = RecordingsShape()
    for recording in recordings:
        shape.add_recording(AGENTS[agent], recording)
    return shape


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_new_fields_are_new_to_all_versions() -> None:
    """A field of an old version that the newest lacks is not new when it returns."""
    older = {
        "1": shape_of("claude", [{"type": "user", "old": 1}]),
        "2": shape_of("claude", [{"type": "user", "now": 1}]),
    }
    new = shape_of("claude", [{"type": "user", "old": 1, "added": {"deep": 1}}, {"type": "never-seen", "x": 1}])
    found = compare("claude", "3", new, older)
    assert found.new_kinds == ["never-seen"]
    assert found.new_fields == {"user": ["added", "added.deep"]}
    assert found.compared_with == "2"


def test_missing_fields_were_usual_before() -> None:
    """Only what nearly every record of the kind had is missed, and only kinds that were in most recordings."""
    usual = [{"type": "user", "always": 1, "id": 1} for _ in range(20)]
    rare: list[Json] = [{"type": "user", "always": 1, "id": 1, "seldom": 1}]
    older = {
        "2": shape_of("claude", [*usual, {"type": "mode"}], [*rare, {"type": "mode"}, {"type": "rare-kind"}], usual)
    }
    new = shape_of("claude", [{"type": "user", "id": 1}])
    found = compare("claude", "3", new, older)
    assert found.gone_fields == {"user": ["always"]}
    assert found.gone_kinds == {"mode": "2"}
    assert (found.new_kinds, found.new_fields) == ([], {})


def test_nothing_to_compare_with() -> None:
    """A first recording is all new."""
    found = compare("claude", "1", shape_of("claude", [{"type": "user"}]), {})
    assert (found.compared_with, found.new_kinds, found.gone_kinds) == (None, ["user"], {})


def test_a_recording_has_the_shape_of_its_own_version() -> None:
    """The recordings of the newest version hold nothing that is new to themselves."""
    (recording, *_) = recordings("gemini", "0.61.0", "rewind")
    shape = RecordingsShape()
    shape.add_recording(AGENTS["gemini"], records_of(recording.path))
    found = compare("gemini", "0.61.0", shape, {"0.61.0": shape})
    assert (found.new_kinds, found.new_fields, found.gone_kinds, found.gone_fields) == ([], {}, {}, {})
    assert {"header", "user", "gemini", "$rewindTo"} <= shape.records.keys()


# --- recordings -------------------------------------------------------------------------------------------------------


def made(folder: Path, log: ClaudeLog | CodexLog | GeminiLog, **happened: int) -> Path:
    """A recording of one log."""
    log.write(folder / "home")
    agent, version, scenario = folder.parts[-3:]
    truth = {"agent": agent, "version": version, "scenario": scenario, "truth": happened, "recoverable": happened}
    (folder / "truth.json").write_text(json.dumps(truth))
    return folder


def test_a_recording_is_checked_against_its_truth(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("hello")
    log.model(call("open", command="ls"))
    log.record({"type": "never-seen", "sessionId": log.session})
    good = made(tmp_path / "claude" / "9.9" / "killed", log, orphans=1)
    assert checked(good).wrong == []
    assert checked(good).problems == {"unknown-record": 1}
    bad = made(tmp_path / "claude" / "9.9" / "plain", log, orphans=0)
    assert checked(bad).wrong == ["orphans: 1 instead of 0"]
    assert not checked(bad).is_ok
    (shape,) = shapes_in(tmp_path, "claude").values()
    assert (shape.recordings, shape.seen_in["never-seen"]) == (2, 2)


def test_an_empty_home_is_not_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "claude" / "9.9" / "plain"
    (folder / "home" / ".claude" / "projects").mkdir(parents=True)
    truth = truth_of(SCENES[0], "claude", "9.9")
    (folder / "truth.json").write_text(json.dumps(truth))
    assert checked(folder).wrong == ["there is no session"]


def test_every_scene_has_a_truth() -> None:
    """It names each event, and the reason where the files do not show it."""
    for scene in SCENES:
        for agent in scene.agents:
            truth = truth_of(scene, agent, "1")
            assert wrong_counts(truth, []) == [
                f"{event}: 0 instead of {count}" for event, count in truth["recoverable"].items() if count
            ]
            assert (truth["truth"] == truth["recoverable"]) == ("notes" not in truth)


def test_the_report_is_complete() -> None:
    """Recordings, what is missing, and what is different."""
    new = shape_of("codex", [{"type": "world_state", "payload": {f"field_{letter}": 1 for letter in "abcdefghijklmn"}}])
    older = {"1": shape_of("codex", [{"type": "world_state"}])}
    report = Report(
        missing={"gemini": "it is not installed"},
        recordings=[
            Check(agent="codex", version="2", scenario="plain"),
            Check(
                agent="codex", version="2", scenario="tools", wrong=["orphans: 1 instead of 0"], problems={"torn": 2}
            ),
        ],
        differences=[compare("codex", "2", new, older)],
    )
    text = "\n".join(lines_of(report))
    assert "plain         ok" in text
    assert "tools         orphans: 1 instead of 0; 2 torn" in text
    assert "not recorded: it is not installed" in text
    assert "codex 2, compared with the recordings up to 1" in text
    assert "payload.field_a" in text
    assert "… 3 more" in text


# --- recording --------------------------------------------------------------------------------------------------------


def installed() -> str | None:
    for agent in ("codex", "claude"):
        try:
            DRIVERS[agent].find_program()
            return agent
        except UnspoolError:
            continue
    return None


@pytest.mark.skipif(installed() is None, reason="neither Claude Code nor Codex is installed")
def test_an_installed_agent_is_recorded(tmp_path: Path) -> None:
    """One scene, in a process of its own: the recording exists, matches its truth file, and is compared."""
    agent = installed()
    assert agent is not None
    command = (
        sys.executable, "-m", "tools.record", "--agent", agent, "--scene", "plain", "--to", str(tmp_path), "--json",
    )  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    assert done.stdout, done.stderr.decode()
    report = json.loads(done.stdout)
    assert [(check["scenario"], check["wrong"], check["problems"]) for check in report["recordings"]] == [
        ("plain", [], {})
    ]
    assert done.returncode == 0
    (truth,) = tmp_path.glob(f"{agent}/*/plain/truth.json")
    assert checked(truth.parent).is_ok
    assert {path.name for path in (truth.parent / "home").iterdir()} == {f".{agent}"}
    assert not list(truth.parent.rglob("config.toml"))
    assert [difference["agent"] for difference in report["differences"]] == [agent]
