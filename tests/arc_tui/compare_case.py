"""Runs of the shop and replays of one of them, to be laid beside each other."""

from __future__ import annotations

from pathlib import Path

from arc_tui import importing
from arc_tui.experiments.request import FreeRunRequest, ReplayRequest, views_of
from arc_tui.features.free.run import run_free_replays
from arc_tui.features.replay.run import run_replay
from replay.edit.changes import Edit, SetSystem
from replay.kept import of_trace
from replay.locked.row import LOOK
from replay.store.handle import Store
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NAMES = (
    "refund-v1-0", "refund-v4-0", "refund-v8-0",
    "many-wishes-v4-0", "many-wishes-v5-0", "many-wishes-v6-0",
)  # fmt: skip
V8 = Edit(name="v8", changes=(SetSystem((FIXTURES / "demo/prompts/v8.md").read_text()),))


def make(path: Path) -> Path:
    """A database with some runs, and a locked and a free replay of the first under V8."""
    with open_ledger(path) as store:
        files = [FIXTURES / "traces" / f"shop-{name}.jsonl" for name in NAMES]
        for _ in importing.import_paths(store, files):
            pass
        first = named(store, "refund", "v1")
        for _ in views_of(
            run_replay, store, ReplayRequest(trace=first, edit=V8, model="demo", sampling=LOOK)
        ):
            pass
        for _ in views_of(
            run_free_replays, store, FreeRunRequest(trace=first, edit=V8, model="demo", start=2)
        ):
            pass
    return path


def named(store: Store, task: str, variant: str) -> str:
    """The run of a task by a variant."""
    return next(
        row.trace for row in trace_rows(store) if (row.task, row.variant) == (task, variant)
    )


def replayed(store: Store, kind: str) -> str:
    """The digest of the kept replay of that kind."""
    kept = of_trace(store, named(store, "refund", "v1"))
    return next(each.digest for each in kept if each.kind == kind)
