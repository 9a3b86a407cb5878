"""What is worked out from the rates of a model is what the price table's own package says."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from genai_prices import Usage as Priced
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot

from replay.prices import price
from replay.trace import Usage

MODELS = [
    f"{provider.id}/{model.id}"
    for provider in get_snapshot().providers
    for model in provider.models
]


def said(usage: Usage, model: str, at_ns: int) -> float | None:
    """The price as the package has it of a whole usage."""
    provider, _, name = model.rpartition("/")
    try:
        found = calc_price(
            Priced(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens or None,
                cache_write_tokens=usage.cache_write_tokens or None,
                cache_write_1h_tokens=usage.cache_write_1h_tokens or None,
            ),
            name,
            provider_id=provider.rpartition("/")[2],
            genai_request_timestamp=datetime.fromtimestamp(at_ns / 1e9, UTC),
        )
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_the_price_of_any_usage_of_any_model_is_the_packages_own(seed: int) -> None:
    chance = random.Random(seed)
    for model in chance.sample(MODELS, 300):
        asked = chance.randrange(400_000)
        usage = Usage(
            input_tokens=asked,
            output_tokens=chance.randrange(9000),
            cache_read_tokens=chance.choice([None, 0, chance.randrange(asked + 9)]),
            cache_write_tokens=chance.choice([None, 0, chance.randrange(asked // 2 + 9)]),
            cache_write_1h_tokens=chance.choice([None, 0, chance.randrange(5000)]),
        )
        at_ns = chance.randrange(1_690_000_000, 1_800_000_000) * 10**9
        cost = price(usage, model, at_ns=at_ns)
        assert (cost.usd if cost else None) == said(usage, model, at_ns), (model, usage)


def test_figures_that_contradict_each_other_have_no_price() -> None:
    usage = Usage(input_tokens=10, output_tokens=1, cache_read_tokens=11)
    assert price(usage, "anthropic/claude-opus-4-5") is None


def test_an_unknown_model_has_no_price_and_the_next_name_is_tried() -> None:
    usage = Usage(input_tokens=10, output_tokens=1)
    assert price(usage, "nobody/nothing-9") is None
    assert price(usage, "nobody/nothing-9", "gpt-4o") == price(usage, "gpt-4o")
