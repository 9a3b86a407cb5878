"""Two sides laid side by side: which steps answer to each other, and where the two diverge."""

from __future__ import annotations

from collections.abc import Sequence

from arc_tui.features.compare.sides import Known, Side, build_side
from arc_tui.features.compare.text import action_phrase, unknown_prompts, what, with_sentence
from arc_tui.features.compare.view import (
    CompareRow,
    CompareView,
    Delta,
    Mark,
    Prompt,
    PromptDiff,
    Who,
)
from arc_tui.ui.diff import word_counts
from replay.alignment import Doing, Row, agreed_tools, parting, rows, rows_of_pairs
from replay.compare.rules import PLAIN, Rules
from replay.store.handle import Store
from replay.trace import Tool

FIGURES = ("steps", "calls", "errors", "input_tokens", "output_tokens", "cost_usd", "duration_ns")


def build_compare(store: Store, a: str, b: str, rules: Rules = PLAIN) -> CompareView:
    """Two runs, or a run and a kept replay, by the names of `build_side`. `rules` say what of the
    arguments counts.

    Raises NotFound, and ArcError where a name means several.
    """
    return compared(build_side(store, a), build_side(store, b), rules)


def compared(first: Side, second: Side, rules: Rules = PLAIN) -> CompareView:
    """The view of two sides."""
    asked_again = second.who.kind == "locked" and first.who.key == second.who.trace
    lacks = (*first.who.lacks, *second.who.lacks)
    mine, other = first.doings, second.doings
    followed = {each.main for side in (first, second) for each in _followed(side)}
    if followed and {each.main for each in (*mine, *other)} != followed:
        mine, other = (tuple(d for d in each if d.main in followed) for each in (mine, other))
        lacks = (*lacks, "a free replay follows one thread: the steps of others are left out")
    tools = agreed_tools(first.tools, second.tools)
    laid = _by_step if asked_again else rows
    made = laid(mine, other, tools, rules)
    shown = tuple(_row(row, first.known, second.known) for row in made)
    parts = parting(row.standing for row in made)
    prompts = _prompts(first.prompt, second.prompt)
    view = CompareView(
        a=first.who,
        b=second.who,
        sentence="",
        same=False,
        rows=shown,
        deltas=_deltas(first.who, second.who),
        prompts=prompts,
        first=parts.first,
        lasting=None if asked_again else parts.lasting,
        again=parts.again,
        asked_again=asked_again,
        rules=rules.lines,
        lacks=(*lacks, *unknown_prompts(prompts)),
    )
    return with_sentence(view)


def _followed(side: Side) -> tuple[Doing, ...]:
    """The steps of a free replay, () of anything else."""
    return side.doings if side.who.kind == "free" else ()


def _by_step(
    mine: Sequence[Doing], other: Sequence[Doing], tools: Sequence[Tool], rules: Rules
) -> list[Row]:
    """The steps that were asked again, each beside itself."""
    by_step = {each.step: each for each in other}
    return [
        rows_of_pairs(each, by_step[each.step], tools, rules)
        for each in mine
        if each.step in by_step
    ]


def _row(row: Row, first: Known, second: Known) -> CompareRow:
    a = row.first.step if row.first is not None else None
    b = row.second.step if row.second is not None else None
    found, mark = row.difference, _mark(row)
    results = None
    if mark == "same" and a is not None and b is not None:
        results = _alike(first.get(a), second.get(b))
    doing = row.first or row.second
    return CompareRow(
        a=a,
        b=b,
        mark=mark,
        did_a=action_phrase(row.first.action) if row.first is not None else "",
        did_b=action_phrase(row.second.action) if row.second is not None else "",
        what=what(mark, found, results),
        kinds=found.kinds if found is not None else (),
        results=results,
        main=doing is None or doing.main,
    )


def _mark(row: Row) -> Mark:
    if row.regrouped:
        return "regrouped"
    if row.difference is None:
        return "only_b" if row.first is None else "only_a"
    if row.difference.same is None:
        return "unclear"
    return "same" if row.difference.same else "differs"


def _alike(mine: Sequence[str] | None, other: Sequence[str] | None) -> bool | None:
    """Did the same calls bring the same? None where that of one is not known, or none was made."""
    if not mine or not other:
        return None
    return sorted(mine) == sorted(other)


def _deltas(a: Who, b: Who) -> tuple[Delta, ...]:
    return tuple(_delta(name, a, b) for name in FIGURES)


def _delta(name: str, a: Who, b: Who) -> Delta:
    mine, other = getattr(a, name), getattr(b, name)
    whole = mine is not None and other is not None and a.whole(name) and b.whole(name)
    return Delta(name=name, a=mine, b=other, change=other - mine if whole else None)


def _prompts(a: Prompt, b: Prompt) -> PromptDiff:
    system = None if a.system is None or b.system is None else a.system != b.system
    added, removed = word_counts(a.system or "", b.system or "") if system else (0, 0)
    if a.tools is None or b.tools is None:
        return PromptDiff(a=a, b=b, system=system, words_added=added, words_removed=removed)
    mine, other = ({tool.name: tool for tool in each} for each in (a.tools, b.tools))
    return PromptDiff(
        a=a,
        b=b,
        system=system,
        tools=mine != other,
        words_added=added,
        words_removed=removed,
        tools_added=tuple(name for name in other if name not in mine),
        tools_removed=tuple(name for name in mine if name not in other),
        tools_changed=tuple(n for n in mine if n in other and mine[n] != other[n]),
    )
