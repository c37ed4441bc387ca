"""The types of the objects that `--json` prints, and their JSON Schema."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SHARED = "unspool.cli._shared"
_COMMANDS = "unspool.cli.commands"
OUTPUT_SCHEMA = "unspool-output/1"
TYPES = {
    "session_item": f"{_SHARED}.records:SessionItem",
    "event_item": f"{_SHARED}.records:EventItem",
    "search_match": f"{_COMMANDS}.search:SearchMatch",
    "context": f"{_COMMANDS}.context:MessageContext",
    "explanation": f"{_COMMANDS}.explain:MessageExplanation",
    "file_report": f"{_COMMANDS}.doctor:FileReport",
    "format_summary": f"{_SHARED}.format_summary:VersionSummary",
    "repair": f"{_COMMANDS}.repair:SessionRepair",
    "written_file": f"{_SHARED}.records:WrittenFile",
    "forgotten_session": "unspool.store.forgotten:ForgottenSession",
    "file_version": "unspool.ingest.history:Version",
    "found_secret": f"{_COMMANDS}.secrets:FoundSecret",
    "share_report": f"{_COMMANDS}.share:ShareReport",
    "preference_pair": "unspool.formats.pairs:PreferencePair",
    "family": "unspool.core.lineage:Family",
    "stats": "unspool.store.stats:Stats",
    "usage": "unspool.store.usage_report:UsageReport",
    "session_usage": f"{_COMMANDS}.usage:UsageOfSession",
    "rule_suggestion": "unspool.core.decision_rules:RuleSuggestion",
    "sync_report": "unspool.ingest.sync_report:Report",
    "push_report": f"{_COMMANDS}.push:PushReport",
    "verification": f"{_COMMANDS}.verify:VerificationReport",
    "run": "unspool.runs.run_view:RunView",
    "sent_answer": f"{_SHARED}.records:SentAnswer",
    "change": "unspool.store.rows:Change",
}
"""The struct of each type. They are imported when needed: most commands print only one of them."""
_NAMES = {path: name for name, path in TYPES.items()}


def type_of(value: object) -> str | None:
    """Return the `type` of a printed object; None if it has none, or already contains it."""
    kind = type(value)
    return _NAMES.get(f"{kind.__module__}:{kind.__qualname__}")


def output_schema() -> dict[str, Any]:
    """Return the JSON Schema of `--json` output."""
    import msgspec

    structs = {name: _struct(path) for name, path in TYPES.items()}
    refs, definitions = msgspec.json.schema_components(structs.values(), ref_template="#/$defs/{name}")
    lines = []
    for name, ref in zip(structs, refs, strict=True):
        properties = {"type": {"const": name}}
        lines.append({"allOf": [ref, {"type": "object", "properties": properties, "required": ["type"]}]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{OUTPUT_SCHEMA}: output of unspool's commands with --json",
        "description": "One line of output. `show` and `export` print session records, which have their own schema.",
        "oneOf": lines,
        "$defs": definitions,
    }


def _struct(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
