"""The scenes to record, each with one action and the events that it causes.

The events are written here by hand, from what is done, and never taken from unspool's output.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from unspool.runs.protocol import Answer

from .stages import Stage, silent_server

EVENTS = (
    "interruptions", "rejections", "compactions", "clears", "rollbacks", "orphans", "subagents", "forks",
)  # fmt: skip
REASON = "not like this"


class Scene(NamedTuple):
    """One scenario to play with an agent."""

    name: str
    what: str
    play: Callable[[Stage], Awaitable[None]]
    happened: dict[str, int] = {}
    """The number of each event; events that are not listed do not happen."""
    unrecorded: dict[str, str] = {}
    """Agents whose files do not show the events, with the reason."""
    agents: tuple[str, ...] = ("claude", "codex", "gemini")


def truth_of(scene: Scene, agent: str, version: str) -> dict[str, Any]:
    """Return the content of `truth.json` for a recording."""
    happened = {event: scene.happened.get(event, 0) for event in EVENTS}
    recoverable = dict.fromkeys(EVENTS, 0) if agent in scene.unrecorded else happened
    truth: dict[str, Any] = {"agent": agent, "version": version, "scenario": scene.name, "what": scene.what}
    truth |= {"truth": happened, "recoverable": recoverable}
    if agent in scene.unrecorded:
        truth["notes"] = [scene.unrecorded[agent]]
    return truth


# --- scenes -----------------------------------------------------------------------------------------------------------


async def plain(stage: Stage) -> None:
    """Two turns with text only."""
    await stage.start()
    await stage.turn("@do say Hello.")
    await stage.turn("@do say Once more.")


async def tools(stage: Stage) -> None:
    """A command, a failing command and a new file, all allowed."""
    await stage.start()
    run, write = stage.word("run"), stage.word("write")
    path = "new.txt" if stage.agent == "codex" else str(stage.project / "new.txt")
    await stage.turn(f"@do {run} echo one ;; {run} sh -c 'exit 3' ;; {write} {path}=hello ;; say Done.")


async def large(stage: Stage) -> None:
    """A command with more output than fits, so that the agent sends the model a part of it."""
    await stage.start()
    path = stage.project / "many.txt"
    path.write_text("".join(f"line {number} of many, with a wallaby\n" for number in range(1200)))
    await stage.turn(f"@do {stage.word('run')} cat {path.name} ;; say Much.")


async def refusal(stage: Stage) -> None:
    """A command that is rejected; the turn continues."""
    await stage.start()
    # For Gemini CLI, a reason is another message, and so another turn.
    reason = REASON if stage.agent != "gemini" else None
    await stage.turn(f"@do {stage.word('run')} touch no.txt ;; say Well.", Answer(verdict="deny", reason=reason))


async def interruption(stage: Stage) -> None:
    """A turn that is interrupted while the model is writing, then another one."""
    await stage.start()
    await stage.turn("@do say Before.")
    await stage.interrupt_words("@do slow 2000")
    await stage.turn("@do say After.")


async def resume(stage: Stage) -> None:
    """A session that is stopped and resumed."""
    await stage.start()
    await stage.turn("@do say First.")
    await stage.stop()
    await stage.start(session=stage.session)
    await stage.turn("@do say Second.")


async def fork(stage: Stage) -> None:
    """A session that is forked at its end."""
    await stage.start()
    await stage.turn("@do say Shared.")
    await stage.stop()
    await stage.start(session=stage.session, fork=True)
    await stage.turn("@do say Apart.")


async def subagent(stage: Stage) -> None:
    """A sub-agent that says one thing."""
    await stage.start()
    await stage.turn(f"@do {stage.word('spawn')} ;; say Parent.")


async def compaction(stage: Stage) -> None:
    """A compaction that the user requests."""
    await stage.start()
    await stage.turn("@do say Much.")
    await stage.turn("/compact")
    await stage.turn("@do say Little.")


async def killed(stage: Stage) -> None:
    """The program is killed while it waits for an answer."""
    await stage.start()
    await stage.kill_at_question(f"@do {stage.word('run')} touch never.txt")


async def hooks(stage: Stage) -> None:
    """Hooks that run when a session starts, is compacted, resumed and cleared."""
    hook = {"type": "command", "command": "echo The hook ran."}
    stage.configure({"hooks": {"SessionStart": [{"hooks": [hook]}]}})
    await stage.start()
    await stage.turn("@do say First.")
    await stage.turn("/compact")
    await stage.turn("@do say Second.")
    await stage.stop()
    await stage.start(session=stage.session)
    await stage.turn("@do say Third.")
    await stage.turn("/clear")
    await stage.turn("@do say Fourth.")


async def parallel(stage: Stage) -> None:
    """Two commands in one response; the first ends last."""
    await stage.start()
    await stage.turn("@do both sleep 2 && echo slow // echo fast ;; say Done.")


async def mention(stage: Stage) -> None:
    """A prompt that mentions a file, which the agent attaches."""
    (stage.project / "notes.txt").write_text("The wallaby sleeps.\n")
    await stage.start()
    await stage.turn("@do say Seen. ;; say Still there is @notes.txt")


async def queue(stage: Stage) -> None:
    """A message that is still queued when the turn is interrupted."""
    await stage.start()
    await stage.interrupt_words("@do slow 2000", "@do say Later.")
    await stage.turn("@do say After.")


async def esc_agent(stage: Stage) -> None:
    """A turn that is interrupted while a sub-agent runs a command."""
    await stage.start()
    async with silent_server() as (port, reached):
        await stage.interrupt_call(f"@do spawn run {_connect(port)}", reached)
    await stage.turn("@do say After.")


async def esc_fetch(stage: Stage) -> None:
    """A turn that is interrupted while a page is fetched."""
    stage.configure({"skipWebFetchPreflight": True})
    await stage.start()
    async with silent_server() as (port, reached):
        given = json.dumps({"url": f"http://127.0.0.1:{port}/", "prompt": "What is there?"})
        await stage.interrupt_call(f"@do call WebFetch {given}", reached)
    await stage.turn("@do say After.")


async def esc_question(stage: Stage) -> None:
    """A turn that is interrupted instead of answering its question."""
    await stage.start()
    await stage.interrupt_question("@do question ;; say Well.")
    await stage.turn("@do say After.")


async def elsewhere(stage: Stage) -> None:
    """A session that is resumed in another folder."""
    await stage.start()
    await stage.turn("@do say Here.")
    await stage.stop()
    other = stage.project.with_name("other")
    other.mkdir()
    await stage.start(session=stage.session, folder=str(other))
    await stage.turn("@do say There.")


def _connect(port: int) -> str:
    """Return a command that connects to a port and runs until it is stopped."""
    return f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"


SCENES = (
    Scene("plain", "two turns with text only", plain),
    Scene("tools", "a command, a failing command and a new file, all allowed", tools),
    Scene("large", "a command with more output than fits, allowed", large),
    Scene(
        "refusal", "a command that is rejected; the turn continues", refusal, {"rejections": 1},
        unrecorded={"claude": "its files do not distinguish a person from the program that drives it"},
    ),
    Scene(
        "interruption", "interrupted while the model is writing, then another turn", interruption,
        {"interruptions": 1},
    ),
    Scene("resume", "stopped, and resumed in a new process", resume),
    Scene("fork", "forked at its end in a new process", fork, {"forks": 1}, agents=("claude", "codex")),
    Scene("subagent", "a sub-agent that says one thing", subagent, {"subagents": 1}),
    Scene("compaction", "a compaction that the user requests", compaction, {"compactions": 1}, agents=("claude",)),
    Scene(
        "killed", "killed while a call waits for approval", killed, {"orphans": 1},
        unrecorded={"gemini": "a call is logged only with its result"},
    ),
    Scene(
        "hooks", "hooks that run at the start, after a compaction, a resume and a clear", hooks,
        {"compactions": 1, "clears": 1}, agents=("claude",),
    ),
    Scene("parallel", "two commands in one response; the first ends last", parallel, agents=("claude",)),
    Scene("mention", "a prompt that mentions a file", mention, agents=("claude",)),
    Scene("queue", "interrupted while a message is queued", queue, {"interruptions": 1}, agents=("claude",)),
    Scene(
        "esc_agent", "interrupted while a sub-agent runs a command", esc_agent,
        {"interruptions": 1, "subagents": 1}, agents=("claude",),
    ),
    Scene("esc_fetch", "interrupted while a page is fetched", esc_fetch, {"interruptions": 1}, agents=("claude",)),
    Scene("esc_question", "interrupted at a question", esc_question, {"rejections": 1}, agents=("claude",)),
    Scene("elsewhere", "resumed in another folder", elsewhere, agents=("codex",)),
)  # fmt: skip
