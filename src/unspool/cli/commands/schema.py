"""`unspool schema`: print the JSON Schema of exported records, or validate a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from ...core import typed_json
from ...core.errors import NotFoundError
from ...core.json_schema import json_schema
from ...core.session import Session
from ...core.stream import StreamLine
from ...io.listing import why_no_file
from ...render.sanitize import harmless
from .._shared.output_types import output_schema

EXAMPLES = """examples:
  unspool schema > unspool.schema.json
  unspool schema --output > unspool-output.schema.json
  unspool schema --check sessions.ndjson"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--output", action="store_true", help="print the schema of --json output")
    parser.add_argument("--check", metavar="FILE", help="validate an exported file, and list its invalid lines")


def run(args: argparse.Namespace) -> int:
    """Print the schema, or validate a file."""
    if args.check is None:
        schema = output_schema() if args.output else json_schema()
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n")
        return 0
    path = Path(args.check)
    if not path.is_file():
        raise NotFoundError(f"{path}: {why_no_file(path)}")
    record = typed_json.decoder(Session)
    line_decoder = typed_json.decoder(StreamLine)
    good = bad = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            is_record = line.startswith(b'{"type":"session"') and b'"messages":' in line
            try:
                (record if is_record else line_decoder).decode(line)
                good += 1
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                bad += 1
                print(harmless(f"{path}:{number}: {error}"))
    print(f"{good} valid, {bad} invalid", file=sys.stderr)
    return 1 if bad else 0
