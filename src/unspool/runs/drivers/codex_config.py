"""The modes and the environment of Codex, and lookups in its session files."""

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
from ..protocol import RunSpec, agent_folder, environment_for
from .jsonrpc import Params

OWN_VARIABLES = ("OPENAI_", "CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE")
"""Not everything that starts with CODEX_: variables that Codex sets for its child processes would mislead it."""
NAMING_VARIABLES = ("env_key", "bearer_token_env_var")
MAX_CONFIG_BYTES = 1 << 20


class Mode(msgspec.Struct, frozen=True):
    """How much Codex may do without asking."""

    approval: str
    sandbox: str
    policy: str
    """The name of the sandbox in the call that changes the settings."""
    collaboration: str = "default"

    def settings(self, now: Params) -> Params:
        """Return the settings that switch to this mode."""
        # A collaboration mode has its own model; keep the current one.
        kept = {"model": now.get("model"), "reasoning_effort": now.get("effort"), "developer_instructions": None}
        return {
            "approvalPolicy": self.approval,
            "approvalsReviewer": "user",
            "sandboxPolicy": {"type": self.policy},
            "collaborationMode": {"mode": self.collaboration, "settings": kept},
        }

    def is_set(self, now: Params) -> bool:
        """Whether Codex is in this mode."""
        policy, collaboration = now.get("sandboxPolicy"), now.get("collaborationMode")
        return (
            now.get("approvalPolicy") == self.approval
            and isinstance(policy, dict)
            and policy.get("type") == self.policy
            and (collaboration.get("mode") if isinstance(collaboration, dict) else "default") == self.collaboration
        )


DEFAULT_MODE = "ask"
FULL_ACCESS = "full"
"""Codex never asks and has access to everything; this mode can only be set at start."""
MODES = {
    "plan": Mode("on-request", "read-only", "readOnly", "plan"),
    "read-only": Mode("on-request", "read-only", "readOnly"),
    "ask": Mode("on-request", "workspace-write", "workspaceWrite"),
    FULL_ACCESS: Mode("never", "danger-full-access", "dangerFullAccess"),
}


def find_mode(name: str | None) -> Mode:
    """Return a mode by its name."""
    mode = MODES.get(name or DEFAULT_MODE)
    if mode is None:
        raise UsageError(f"Unknown mode {name!r} for Codex; available modes: {', '.join(MODES)}")
    return mode


# --- environment -----------------------------------------------------------------------------------------------------


def build_environment(spec: RunSpec, program: str) -> dict[str, str]:
    """Return its own variables, those that its settings refer to, and those that every agent gets."""
    folder = agent_folder("codex", spec)
    own = (*OWN_VARIABLES, *variables_in(folder / "config.toml"))
    environment = environment_for(own, os.environ, spec.home)
    if spec.home is not None:
        environment.pop(AGENTS["codex"].info.variable, None)
    # The package includes a few tools that Codex expects on the path.
    tools = Path(program).parent.parent / "codex-path"
    if tools.is_dir():
        environment["PATH"] = os.pathsep.join([str(tools), environment.get("PATH", os.defpath)])
    return environment


def variables_in(config: Path) -> set[str]:
    """Return the variables that the settings refer to, with keys for providers and MCP servers."""
    try:
        with config.open("rb") as file:
            settings = tomllib.loads(file.read(MAX_CONFIG_BYTES).decode("utf-8"))
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


# --- turns and scripts -----------------------------------------------------------------------------------------------


def find_turn(spec: RunSpec) -> str:
    """Return the id of the turn after which to fork. `at` is that id, or the id of a message in the turn."""
    assert spec.session is not None
    assert spec.at is not None
    library = Library(agent_folder("codex", spec))
    session = library.load(library.find(spec.session))
    for message in session.messages:
        if message.id == spec.at:
            turn = turn_at(Path(session.info.files[message.source.file].path), message.source.line)
            if turn is None:
                raise NotFoundError(f"Codex did not record the turn of message {spec.at}")
            return turn
    return spec.at


def find_script(path: str, text: str) -> str | None:
    """Return the call of the running script that a request comes from; of several, the last one that has the text."""
    scripts = open_scripts(Path(path))
    named = [id for id, script in scripts.items() if text and text in script]
    found = named or list(scripts)
    return found[-1] if found else None


def is_script_open(path: str, call: str) -> bool:
    """Return whether a script is still running."""
    return call in open_scripts(Path(path))
