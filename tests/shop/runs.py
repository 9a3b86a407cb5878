"""Which runs make the bundle, and how one is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from replay.models.demo import Demo
from replay.steps import build
from replay.trace import Batch, Header, Outcome, SourceScore
from tests.shop import clock
from tests.shop.agent import Agent, Recorder
from tests.shop.tasks import TASKS
from tests.shop.tools import RESEARCH_TOOLS, TOOLS
from tests.shop.world import Shop

AGENT = "shop support"

BUNDLE: dict[str, dict[str, int]] = {
    "refund": {"v1": 2, "v4": 1, "v5": 2, "v8": 1},
    "many-wishes": {"v4": 1, "v5": 3, "v6": 1, "v8": 1},
    "find-and-refund": {"v1": 2, "v3": 1, "v7": 1, "v8": 1},
    "where-is-it": {"v1": 2, "v7": 2, "v8": 1},
    "cancel": {"v2": 1, "v5": 1, "v8": 1},
    "address": {"v1": 1, "v4": 1},
    "stock": {"v4": 3, "v8": 2},
    "warranty": {"v3": 2, "v4": 1, "v6": 2},
    "big-refund": {"v3": 1, "v8": 1},
    "compare": {"v4": 1, "v6": 1, "v8": 1},
    "late-refund": {"v6": 1, "v8": 1},
    "not-hers": {"v4": 1, "v8": 1},
    "since": {"v1": 2, "v4": 1},
    "prefix": {"v1": 1, "v6": 2, "v8": 1},
    "capitals": {"v3": 1, "v4": 1},
    "long": {"v6": 1, "v7": 1, "v8": 1},
}
"""How often each task was tried under each version of the prompt."""


class Run(NamedTuple):
    """One run of the bundle; the trial is also the model's sample number."""

    task: str
    variant: str
    trial: int

    @property
    def source_id(self) -> str:
        return f"shop-{self.task}-{self.variant}-{self.trial}"


def bundle() -> Iterator[Run]:
    """Every run of the bundle."""
    for task, versions in BUNDLE.items():
        for variant, trials in versions.items():
            yield from (Run(task, variant, trial) for trial in range(trials))


def record(run: Run, demo: Path, step_scores: dict[str, list[float | None]]) -> Batch:
    """The tape of one run, its outcome checked; `demo` holds the prompts."""
    task = TASKS[run.task]
    shop = Shop()
    agent = Agent(AGENT, (demo / "prompts" / f"{run.variant}.md").read_text(), TOOLS)
    researcher = Agent("researcher", (demo / "researcher.md").read_text(), RESEARCH_TOOLS)
    recorder = Recorder(Demo(), run.trial, shop, researcher)
    start_ns = clock.morning_of(run.source_id)
    played = recorder.play(agent, task.customer(), start_ns, parent=None)
    passed = task.passed(shop, played.told)
    header = Header(
        format="arc",
        source_id=run.source_id,
        title=task.title,
        task=run.task,
        trial=str(run.trial),
        variant=run.variant,
        agent=AGENT,
        outcome=Outcome(
            status="passed" if passed else "failed",
            value=1.0 if passed else 0.0,
            by="shop checker",
        ),
        labels={"bundle": "shop"},
        start_ns=start_ns,
        end_ns=played.end_ns,
    )
    scores = tuple(_scores(recorder, run.source_id, step_scores.get(run.source_id, [])))
    return Batch(header=header, spans=tuple(recorder.spans), scores=scores, last=True)


def _scores(
    recorder: Recorder, source_id: str, values: list[float | None]
) -> Iterator[SourceScore]:
    steps, _, _ = build(recorder.spans)
    if values and len(values) != len(steps):
        raise ValueError(f"{source_id} has {len(steps)} steps and {len(values)} step scores")
    for step, value in zip(steps, values, strict=False):
        yield SourceScore(name="step", by="author", span=step.ask.id, value=value)
