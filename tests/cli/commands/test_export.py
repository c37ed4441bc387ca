"""`unspool export`: four formats, to a file, a folder or a pipe."""

from __future__ import annotations

import json
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest

import unspool
from unspool.agents import SessionRef
from unspool.library import Library
from unspool.store.locate import open_store
from unspool.testing import ClaudeLog, GeminiLog, call

from ...recordings import recordings
from ..run import SAMPLES, Run


class Tags(HTMLParser):
    """Counts the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.seen[tag] = self.seen.get(tag, 0) + 1


def sample_ids() -> list[str]:
    return [ref.id for ref in unspool.sessions(SAMPLES)]


def test_records(run: Run) -> None:
    """A line a session, each as the library reads it."""
    done = run("export", "--home", SAMPLES)
    assert (done.code, done.err) == (0, "")
    assert [record["session"]["id"] for record in done.records] == sample_ids()
    assert {record["schema"] for record in done.records} == {"unspool/1"}
    assert {record["type"] for record in done.records} == {"session"}


def test_stream_lines(run: Run) -> None:
    """Each session begins with its head and ends with its counts, which are right."""
    lines = run("export", "--home", SAMPLES, "--format", "stream").records
    heads = [line["session"]["id"] for line in lines if line["type"] == "session"]
    ends = [line["end"]["session"] for line in lines if line["type"] == "end"]
    assert heads == ends == sample_ids()
    counted = sum(line["end"]["counts"]["messages"] for line in lines if line["type"] == "end")
    assert counted == sum(line["type"] == "message" for line in lines) > 0


def test_stream_is_the_same_with_a_filter_by_events(run: Run) -> None:
    """Then whole sessions are read first, which must not change the output."""
    plain = run("export", "37c2", "--home", SAMPLES, "--format", "stream").out
    assert run("export", "37c2", "--home", SAMPLES, "--format", "stream", "has:rejection").out == plain


def test_markdown(run: Run) -> None:
    """A document a session, one after the other."""
    done = run("export", "--home", SAMPLES, "--format", "markdown", "--agent", "claude", "--kind", "main")
    titles = [line for line in done.lines if line.startswith("# ")]
    assert len(titles) == sum(ref.agent == "claude" and ref.kind == "main" for ref in unspool.sessions(SAMPLES))


def test_html(run: Run) -> None:
    """One session is one page."""
    done = run("export", "37c2", "--home", SAMPLES, "--format", "html")
    assert done.out.startswith("<!doctype html>")
    assert Tags(done.out).seen["html"] == 1


def test_html_holds_one_session(run: Run, tmp_path: Path) -> None:
    """Several sessions need a folder; an existing file is not touched."""
    target = tmp_path / "page.html"
    target.write_text("mine")
    done = run("export", "--home", SAMPLES, "--format", "html", "-o", target)
    assert (done.code, done.out) == (2, "")
    assert "-o DIR/" in done.err
    assert target.read_text() == "mine"


def test_sub_agents_in_the_same_file(run: Run, tmp_path: Path) -> None:
    """Records and streams hold them all, a folder has a file for each, a page holds only the session and says so."""
    (recording,) = recordings("claude", "1.0.60", "subagent")
    ids = [session.id for session in recording.sessions()]
    assert [r["session"]["id"] for r in run("export", "--home", recording.home).records] == ids
    page = run("export", "--home", recording.home, "--format", "html")
    assert Tags(page.out).seen["html"] == 1
    assert "left out" in page.err
    for format, suffix in (("ndjson", "ndjson"), ("stream", "ndjson"), ("markdown", "md"), ("html", "html")):
        folder = tmp_path / format
        assert run("export", "--home", recording.home, "--format", format, "-o", f"{folder}/").code == 0
        assert {path.name for path in folder.iterdir()} == {f"{id.replace('/', '_')}.{suffix}" for id in ids}
    for format in ("ndjson", "stream"):
        lines = run("export", "--home", recording.home, "--kind", "main", "--format", format).records
        assert [line["session"]["kind"] for line in lines if line["type"] == "session"] == ["main"]


def test_pins_notes_and_tags(run: Run, tmp_path: Path) -> None:
    """Every format has them, of the session alone, and without secrets if these are replaced."""
    location, token = tmp_path / "sessions.db", "ghp_" + "4aB9" * 9
    options = ("--home", SAMPLES, "--store", location)
    assert run("sync", *options).code == 0
    with closing(open_store(str(location))) as store:
        row = store.sessions.find("37c2")
        store.annotations.add(row.agent, row.name, "note", f"see {token}", 0)
        store.annotations.add(row.agent, row.name, "tag", "tides")
    (record,) = run("export", "37c2", *options).records
    assert [(one["kind"], one["text"]) for one in record["annotations"]] == [("tag", "tides"), ("note", f"see {token}")]
    assert all(
        "annotations" not in other for other in run("export", *options).records if other["session"]["id"] != row.name
    )
    for more in ((), ("has:rejection",)):
        lines = run("export", "37c2", *options, "--format", "stream", *more).records
        assert [line["type"] for line in lines[-3:]] == ["annotation", "annotation", "end"]
    for format in ("ndjson", "stream", "markdown", "html"):
        text = run("export", "37c2", *options, "--format", format).out
        assert "tides" in text
        assert token in text
        assert token not in run("export", "37c2", *options, "--format", format, "--redact").out
    target = tmp_path / "stream.ndjson"
    run("export", "37c2", *options, "--format", "stream", "-o", target)
    assert run("schema", "--check", target).code == 0


# --- where to ---------------------------------------------------------------------------------------------------------


def test_to_a_file(run: Run, tmp_path: Path) -> None:
    """The file has what would have been printed."""
    target = tmp_path / "all.ndjson"
    done = run("export", "--home", SAMPLES, "-o", target)
    assert (done.code, done.out) == (0, "")
    assert target.read_bytes().decode() == run("export", "--home", SAMPLES).out


@pytest.mark.parametrize(
    ("format", "suffix"), [("ndjson", "ndjson"), ("stream", "ndjson"), ("markdown", "md"), ("html", "html")]
)
def test_to_a_folder(run: Run, tmp_path: Path, format: str, suffix: str) -> None:
    """The folder is made if need be, and gets a file a session."""
    folder = tmp_path / "deep" / "er"
    assert run("export", "--home", SAMPLES, "--format", format, "-o", f"{folder}/").code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{id.replace('/', '_')}.{suffix}" for id in sample_ids()
    )
    assert all(path.stat().st_size for path in folder.iterdir())


def test_an_existing_folder_needs_no_slash(run: Run, tmp_path: Path) -> None:
    """A path that is a folder is one."""
    run("export", "37c2", "--home", SAMPLES, "-o", tmp_path)
    assert [path.suffix for path in tmp_path.iterdir() if path.is_file()] == [".ndjson"]


def test_a_folder_that_cannot_be_created(run: Run, tmp_path: Path) -> None:
    """A file of that name exists: one message, not one per session."""
    (tmp_path / "taken").write_text("mine")
    done = run("export", "--home", SAMPLES, "-o", f"{tmp_path}/taken/")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_file_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """The message names it."""
    done = run("export", "--home", SAMPLES, "-o", tmp_path / "no" / "such.ndjson")
    assert (done.code, done.err) == (1, f"unspool: {tmp_path}/no/such.ndjson: No such file or directory\n")


def test_an_unknown_name_writes_nothing(run: Run, tmp_path: Path) -> None:
    """An unknown name is reported before anything is written, even if the others are known."""
    target = tmp_path / "mine.ndjson"
    target.write_text("mine")
    done = run("export", "37c2", "nosuch", "--home", SAMPLES, "-o", target)
    assert done.code == 1
    assert target.read_text() == "mine"
    assert run("export", "37c2", "nosuch", "--home", SAMPLES).out == ""


def test_an_id_cannot_escape_the_folder(run: Run, tmp_path: Path) -> None:
    """Some ids are taken from the log itself."""
    log = GeminiLog()
    log.session = "../../../evil"
    log.lines[0] = log.lines[0].replace(log.id("session").encode(), log.session.encode())
    log.user("u", "hello")
    log.model("g", "hi")
    path = tmp_path / "logs" / "session-2026-03-01T09-00-x.jsonl"
    path.parent.mkdir()
    path.write_bytes(log.data)
    folder = tmp_path / "a" / "b" / "c" / "d"
    assert run("export", path, "-o", f"{folder}/").code == 0
    (written,) = folder.iterdir()
    assert json.loads(written.read_bytes())["session"]["id"] == "../../../evil"


def test_the_same_id_twice_gives_two_files(run: Run, tmp_path: Path) -> None:
    """A copied home holds the same ids: neither session is lost."""
    for name, text in (("one", "from one"), ("two", "from two")):
        log = ClaudeLog()
        log.user(text)
        log.write(tmp_path / name)
    folder = tmp_path / "out"
    run("export", "--home", tmp_path / "one", "--home", tmp_path / "two", "-o", f"{folder}/")
    assert sorted(json.loads(path.read_bytes())["session"]["title"] for path in folder.iterdir()) == [
        "from one",
        "from two",
    ]


# --- what -------------------------------------------------------------------------------------------------------------


def test_named_sessions_are_exported_in_order(run: Run) -> None:
    """Ids, files and folders may be mixed."""
    refs = {ref.id[:4]: ref for ref in unspool.sessions(SAMPLES)}
    done = run("export", "cdc4", refs["37c2"].path, refs["4acf"].path.parent, "--home", SAMPLES)
    ids = [record["session"]["id"][:4] for record in done.records]
    assert ids[:2] == ["cdc4", "37c2"]
    assert sorted(ids[2:]) == ["4acf", "cdc4"]


def test_views(run: Run, tmp_path: Path) -> None:
    """Branches, calls that never finished, and the tip, in every format."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    log.user("mistake")
    log.model("mistaken", name="mistaken")
    log.user("better", parent="started")
    log.model(call("open", command="make all"))
    path = log.write(tmp_path)
    for format in ("ndjson", "stream", "markdown", "html"):
        shown = run("export", path, "--format", format).out
        assert "mistaken" in shown
        assert "make all" in shown
        assert "mistaken" not in run("export", path, "--format", format, "--branches", "active").out
        assert "make all" not in run("export", path, "--format", format, "--orphans", "hide").out
        made_up = run("export", path, "--format", format, "--orphans", "synthesize").out
        assert "no result was recorded for this call" in made_up
        assert "better" not in run("export", path, "--format", format, "--branches", "active", "--tip", "3").out


def test_an_unreadable_session_does_not_stop_the_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are exported, to a pipe and to a folder; the unreadable one is reported, and the exit code is 1."""
    bad = Library(SAMPLES).find("37c2")
    read = Library.load_all

    def read_or_fail(self: Library, ref: SessionRef, *rest: object) -> object:
        if ref == bad:
            raise ValueError("a fault of ours")
        return read(self, ref, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Library, "load_all", read_or_fail)
    done = run("export", "--home", SAMPLES)
    assert done.code == 1
    assert [record["session"]["id"] for record in done.records] == [id for id in sample_ids() if id != bad.id]
    assert f"{bad.path}: ValueError: a fault of ours" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in run("export", "--home", SAMPLES, "--debug").err
    assert run("export", "--home", SAMPLES, "-o", f"{tmp_path}/out/").code == 1
    assert len(list((tmp_path / "out").iterdir())) == len(sample_ids()) - 1


def test_a_file_that_fails_while_it_is_read(run: Run, tmp_path: Path) -> None:
    """An invalid compressed log: a record with a problem, and the others as usual."""
    folder = tmp_path / ".codex" / "sessions" / "2026" / "03" / "01"
    folder.mkdir(parents=True)
    (folder / "rollout-2026-03-01T09-00-00-00000000-0000-0000-0000-000000000000.jsonl.zst").write_bytes(
        b"no such thing"
    )
    good = ClaudeLog()
    good.user("still here")
    good.write(tmp_path)
    records = run("export", "--home", tmp_path).records
    assert "still here" in [record["session"]["title"] for record in records]


def test_nothing_to_export(run: Run) -> None:
    """An empty home gives no output, which is not an error."""
    done = run("export")
    assert (done.code, done.out, done.err) == (0, "", "")
