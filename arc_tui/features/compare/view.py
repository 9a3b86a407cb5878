"""Two runs side by side, as values and in words: who they are, what each step of one answers to in
the other, where they diverge, how their figures and prompts differ.

A difference, never a verdict on which of them is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from arc_tui.ui import format
from arc_tui.views.known import KnownLine
from replay.action import Action
from replay.compare.actions import Difference, DifferenceKind
from replay.trace import Tool
from taxonomy.classes import Shape

NOTE = "a difference, not a quality verdict"


Kind: TypeAlias = Literal["run", "locked", "free"]


class Who(Struct, frozen=True, kw_only=True):
    """Who is compared: a run, or a `locked` or `free` replay of it, which has a `digest`.

    Figures are None where they are not known; those of a replay are of the steps that were asked.
    `edit` is the name of a replay's edit, `start` the step a free one began at: what is before it
    is the recording. `tags` name the step each is on. `known` is how a run stands to the gold of
    its task, () where it has none, and of a replay, which nothing checks.
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
    known: tuple[KnownLine, ...] = ()
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


Mark: TypeAlias = Literal["same", "regrouped", "differs", "inconclusive", "only_a", "only_b"]
"""How a row stands: `regrouped` where the same calls fell into other steps; `inconclusive` where
comparing cannot tell, most often other words."""


MARKS: dict[Mark, str] = {
    "same": "=",
    "regrouped": "≡",
    "differs": "≠",
    "inconclusive": "≈",
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

    `a` and `b` are step numbers, None where that run has none here; `action_a` and `action_b` what
    they did in one phrase. `what` is the difference in a few words. `results`: do the same
    calls have the same results? None where that is unknown. `main` is False in threads of
    sub-agents.
    """

    a: int | None
    b: int | None
    mark: Mark
    action_a: str = ""
    action_b: str = ""
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
    `is_locked`: B is a locked replay of A, in which every step has its recorded context:
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
    is_locked: bool = False
    lacks: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    note: str = NOTE

    @property
    def divergence(self) -> int | None:
        """The row to look at first: the lasting divergence, else the first difference."""
        return self.first if self.lasting is None else self.lasting


# --- in words

LEGEND = (
    "= same  ≡ same calls in other steps  ≠ differs  ≈ inconclusive  − only A  + only B  ◆ diverge"
)

PROMPTS_TITLE = "system prompt and tools"
KNOWN_TITLE = "known for certain"


SAID = 200
"""Characters of what a step says that stand in a row."""

OTHER_RESULT = "same call, different result"


def action_phrase(action: Action) -> str:
    """What a step did, on one line."""
    if action.calls:
        return format.one_line(action.phrase)
    if action.text:
        return f"says: {format.cut(format.one_line(action.text), SAID)}"
    return format.one_line(action.cut or "nothing")


def what(mark: Mark, found: Difference | None, results: bool | None) -> str:
    """How the two of a row differ, in a few words; "" where they do not."""
    if mark == "regrouped":
        return "same calls in other steps"
    if found is None:
        return ""
    if found.same is None:
        return format.one_line(found.unclear or "")
    if found.diverges:
        return format.one_line(found.brief)
    if results is False:
        return OTHER_RESULT
    return "different order" if "order" in found.kinds else ""


def with_sentence(view: CompareView) -> CompareView:
    """The view with its sentence, and whether anything differs at all."""
    same = view.first is None and not view.prompts.differs and view.a.outcome == view.b.outcome
    if view.b.kind != "run" or view.a.kind != "run":  # nobody said how a replay ended
        same = view.first is None and not view.prompts.differs
    return structs.replace(view, sentence=_sentence(view), same=same)


def _sentence(view: CompareView) -> str:
    if not view.rows:
        return "No steps to compare."
    if view.is_locked:
        return _locked_sentence(view)
    if view.first is None:
        sentence = f"A and B match at {_all(len(view.rows), 'step')}{_reservations(view)}."
    elif view.lasting is None:
        differing = sum(row.differs for row in view.rows)
        sentence = (
            f"A and B differ in {differing} of {format.count(len(view.rows), 'row')},"
            f" first at {place(view.rows[view.first])}, and match again at the end."
        )
    else:
        sentence = _diverged_sentence(view, view.lasting)
    return sentence


def _diverged_sentence(view: CompareView, lasting: int) -> str:
    row = view.rows[lasting]
    after = view.rows[lasting:]
    brief = any(each.mark in ("same", "regrouped") for each in after)
    later = "match only briefly after it" if brief else "never match again"
    sentence = f"A and B diverge at {place(row)} and {later}: {both(row)}."
    if view.first is not None and view.first != lasting:
        times = "once" if view.again == 1 else f"{view.again} times"
        first = place(view.rows[view.first])
        sentence += f" The first difference is at {first}; they match again {times} before that."
    return sentence


def _locked_sentence(view: CompareView) -> str:
    """Every step of a locked replay was asked with the recorded history."""
    number = format.count(len(view.rows), "step")
    if view.first is None:
        match = "match" if len(view.rows) > 1 else "matches"
        return f"Locked replay: {number} {match}{_reservations(view)}."
    differing = sum(row.differs for row in view.rows)
    row = view.rows[view.first]
    return (
        f"Locked replay: {differing} of {number} diverge{'' if differing > 1 else 's'},"
        f" first at {place(row)}: {both(row)}."
    )


def _reservations(view: CompareView) -> str:
    """What limits the claim that all actions match."""
    parts = []
    unclear = sum(row.mark == "inconclusive" for row in view.rows)
    if unclear:
        parts.append(f"{unclear} inconclusive (wording differs or cannot be compared)")
    other = sum(row.results is False for row in view.rows)
    if other:
        parts.append(f"{other} with different tool results")
    if view.a.kind == view.b.kind == "run" and view.a.outcome != view.b.outcome:
        parts.append(f"but A {ended(view.a)} and B {ended(view.b)}")
    return "".join(f", {part}" for part in parts)


def _all(number: int, noun: str) -> str:
    return f"the only {noun}" if number == 1 else f"all {format.count(number, noun)}"


def place(row: CompareRow) -> str:
    """The steps of a row."""
    if row.a is None:
        return f"step {row.b} of B"
    if row.b is None:
        return f"step {row.a} of A"
    if row.a == row.b:
        return f"step {row.a}"
    return f"step {row.a} of A, {row.b} of B"


BRIEF = 60


def both(row: CompareRow) -> str:
    """What the two of a row did, one against the other."""
    a, b = format.cut(row.action_a, BRIEF), format.cut(row.action_b, BRIEF)
    if row.a is None:
        return f"only in B: {b}"
    if row.b is None:
        return f"only in A: {a}"
    return f"A: {a}; B: {b}"


def ended(who: Who) -> str:
    """How a run ended, in a word, with the value behind it."""
    if who.kind != "run":
        return "outcome not evaluated"
    shown = "outcome unknown" if who.outcome == "unknown" else who.outcome
    if who.warned and who.outcome == "passed":
        shown += " with warnings"
    value = format.one_line(who.outcome_value)
    return f"{shown} ({value})" if value and value != who.outcome else shown


def facts(who: Who) -> Iterator[str]:
    """What stands beside the name of one of them."""
    yield ended(who)
    yield format.count(who.steps, "step")
    if who.model:
        yield format.one_line(who.model)
    if who.variant:
        yield f"variant {format.one_line(who.variant)}"
    if who.edit is not None:
        yield f"edit {format.one_line(who.edit)}"


def figures(view: CompareView) -> Iterator[str]:
    """The figures of both and how they differ; those that neither has are left out."""
    for delta in view.deltas:
        if delta.a is not None or delta.b is not None:
            yield figure(delta, view)
    shapes = [each.shape.value if each.shape else format.UNKNOWN for each in (view.a, view.b)]
    if shapes != [format.UNKNOWN] * 2:
        yield f"shape {_pair(*shapes)}"
    tags = ["; ".join(map(format.one_line, each.tags)) or "none" for each in (view.a, view.b)]
    if tags != ["none", "none"]:
        yield f"tags {_pair(*tags)}"


def known_facts(view: CompareView) -> Iterator[str]:
    """How each of the two stands to gold: `A · gold · step 3 · …`."""
    for letter, who in (("A", view.a), ("B", view.b)):
        for fact in who.known:
            yield format.one_line(f"{letter} · {fact.line}")


def known_line(view: CompareView) -> str:
    """How both stand to gold in one line, "" where neither has any."""
    said = [
        f"{letter} {format.one_line(who.known[0].line)}"
        for letter, who in (("A", view.a), ("B", view.b))
        if who.known
    ]
    return "; ".join(said)


_NAMES = {
    "input_tokens": "tokens in",
    "output_tokens": "tokens out",
    "cost_usd": "cost",
    "duration_ns": "time",
}


def figure(delta: Delta, view: CompareView) -> str:
    """A figure of both, and the change from A to B where both are known whole."""
    name = _NAMES.get(delta.name, delta.name)
    a = _amount(delta.name, delta.a, whole=view.a.whole(delta.name))
    b = _amount(delta.name, delta.b, whole=view.b.whole(delta.name))
    if not delta.change:
        return f"{name} {_pair(a, b)}"
    sign = "+" if delta.change > 0 else "−"
    return f"{name} {a} → {b} ({sign}{_amount(delta.name, abs(delta.change))})"


def _pair(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def _amount(name: str, value: float | int | None, *, whole: bool = True) -> str:
    if name == "cost_usd":
        return format.usd(value, complete=whole)
    if value is None:
        return format.UNKNOWN
    if name == "duration_ns":
        return format.duration(int(value))
    if name.endswith("tokens"):
        return ("" if whole else "≥ ") + format.tokens(int(value))
    return format.number(int(value))


def prompts_line(prompts: PromptDiff) -> str:
    """How what they were told differs, "" where it does not or is not known."""
    parts = []
    if prompts.system:
        parts.append(
            f"system prompts differ: +{prompts.words_added} −{prompts.words_removed} words"
        )
    for difference, names in (
        ("only in A:", prompts.tools_removed),
        ("only in B:", prompts.tools_added),
        ("with changed definitions:", prompts.tools_changed),
    ):
        if names:
            parts.append(f"tools {difference} {', '.join(map(format.one_line, names))}")
    return "; ".join(parts)


def unknown_prompts(prompts: PromptDiff) -> tuple[str, ...]:
    """What of the prompts cannot be compared, a sentence each."""
    kinds = (
        ("system prompt", prompts.a.system, prompts.b.system),
        ("tool definitions", prompts.a.tools, prompts.b.tools),
    )
    return tuple(
        f"{name} not recorded in {_lacking(a, b)}" for name, a, b in kinds if a is None or b is None
    )


def _lacking(a: object, b: object) -> str:
    if a is None and b is None:
        return "A or B"
    return "A" if a is None else "B"
