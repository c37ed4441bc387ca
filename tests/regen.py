"""Regenerates golden outlines, the published schemas, and the outputs in the documentation. `make regen`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec

from unspool.core.json_schema import json_schema
from unspool.testing import Recording
from unspool.web.api.openapi import openapi_text
from unspool.web.api.routes import ENDPOINTS

from .examples import PAGES, with_real_outputs
from .outline import outline
from .recordings import recordings

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"
SCHEMA = ROOT / "docs" / "schema" / "unspool-1.schema.json"
OPENAPI = ROOT / "docs" / "schema" / "openapi.json"


def golden(found: list[Recording]) -> str:
    """The outlines of some recordings."""
    lines = []
    for recording in found:
        lines.append(f"# {recording.scenario}")
        for session in recording.sessions():
            lines += outline(session)
    return "\n".join(lines) + "\n"


def golden_path(agent: str, version: str) -> Path:
    """Where the outlines of a version are kept."""
    return GOLDEN / agent / f"{version}.txt"


def schema_text() -> bytes:
    """The schema as it is published."""
    return msgspec.json.format(msgspec.json.encode(json_schema(), order="deterministic"), indent=2) + b"\n"


def main() -> None:
    """Write everything."""
    for (agent, version), found in groupby(recordings(), key=lambda recording: recording[:2]):
        path = golden_path(agent, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(golden(list(found)), encoding="utf-8")
    SCHEMA.parent.mkdir(parents=True, exist_ok=True)
    SCHEMA.write_bytes(schema_text())
    OPENAPI.write_bytes(openapi_text(ENDPOINTS))
    for page in PAGES:
        page.write_text(with_real_outputs(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
