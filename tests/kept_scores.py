"""What judges said of a run, as it is stored."""

from __future__ import annotations

from replay.store import answers
from replay.store.handle import Store
from taxonomy.findings import StepScore
from taxonomy.judge.scores import RUN_NOTE, RunScore, parsed
from taxonomy.judgements.scores import all_scores


def step_scores(store: Store, trace: str) -> tuple[StepScore, ...]:
    """The scores that judges gave the steps of a trace, of every set."""
    return tuple(each for each in all_scores(store, trace) if parsed(each.by) is not None)


def run_scores(store: Store, trace: str) -> tuple[RunScore, ...]:
    """The scores that judges gave the run as a whole, by set."""
    return tuple(answers.found(store, f"{RUN_NOTE}{trace}:", RunScore))
