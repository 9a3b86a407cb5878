"""Two runs side by side, in words: where they diverge, how their figures differ, what a row says.

Nothing here says that one of them is better.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from arc_tui.features.compare.view import (
    CompareRow,
    CompareView,
    Delta,
    Mark,
    PromptDiff,
    Who,
)
from arc_tui.ui import format
from replay.action import Action
from replay.compare.actions import Difference

LEGEND = (
    "= the same  ≡ the same calls in other steps  ≠ differs  ≈ nobody can tell"
    "  − only A  + only B  ◆ they part"
)


SAID = 200
"""Characters of what a step says that stand in a row."""

OTHER_RESULT = "the same call brought something else"


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
        return "the same calls, in other steps"
    if found is None:
        return ""
    if found.same is None:
        return format.one_line(found.unclear or "")
    if found.departs:
        return format.one_line(found.brief)
    if results is False:
        return OTHER_RESULT
    return "in another order" if "order" in found.kinds else ""


def with_sentence(view: CompareView) -> CompareView:
    """The view with its sentence, and whether anything differs at all."""
    same = view.first is None and not view.prompts.differs and view.a.outcome == view.b.outcome
    if view.b.kind != "run" or view.a.kind != "run":  # nobody said how a replay ended
        same = view.first is None and not view.prompts.differs
    return structs.replace(view, sentence=_sentence(view), same=same)


def _sentence(view: CompareView) -> str:
    if not view.rows:
        return "There is no step to compare."
    if view.asked_again:
        return _asked_again(view)
    if view.first is None:
        sentence = f"Both did the same at {_all(len(view.rows), 'step')}{_reservations(view)}."
    elif view.lasting is None:
        differing = sum(row.differs for row in view.rows)
        sentence = (
            f"They differ in {differing} of {format.count(len(view.rows), 'row')},"
            f" first at {place(view.rows[view.first])}, and are together again in the end."
        )
    else:
        sentence = _parted(view, view.lasting)
    return sentence


def _parted(view: CompareView, lasting: int) -> str:
    row = view.rows[lasting]
    after = view.rows[lasting:]
    never = "for long" if any(each.mark in ("same", "regrouped") for each in after) else ""
    sentence = f"They part at {place(row)} and are never together again {never}".rstrip()
    sentence += f": {both(row)}."
    if view.first is not None and view.first != lasting:
        times = "once" if view.again == 1 else f"{view.again} times"
        first = place(view.rows[view.first])
        sentence += f" Before that they differed first at {first} and came together again {times}."
    return sentence


def _asked_again(view: CompareView) -> str:
    """Every step of a locked replay was asked with the recorded history."""
    number = format.count(len(view.rows), "step")
    if view.first is None:
        return f"Asked again at {number}, it did the same at each{_reservations(view)}."
    differing = sum(row.differs for row in view.rows)
    row = view.rows[view.first]
    return (
        f"Asked again at {number}, each with the recorded history, it did something else at"
        f" {differing}, first at {place(row)}: {both(row)}."
    )


def _reservations(view: CompareView) -> str:
    """What is to be known though nothing was done otherwise."""
    parts = []
    unclear = sum(row.mark == "unclear" for row in view.rows)
    if unclear:
        parts.append(f"{unclear} of them in other words, or where nobody can tell")
    other = sum(row.results is False for row in view.rows)
    if other:
        parts.append(f"{other} of the calls brought something else")
    if view.a.kind == view.b.kind == "run" and view.a.outcome != view.b.outcome:
        parts.append(f"yet A {ended(view.a)} and B {ended(view.b)}")
    return "".join(f", {part}" for part in parts)


def _all(number: int, noun: str) -> str:
    return f"the one {noun}" if number == 1 else f"all {format.count(number, noun)}"


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
    a, b = format.cut(row.did_a, BRIEF), format.cut(row.did_b, BRIEF)
    if row.a is None:
        return f"only in B: {b}"
    if row.b is None:
        return f"only in A: {a}"
    return f"A: {a}; B: {b}"


def ended(who: Who) -> str:
    """How a run ended, in a word, with the value behind it."""
    if who.kind != "run":
        return "not checked"
    shown = "unknown" if who.outcome == "unknown" else who.outcome
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
        ("only A has", prompts.tools_removed),
        ("only B has", prompts.tools_added),
        ("declared otherwise:", prompts.tools_changed),
    ):
        if names:
            parts.append(f"tools {difference} {', '.join(map(format.one_line, names))}")
    return "; ".join(parts)


def unknown_prompts(prompts: PromptDiff) -> tuple[str, ...]:
    """What of the prompts cannot be compared, a sentence each."""
    kinds = (
        ("the system prompt", prompts.a.system, prompts.b.system),
        ("tool definitions", prompts.a.tools, prompts.b.tools),
    )
    return tuple(
        f"not recorded in {_lacking(a, b)}: {name}"
        for name, a, b in kinds
        if a is None or b is None
    )


def _lacking(a: object, b: object) -> str:
    if a is None and b is None:
        return "either"
    return "A" if a is None else "B"
