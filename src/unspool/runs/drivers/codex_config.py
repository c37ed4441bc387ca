"""How Codex is started: its modes, its environment, and the turn that a message belongs to."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...agents import AGENTS
from ...agents.codex.turn_lookup import open_scripts, turn_at
from ...core.errors import NotFoundError, UsageError
from ...library import Library
from ..protocol import RunSpec, environment_for, folder_of
from .jsonrpc import Params

OWN_VARIABLES = ("OPENAI_", "CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE")
"""Not all that begin with CODEX_: those that Codex sets for its own children would mislead it."""
NAMING_VARIABLES = ("env_key", "bearer_token_env_var")
LARGEST_CONFIG = 1 << 20


class Mode(msgspec.Struct, frozen=True):
    """How much Codex may do by itself."""

    approval: str
    sandbox: str
    policy: str
    """The sandbox again, as it is called where it is changed."""
    collaboration: str = "default"

    def settings(self, now: Params) -> Params:
        """What has to be changed for this mode."""
        # A mode of collaboration has a model of its own; it is to be the one that is used anyway.
        kept = {"model": now.get("model"), "reasoning_effort": now.get("effort"), "developer_instructions": None}
        return {
            "approvalPolicy": self.approval,
            "approvalsReviewer": "user",
            "sandboxPolicy": {"type": self.policy},
            "collaborationMode": {"mode": self.collaboration, "settings": kept},
        }

    def is_set(self, now: Params) -> bool:
        """Whether this is the mode in which Codex works."""
        policy, collaboration = now.get("sandboxPolicy"), now.get("collaborationMode")
        return (
            now.get("approvalPolicy") == self.approval
            and isinstance(policy, dict)
            and policy.get("type") == self.policy
            and (collaboration.get("mode") if isinstance(collaboration, dict) else "default") == self.collaboration
        )


DEFAULT_MODE = "ask"
UNGUARDED = "full"
"""Nothing is asked and nothing is out of reach: only those who name it when they start Codex get it."""
MODES = {
    "plan": Mode("on-request", "read-only", "readOnly", "plan"),
    "read-only": Mode("on-request", "read-only", "readOnly"),
    "ask": Mode("on-request", "workspace-write", "workspaceWrite"),
    UNGUARDED: Mode("never", "danger-full-access", "dangerFullAccess"),
}


def mode_of(name: str | None) -> Mode:
    """A mode by its name."""
    mode = MODES.get(name or DEFAULT_MODE)
    if mode is None:
        raise UsageError(f"Codex has no mode {name!r}; it has: {', '.join(MODES)}.")
    return mode


# --- environment -----------------------------------------------------------------------------------------------------


def environment_of(spec: RunSpec, program: str) -> dict[str, str]:
    """Its own variables, those that its settings name, and the least that any program needs."""
    folder = folder_of("codex", spec)
    own = (*OWN_VARIABLES, *variables_in(folder / "config.toml"))
    environment = environment_for(own, os.environ, spec.home)
    if spec.home is not None:
        environment.pop(AGENTS["codex"].info.variable, None)
    # The package brings a few tools that Codex looks for on the path.
    tools = Path(program).parent.parent / "codex-path"
    if tools.is_dir():
        environment["PATH"] = os.pathsep.join([str(tools), environment.get("PATH", os.defpath)])
    return environment


def variables_in(config: Path) -> set[str]:
    """The variables in which the user keeps keys for providers and servers of tools, as the settings name them."""
    try:
        with config.open("rb") as file:
            settings = tomllib.loads(file.read(LARGEST_CONFIG).decode("utf-8"))
    except (OSError, ValueError):
        return set()
    return {name for name in _named(settings) if name}


def _named(settings: Any, depth: int = 0) -> Iterator[str]:
    if not isinstance(settings, dict) or depth > 6:
        return
    for key, value in settings.items():
        if key in NAMING_VARIABLES and isinstance(value, str):
            yield value
        elif key in ("env_http_headers", "env_vars"):
            found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            yield from (each for each in found if isinstance(each, str))
        else:
            yield from _named(value, depth + 1)


# --- where a fork begins ---------------------------------------------------------------------------------------------


def turn_named(spec: RunSpec) -> str:
    """The turn after which a fork begins: `at` names it, or a message that belongs to it."""
    assert spec.session is not None
    assert spec.at is not None
    library = Library(folder_of("codex", spec))
    session = library.load(library.find(spec.session))
    for message in session.messages:
        if message.id == spec.at:
            turn = turn_at(Path(session.info.files[message.source.file].path), message.source.line)
            if turn is None:
                raise NotFoundError(f"Codex did not note which turn the message {spec.at} belongs to.")
            return turn
    return spec.at


def script_about(path: str, words: str) -> str | None:
    """The call of the script in which something is asked: the one that is open, or of several the one that names it."""
    scripts = open_scripts(Path(path))
    named = [id for id, script in scripts.items() if words and words in script]
    found = named or list(scripts)
    return found[-1] if found else None


def is_script_open(path: str, call: str) -> bool:
    """Whether a script has been called and has not ended yet."""
    return call in open_scripts(Path(path))
