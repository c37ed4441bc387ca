"""The table of tools: names, descriptions, parameters and functions.

The descriptions are part of every request that a connected agent sends to its model, so they are short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ..core import typed_json
from ..core.errors import NotFoundError, UsageError
from .request import BudgetParams, ToolRequest
from .response import MAX_BUDGET, MIN_BUDGET, check_budget
from .tools.context_at import ContextParams, context_at
from .tools.history_of_file import FileHistoryParams, history_of_file
from .tools.read_session import ReadSessionParams, read_session
from .tools.recent_work import RecentWorkParams, recent_work
from .tools.search import SearchParams, search
from .tools.what_was_refused import RefusedParams, what_was_refused


class MemoryTool(NamedTuple):
    """A tool of the MCP server."""

    name: str
    description: str
    params: type[BudgetParams]
    run: Callable[[ToolRequest, Any], str]

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the parameters, without details that a model does not need."""
        _, components = msgspec.json.schema_components([self.params])
        schema = components[self.params.__name__]
        properties = {name: _short(value) for name, value in schema["properties"].items()}
        properties["budget"] |= {"minimum": MIN_BUDGET, "maximum": MAX_BUDGET}
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        return found | ({"required": schema["required"]} if schema.get("required") else {})


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in schema.items() if key != "maxLength" and not (key == "default" and not value)}
    if isinstance(choices := found.pop("anyOf", None), list):
        found |= next(choice for choice in choices if choice.get("type") != "null")
    return found


TOOLS = {
    tool.name: tool
    for tool in (
        MemoryTool(
            "search",
            "Find earlier sessions of coding agents in this project by what was said, run or printed. "
            "Use it before you solve a problem that may have been solved before.",
            SearchParams,
            search,
        ),
        MemoryTool("read_session", "Read messages of an earlier session.", ReadSessionParams, read_session),
        MemoryTool(
            "what_was_refused",
            "List actions that the user, a rule or a hook rejected in this project, with the reasons. "
            "Use it before you propose something the user may have rejected.",
            RefusedParams,
            what_was_refused,
        ),
        MemoryTool(
            "context_at",
            "Show what the model had in its context at a message of an earlier session, after compactions and clears.",
            ContextParams,
            context_at,
        ),
        MemoryTool(
            "history_of_file",
            "List the calls of earlier sessions that read or changed a file, with what was rejected or failed. "
            "Use it before you change a file that you do not know.",
            FileHistoryParams,
            history_of_file,
        ),
        MemoryTool(
            "recent_work",
            "List the latest sessions in this project, with the last prompt and answer of each. "
            "Use it to continue earlier work.",
            RecentWorkParams,
            recent_work,
        ),
    )
}


def call_tool(request: ToolRequest, name: str, arguments: Mapping[str, Any]) -> str:
    """Run a tool and return its text. Raises UnspoolError."""
    tool = find_tool(name)
    try:
        params = typed_json.convert(dict(arguments), tool.params, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{tool.name}: {error}") from error
    check_budget(params.budget)
    return tool.run(request, params)


def find_tool(name: str) -> MemoryTool:
    """Return the tool with this name."""
    if name not in TOOLS:
        raise NotFoundError(f"there is no such tool; the tools are {', '.join(TOOLS)}")
    return TOOLS[name]
