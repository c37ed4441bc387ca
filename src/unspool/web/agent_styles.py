"""The appearance of agents on the pages: letters, titles and colours, from the table of agents.

The content security policy allows no inline styles, so the colours are served as a generated style sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2s

from litestar import Response, get

from ..agents import AGENTS, AgentInfo
from .assets import IMMUTABLE

PATH = "/agents.css"


class AgentBadges(Mapping[str, tuple[str, str]]):
    """The letter and the title of each agent, by its name."""

    def __getitem__(self, name: str) -> tuple[str, str]:
        info = AGENTS[name].info
        return info.letter, info.title

    def __iter__(self) -> Iterator[str]:
        return iter(AGENTS)

    def __len__(self) -> int:
        return len(AGENTS)


def session_folder(name: str) -> str:
    """Return the folder in which an agent stores its sessions, for display."""
    info = AGENTS[name].info
    return "/".join(("~", info.folder, *info.paths[:1]))


def stylesheet_text() -> str:
    """Return the style sheet: the colours of the agents, and rules that show the modes of the agent to start."""
    infos = [agent.info for agent in AGENTS.values()]
    light = _variables(infos, dark=False)
    dark = _variables(infos, dark=True)
    rules = [
        f":root {{ {light} }}",
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}',
        f':root[data-theme="dark"] {{ {dark} }}',
    ]
    for name in AGENTS:
        rules.append(f".agent.{name} {{ color: var(--agent-{name}); border-color: currentcolor; }}")
        chosen = f'form:has([value="{name}"]:checked) .mode[data-agent="{name}"]'
        rules.append(f"{chosen} {{ display: grid !important; }}")
    return "\n".join(rules) + "\n"


def _variables(infos: list[AgentInfo], *, dark: bool) -> str:
    return " ".join(f"--agent-{info.name}: {info.colour.dark if dark else info.colour.light};" for info in infos)


def stylesheet_url() -> str:
    """Return the address of the style sheet. It changes when an agent is added or gets another colour."""
    return f"{PATH}?v={blake2s(stylesheet_text().encode(), digest_size=5).hexdigest()}"


@get(PATH, include_in_schema=False, sync_to_thread=False)
def stylesheet() -> Response[str]:
    """Send the style sheet with the colours of the agents."""
    return Response(stylesheet_text(), media_type="text/css", headers={"cache-control": IMMUTABLE})
