"""`unspool export` in the formats of other programs, and `unspool pairs`: files, folders, pipes, and wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import unspool
from unspool.formats import FORMATS
from unspool.formats import atif as atif_format
from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ...formats.checks import check_anthropic, check_log_file, check_openai
from ...formats.receiver import Answer, collector
from ...formats.rejecting import reject
from ..run import SAMPLES, Run, on_terminal

NAMES = [format.name for format in FORMATS]


def samples(*, with_context: bool = False) -> list[str]:
    """The sample sessions; on request only those in whose context there is something now."""
    found = [session for ref in unspool.sessions(SAMPLES) for session in Library(SAMPLES).load_all(ref)]
    return [session.id for session in found if not with_context or session.context_now().message_indices]


def one_session(home: Path, name: str = "session") -> Path:
    log = ClaudeLog(name)
    log.user("list the files")
    log.model("I list them.", call("a", command="ls"))
    log.result("a", "a.txt")
    log.model("One file.")
    return log.write(home)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["atif", "openai", "anthropic"])
def test_a_line_for_each_session(run: Run, name: str) -> None:
    done = run("export", "--home", SAMPLES, "--format", name)
    assert done.code == 0
    records = done.records
    if name == "atif":
        assert [record["trajectory_id"] for record in records] == samples()
    else:
        assert len(records) == len(samples(with_context=True)) < len(samples())
        assert "has nothing in its context now" in done.err
        for record in records:
            (check_openai if name == "openai" else check_anthropic)(record)


def test_a_log_with_all_sessions(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "log.eval"
    assert run("export", "--home", SAMPLES, "--format", "inspect", "-o", out).code == 0
    found = [sample["metadata"]["unspool"]["session"] for sample in check_log_file(out.read_bytes())]
    assert found == samples()


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_a_folder_has_a_file_for_each_session(run: Run, tmp_path: Path, format: unspool.formats.Format) -> None:
    folder = tmp_path / "out"
    assert run("export", "--home", SAMPLES, "--format", format.name, "-o", f"{folder}/").code == 0
    assert len(list(folder.glob(f"*{format.suffix}"))) == len(list(folder.iterdir()))
    assert len(list(folder.iterdir())) == len(samples(with_context=format.is_request))


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_session_changes_no_file(run: Run, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.write_text("before")
    done = run("export", "no-such-session", "--format", name, "-o", out)
    assert (done.code, out.read_text()) == (1, "before")
    assert "no-such-session" in done.err


def test_files_are_complete_or_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that cannot be written is reported, and is not in the file; the others are."""
    one_session(tmp_path, "one")
    one_session(tmp_path, "two")
    bad = ClaudeLog("two").session
    write = atif_format.trajectory

    def broken(session: unspool.Session) -> object:
        for piece in write(session):
            yield piece
            if session.id == bad:
                raise RuntimeError("no more")

    monkeypatch.setattr(atif_format, "trajectory", broken)
    out = tmp_path / "out.json"
    done = run("export", "--home", tmp_path, "--format", "atif", "-o", out)
    assert done.code == 1
    assert "RuntimeError: no more" in done.err
    assert json.loads(out.read_bytes())["session_id"] == ClaudeLog("one").session
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []


def test_a_request_at_a_message(run: Run, tmp_path: Path) -> None:
    path = one_session(tmp_path)
    request = json.loads(run("export", path, "--format", "anthropic", "--at", "3").out)
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]
    more = json.loads(
        run("export", path, "--format", "openai", "--prompt", "and now?", "--model", "other").out,
    )
    assert more["messages"][-1] == {"role": "user", "content": "and now?"}
    assert more["model"] == "other"


def test_a_named_session_without_a_context(run: Run, tmp_path: Path) -> None:
    path = one_session(tmp_path)
    done = run("export", path, "--format", "openai", "--at", "0")
    assert (done.code, done.out) == (1, "")
    assert "has nothing in its context before message 0" in done.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--format", "atfi"), "did you mean atif?"),
        (("--format", "zzz"), "invalid choice"),
        (("--at", "3"), "--at is for --format openai and anthropic"),
        (("--format", "atif", "--model", "x"), "--model is for --format openai and anthropic"),
        (("--format", "openai", "--at", "3"), "--at needs exactly one session"),
        (("--format", "openai", "--at", "x"), "invalid int value"),
        (("--format", "atif", "--to", "http://localhost"), "--to is for --format otel"),
        (("--format", "otel", "--to", "localhost:4318"), "--to needs the URL of a collector"),
        (("--format", "otel", "--to", "http://localhost", "-o", "x"), "use one of them"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], why: str) -> None:
    done = run("export", "--home", SAMPLES, *arguments)
    assert done.code == 2
    assert why in done.err
    assert done.out == ""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_export(run: Run, tmp_path: Path, name: str) -> None:
    """No lines, or a log without samples."""
    out = tmp_path / "out"
    done = run("export", "--format", name, "-o", out)
    assert (done.code, done.out, done.err) == (0, "", "")
    if name == "inspect":
        assert check_log_file(out.read_bytes()) == []
    else:
        assert out.read_bytes() == b""


def test_an_archive_is_not_printed_on_a_terminal(home: Path) -> None:
    done = on_terminal(("export", "--home", SAMPLES, "--format", "inspect"), home)
    assert done.code == 2
    assert "name a file with -o" in done.out


def test_traces_are_sent(run: Run, tmp_path: Path) -> None:
    """All sessions; a collector that refuses one does not stop the others, and the command fails."""
    one_session(tmp_path, "one")
    one_session(tmp_path, "two")
    with collector(Answer(400, b"no")) as (address, received):
        done = run("export", "--home", tmp_path, "--format", "otel", "--to", address)
    assert len(received) == 2
    assert (done.code, done.out) == (1, "")
    assert "HTTP 400 Bad Request: no" in done.err
    assert f"Sent 1 request to {address}/v1/traces." in done.err


@pytest.mark.parametrize("answer", [None, Answer(401, b"who are you?"), Answer(404)])
def test_without_a_collector_it_ends_at_once(run: Run, tmp_path: Path, answer: Answer | None) -> None:
    """One error, not one for each session."""
    one_session(tmp_path, "one")
    one_session(tmp_path, "two")
    with collector(*[answer] * 9 if answer is not None else []) as (address, received):
        if answer is not None:
            done = run("export", "--home", tmp_path, "--format", "otel", "--to", address)
    if answer is None:
        done = run("export", "--home", tmp_path, "--format", "otel", "--to", address)
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert f"the collector at {address}/v1/traces did not accept the trace" in done.err
    assert len(received) == (answer is not None)


def rejected_session(home: Path) -> Path:
    log = ClaudeLog("pairs")
    log.user("clean up")
    log.model(call("a", command="rm -r build"))
    reject(log, "a", "use make")
    log.model(call("b", command="make clean"))
    log.result("b", "")
    return log.write(home)


def test_pairs(run: Run, tmp_path: Path) -> None:
    path = rejected_session(tmp_path)
    [pair] = run("pairs", path).records
    assert (pair["type"], pair["reason"]) == ("preference_pair", "use make")
    out = tmp_path / "pairs.jsonl"
    done = run("pairs", "--home", tmp_path, "-o", out)
    assert (done.code, done.out, done.err) == (0, "", "1 pair.\n")
    assert json.loads(out.read_bytes()) == pair
    none = run("pairs", path, "--by", "rule")
    assert (none.code, none.out) == (0, "")
    assert none.err.startswith("No pairs")
    wrong = run("pairs", path, "--by", "usr")
    assert wrong.code == 2
    assert "did you mean user?" in wrong.err
