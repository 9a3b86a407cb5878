"""A cached replay: nothing is asked, nothing is imported, what is left is ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from arc_tui import importing
from arc_tui.experiments.request import ReplayRequest, views_of
from arc_tui.features.replay.run import run_replay
from arc_tui.places import fixtures
from replay.edit.files import from_files
from replay.locked import run as locked
from replay.locked.row import AUTO, LOOK, Models
from replay.models.choose import choose
from replay.store import read
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.bench.measure import Row, best, ms, pair, python

TRACE = "shop-long-v6-0"


def rows(folder: Path) -> Iterator[Row]:
    """The engine's own time, then the whole job, then what importing the SDK alone would cost."""
    edit = from_files(fixtures() / "demo" / "prompts" / "v8.md", [])
    with open_ledger(folder / "replay.db") as store:
        for _ in importing.import_paths(store, [fixtures() / "traces" / f"{TRACE}.jsonl"]):
            pass
        request = ReplayRequest(trace=TRACE, edit=edit)
        *_, view = views_of(run_replay, store, request)
        trace = read.load(store, trace_row(store, TRACE).trace)
        models = Models.one(choose("demo", store))
        look = best(lambda: list(locked.replay(trace, edit, models, sampling=LOOK)))
        auto = best(lambda: list(locked.replay(trace, edit, models, sampling=AUTO)))
        whole = best(lambda: list(views_of(run_replay, store, request)))
    steps = view.total
    said, answers = f"cached replay of {steps} steps", view.cached + view.calls
    yield Row(f"{said}, a look at both arms: engine", ms(look), "goal < 5 ms at 20 steps")
    yield Row(f"{said}, {answers} answers: engine", ms(auto), "–")
    yield Row(f"{said}, {answers} answers: load, views, digest", ms(whole), "–")
    sdk, bare = pair(python("import anthropic"), python("pass"), 3)
    yield Row(
        "importing the SDK (a cached replay never does)",
        ms(sdk - bare),
        f"{(sdk - bare) / look:.0f}× the engine",
    )
