"""A new kind of event is one row of a table: made up here, it turns up wherever events do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.testing import ClaudeLog

from .cli.run import environment

PACKAGE = Path(unspool.__file__).parent
PROGRAM = Path(__file__).parent / "made_up_kind.py"
STRUCT = '''

class Pause(msgspec.Struct, kw_only=True):
    """Somebody went to lunch."""

    message_index: int
    reason: str
'''
ROW = """    EventKind(
        name="pause",
        struct_name="Pause",
        noun="a pause",
        plural="pauses",
        aliases=("break", "breaks"),
        look=Look(sign="‖", tone="accent", badge="paused"),
        listing=Listing(
            title="Pauses", about="Where somebody paused.", empty="nobody paused.", command="list where somebody paused"
        ),
        entry_rank=9,
    ),
"""
TABLE = "EVENT_KINDS: tuple[EventKind, ...] = (\n"


def copy_with_row(folder: Path) -> Path:
    """A copy of the package in which the model has one more Struct, and the table one more row."""
    shutil.copytree(PACKAGE, folder / "unspool", ignore=shutil.ignore_patterns("samples", "__pycache__"))
    path = folder / "unspool" / "core" / "events.py"
    source = path.read_text()
    assert source.count(TABLE) == 1
    end = source.index("\n)\n", source.index(TABLE)) + 1
    source = source[:end] + ROW + source[end:]
    path.write_text(source)
    with open(path.with_name("model.py"), "a", encoding="utf-8") as model:
        model.write(STRUCT)
    return folder


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a package with one more kind of event shows of a session with such an event."""
    folder = tmp_path_factory.mktemp("made-up")
    home = folder / "home"
    log = ClaudeLog()
    log.user("hello there")
    log.model("hi")
    log.write(home)
    copy = copy_with_row(folder / "package")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(home), str(folder / "store.db")], capture_output=True, text=True,
        check=False, env=environment(home, PYTHONPATH=str(copy)), cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["package"] == str(copy / "unspool")
    return result


def test_the_command_line_offers_the_kind(found: dict[str, Any]) -> None:
    """In the help of options and queries, as a command, and among the choices of an error."""
    assert "pause" in found["ls help"].split("--has EVENT")[-1]
    assert "pause" in found["events help"].split("--type EVENT")[-1]
    assert "pause" in found["search help"]
    assert "  pauses         list where somebody paused" in found["main help"].splitlines()
    assert "Unknown event type 'fun'; choose from " in found["unknown"]
    assert found["unknown"].rstrip().endswith(", pause")


def test_the_command_line_finds_the_kind(found: dict[str, Any]) -> None:
    """By its name and its synonyms, in files and in the store."""
    assert [row["counts"] for row in found["ls"]] == [{"pause": 1}] * 3
    assert found["ls without"] == ""
    assert found["events"]["kind"] == "pause"
    assert found["events"]["text"] == "Pause: lunch"
    assert all("hello" in answer for answer in found["search"])
    assert "hello" not in found["search without"]
    assert json.loads(found["list"])["event"] == {"message_index": 0, "reason": "lunch"}
    assert found["stats"] == {"pause": 1}


def test_exports_have_the_kind(found: dict[str, Any]) -> None:
    """The record, its schema, the stream, and what people read."""
    event = {"message_index": 0, "reason": "lunch"}
    assert found["record"]["pauses"] == [event]
    assert list(found["record"])[-1] == "pauses"
    assert {"type": "pause", "pause": event} in found["stream"]
    assert found["stream"][-1]["end"]["counts"]["pauses"] == 1
    assert {"Pause", "PauseLine"} <= set(found["schema"]["$defs"])
    assert "— Pause: lunch —" in found["markdown"]


def test_the_api_has_the_kind(found: dict[str, Any]) -> None:
    """Counted, filtered by every synonym, listed and described."""
    assert found["counts"]["pause"] == 1
    assert found["api without"] == 0
    assert "Unknown event type 'fun'; choose from compaction" in found["api unknown"]
    assert found["api events"] == [1, 1, 1]
    assert [event["kind"] for event in found["api session events"]] == ["pause"]
    assert found["api head"] == [{"message_index": 0, "reason": "lunch"}]
    assert found["api search"]
    description = json.dumps(found["openapi"])
    assert '"pauses"' in description
    assert '"Pause"' in description
    parameters = found["openapi"]["paths"]["/api/sessions"]["get"]["parameters"]
    (has,) = (parameter for parameter in parameters if parameter["name"] == "has")
    assert "pause" in has["schema"]["enum"]


def test_the_pages_show_the_kind(found: dict[str, Any]) -> None:
    """A badge and a filter in the list, an entry and a mark in the session, a list of its own in the menu."""
    sessions, session = found["page of sessions"], found["page of session"]
    assert 'title="1 paused"' in sessions
    assert 'href="/?has=pause"' in sessions.replace("&amp;", "&") or "paused" in sessions
    assert 'href="/events/pauses"' in sessions
    assert 'class="mark pause' in session
    assert "Pause: lunch" in session
    assert "‖" in session
    assert "Where somebody paused." in found["page of events"]
    assert "Pause: lunch" in found["page of events"]
    assert "hello" in found["page of search"]
