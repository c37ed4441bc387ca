"""What is recorded: one thing per scene, with what really happened in it.

The truth is written down here, from what is done, and not from what unspool says of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from unspool.runs.protocol import Answer

from .stages import Stage

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
)  # fmt: skip
