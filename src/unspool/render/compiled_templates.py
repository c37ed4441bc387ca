"""Templates, compiled once: otherwise the first page would wait half a second for them after every start."""

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
    """The templates in the directory of a package, without filters and globals of its own."""
    return Environment(
        loader=FileSystemLoader(package / "templates"), bytecode_cache=CompiledTemplates(package), **_OPTIONS
    )


class CompiledTemplates(FileSystemBytecodeCache):
    """Keeps compiled templates where Python keeps compiled modules: whoever can write there can change unspool anyway.

    Where nobody may write, templates are compiled at each start, as modules are.
    """

    def __init__(self, package: Path) -> None:
        super().__init__(str(package / "__pycache__"), "template-%s.cache")

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """A name for the compiled template, which depends on the options and has the path of its source."""
        return blake2s(f"{name} {filename} {_OPTIONS}".encode(), digest_size=10).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read it, if possible."""
        with suppress(Exception):  # A damaged file can raise anything.
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write it, if possible."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
