"""Checks the names of models that people choose against those that an agent offers."""

from __future__ import annotations

from ..core.errors import UsageError

_ID_SIGNS = frozenset("-./:[@")
"""Characters that occur in the ids of models, but not in short names."""
_MOST_NAMES = 12


def check_model(title: str, model: str | None, offered: tuple[str, ...]) -> None:
    """Raise UsageError for a short name that the agent does not offer. Providers know more ids than agents list."""
    if model is None or not offered or model in offered or _ID_SIGNS & set(model):
        return
    raise UsageError(f"{title} has no model {model!r}; it offers: {', '.join(offered)}")


def model_warning(title: str, model: str | None, offered: tuple[str, ...]) -> str | None:
    """Return a warning if the agent does not list the model."""
    if model is None or not offered or model in offered:
        return None
    more = len(offered) - _MOST_NAMES
    names = ", ".join(offered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return (
        f"{title} does not list the model {model!r}. If your provider does not know it either, every turn will fail. "
        f"It lists: {names}."
    )
