"""The text that the model is writing, in pieces with offsets: a page that connects late misses no piece and adds none
twice.

Offsets count UTF-16 code units from the start of the turn, like strings in JavaScript.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from .protocol import TextDelta

MAX_LIVE_TEXT = 200_000
"""The most characters of a text that are kept in memory; the session log has all of it."""
_MAIN = (None, False)
"""The key of the main conversation's text: no sub-agent, no thinking."""


class LiveText(msgspec.Struct, kw_only=True):
    """The text of the current turn, or of a sub-agent in it."""

    turn: int
    """The number of the turn in the run."""
    subagent: str | None = None
    offset: int = 0
    """Where `text` starts in the text of the turn."""
    text: str = ""
    is_cut_off: bool = False
    """The turn ended before the reply was complete."""

    @property
    def end(self) -> int:
        """The offset after the last character."""
        return self.offset + utf16_length(self.text)

    def append(self, text: str) -> None:
        """Add a piece at the end."""
        whole = self.text + text
        dropped, self.text = whole[:-MAX_LIVE_TEXT], whole[-MAX_LIVE_TEXT:]
        self.offset += utf16_length(dropped)

    def from_end(self, text: str) -> LiveText:
        """Return a copy with only `text`, which is the end of this text."""
        return msgspec.structs.replace(self, text=text, offset=self.end - utf16_length(text))


class TextKeeper(Protocol):
    """Saves the text of the main conversation in case this program is killed."""

    def append(self, text: str) -> None:
        """Add a piece."""
        ...

    def remove(self) -> None:
        """Remove the saved text, which is no longer needed."""
        ...


class LiveTexts:
    """All texts of one run: that of the main conversation, and those of sub-agents."""

    def __init__(self, keeper: TextKeeper | None = None) -> None:
        self._keeper = keeper
        self._turn = 0
        self._texts: dict[tuple[str | None, bool], LiveText] = {}
        self._ends: dict[tuple[str | None, bool], int] = {}
        """The end of each text, so that a long text is not counted again for every piece."""

    @property
    def main(self) -> LiveText | None:
        """The text of the main conversation, if the model has written any in this turn."""
        return self._texts.get(_MAIN)

    def start_turn(self) -> None:
        """Start a turn. The text of earlier turns is in the log."""
        self._turn += 1
        self._texts.clear()
        self._ends.clear()
        self.release()

    def add(self, delta: TextDelta) -> dict[str, Any]:
        """Add a piece; return the event to publish."""
        key = (delta.subagent, delta.thinking)
        text = self._texts.setdefault(key, LiveText(turn=self._turn, subagent=delta.subagent))
        offset = self._ends.get(key, 0)
        text.append(delta.text)
        self._ends[key] = offset + utf16_length(delta.text)
        if self._keeper is not None and key == _MAIN:
            self._keeper.append(delta.text)
        return {
            "turn": self._turn,
            "offset": offset,
            "text": delta.text,
            "thinking": delta.thinking,
            "subagent": delta.subagent,
        }

    def end_turn(self, is_cut_off: bool) -> LiveText | None:
        """End the turn. Return the main text if it was cut off, because the session log may not have it."""
        main = self.main
        self._texts = {_MAIN: main} if is_cut_off and main is not None and main.text.strip() else {}
        self._ends = {key: self._ends[key] for key in self._texts}
        kept = self.main
        if kept is not None:
            kept.is_cut_off = True
        return kept

    def release(self) -> None:
        """Remove the saved text, because the text is in a log by now."""
        if self._keeper is not None:
            self._keeper.remove()

    def written(self) -> list[LiveText]:
        """Return all texts except thinking, that of the main conversation first."""
        shown = [text for (_, is_thinking), text in self._texts.items() if not is_thinking]
        return sorted(shown, key=lambda text: text.subagent is not None)


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text)
