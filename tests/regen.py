"""Regenerates golden outlines, the published schemas, and the outputs in the documentation. `make regen`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec
from tools.docs import man_pages, tables_reference

import unspool
from unspool.agents import AGENTS, shapes
from unspool.cli._shared.output_types import output_schema
from unspool.core.json_schema import json_schema
from unspool.library import Library
from unspool.testing import Recording
from unspool.web.api.openapi import openapi_text
from unspool.web.api.routes import ENDPOINTS

from .examples import PAGES, with_real_outputs
from .outline import outline
from .recordings import recordings

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"
SCHEMA = ROOT / "docs" / "schema" / "unspool-1.schema.json"
KNOWN_SHAPES = ROOT / "src" / "unspool" / "agents" / shapes.KNOWN
TABLES = ROOT / "docs" / "schema" / "unspool-tables-1.json"
OPENAPI = ROOT / "docs" / "schema" / "openapi.json"
OUTPUT_SCHEMA = ROOT / "docs" / "schema" / "unspool-output-1.schema.json"


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


def output_schema_text() -> bytes:
    """The schema of what commands print with `--json`, as it is published."""
    return msgspec.json.format(msgspec.json.encode(output_schema(), order="deterministic"), indent=2) + b"\n"


def tables_text() -> bytes:
    """The schemas of the tables as they are published."""
    return msgspec.json.format(msgspec.json.encode(tables_reference.published()), indent=2) + b"\n"


def known_shapes_text() -> bytes:
    """The kinds of records in all recordings and samples, and the fields of each."""
    found = {agent: shapes.Shape() for agent in AGENTS}
    for home in (unspool.samples(), *(recording.home for recording in recordings())):
        for ref in Library(home).refs():
            for path in (ref.path, *ref.more):
                for record in shapes.records_of(AGENTS[ref.agent].log(path)):
                    found[ref.agent].add(AGENTS[ref.agent], record)
    known = {
        agent: {kind: sorted(fields) for kind, fields in sorted(shape.fields.items())} for agent, shape in found.items()
    }
    return msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n"


def main() -> None:
    """Write everything."""
    KNOWN_SHAPES.write_bytes(known_shapes_text())
    for (agent, version), found in groupby(recordings(), key=lambda recording: recording[:2]):
        path = golden_path(agent, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(golden(list(found)), encoding="utf-8")
    SCHEMA.parent.mkdir(parents=True, exist_ok=True)
    SCHEMA.write_bytes(schema_text())
    TABLES.write_bytes(tables_text())
    OPENAPI.write_bytes(openapi_text(ENDPOINTS))
    OUTPUT_SCHEMA.write_bytes(output_schema_text())
    man_pages.write()
    for page in PAGES:
        page.write_text(with_real_outputs(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
