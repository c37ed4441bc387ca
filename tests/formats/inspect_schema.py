"""Writes the JSON Schema of Inspect's log files, from Inspect's own models, without their descriptions.

Inspect needs some eighty packages, so tests validate with this schema, and with Inspect itself only where it is
installed. Run it where Inspect is installed, to follow a new version:

    python tests/formats/inspect_schema.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "fixtures"
SCHEMA = "inspect.schema.json"


def without_texts(value: Any, is_names: bool = False) -> Any:
    """A schema with what is validated and nothing else. The keys of `properties` and `$defs` are names."""
    if isinstance(value, dict):
        return {
            key: without_texts(inner, key in ("properties", "$defs") and not is_names)
            for key, inner in value.items()
            if is_names or key not in ("title", "description", "default", "examples")
        }
    return [without_texts(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    """Write the schema."""
    from inspect_ai.log import EvalLog, EvalSample, EvalSampleSummary
    from pydantic.json_schema import models_json_schema

    _, schema = models_json_schema([(model, "validation") for model in (EvalLog, EvalSample, EvalSampleSummary)])
    found = {"$comment": f"inspect_ai {version('inspect_ai')}", **without_texts(schema)}
    path = FOLDER / SCHEMA
    path.write_text(json.dumps(found, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
