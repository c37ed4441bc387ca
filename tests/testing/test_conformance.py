"""The runner for authors of agents: it finds nothing wrong with ours, and what is wrong with others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool
from unspool.agents import Agent, AgentInfo, BuilderFactory, SessionRef, Steps
from unspool.core import model as m
from unspool.library import Library
from unspool.testing import ClaudeLog, check_home, check_recording, find_recordings, registered
from unspool.testing.__main__ import main

from ..agents.fourth.acme_unspool import AcmeAgent, AcmeSource
from ..agents.fourth.logs import AcmeLog


def write_recording(corpus: Path, **recoverable: int) -> Path:
    """A recording of the made-up agent, with one rejection in it."""
    folder = corpus / "acme" / "1.0" / "refusal"
    log = AcmeLog("red")
    log.turn("launch the rocket", "Ignition.")
    log.refusal("rm -rf stage", "not that stage")
    log.write(folder / "home")
    (folder / "truth.json").write_text(json.dumps({"recoverable": recoverable}))
    return folder


@pytest.fixture
def acme() -> Iterator[None]:
    """The invented agent is registered."""
    with registered(AcmeAgent()):
        yield


def test_the_samples_conform() -> None:
    """Those of all agents."""
    assert check_home(unspool.samples()) == []


def test_salvaged_records_conform(tmp_path: Path) -> None:
    """In one of the files of a session, and several of them in one line."""
    log = ClaudeLog("continued")
    log.user("first")
    path = log.write(tmp_path)
    log.user("second", name="two")
    log.user("third", name="three")
    log.lines[-2:] = [log.lines[-2] + log.lines[-1]]
    path.with_name("later.jsonl").write_bytes(b"\n".join(log.lines[-1:]) + b"\n")
    library = Library(tmp_path)
    (ref,) = library.refs()
    session = library.load(ref)
    assert [problem.reason for problem in session.problems] == ["salvaged"]
    assert [file.damaged for file in session.info.files] == [0, 1]
    assert check_home(tmp_path) == []


@pytest.mark.usefixtures("acme")
def test_a_recording_is_compared_with_the_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Valid recordings pass; violations are reported with the name of the recording."""
    write_recording(tmp_path / "right", rejections=1, interruptions=0)
    write_recording(tmp_path / "wrong", rejections=2)
    (right,) = find_recordings(tmp_path / "right")
    (wrong,) = find_recordings(tmp_path / "wrong", "acme", "1.*")
    assert (right.name, check_recording(right)) == ("acme/1.0/refusal", [])
    assert check_recording(wrong) == ["rejections: 1 instead of 2"]
    assert main([str(tmp_path / "right")]) == 0
    assert main([str(tmp_path / "wrong")]) == 1
    assert main([str(tmp_path / "wrong"), "--agent", "nobody"]) == 2
    assert "acme/1.0/refusal: rejections: 1 instead of 2" in capsys.readouterr().out


class Careless(AcmeSource):
    """A reader that breaks every promise."""

    counter = 0

    def ref(self, path: Path) -> SessionRef | None:  # noqa: ARG002
        return None

    def contains(self, ref: SessionRef) -> bool:  # noqa: ARG002
        return False

    def fingerprint(self, ref: SessionRef) -> str:  # noqa: ARG002
        Careless.counter += 1
        return str(Careless.counter)

    def read(self, ref: SessionRef, make: BuilderFactory) -> Steps:
        (builder,) = yield from super().read(ref, make)
        builder.details.files[0].records.clear()
        builder.events.problems.append(m.Problem(reason="odd", detail=f"time {Careless.counter}"))
        Careless.counter += 1
        return [builder]


class CarelessAgent(AcmeAgent):
    info = AgentInfo(
        name="careless",
        title="Careless",
        letter="!",
        folder=".acme",
        paths=("talks",),
        suffixes=(".acme",),
        source=lambda root: Careless(root),
    )


def test_violations_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them."""
    monkeypatch.setattr(Careless, "agent", "careless")
    write_recording(tmp_path)
    agent: Agent = CarelessAgent()
    with registered(agent):
        wrong = "\n".join(check_home(tmp_path / "acme" / "1.0" / "refusal" / "home"))
    for sentence in (
        "finds nothing",
        "contains() denies",
        "fingerprint() changes",
        "different records",
        "5 intact lines",
    ):
        assert sentence in wrong
