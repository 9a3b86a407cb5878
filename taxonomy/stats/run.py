"""What do the metrics need of a run? A few numbers, its calls, and gold where there is some.

`taxonomy.stats.report` makes these from the database; nothing here knows of it.
"""

from __future__ import annotations

from msgspec import Struct

from replay.action import Act
from taxonomy.classes import Shape
from taxonomy.cost import Money


class Gold(Struct, frozen=True, kw_only=True):
    """What a correct run of the task calls; `after` are the dependencies, None where not given."""

    calls: tuple[Act, ...]
    after: tuple[tuple[int, int], ...] | None = None


class Run(Struct, frozen=True, eq=False, kw_only=True):
    """What the metrics need of a run.

    `task` names the task for one agent (trials of one task share it), `series` what was evaluated
    together with this trial, both None where the source says no task. `writes` names the tools
    that change something. `failed_steps` has an entry a step. `clean` says that a person or a
    judge scored every step and found none wanting. `size` is the length of the task where a label
    gives it, `injected` the step an error was put in at and `corrected_after` the steps until it
    was corrected, `paraphrase_of` the task whose words were changed. `cached` are the input
    tokens of the calls that say what they read from a cache, and how many that were.
    """

    trace: str
    steps: int
    money: Money
    passed: bool | None = None
    verifier: str | None = None
    value: float | None = None
    task: str | None = None
    stratum: str = ""
    series: str | None = None
    gold: Gold | None = None
    calls: tuple[Act, ...] = ()
    writes: frozenset[str] = frozenset()
    failed_steps: tuple[bool | None, ...] = ()
    shape: Shape | None = None
    clean: bool | None = None
    size: float | None = None
    injected: int | None = None
    corrected_after: int | None = None
    paraphrase_of: str | None = None
    agent: str | None = None
    temperatures: tuple[float, ...] = ()
    cached: tuple[int, int] | None = None
