"""Messages that wait for their turn can be changed until they are sent, and an interrupt holds them."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.waiting import wait_until_async
from unspool.core import model as m
from unspool.core.errors import UnspoolError
from unspool.library import Library
from unspool.runs.attachments import Attachment, ImageInput
from unspool.runs.errors import ConflictError
from unspool.runs.protocol import MessageAccepted, MessageReturned, TurnEnded
from unspool.runs.run import Run

from .harness import run as run_async
from .images import PIXEL
from .scripted import spec
from .test_supervisor import Watched, program, supervising  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the scripted agent is a shell script")


def prompts(tmp_path: Path, run: Run) -> list[str]:
    """The prompts in the session file, which are what the model got."""
    library = Library(tmp_path / "home")
    session = library.load(library.find(run.session or ""))
    texts = [block.text for message in session.messages for block in message.blocks if isinstance(block, m.Text)]
    return [text for text in texts if text.startswith("say ")]


async def busy(watched: Watched, tmp_path: Path) -> Run:
    """An agent in a turn, with three messages that wait."""
    run = await watched.supervisor.start("gemini", spec(tmp_path))
    await run.send("first", "busy go", "tests")
    for number in range(3):
        await run.send(f"m{number}", f"say {number}", "tests")
    assert [message.state for message in run.messages.latest()][1:] == ["queued"] * 3
    return run


def test_waiting_messages_are_changed_moved_and_removed(tmp_path: Path) -> None:
    """The model gets them in the new order, one in each turn; the session file has the same."""

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await busy(watched, tmp_path)
            run.outbox.edit("m0", "say changed")
            run.outbox.move("m2", 0)
            run.outbox.remove("m1")
            assert [message["text"] for message in map(_fields, watched.of("queue")[-1]["messages"])] == [
                "say 2",
                "say changed",
            ]
            with pytest.raises(ConflictError, match="no longer queued"):
                run.outbox.edit("m1", "say too late")
            (tmp_path / "project" / "go").touch()
            await watched.turns(3)
            assert [event["message"] for event in watched.of("taken_up")] == ["first", "m2", "m0"]
            assert prompts(tmp_path, run) == ["say 2", "say changed"]
            # Between two turns the agent never looks idle.
            assert [event["state"] for event in watched.of("state")] == ["idle", "in-turn", "idle"]

    run_async(body())


def _fields(message: object) -> dict[str, object]:
    return {"text": getattr(message, "text", None)}


@pytest.mark.parametrize(("action", "sent"), [("send", ["say 0", "say 1", "say 2"]), ("hold", []), ("discard", [])])
def test_an_interrupt_holds_the_messages_until_a_person_decides(tmp_path: Path, action: str, sent: list[str]) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("first", "sleep 600", "tests")
            for number in range(3):
                await run.send(f"m{number}", f"say {number}", "tests")
            await run.interrupt("tests")
            await watched.state(run, "interrupted")
            assert run.view().held == "asking"
            run.outbox.decide(action)  # type: ignore[arg-type]
            assert run.view().held == ("holding" if action == "hold" else None)
            # A message sent now does not wait for those that are held.
            if action != "send":
                await run.send("next", "say next", "tests")
            await watched.turns(1 + (len(sent) or 1))
            assert prompts(tmp_path, run) == (sent or ["say next"])
            kept = [message.text for message in run.messages.queued()]
            assert kept == (["say 0", "say 1", "say 2"] if action == "hold" else [])

    run_async(body())


def test_a_message_that_could_not_be_sent_can_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same id; in between the agent is idle."""

    async def refuse(*_: object) -> None:
        raise UnspoolError("no connection")

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            with monkeypatch.context() as patch:
                patch.setattr(run.driver, "send", refuse)
                with pytest.raises(UnspoolError, match="no connection"):
                    await run.send("m1", "say 1", "tests")
            assert run.machine.state == "idle"
            await run.send("m1", "say 1", "tests")
            await watched.turns(1)
            assert prompts(tmp_path, run) == ["say 1"]

    run_async(body())


def test_messages_that_were_not_sent_stay_when_the_agent_ends(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await busy(watched, tmp_path)
            await run.stop("stopped by tests")
            assert [message.text for message in run.messages.queued()] == ["say 0", "say 1", "say 2"]
            assert {event["message"] for event in watched.of("taken_up")} <= {"first"}

    run_async(body())


def test_images_are_kept_until_the_model_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is queued, or returned, is sent with its images; no other message needs them."""
    image = Attachment(name="a.png", data=base64.b64decode(PIXEL))
    delivered: list[tuple[str, int]] = []

    async def deliver(id: str, _text: str, images: Sequence[ImageInput]) -> None:
        if id == "failed":
            raise UnspoolError("no connection")
        delivered.append((id, len(images)))

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            monkeypatch.setattr(run.driver, "send", deliver)
            run.driver.capabilities = msgspec.structs.replace(run.driver.capabilities, images=True)
            with pytest.raises(UnspoolError, match="no connection"):
                await run.send("failed", "say it", "tests", [image])
            await run.send("first", "say it", "tests", [image])
            for id in ("discarded", "removed"):
                await run.send(id, "say it", "tests", [image])
            run.handle(MessageReturned("first"))
            run.outbox.remove("removed")
            assert set(run.outbox._images) == {"first", "discarded"}
            run.outbox.move("first", 0)
            run.handle(TurnEnded(outcome="interrupted"))
            run.outbox.decide("send")
            await wait_until_async(lambda: len(delivered) == 2, "the message to be sent again")
            assert delivered == [("first", 1)] * 2
            run.handle(MessageAccepted("first"))
            assert set(run.outbox._images) == {"discarded"}
            run.outbox.decide("discard")
            assert run.outbox._images == {}
            await run.send("queued", "say it", "tests", [image])
            await run.stop("stopped by tests")
            assert run.machine.has_ended
            assert run.outbox._images == {}

    run_async(body())
