"""Two runs beside each other: who they are, what each step of one answers to in the other, and
where they part. A difference, never a verdict on which of them is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.views.compare import words
from arc_tui.views.compare.recorded import build_side
from arc_tui.views.compare.side import Known, Prompt, Side, Who
from arc_tui.views.diff import word_counts
from replay.alignment import Doing, Row, agreed_tools, parting
from replay.alignment.rows import beside, rows
from replay.compare import PLAIN, Kind, Rules
from replay.store import Store
from replay.trace import Tool

Mark: TypeAlias = Literal["same", "regrouped", "differs", "unclear", "only_a", "only_b"]
"""How a row stands: `regrouped` where the same calls fell into other steps; `unclear` where nobody
can tell by comparing, most often other words."""


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
    kinds: tuple[Kind, ...] = ()
    results: bool | None = None
    main: bool = True

    @property
    def apart(self) -> bool:
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
    note: str = words.NOTE

    @property
    def departure(self) -> int | None:
        """The row to look at first: the lasting departure, else the first difference."""
        return self.first if self.lasting is None else self.lasting


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
        lacks=(*lacks, *words.unknown_prompts(prompts)),
    )
    return words.told(view)


def _followed(side: Side) -> tuple[Doing, ...]:
    """The steps of a free replay, () of anything else."""
    return side.doings if side.who.kind == "free" else ()


def _by_step(
    mine: Sequence[Doing], other: Sequence[Doing], tools: Sequence[Tool], rules: Rules
) -> list[Row]:
    """The steps that were asked again, each beside itself."""
    asked = {each.step: each for each in other}
    return [beside(each, asked[each.step], tools, rules) for each in mine if each.step in asked]


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
        did_a=words.did(row.first.action) if row.first is not None else "",
        did_b=words.did(row.second.action) if row.second is not None else "",
        what=words.what(mark, found, results),
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


FIGURES = ("steps", "calls", "errors", "input_tokens", "output_tokens", "cost_usd", "duration_ns")


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
