"""One of two that are compared: what there is of a run, or of a replay of one, to compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui import format
from replay import action, messages
from replay.alignment import Doing
from replay.trace import Step, Tool, Trace
from taxonomy.classes import Shape
from taxonomy.query.listing import RunRow

Kind: TypeAlias = Literal["run", "locked", "free"]

Known: TypeAlias = Mapping[int, tuple[str, ...]]
"""By step, what its calls brought; a step is left out where that of one is not known."""


class Who(Struct, frozen=True, kw_only=True):
    """Who is compared: a run, or a `locked` or `free` replay of it, which has a `digest`.

    Figures are None where they are not known; those of a replay are of the steps that were asked.
    `edit` is the name of a replay's edit, `start` the step a free one began at: what is before it
    is the recording. `tags` name the step each is on.
    """

    kind: Kind
    trace: str
    name: str
    digest: str | None = None
    task: str | None = None
    trial: str | None = None
    variant: str | None = None
    edit: str | None = None
    model: str | None = None
    outcome: str = "unknown"
    outcome_value: str | None = None
    warned: bool = False
    steps: int = 0
    calls: int = 0
    errors: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_complete: bool = False
    cost_usd: float | None = None
    cost_complete: bool = False
    duration_ns: int | None = None
    shape: Shape | None = None
    tags: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    start: int = 0

    @property
    def key(self) -> str:
        """What it is found again by."""
        return self.digest or self.trace

    def whole(self, figure: str) -> bool:
        """Is a figure that is known known for all steps?"""
        if figure == "cost_usd":
            return self.cost_complete
        return self.tokens_complete if figure.endswith("tokens") else True


class Prompt(Struct, frozen=True, kw_only=True):
    """What a run was told before anything else; None where the source does not say."""

    system: str | None = None
    tools: tuple[Tool, ...] | None = None


class Side(Struct, frozen=True, eq=False, kw_only=True):
    """One of the two, with all that is compared of it."""

    who: Who
    doings: tuple[Doing, ...]
    tools: tuple[Tool, ...]
    prompt: Prompt
    known: Known = {}


def run_name(row: RunRow) -> str:
    """What a run is called, with its trial."""
    named = format.one_line(row.task or row.title or row.source_id)
    return f"{named}/{format.one_line(row.trial)}" if row.task and row.trial else named


def did(trace: Trace, step: Step) -> Doing:
    """What a recorded step did."""
    return Doing(
        step=step.index,
        action=action.action(step.ask.response, step.ask.error),
        main=step.thread == trace.steps[0].thread,
    )


def offered(trace: Trace) -> tuple[Tool, ...]:
    """Every tool that was offered, as it was first."""
    found: dict[str, Tool] = {}
    for step in trace.steps:
        for tool in step.ask.request.tools or ():
            found.setdefault(tool.name, tool)
    return tuple(found.values())


def told(step: Step) -> Prompt:
    """What the model was told before a step, beside the conversation."""
    request = step.ask.request
    system = messages.text(request.system) if request.system is not None else None
    return Prompt(system=system, tools=request.tools)
