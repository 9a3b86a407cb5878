"""What does this cost? A thin face on `genai-prices`; an unknown model has no price.

The package brings its own dated snapshot and asks no network. Its version stands beside every
figure it gave. It is imported on first use: a command that prices nothing does not load it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from replay.providers import split_name
from replay.trace import Cost, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


@lru_cache(maxsize=1)
def table() -> str:
    """The price table's name and version, as stored beside a cost."""
    return f"genai-prices {version('genai-prices')}"


def price(usage: Usage | None, *models: str | None, at_ns: int | None = None) -> Cost | None:
    """The price of one call in USD, or None where it cannot be known.

    `models` are tried in order (the model that answered, then the one asked for); a name may
    carry its provider as `provider/model`. `at_ns` chooses the price of that day. None where
    tokens in or out are unknown, where no model has a price, and where the cache figures exceed
    the input they should be part of.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    for model in models:
        usd = _usd(usage, model, at_ns) if model else None
        if usd is not None:
            return Cost(usd=usd, source="priced", prices=table())
    return None


def _usd(usage: Usage, model: str, at_ns: int | None) -> float | None:
    found = _model(model)
    if found is None:
        return None
    when = datetime.fromtimestamp(at_ns / 1e9, UTC) if at_ns is not None else datetime.now(UTC)
    prices = found.get_prices(when)
    rates = _rates(prices)
    try:
        total = rates.of(usage) if rates is not None else None
        return float(_total(prices, usage) if total is None else total)
    except (LookupError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _model(model: str) -> ModelInfo | None:
    """What the table says of a model, None where it does not have it."""
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    served_by, model = split_name(model)
    provider, _, name = model.rpartition("/")
    by = provider.rpartition("/")[2] or None
    at = served_by.prices if served_by is not None else None
    for each in dict.fromkeys((at, by) if at is not None else (by,)):
        try:
            nothing = Priced(input_tokens=0, output_tokens=0)
            return calc_price(nothing, name, provider_id=each).model
        except (LookupError, ValueError):
            continue
    return None


def _total(prices: ModelPrice, usage: Usage) -> Decimal:
    """The price as the package works it out; ValueError where figures contradict each other."""
    from genai_prices import Usage as Priced

    priced = Priced(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
        cache_write_1h_tokens=usage.cache_write_1h_tokens or None,
    )
    return prices.calc_price(priced)["total_price"]


class _Rates(NamedTuple):
    """USD of a call as such, and of each million tokens more: in, out, and as part of those in
    read from the cache or written to it, and as part of those written for an hour."""

    call: Decimal
    input: Decimal
    output: Decimal
    read: Decimal
    write: Decimal
    hourly: Decimal

    def of(self, usage: Usage) -> Decimal | None:
        """The price, None where the figures are not parts of each other as they should be."""
        asked, answered = usage.input_tokens or 0, usage.output_tokens or 0
        read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        hourly = usage.cache_write_1h_tokens or 0
        if min(answered, read, hourly, write - hourly, asked - read - write) < 0:
            return None
        parts = self.input * asked + self.output * answered + self.read * read
        return self.call + (parts + self.write * write + self.hourly * hourly) / _MILLION


_MILLION = 1_000_000
_known: dict[int, tuple[ModelPrice, _Rates | None]] = {}
"""Rates by the identity of the prices they are of, which are held so that no other takes it."""


def _rates(prices: ModelPrice) -> _Rates | None:
    """The rates that prices come to, None where they change with the size of a call.

    The package works out every price from its parts, which takes a quarter of an import; what it
    says of six usages says all of the others, as far as a price is a sum.
    """
    known = _known.get(id(prices))
    if known is None:
        known = _known[id(prices)] = prices, _probed(prices)
    return known[1]


def _probed(prices: ModelPrice) -> _Rates | None:
    from genai_prices.types import TieredPrices

    if any(isinstance(price, TieredPrices) for price in vars(prices).values()):
        return None

    def usd(input: int, output: int = 0, read: int = 0, write: int = 0, hourly: int = 0) -> Decimal:
        figures = (figure * _MILLION for figure in (input, output, read, write, hourly))
        names = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
        given = {f"{name}_tokens": figure for name, figure in zip(names, figures, strict=True)}
        return _total(prices, Usage(**given))

    try:
        call, asked, written = usd(0), usd(1), usd(1, write=1)
        return _Rates(
            call=call,
            input=asked - call,
            output=usd(0, output=1) - call,
            read=usd(1, read=1) - asked,
            write=written - asked,
            hourly=usd(1, write=1, hourly=1) - written,
        )
    except ValueError:
        return None
