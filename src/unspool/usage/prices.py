"""Prices of models: the list that comes with unspool, and the user's own file, which overrides models of the list."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path

import msgspec

from ..core import typed_json
from ..core.errors import UnspoolError
from ..io.listing import read_file

PRICES_VARIABLE = "UNSPOOL_PRICES"
FILE_NAME = "prices.toml"
REQUEST_SIZES = (100_000, 200_000, 272_000)
"""Input tokens of a request above which some models have another price. Counts are stored by these sizes."""
_MOST_FOUND = 10_000
_LONGEST_NAME = 200
"""Maximum length of a name that is searched for decorations, which takes longer than linear time."""
_DECORATION = re.compile(
    r"""^(?:.*/)?(?:(?:[a-z]{2,6}\.)?anthropic\.)?  # the provider, or a region of it
    (?P<name>.*?)
    (?:\[[^]]*\])?                                  # a variant with a larger context window
    (?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest))?    # the date of a snapshot
    (?:-v\d+(?::\d+)?)?$""",
    re.VERBOSE,
)


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from"}):
    """Dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    since: date | None = None
    """The first day on which it applies."""
    over: int = 0
    """Applies to requests with more input tokens than this."""

    def __post_init__(self) -> None:
        """Reject values that cannot be prices."""
        given = (self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h)
        if any(value is not None and not 0 <= value <= 1e6 for value in given):
            raise ValueError("a price must be a number of dollars per million tokens, from 0 to a million")
        if self.over and self.over not in REQUEST_SIZES:
            raise ValueError(f"`over` must be one of {', '.join(map(str, REQUEST_SIZES))}")

    @property
    def rates(self) -> tuple[float, float, float, float, float]:
        """The price of input, output, reading the cache, writing it, and writing it for an hour."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return self.input, self.output, read, write, write if self.cache_write_1h is None else self.cache_write_1h


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    prices: list[Price]

    def __post_init__(self) -> None:
        if not any(price.since is None and not price.over for price in self.prices):
            raise ValueError("a model needs one price without `from` and `over`")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    model: list[_Model] = []
    source: str = "own prices"
    checked: date | None = None


class PriceTable:
    """The prices of all models."""

    def __init__(
        self, models: Mapping[str, list[Price]], source: str, checked: date | None, error: str | None = None
    ) -> None:
        self._models = models
        self._found: dict[tuple[str, date, int], Price | None] = {}
        self.source = source
        """A description of where the prices come from."""
        self.checked = checked
        """When the list that comes with unspool was last compared with the providers' pages."""
        self.error = error
        """Why the user's prices cannot be read, in which case no model has a price."""

    def price(self, model: str, day: date, size: int = 0) -> Price | None:
        """The price of a model on a day, for requests of a size; None if it is unknown.

        `size` is the number of `REQUEST_SIZES` that the input of the request exceeds.
        """
        key = (model, day, size)
        if key not in self._found:
            if len(self._found) > _MOST_FOUND:
                self._found.clear()
            self._found[key] = self._find(*key)
        return self._found[key]

    def _find(self, model: str, day: date, size: int) -> Price | None:
        most = REQUEST_SIZES[size - 1] if size else 0
        fitting = [
            price
            for price in self._models.get(bare_name(model), ())
            if price.over <= most and (price.since is None or price.since <= day)
        ]
        return max(fitting, key=_precedence, default=None)

    @property
    def models(self) -> list[str]:
        """The names of all models with a price."""
        return sorted(self._models)


def _precedence(price: Price) -> tuple[int, date]:
    return price.over, price.since or date.min


def bare_name(model: str) -> str:
    """Return the name of a model without its provider, the date of its snapshot and the size of its context."""
    found = _DECORATION.match(model.strip().lower()) if len(model) <= _LONGEST_NAME else None
    return found["name"] if found else model


def request_size(tokens: int) -> int:
    """Return how many of `REQUEST_SIZES` the input of a request exceeds."""
    return bisect_left(REQUEST_SIZES, tokens)


def load_prices(folder: Path, environ: Mapping[str, str] | None = None) -> PriceTable:
    """Return the prices that come with unspool, with those of the user's file in `folder` or in $UNSPOOL_PRICES."""
    named = (os.environ if environ is None else environ).get(PRICES_VARIABLE)
    path = Path(named).expanduser() if named else folder / FILE_NAME
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        if named:
            raise UnspoolError(f"{path} cannot be read: {error.strerror}; correct {PRICES_VARIABLE}") from error
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise UnspoolError(f"{path} cannot be read: {error.strerror}") from error
        return _table(None, 0)
    return _table(path, changed)


def load_prices_if_readable(folder: Path) -> PriceTable:
    """Return the same prices, or none if the user's file cannot be read: `error` says why.

    The prices that come with unspool would be wrong for the models that the user's file overrides.
    """
    try:
        return load_prices(folder)
    except UnspoolError as error:
        return PriceTable({}, f"none, because {error}", None, str(error))


def shipped_prices() -> PriceTable:
    """Return only the prices that come with unspool."""
    return _table(None, 0)


@lru_cache(maxsize=4)
def _table(path: Path | None, _changed: int) -> PriceTable:
    shipped = _decode(Path(__file__).with_name(FILE_NAME).read_bytes(), FILE_NAME)
    if path is None:
        return PriceTable(_by_name([shipped]), shipped.source, shipped.checked)
    own = _decode(_read(path), str(path))
    return PriceTable(_by_name([shipped, own]), f"{shipped.source} and {path}", shipped.checked)


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise UnspoolError(f"{path} cannot be read: {error.strerror}") from error


def _decode(data: bytes, name: str) -> _File:
    try:
        # Imported late: most programs that use the store need no prices.
        import tomllib

        return typed_json.convert(tomllib.loads(data.decode()), _File)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UnspoolError(f"{name} is not a list of prices: {error}; see the list that comes with unspool") from error


def _by_name(lists: Iterable[_File]) -> dict[str, list[Price]]:
    return {bare_name(name): model.prices for one in lists for model in one.model for name in model.names}
