"""Locations of sessions: local paths, or URLs that pyarrow or fsspec can open. Wildcards are expanded.

Spark's Python processes have no access to Hadoop's file systems. A URL such as `s3a://…` is therefore opened by
pyarrow, or by fsspec if pyarrow does not support it, with the credentials that those libraries find.
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

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""URL schemes that pyarrow knows by another name."""
_WILDCARDS = re.compile(r"[*?\[]")


class RemoteFile(NamedTuple):
    """A file in a remote file system."""

    path: str
    size: int
    changed: int
    """When it was last written, in nanoseconds since 1970."""


class RemoteFolder(NamedTuple):
    """A file or folder in a remote file system. It can be sent to another machine and opened there."""

    url: str
    """The URL, without wildcards."""
    options: Mapping[str, str]

    def open(self) -> tuple[RemoteFileSystem, str]:
        """Return the file system and the path in it; raises UsageError if no installed package can open the URL."""
        scheme = urlsplit(self.url).scheme
        rest = self.url.partition("://")[2]
        known = f"{_SAME.get(scheme, scheme)}://{rest}"
        arrow, fs = load_package("pyarrow"), load_package("pyarrow.fs")
        try:
            files, path = fs.FileSystem.from_uri(known + (f"?{urlencode(self.options)}" if self.options else ""))
        except arrow.ArrowInvalid as error:
            if "Unrecognized filesystem" not in str(error):
                raise UsageError(f"{self.url}: {error}") from None
            files, path = self._open_with_fsspec(scheme)
        except (OSError, arrow.ArrowException) as error:
            raise NotFoundError(f"{self.url}: {error}") from None
        # Paths start with a slash in some file systems, and with the name of a bucket in others.
        root = "/" if path.startswith("/") else ""
        start = self.url.removesuffix(path) + root if path else f"{scheme}://"
        return RemoteFileSystem(files, start, root), path.removeprefix(root)

    def _open_with_fsspec(self, scheme: str) -> tuple[Any, str]:
        try:
            fsspec = load_package("fsspec.core", "fsspec")
            files, path = fsspec.url_to_fs(self.url, **self.options)
        except Exception as error:
            raise UsageError(
                f"no installed package opens {scheme}:// URLs: pyarrow does not know them, and fsspec failed: {error}"
            ) from None
        fs = load_package("pyarrow.fs")
        return fs.PyFileSystem(fs.FSSpecHandler(files)), path


class RemoteFileSystem:
    """Lists and reads files in a remote file system. Its paths do not start with a slash."""

    def __init__(self, files: Any, start: str, root: str) -> None:
        self._files = files
        self._root = root
        self.start = start
        """The part of a URL before the path."""

    def _info(self, path: str) -> Any:
        return self._files.get_file_info([self._root + path])[0]

    def _file(self, info: Any) -> RemoteFile:
        return RemoteFile(info.path.removeprefix(self._root), info.size or 0, info.mtime_ns or 0)

    def walk(self, path: str) -> Iterator[RemoteFile]:
        """Yield all files below a folder, or the file at this path. Raises OSError."""
        fs = load_package("pyarrow.fs")
        found = self._info(path)
        selector = fs.FileSelector(self._root + path, recursive=True, allow_not_found=True)
        for info in [found] if found.type == fs.FileType.File else self._files.get_file_info(selector):
            if info.type == fs.FileType.File:
                yield self._file(info)

    def open(self, path: str) -> Any:
        """Open a file for random access. Raises OSError."""
        return self._files.open_input_file(self._root + path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at this path."""
        return bool(self._info(path).type != load_package("pyarrow.fs").FileType.NotFound)

    def expand(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern, sorted."""
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
            # As in a shell, a wildcard does not match a leading dot.
            if fnmatchcase(info.base_name, part) and (part[0] == "." or info.base_name[:1] != "."):
                yield info.path.removeprefix(self._root)


def resolve_paths(paths: Sequence[str], options: Mapping[str, str]) -> list[Path | RemoteFolder]:
    """Return the folders and files that these paths and URLs match; raises NotFoundError if one matches none."""
    found: list[Path | RemoteFolder] = []
    for text in paths:
        scheme = _URL.match(text)
        if scheme is None or scheme[1].lower() == "file":
            found += _local(text)
        else:
            found += _remote(text, options)
    return found


def _local(text: str) -> list[Path]:
    path = expanded(unquote(urlsplit(text).path) if text.startswith("file:") else text)
    # An existing name may contain a wildcard character.
    matches = [path] if path.exists() else [Path(name) for name in sorted(glob.glob(str(path)))]
    if not matches:
        raise NotFoundError(f"{text}: no such file or directory")
    return [match.absolute() for match in matches]


def _remote(text: str, options: Mapping[str, str]) -> list[RemoteFolder]:
    wildcard = _WILDCARDS.search(text)
    # The part with a wildcard is not a valid URL, so only the folder before it is opened.
    fixed = text[: wildcard.start()].rpartition("/")[0] if wildcard else text.rstrip("/")
    files, path = RemoteFolder(fixed, options).open()
    try:
        matches = files.expand(path + text[len(fixed) :]) if wildcard else [path] * files.exists(path)
    except OSError as error:
        raise NotFoundError(f"{text}: {error}") from None
    if not matches:
        raise NotFoundError(f"{text}: no such file or directory")
    return [RemoteFolder(files.start + match, options) for match in matches]
