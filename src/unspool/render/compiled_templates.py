"""Caches compiled templates on disk: compiling them would delay the first page by half a second after every start."""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import blake2s
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

_OPTIONS: dict[str, Any] = {
    "autoescape": True,
    "auto_reload": False,
    "lstrip_blocks": True,
    "trim_blocks": True,
    "undefined": StrictUndefined,
}


def template_environment(package: Path) -> Environment:
    """Return an environment for the templates in the directory of a package. Callers add filters and globals."""
    return Environment(
        loader=FileSystemLoader(package / "templates"), bytecode_cache=CompiledTemplates(package), **_OPTIONS
    )


class CompiledTemplates(FileSystemBytecodeCache):
    """Stores compiled templates next to compiled modules: anyone who can write there can change unspool anyway.

    If the directory is not writable, templates are compiled at each start, as modules are.
    """

    def __init__(self, package: Path) -> None:
        super().__init__(str(package / "__pycache__"), "template-%s.cache")

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return a file name for the compiled template that depends on its source path and on the options."""
        return blake2s(f"{name} {filename} {_OPTIONS}".encode(), digest_size=10).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if possible."""
        with suppress(Exception):  # A damaged file can raise anything.
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template, if possible."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
