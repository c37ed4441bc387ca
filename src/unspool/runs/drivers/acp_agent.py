"""The agent-specific part of the driver for the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import Capabilities, PermissionRequest, RunSpec
from .acp_requests import PermissionOption, PermissionParams
from .event_sink import EventSink


class AcpAgent:
    """Defines how an agent is started, and what its requests and options mean. Subclasses override this."""

    title = "The agent"
    extra = "gemini"
    start_only_modes: tuple[str, ...] = ()
    """Modes in which the agent never asks; they can only be set at start."""
    safe_mode = "default"
    clear_commands: tuple[str, ...] = ()
    """Terminal commands that start another session, if the agent does not support them over the protocol."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.spec = RunSpec(folder="")
        self._emit = EventSink()

    def commands(self) -> Sequence[Sequence[str]]:
        """Return the command line, followed by the one for older versions if that was different."""
        raise NotImplementedError

    def is_unknown_argument(self, error: str) -> bool:
        """Return whether the error of a program that did not start is about its arguments."""
        del error
        return False

    def environment(self) -> dict[str, str]:
        """Return the environment of the process."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Prepare the start of the process."""

    def session_loaded(self) -> None:
        """Clean up after a past session was loaded."""

    def describe(self, id: str, permission: PermissionParams) -> PermissionRequest:
        """Translate a permission request into the form that all drivers share."""
        raise NotImplementedError

    def option_for_session(self, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """Return the option that allows a call until the session ends, and no longer."""
        return next((option for option in options if option.kind == "allow_always"), None)

    def mode_in_text(self, text: str) -> str | None:
        """Return the mode that a text announces, if the agent reports its mode as text of the model."""
        del text
        return None
