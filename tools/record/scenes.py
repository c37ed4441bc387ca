"""What is recorded: one thing per scene, with what really happened in it.

The truth is written down here, from what is done, and not from what unspool says of it.
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
    """One thing that is done with an agent."""

    name: str
    what: str
    play: Callable[[Stage], Awaitable[None]]
    happened: dict[str, int] = {}
    """How often each event happens; those that are not named do not."""
    untold: dict[str, str] = {}
    """Agents whose files do not show it, and why."""
    agents: tuple[str, ...] = ("claude", "codex", "gemini")


def truth_of(scene: Scene, agent: str, version: str) -> dict[str, Any]:
    """What is written beside a recording."""
    happened = {event: scene.happened.get(event, 0) for event in EVENTS}
    told = dict.fromkeys(EVENTS, 0) if agent in scene.untold else happened
    truth: dict[str, Any] = {"agent": agent, "version": version, "scenario": scene.name, "what": scene.what}
    truth |= {"truth": happened, "recoverable": told}
    if agent in scene.untold:
        truth["notes"] = [scene.untold[agent]]
    return truth


# --- what is done -----------------------------------------------------------------------------------------------------


async def plain(stage: Stage) -> None:
    """Two turns of nothing but words."""
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
    """A command that says more than fits: the agent gives the model a part of it."""
    await stage.start()
    path = stage.project / "many.txt"
    path.write_text("".join(f"line {number} of many, with a wallaby\n" for number in range(1200)))
    await stage.turn(f"@do {stage.word('run')} cat {path.name} ;; say Much.")


async def refusal(stage: Stage) -> None:
    """A command that is rejected; the turn continues."""
    await stage.start()
    # To Gemini CLI a reason is one more message, and so another turn.
    reason = REASON if stage.agent != "gemini" else None
    await stage.turn(f"@do {stage.word('run')} touch no.txt ;; say Well.", Answer(verdict="deny", reason=reason))


async def interruption(stage: Stage) -> None:
    """A turn that is stopped while the model speaks, and another one."""
    await stage.start()
    await stage.turn("@do say Before.")
    await stage.interrupt_words("@do slow 2000")
    await stage.turn("@do say After.")


async def resume(stage: Stage) -> None:
    """A session that is ended and gone on with."""
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
    """A compaction that is asked for."""
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
    """A message that waits in the queue when the turn is stopped."""
    await stage.start()
    await stage.interrupt_words("@do slow 2000", "@do say Later.")
    await stage.turn("@do say After.")


async def esc_agent(stage: Stage) -> None:
    """A turn that is stopped while a sub-agent runs a command."""
    await stage.start()
    async with silent_server() as (port, reached):
        await stage.interrupt_call(f"@do spawn run {_connect(port)}", reached)
    await stage.turn("@do say After.")


async def esc_fetch(stage: Stage) -> None:
    """A turn that is stopped while a page is fetched."""
    stage.configure({"skipWebFetchPreflight": True})
    await stage.start()
    async with silent_server() as (port, reached):
        given = json.dumps({"url": f"http://127.0.0.1:{port}/", "prompt": "What is there?"})
        await stage.interrupt_call(f"@do call WebFetch {given}", reached)
    await stage.turn("@do say After.")


async def esc_question(stage: Stage) -> None:
    """A question that is not answered: the turn is stopped."""
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
    """A command that connects to a port, and runs until it is stopped."""
    return f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"


SCENES = (
    Scene("plain", "two turns of words", plain),
    Scene("tools", "a command, a failing command and a new file, all allowed", tools),
    Scene("large", "a command that says more than fits, allowed", large),
    Scene(
        "refusal", "a command that is refused; the turn goes on", refusal, {"rejections": 1},
        untold={"claude": "its files do not tell a person from the program that drives it"},
    ),
    Scene("interruption", "stopped while the model speaks, then one more turn", interruption, {"interruptions": 1}),
    Scene("resume", "ended, and gone on with in a new process", resume),
    Scene("fork", "forked at its end in a new process", fork, {"forks": 1}, agents=("claude", "codex")),
    Scene("subagent", "a sub-agent that says one thing", subagent, {"subagents": 1}),
    Scene("compaction", "a compaction that is asked for", compaction, {"compactions": 1}, agents=("claude",)),
    Scene(
        "killed", "killed while a call waits for approval", killed, {"orphans": 1},
        untold={"gemini": "a call is written down only with its result"},
    ),
    Scene(
        "hooks", "hooks that run at the start, after a compaction, a resume and a clear", hooks,
        {"compactions": 1, "clears": 1}, agents=("claude",),
    ),
    Scene("parallel", "two commands in one response; the first ends last", parallel, agents=("claude",)),
    Scene("mention", "a prompt that mentions a file", mention, agents=("claude",)),
    Scene("queue", "stopped while a message waits", queue, {"interruptions": 1}, agents=("claude",)),
    Scene(
        "esc_agent", "stopped while a sub-agent runs a command", esc_agent,
        {"interruptions": 1, "subagents": 1}, agents=("claude",),
    ),
    Scene("esc_fetch", "stopped while a page is fetched", esc_fetch, {"interruptions": 1}, agents=("claude",)),
    Scene("esc_question", "stopped at a question", esc_question, {"rejections": 1}, agents=("claude",)),
    Scene("elsewhere", "resumed in another folder", elsewhere, agents=("codex",)),
)  # fmt: skip
