"""How often does each class of failure happen? Counts over runs, never over spans."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import Struct

from replay.store import Store
from taxonomy.classes import Fault, class_label
from taxonomy.query import TagRow, first_tools, outcome_counts, tag_rows

By = Literal["tool", "model", "variant", "task"]


class Bar(Struct, frozen=True, kw_only=True):
    """One bar: runs tagged by someone, and runs a rule or judge suggests it for."""

    label: str
    tagged: int
    suggested: int

    @property
    def runs(self) -> int:
        return self.tagged + self.suggested


class Pareto(Struct, frozen=True, kw_only=True):
    """Failed runs by class, most first.

    `apart` are failures that were not the agent's doing (no prompt edit helps them), `untagged`
    failed runs nobody says anything of, `unknown` runs whose outcome is not known.
    """

    bars: tuple[Bar, ...]
    apart: tuple[Bar, ...]
    untagged: int
    failed: int
    unknown: int


def pareto(store: Store, *, by: By | None = None, every: bool = False) -> Pareto:
    """The Pareto over the preferred recordings of all runs.

    Each failed run counts once, by its most trusted source and earliest step; with `every`, once
    for each class said of it. `by` splits a class further.
    """
    said = tag_rows(store, "outcome = 'failed'" + ("" if every else " AND place = 1"))
    tools = first_tools(store) if by == "tool" else {}
    own: dict[str, Counter[bool]] = {}
    other: dict[str, Counter[bool]] = {}
    for _, label, accepted, agent in {_key(row, by, tools) for row in said}:
        bars = own if agent else other
        bars.setdefault(label, Counter())[accepted] += 1
    counts = outcome_counts(store)
    failed = counts.get("failed", 0)
    return Pareto(
        bars=_bars(own),
        apart=_bars(other),
        untagged=failed - len({row.run for row in said}),
        failed=failed,
        unknown=counts.get("unknown", 0),
    )


def _key(
    row: TagRow, by: By | None, tools: dict[tuple[str, int], str]
) -> tuple[str, str, bool, bool]:
    label = class_label(row.failure, row.sub)
    match by:
        case "tool":
            label = f"{label} · {tools.get((row.trace, row.step), 'no call')}"
        case "model" | "variant" | "task":
            value = {"model": row.models, "variant": row.variant, "task": row.task}[by]
            label = f"{label} · {value or '–'}"
        case None:
            pass
    agent = row.fault in (None, Fault.AGENT)
    return row.run, label if agent else f"{label} ({row.fault})", row.accepted, agent


def _bars(counts: dict[str, Counter[bool]]) -> tuple[Bar, ...]:
    bars = (
        Bar(label=label, tagged=count[True], suggested=count[False])
        for label, count in counts.items()
    )
    return tuple(sorted(bars, key=lambda bar: (-bar.runs, bar.label)))
