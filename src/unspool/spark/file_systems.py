"""Where sessions are: paths, or addresses in file systems that pyarrow or fsspec know. Wildcards are expanded.

The Python processes of Spark have no access to Hadoop's file systems, so an address such as `s3a://…` is opened by
pyarrow, or by fsspec for everything that pyarrow does not know, with the credentials that those find.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from ..core.errors import NotFoundError, UsageError
from ..data.extra import load_package
from ..library import expanded

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Hadoop's names of file systems that pyarrow knows by another name."""
_WILDCARDS = re.compile(r"[*?\[]")


class RemoteFile(NamedTuple):
    """A file in another file system."""

    path: str
    size: int
    changed: int
    """When it was last written, in nanoseconds since 1970."""


class RemoteFolder(NamedTuple):
    """A place in another file system. It can be sent to another machine and opened there."""

    address: str
    """Without wildcards."""
    options: Mapping[str, str]

    def open(self) -> tuple[RemoteFileSystem, str]:
        """The file system, and the path in it; raises UsageError if nothing installed can read it."""
        scheme = urlsplit(self.address).scheme
        rest = self.address.partition("://")[2]
        known = f"{_SAME.get(scheme, scheme)}://{rest}"
        arrow, fs = load_package("pyarrow"), load_package("pyarrow.fs")
        try:
            files, path = fs.FileSystem.from_uri(known + (f"?{urlencode(self.options)}" if self.options else ""))
        except arrow.ArrowInvalid as error:
            if "Unrecognized filesystem" not in str(error):
                raise UsageError(f"{self.address}: {error}") from None
            files, path = self._open_with_fsspec(scheme)
        except (OSError, arrow.ArrowException) as error:
            raise NotFoundError(f"{self.address}: {error}") from None
        # Some file systems begin their paths with a slash, others with the name of a bucket.
        root = "/" if path.startswith("/") else ""
        start = self.address.removesuffix(path) + root if path else f"{scheme}://"
        return RemoteFileSystem(files, start, root), path.removeprefix(root)

    def _open_with_fsspec(self, scheme: str) -> tuple[Any, str]:
        try:
            fsspec = load_package("fsspec.core", "fsspec")
            files, path = fsspec.url_to_fs(self.address, **self.options)
        except Exception as error:
            raise UsageError(
                f"nothing installed reads {scheme}:// addresses: pyarrow does not know them, and fsspec: {error}"
            ) from None
        fs = load_package("pyarrow.fs")
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path


class RemoteFileSystem:
    """Lists and reads files in another file system. Paths in it do not begin with a slash."""

    def __init__(self, files: Any, start: str, root: str) -> None:
        self._files = files
        self._root = root
        self.start = start
        """What an address has before the path."""

    def _info(self, path: str) -> Any:
        return self._files.get_file_info([self._root + path])[0]

    def _file(self, info: Any) -> RemoteFile:
        return RemoteFile(info.path.removeprefix(self._root), info.size or 0, info.mtime_ns or 0)

    def walk(self, path: str) -> Iterator[RemoteFile]:
        """All files below a folder, or the file at a path. Raises OSError."""
        fs = load_package("pyarrow.fs")
        found = self._info(path)
        selector = fs.FileSelector(self._root + path, recursive=True, allow_not_found=True)
        for info in [found] if found.type == fs.FileType.File else self._files.get_file_info(selector):
            if info.type == fs.FileType.File:
                yield self._file(info)

    def open(self, path: str) -> Any:
        """A file that can be read at any position. Raises OSError."""
        return self._files.open_input_file(self._root + path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder at a path."""
        return bool(self._info(path).type != load_package("pyarrow.fs").FileType.NotFound)

    def expand(self, pattern: str) -> list[str]:
        """The paths that match a pattern, in the order of their names."""
        parts = pattern.rstrip("/").split("/")
        fixed = next((at for at, part in enumerate(parts) if _WILDCARDS.search(part)), len(parts))
        found = ["/".join(parts[:fixed])]
        for part in parts[fixed:]:
            found = [path for folder in found for path in self._matches(folder, part)]
        return sorted(found)

    def _matches(self, folder: str, part: str) -> Iterator[str]:
        if not _WILDCARDS.search(part):
            path = f"{folder}/{part}"
            yield from [path] if self.exists(path) else []
            return
        selector = load_package("pyarrow.fs").FileSelector(self._root + folder, allow_not_found=True)
        for info in self._files.get_file_info(selector):
            # As in a shell, a wildcard does not match a dot at the beginning.
            if fnmatchcase(info.base_name, part) and (part[0] == "." or info.base_name[:1] != "."):
                yield info.path.removeprefix(self._root)


def find_places(paths: Sequence[str], options: Mapping[str, str]) -> list[Path | RemoteFolder]:
    """The places that some paths and addresses name; raises NotFoundError for one that names none."""
    found: list[Path | RemoteFolder] = []
    for text in paths:
        scheme = _ADDRESS.match(text)
        if scheme is None or scheme[1].lower() == "file":
            found += _local(text)
        else:
            found += _remote(text, options)
    return found


def _local(text: str) -> list[Path]:
    path = expanded(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    # A name may have a character that looks like a wildcard.
    matches = [path] if path.exists() else [Path(name) for name in sorted(glob.glob(str(path)))]
    if not matches:
        raise NotFoundError(f"{text}: no such file or directory")
    return [match.absolute() for match in matches]


def _remote(text: str, options: Mapping[str, str]) -> list[RemoteFolder]:
    wildcard = _WILDCARDS.search(text)
    # Only the part before a wildcard is an address.
    fixed = text[: wildcard.start()].rpartition("/")[0] if wildcard else text.rstrip("/")
    files, path = RemoteFolder(fixed, options).open()
    try:
        matches = files.expand(path + text[len(fixed) :]) if wildcard else [path] * files.exists(path)
    except OSError as error:
        raise NotFoundError(f"{text}: {error}") from None
    if not matches:
        raise NotFoundError(f"{text}: no such file or directory")
    return [RemoteFolder(files.start + match, options) for match in matches]
