"""What does this cost? A thin face on `genai-prices`; an unknown model has no price.

The package brings its own dated snapshot and asks no network. Its version stands beside every
figure it gave. It is imported on first use: a command that prices nothing does not load it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version

from replay.trace import Cost, Usage


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
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    provider, _, name = model.rpartition("/")
    when = datetime.fromtimestamp(at_ns / 1e9, UTC) if at_ns is not None else None
    hourly = usage.cache_write_1h_tokens or None
    try:
        found = calc_price(
            Priced(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens or None,
                cache_write_tokens=usage.cache_write_tokens or None,
                cache_write_1h_tokens=hourly,
            ),
            name,
            provider_id=provider.rpartition("/")[2] or None,
            genai_request_timestamp=when,
        )
    except (LookupError, ValueError):
        return None
    return float(found.total_price)
