"""Uses a package whose table of event kinds has a row for pauses, and prints where pauses turn up.

It is run in a process of its own, with a home that holds one session of Claude Code; see `test_event_kinds.py`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.testing import TestClient

import unspool
from unspool.cli.main import main
from unspool.core import model
from unspool.core.builder import SessionBuilder
from unspool.web.app import create_app
from unspool.web.settings import Settings

TOKEN = "the-token-of-this-test"
HOME, STORE = sys.argv[1:]


def pause_once(settle: Any) -> Any:
    """Wrap the end of reading: no agent knows pauses, so each session gets one here."""

    def settle_with_pause(builder: Any) -> None:
        settle(builder)
        pauses = builder.events.pauses
        if not pauses:
            pauses.append(model.Pause(message_index=0, reason="lunch"))  # type: ignore[attr-defined]

    return settle_with_pause


def run(*arguments: str) -> str:
    """What a command prints; if that is nothing, what it complains about."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(output), redirect_stderr(errors), suppress(SystemExit):
        main(arguments)
    texts = [stream.buffer.getvalue().decode() for stream in (output, errors)]
    return texts[0] or texts[1]


def on_the_command_line() -> Iterator[tuple[str, object]]:
    """Options, filters, commands and exports."""
    home, store = ("--home", HOME), ("--store", STORE)
    yield "ls help", run("ls", "--help")
    yield "events help", run("events", "--help")
    yield "search help", run("search", "--help")
    yield "main help", run("--help")
    yield "unknown", run("ls", *home, "has:fun")
    yield "ls", [json.loads(run("ls", *home, "--json", word)) for word in ("has:pause", "is:paused", "--has=breaks")]
    yield "ls without", run("ls", *home, "--json", "has:rejection")
    yield "events", json.loads(run("events", *home, "--type", "pauses", "--json"))
    yield "record", json.loads(run("export", "latest", *home))
    stream = run("export", "latest", *home, "--format", "stream").splitlines()
    yield "stream", [json.loads(line) for line in stream]
    yield "markdown", run("export", "latest", *home, "--format", "markdown")
    run("sync", *home, *store)
    yield "search", [run("search", f"{word} hello", *store, "--no-sync") for word in ("is:paused", "has:pause")]
    yield "search without", run("search", "is:rejected hello", *store, "--no-sync")
    yield "list", run("pauses", *store, "--no-sync", "--json")
    yield "stats", json.loads(run("stats", *store, "--no-sync", "--json"))["events"]


def on_the_web(client: TestClient[Litestar]) -> Iterator[tuple[str, object]]:
    """The API, its description, and the pages."""
    (row,) = client.get("/api/sessions?has=paused").json()["sessions"]
    name = row["row"]["name"]
    yield "counts", row["row"]["counts"]
    yield "api without", client.get("/api/sessions?has=rejected").json()["total"]
    yield "api unknown", client.get("/api/sessions?has=fun").text
    yield "api events", [client.get(f"/api/events/{word}").json()["total"] for word in ("pauses", "pause", "breaks")]
    yield "api session events", client.get(f"/api/sessions/{name}/events?kind=paused").json()["events"]
    yield "api head", client.get(f"/api/sessions/{name}").json()["pauses"]
    yield "api search", client.get("/api/search?q=has:breaks").json()["found"][0]["session"]["name"] == name
    yield "openapi", client.get("/api/openapi.json").json()
    yield "page of sessions", client.get("/?has=paused").text
    yield "page of session", client.get(f"/sessions/{name}").text
    yield "page of events", client.get("/events/pauses").text
    yield "page of search", client.get("/search?q=is:paused").text


def found() -> dict[str, object]:
    """Everything."""
    SessionBuilder.settle = pause_once(SessionBuilder.settle)  # type: ignore[method-assign]
    result = dict(on_the_command_line())
    app = create_app(Settings(token=TOKEN, store=STORE, follows=False))
    with TestClient(app, base_url="http://127.0.0.1:8377") as client:
        client.headers.update({"authorization": f"Bearer {TOKEN}"})
        result |= dict(on_the_web(client))
    return result | {"schema": unspool.json_schema(), "package": str(Path(unspool.__file__).parent)}


if __name__ == "__main__":
    print(json.dumps(found()))
