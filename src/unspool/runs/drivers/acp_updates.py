"""Updates that an agent sends while it works, or while it replays a past conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..completions import offered_commands
from ..protocol import CommandsOffered, Emit, TextDelta
from .acp_connection import Params, object_at, text_or_none
from .settings import ReportedSettings
from .turn_state import TurnState

REPLAY_QUIET_SECONDS = 0.2
REPLAY_SECONDS = 60.0


class AcpUpdates:
    """Handles the updates of one agent."""

    def __init__(
        self, emit: Emit, settings: ReportedSettings, turn: TurnState, mode_in_text: Callable[[str], str | None]
    ) -> None:
        self.former_sessions: set[str | None] = set()
        """Sessions that were left by a clear. Their updates are ignored."""
        self._emit = emit
        self._settings = settings
        self._turn = turn
        self._mode_in_text = mode_in_text
        self._last_at = 0.0

    def handle(self, session: str | None, update: Params) -> None:
        """Emit the events for an update."""
        if session in self.former_sessions:
            return
        self._last_at = asyncio.get_running_loop().time()
        kind = update.get("sessionUpdate")
        if kind == "current_mode_update":
            self._settings.update(mode=text_or_none(update.get("currentModeId")))
        elif kind == "available_commands_update":
            self._emit(CommandsOffered(offered_commands(update.get("availableCommands"))))
        elif kind in ("agent_message_chunk", "agent_thought_chunk"):
            text = text_or_none(object_at(update, "content").get("text")) or ""
            mode = self._mode_in_text(text)
            if mode is not None:
                self._settings.update(mode=mode)
            elif text and self._turn.is_active:
                self._emit(TextDelta(text, thinking=kind == "agent_thought_chunk"))

    async def wait_until_quiet(self) -> None:
        """Wait until there has been no update for a moment."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REPLAY_SECONDS
        self._last_at = loop.time()
        while (quiet := loop.time() - self._last_at) < REPLAY_QUIET_SECONDS and loop.time() < deadline:
            await asyncio.sleep(REPLAY_QUIET_SECONDS - quiet)
