"""Labelled runs as choices among their steps: the shared label sets.

The shared sets carry people's word on the decisive step; the bundled shop runs carry ours and
the rules were written with them in sight, so they are reported beside and never fitted on.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from arc_tui import importing
from arc_tui.places import fixtures
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.calibration.labels import place, read_labels
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from taxonomy.localiser.candidates import Against
from taxonomy.localiser.signals import step_signals, strongest
from taxonomy.rules import findings
from taxonomy.rules.rule import RuleContext
from taxonomy.step_scores import rule_scores
from tests.shared import DATA

SHARED = {"whowhen_ag": "whowhen", "trail_swe_bench": "trail_swe"}
"""Label files that people wrote, and the folder of their traces."""

BUNDLED = "bundled shop runs"


class Labelled(Struct, frozen=True, eq=False, kw_only=True):
    """A run: what speaks against its steps, which may be chosen, and which are right.

    `found` is the step of the first finding, `published` that of the published rule.
    """

    name: str
    steps: int
    choices: tuple[int, ...]
    against: Against
    decisive: frozenset[int]
    found: int | None = None
    published: int | None = None


def shared_sets(folder: Path) -> dict[str, tuple[Labelled, ...]]:
    """The shared sets by their label file's name; `folder` is for a database."""
    store = open_ledger(folder / "labelled.db")
    for _ in importing.import_paths(store, [DATA / traces for traces in SHARED.values()]):
        pass
    return {name: tuple(_of_file(store, name)) for name in SHARED}


def bundled(folder: Path) -> tuple[Labelled, ...]:
    """The bundled failed runs with the decisive step that a person wrote beside them."""
    store = open_ledger(folder / "bundled.db")
    for _ in importing.import_paths(store, [fixtures() / "traces"]):
        pass
    expected = json.loads((fixtures() / "expected.json").read_text())["traces"]
    return tuple(
        labelled(read.load(store, trace_row(store, name).trace), {told["decisive_step"]})
        for name, told in expected.items()
        if told["outcome"] == "failed" and told["decisive_step"] is not None
    )


def labelled(trace: Trace, decisive: set[int]) -> Labelled:
    """A trace as the localiser sees it."""
    case = RuleContext(trace)
    found = findings(case)
    against = strongest(step_signals(case, found, rule_scores(case, found)))
    return Labelled(
        name=trace.id,
        steps=len(trace.steps),
        choices=tuple(turn.index for turn in case.reading.turns if not turn.observer),
        against=against,
        decisive=frozenset(decisive),
        found=found[0].step if found else None,
        published=diagnose(trace).published,
    )


def _of_file(store: Store, name: str) -> Iterator[Labelled]:
    labels, _ = read_labels(DATA / "labels" / f"{name}.jsonl")
    placed, _ = place(store, labels)
    decisive: dict[str, set[int]] = defaultdict(set)
    for each in placed:
        if each.label.decisive and each.step is not None:
            decisive[each.trace].add(each.step)
    for key in sorted(decisive):
        yield labelled(read.load(store, key), decisive[key])
