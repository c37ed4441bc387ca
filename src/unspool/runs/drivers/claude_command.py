"""The command line and the environment of Claude Code, and checks before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core.errors import NotFoundError, UsageError
from ..protocol import RunSpec, environment_for

MODES = ("default", "acceptEdits", "plan")
"""The modes that can be set at any time."""
START_ONLY_MODES = ("bypassPermissions", "dontAsk", "auto")
"""Modes that can only be set at start, because the agent acts without asking in them."""
_OWN_VARIABLES = ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "BASH_", "MCP_", "MAX_", "ENABLE_", "USE_BUILTIN_RIPGREP")
_CLOUD_VARIABLES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUD_ML_", "VERTEX_"),
}
_VARIABLES_OF_ANOTHER_RUN = (
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
)
_VARIABLES_OF_ANOTHER_HOME = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


def check_spec(spec: RunSpec) -> None:
    """Raise an error if a spec is invalid."""
    if spec.mode is not None and spec.mode not in MODES + START_ONLY_MODES:
        raise UsageError(f"Unknown mode {spec.mode!r}; Claude Code has {', '.join(MODES + START_ONLY_MODES)}")
    if spec.fork and not spec.session:
        raise UsageError("`--fork` needs a session to fork from")
    if spec.at and not spec.fork:
        raise UsageError("Continuing from an earlier message requires a fork")
    if not Path(spec.folder).is_dir():
        raise NotFoundError(f"No such directory: {spec.folder}")


def build_environment(spec: RunSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for Claude Code, selected from ours."""
    own: tuple[str, ...] = _OWN_VARIABLES
    for switch, names in _CLOUD_VARIABLES.items():
        if environ.get(switch):
            own += names
    kept = environment_for(own, environ, spec.home)
    dropped = _VARIABLES_OF_ANOTHER_RUN + (_VARIABLES_OF_ANOTHER_HOME if spec.home is not None else ())
    kept = {name: value for name, value in kept.items() if name not in dropped}
    # A supervised program must not replace itself with a newer version while it is running.
    return {"DISABLE_AUTOUPDATER": "1", **kept, "CLAUDE_CODE_ENTRYPOINT": "sdk-py"}


def build_command(program: str, spec: RunSpec, session: str, copy: Path | None = None) -> list[str]:
    """Return the command line. `session` is the id of the session to work in, `copy` a file to fork from."""
    arguments = [
        program,
        "--print",
        "--verbose",
        "--output-format=stream-json",
        "--input-format=stream-json",
        "--permission-prompt-tool=stdio",
        "--include-partial-messages",
        "--replay-user-messages",
        f"--permission-mode={spec.mode or 'default'}",
    ]
    if spec.model:
        arguments.append(f"--model={spec.model}")
    if spec.session:
        arguments.append(f"--resume={copy or spec.session}")
    if spec.fork:
        arguments.append("--fork-session")
        if spec.at:
            arguments.append(f"--resume-session-at={spec.at}")
    if spec.fork or not spec.session:
        arguments.append(f"--session-id={session}")
    return arguments
