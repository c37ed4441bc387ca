"""A home directory with a session in which everything is read that is more than text, and one to compare it with."""

from __future__ import annotations

from pathlib import Path

from unspool.testing import ClaudeLog, call

from ..runs.images import PIXEL
from .finding_home import LogIn

FOLDER = "/home/dev/demo"
FAILURES = 6
PLAN = "# The plan\n\n1. Count the **tides**\n2. Draw them"
COLOURED = "plain \x1b[31mred words\x1b[0m\n"
NOTEBOOK = (
    '<cell id="intro"><cell_type>markdown</cell_type># Tides\nof a *week*</cell id="intro">\n'
    '<cell id="sum">print(6 * 7)</cell id="sum">\n\n42\n'
)
SEARCH = (
    'Web search results for query: "tides"\n\nLinks: [{"title":"All about tides","url":"https://example.org/tides"}]\n\n'
    "They come **twice** a day."
)
PROMPT = "Please **read** the `notebook`:\n\n- first this\n- then that"
TODOS = [("Read", "completed"), ("Count", "in_progress"), ("Draw", "pending")]


def full() -> ClaudeLog:
    """Every kind of content; then a compaction, after which one file is no longer in the context."""
    log = LogIn("full", FOLDER)
    log.user(PROMPT)
    log.user("<system-reminder>Be brief.</system-reminder>", isMeta=True)
    log.model(call("todo", "TodoWrite", todos=[{"content": text, "status": status} for text, status in TODOS]))
    log.result("todo", "Todos have been modified.")
    log.model(call("plan", "ExitPlanMode", plan=PLAN))
    log.result("plan", "User has approved your plan. You can now start coding.")
    log.model(call("read", "Read", file_path=f"{FOLDER}/very/deep/folder/tides.ipynb"))
    log.result("read", NOTEBOOK)
    edit = {"notebook_path": f"{FOLDER}/very/deep/folder/tides.ipynb", "cell_id": "sum", "new_source": "print(7 * 7)"}
    log.model(call("cell", "NotebookEdit", **edit))
    log.result("cell", "Updated cell sum")
    log.model(call("web", "WebSearch", query="tides"))
    log.result("web", SEARCH)
    log.model(call("run", command="make colours"))
    log.result("run", COLOURED)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    log.user([{"type": "text", "text": "Look at this"}, picture])
    for number in range(FAILURES):
        log.model(call(f"fail{number}", command=f"false {number}"))
        log.result(f"fail{number}", f"Exit code {number + 1}", error=True, toolUseResult=f"Error: {number}")
    log.boundary(trigger="auto", preTokens=900)
    log.user("Continue with the chart")
    log.model("The chart is drawn.")
    return log


def other() -> ClaudeLog:
    """A short session."""
    log = LogIn("other", FOLDER)
    log.user("How high is the tide?")
    log.model("Four metres.")
    return log


def write_home(home: Path) -> Path:
    """Both, written to a home directory."""
    full().write(home)
    other().write(home)
    return home
