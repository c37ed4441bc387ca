"""What the driver of the Agent Client Protocol has to know about one agent."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import Capabilities, PermissionRequest, RunSpec
from .acp_requests import PermissionOption, PermissionParams
from .event_sink import EventSink


class AcpAgent:
    """How one agent is started, and what its requests and options mean. Subclasses override this."""

    title = "The agent"
    extra = "gemini"
    start_only_modes: tuple[str, ...] = ()
    """Modes in which the agent never asks; they must be chosen at the start."""
    safe_mode = "default"
    clear_commands: tuple[str, ...] = ()
    """Commands of the terminal that start another session, if the agent does not know them when it is run this way."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.spec = RunSpec(folder="")
        self._emit = EventSink()

    def commands(self) -> Sequence[Sequence[str]]:
        """The command line, followed by the one for older versions if that was different."""
        raise NotImplementedError

    def is_unknown_argument(self, error: str) -> bool:
        """Whether a program that did not start complains about its arguments."""
        del error
        return False

    def environment(self) -> dict[str, str]:
        """The environment of the process."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Called before the process is started."""

    def session_loaded(self) -> None:
        """Called after a past session was loaded."""

    def describe(self, id: str, permission: PermissionParams) -> PermissionRequest:
        """What a permission request is about."""
        raise NotImplementedError

    def option_for_session(self, options: Sequence[PermissionOption]) -> PermissionOption | None:
        """The option that allows a call until the session ends, and no longer."""
        return next((option for option in options if option.kind == "allow_always"), None)

    def mode_in_text(self, text: str) -> str | None:
        """The mode that a text announces, if the agent reports its mode in texts of the model."""
        del text
        return None
