"""`unspool rules`: rules suggested by your decisions, as text to copy."""

from __future__ import annotations

import argparse

from ...core.decision_rules import MIN_ALLOWED, MIN_DENIED, RuleSuggestion
from ...render.exact import exact_line
from ...render.sanitize import harmless, local
from ...store.suggested_rules import suggested_rules
from .._shared.options import add_json
from .._shared.output import print_json, print_note

EXAMPLES = """examples:
  unspool rules
  unspool rules --json | jq -r '.rule.text'"""
_SHOWN = 5
"""The maximum number of decisions listed with a rule."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        f"Commands and tools that you allowed at least {MIN_ALLOWED} times and never denied, and reasons with which "
        f"you denied calls at least {MIN_DENIED} times. Nothing is changed: copy the text where you want it."
    )
    add_json(parser, "one JSON object per suggestion")


def run(args: argparse.Namespace) -> int:
    """Print the suggestions."""
    found = suggested_rules()
    if args.json:
        for suggestion in found:
            print_json(suggestion)
        return 0
    if not found:
        print_note("Your decisions suggest no rules yet.")
    for index, suggestion in enumerate(found):
        if index:
            print()
        print("\n".join(map(harmless, _lines(suggestion))))
    return 0


def _lines(suggestion: RuleSuggestion) -> list[str]:
    lines = [f"{suggestion.agent}: {suggestion.question}"]
    if suggestion.rule is None:
        lines.append("  This agent has no rule for it.")
    else:
        lines.append(f"  in {suggestion.rule.file}:")
        lines += [f"    {line}" for line in suggestion.rule.text.split("\n")]
    for one in suggestion.evidence[-_SHOWN:]:
        lines.append(f"  {local(one.at)}  {one.verdict:<13}  {exact_line(one.what)[:120]}")
    if len(suggestion.evidence) > _SHOWN:
        lines.append(f"  and {suggestion.count - _SHOWN} earlier")
    return lines
