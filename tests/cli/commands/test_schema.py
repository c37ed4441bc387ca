"""`unspool schema`: the schema, and files checked against it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import unspool

from ...validation import check_line, check_session
from ..run import SAMPLES, Run


def test_the_schema_is_printed(run: Run) -> None:
    """Valid JSON Schema, the same as the function gives."""
    done = run("schema")
    assert done.code == 0
    assert json.loads(done.out) == unspool.json_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(done.out))


@pytest.mark.parametrize("format", ["ndjson", "stream"])
def test_exports_match_the_schema(run: Run, tmp_path: Path, format: str) -> None:
    """Every line of an export is good, by our check and by any validator."""
    target = tmp_path / "export.ndjson"
    run("export", "37c2", "cdc4", "--home", SAMPLES, "--format", format, "-o", target)
    lines = target.read_text().splitlines()
    done = run("schema", "--check", target)
    assert (done.code, done.out, done.err) == (0, "", f"{len(lines)} valid, 0 invalid\n")
    validator = jsonschema.Draft202012Validator(unspool.json_schema())
    validator.validate(json.loads(lines[0]))
    for line in lines:
        (check_session if format == "ndjson" else check_line)(line.encode())


def test_invalid_lines_are_named(run: Run, tmp_path: Path) -> None:
    """The number of each, and what is wrong with it; blank lines do not count."""
    target = tmp_path / "mixed.ndjson"
    good = run("export", "cdc4", "--home", SAMPLES).out.strip()
    wrong = json.loads(good) | {"rejections": "none"}
    target.write_text("\n".join([good, "", "{", '{"type":"new\\u001b[31m"}', json.dumps(wrong, separators=(",", ":"))]))
    done = run("schema", "--check", target)
    assert done.code == 1
    assert [line.split(": ")[0] for line in done.lines] == [f"{target}:{number}" for number in (3, 4, 5)]
    assert "$.rejections" in done.lines[-1]
    assert "\x1b" not in done.out
    assert done.err == "1 valid, 3 invalid\n"


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    """The message names it."""
    done = run("schema", "--check", tmp_path / "no.ndjson")
    assert (done.code, done.err) == (1, f"unspool: {tmp_path / 'no.ndjson'}: no such file\n")
