"""Parses and checks the options of the data source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..core.errors import UsageError
from ..data.schema import TABLES, TABLES_SCHEMA, find_table

ALL = "all"
"""The value of `table` that selects all tables: see `packed.py`."""
FILE_SYSTEM = "fs."
"""The prefix of options that are passed to the file system."""
_PARTITION_BYTES = 32 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})\s*([bkmg]?)b?", re.IGNORECASE)
_KNOWN = {
    "table": f"one of {', '.join(TABLES)}; or {ALL}",
    "path": "the location of the sessions; also the argument of load()",
    "paths": "several locations as a JSON list; also the argument of load()",
    "schema": f"the version of the tables that you expect, {TABLES_SCHEMA}",
    "partitionbytes": "how many bytes of logs one task reads, such as 32m",
}


class Options(NamedTuple):
    """The checked options."""

    table: str
    """The name of a table, or `ALL`."""
    paths: tuple[str, ...]
    file_system: dict[str, str]
    partition_bytes: int


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse and check all options; raises UsageError."""
    # Spark passes options in lower case and does not check for unknown ones.
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in _KNOWN and not name.startswith(FILE_SYSTEM):
            raise UsageError(
                f"unknown option {name!r}; choose from {', '.join(_KNOWN)}, or {FILE_SYSTEM}NAME for the file system"
            )
    if "table" not in options:
        raise UsageError(f'choose a table with .option("table", NAME): {", ".join(TABLES)}')
    version = options.get("schema", TABLES_SCHEMA)
    if version != TABLES_SCHEMA:
        raise UsageError(
            f"this version of unspool makes tables of {TABLES_SCHEMA}, not of {version}; "
            "install a version of unspool that makes those, or change the option schema"
        )
    return Options(
        options["table"] if options["table"] == ALL else find_table(options["table"]).name,
        _paths(options),
        {name.removeprefix(FILE_SYSTEM): value for name, value in options.items() if name.startswith(FILE_SYSTEM)},
        _size(options.get("partitionbytes")),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = [options["path"]] if options.get("path") else []
    if "paths" in options:
        try:
            listed = json.loads(options["paths"])
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(path, str) for path in listed):
            raise UsageError(f"the option paths must be a JSON list of strings, not {options['paths']!r}")
        found += listed
    if not found:
        raise UsageError('specify the location of the sessions, for example .load("/homes/*")')
    return tuple(found)


def _size(text: str | None) -> int:
    if text is None:
        return _PARTITION_BYTES
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if size <= 0:
        raise UsageError(f"the option partitionBytes must be a size such as 32m or 1g, not {text!r}")
    return size
