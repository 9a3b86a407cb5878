"""Two runs side by side, as values: who they are, what each step of one answers to in the
other, how their figures and prompts differ.

A difference, never a verdict on which of them is better.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from replay.compare.actions import DifferenceKind
from replay.trace import Tool
from taxonomy.classes import Shape

NOTE = "a difference, not a quality verdict"


Kind: TypeAlias = Literal["run", "locked", "free"]


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


Mark: TypeAlias = Literal["same", "regrouped", "differs", "unclear", "only_a", "only_b"]
"""How a row stands: `regrouped` where the same calls fell into other steps; `unclear` where nobody
can tell by comparing, most often other words."""


MARKS: dict[Mark, str] = {
    "same": "=",
    "regrouped": "≡",
    "differs": "≠",
    "unclear": "≈",
    "only_a": "−",
    "only_b": "+",
}
"""How a row stands, in one sign."""


class Delta(Struct, frozen=True, kw_only=True):
    """A figure of both; `change` is that of B less that of A, None where one is not known whole."""

    name: str
    a: float | int | None
    b: float | int | None
    change: float | int | None


class PromptDiff(Struct, frozen=True, kw_only=True):
    """How what the two were told differs. Words and tools are those of B less those of A.

    `system` is None where the system prompt of one is not known, else whether it differs; `tools`
    the same of the tool definitions.
    """

    a: Prompt
    b: Prompt
    system: bool | None = None
    tools: bool | None = None
    words_added: int = 0
    words_removed: int = 0
    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()
    tools_changed: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(self.system or self.tools)


class CompareRow(Struct, frozen=True, kw_only=True):
    """Steps that answer to each other, or one alone.

    `a` and `b` are step numbers, None where that run has none here; `did_a` and `did_b` what they
    did in one phrase. `what` says the difference in a few words. `results` tells whether calls that
    are the same brought the same, None where that is not known. `main` is False in the threads of
    sub-agents.
    """

    a: int | None
    b: int | None
    mark: Mark
    did_a: str = ""
    did_b: str = ""
    what: str = ""
    kinds: tuple[DifferenceKind, ...] = ()
    results: bool | None = None
    main: bool = True

    @property
    def differs(self) -> bool:
        return self.mark in ("differs", "only_a", "only_b")


class CompareView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that is printed and drawn of two runs.

    `first` is the row where they first differ, `lasting` the one from which on they stay apart,
    None where there is none; `again` counts how often they came together again before that.
    `asked_again`: B is a locked replay of A, whose every step was asked with the recorded history:
    its rows stand by step number, and none of them follows from another. `same`: no row differs,
    nor what they were told, nor how they ended. `lacks` says what could not be compared, `rules`
    what of the arguments counted beside the rules that always hold.
    """

    a: Who
    b: Who
    sentence: str
    same: bool
    rows: tuple[CompareRow, ...]
    deltas: tuple[Delta, ...]
    prompts: PromptDiff
    first: int | None = None
    lasting: int | None = None
    again: int = 0
    asked_again: bool = False
    lacks: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    note: str = NOTE

    @property
    def departure(self) -> int | None:
        """The row to look at first: the lasting departure, else the first difference."""
        return self.first if self.lasting is None else self.lasting
