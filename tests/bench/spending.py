"""What a live replay would cost by each schedule, on the tests' server with its simulated cache.

The server answers with the demo model and counts tokens as the real one is documented to: reads,
writes and misses of a prefix cache. The prices are the table's. It says how the schedules compare
where the documents are right; a bill was never seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from arc_tui import importing
from arc_tui.experiments.request import ReplayRequest, views_of
from arc_tui.features.replay.run import run_replay
from arc_tui.places import fixtures
from replay.budget import Limits
from replay.edit.files import from_files
from replay.locked.row import Sampling, Schedule
from replay.prices import price
from replay.trace import Usage
from taxonomy.judgements.schema import open_ledger
from tests.bench.measure import Row
from tests.messages_api import MessagesApi, demo_policy

TRACE, MODEL, SAMPLES = "shop-long-v6-0", "claude-opus-5-5", 3
SCHEDULES: dict[Schedule, str] = {
    "fast": "all at once",
    "cheap": "in turn, with the prefix cache",
    "batch": "as batches",
}


def rows(folder: Path) -> Iterator[Row]:
    """The same replay by each schedule, uncached first."""
    whole, said = 0.0, f"{SAMPLES} samples an arm on {MODEL}"
    for schedule, name in SCHEDULES.items():
        usd, steps = _spent(folder, schedule)
        whole = whole or usd
        share = f"{usd / whole:.0%} of all at once"
        yield Row(f"live replay of {steps} steps, {said}: {name}", f"${usd:.3f}", share)


def _spent(folder: Path, schedule: Schedule) -> tuple[float, int]:
    """USD by the server's own count at table prices, and the number of steps."""
    edit = from_files(fixtures() / "demo" / "prompts" / "v8.md", [])
    sampling = Sampling(levels=(SAMPLES,), schedule=schedule)
    with (
        MessagesApi(demo_policy(), reckons=True, cache_floor_tokens=512) as api,
        open_ledger(folder / f"{schedule}.db") as store,
        patch.dict(os.environ, {"ANTHROPIC_BASE_URL": api.base_url}),
    ):
        for _ in importing.import_paths(store, [fixtures() / "traces" / f"{TRACE}.jsonl"]):
            pass
        request = ReplayRequest(
            trace=TRACE,
            edit=edit,
            model=MODEL,
            live=True,
            limits=Limits(calls=10_000),
            sampling=sampling,
        )
        *_, view = views_of(run_replay, store, request)
        return _usd(api, batch=False) + _usd(api, batch=True) / 2, view.total


def _usd(api: MessagesApi, *, batch: bool) -> float:
    total = api.usage_total(batch=batch)
    read = total.get("cache_read_input_tokens", 0)
    written = total.get("cache_creation_input_tokens", 0)
    usage = Usage(
        input_tokens=total.get("input_tokens", 0) + read + written,
        output_tokens=total.get("output_tokens", 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    cost = price(usage, MODEL)
    assert cost is not None
    return cost.usd
