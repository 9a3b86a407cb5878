"""What is shown of a comparison: the rows, what is the same folded, a row in full with the words
that differ, and both as Markdown, to paste into an issue or a conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.features.compare.view import (
    KNOWN_TITLE,
    MARKS,
    PROMPTS_TITLE,
    CompareRow,
    CompareView,
    PromptDiff,
    Who,
    facts,
    figures,
    known_facts,
    known_line,
    place,
    prompts_line,
)
from arc_tui.ui import format
from arc_tui.ui.diff import DiffLine, diff_texts
from arc_tui.views.step import pretty
from replay import action, kept, messages
from replay.action import Act, Action
from replay.free.result import FreeCore
from replay.store import read
from replay.store.handle import Store
from replay.trace import Step, Tool

WHOLE = 4000
"""Characters of a text of which a diff shows the lines that are the same too."""

MOST = 400_000
"""Characters beyond which two texts are not held against each other."""

ALL_LINES = 1_000_000


class Part(Struct, frozen=True, kw_only=True):
    """Something of both steps: `a` and `b` as they read, None where that one has it not.

    `diff` is how they differ, None where they are the same, one is missing, or they are too long
    to be held against each other.
    """

    title: str
    a: str | None
    b: str | None
    diff: tuple[DiffLine, ...] | None = None

    @property
    def same(self) -> bool:
        return self.a == self.b


class PairView(Struct, frozen=True, eq=False, kw_only=True):
    """A row in full, under a `title`. `row` None is what stands before the rows: how both stand to
    gold, and what they were told before anything else."""

    row: CompareRow | None
    parts: tuple[Part, ...]
    title: str = ""


EMPTY = PairView(row=None, parts=())


def build_pair(store: Store, view: CompareView, row: CompareRow) -> PairView:
    """The row in full. Tool results of a replay are not stored with it."""
    a = _step(store, view.a, row.a)
    b = _step(store, view.b, row.b)
    return PairView(row=row, parts=tuple(_parts(a, b)), title=place(row))


def known_pair(view: CompareView) -> PairView:
    """What is known of both for certain, a fact a line."""
    a, b = ("\n".join(fact.line for fact in who.known) or None for who in (view.a, view.b))
    return PairView(row=None, parts=(part(KNOWN_TITLE, a, b),), title=KNOWN_TITLE)


def prompts_pair(prompts: PromptDiff) -> PairView:
    """What both were given: the system prompts, and each tool that is not the same."""
    parts = [part("system prompt", prompts.a.system, prompts.b.system, whole=0)]
    mine, other = ({t.name: t for t in each.tools or ()} for each in (prompts.a, prompts.b))
    named = (*prompts.tools_removed, *prompts.tools_changed, *prompts.tools_added)
    parts += (part(f"tool {n}", _declared(mine.get(n)), _declared(other.get(n))) for n in named)
    shown = tuple(each for each in parts if each.a or each.b)
    return PairView(row=None, parts=shown, title=PROMPTS_TITLE)


def _declared(tool: Tool | None) -> str | None:
    return None if tool is None else f"{tool.description or ''}\n{pretty(tool.schema)}".strip()


def part(title: str, a: str | None, b: str | None, *, whole: int = WHOLE) -> Part:
    """Two texts and how they differ, what a terminal would obey made visible first. Of texts of up
    to `whole` characters the lines that are the same are shown too."""
    a, b = (None if each is None else format.plain(each) for each in (a, b))
    if a is None or b is None or a == b or max(len(a), len(b)) > MOST:
        return Part(title=title, a=a, b=b)
    short = max(len(a), len(b)) <= whole
    made = diff_texts(a, b, around=ALL_LINES if short else 3)
    shown = (line for line in made if not (short and line.kind == "place"))
    return Part(title=title, a=a, b=b, diff=tuple(shown))


# --- what a step did


class _Did(Struct, frozen=True, eq=False):
    action: Action
    results: tuple[str | None, ...] | None
    """By call; None where what tools said is not kept at all."""


_Call: TypeAlias = tuple[Act, str | None]
"""A call, and what it got."""


def _step(store: Store, who: Who, step: int | None) -> _Did | None:
    if step is None:
        return None
    if who.kind == "run":
        return _recorded(store, who.trace, step)
    assert who.digest is not None
    if who.kind == "locked":
        locked = kept.find(store, who.digest)
        row = next(each for each in locked.rows if each.step == step)
        return _Did((row.edited if locked.edit is not None else row.control)[0].action, None)
    core = kept.find(store, who.digest, FreeCore)
    if step < core.start:
        return _recorded(store, who.trace, step)
    did = core.steps[step - core.start].action
    return _Did(did if did is not None else Action(cut="no response"), None)


def _recorded(store: Store, trace: str, step: int) -> _Did:
    found = read.part(store, trace, {step})[step]
    did = action.action(found.ask.response, found.ask.error)
    return _Did(did, tuple(_results(found, did.calls)))


def _results(step: Step, calls: Sequence[Act]) -> Iterator[str | None]:
    """What each call of an answer got: a tool span of the same name, in their order."""
    left = list(step.acts)
    for call in calls:
        act = next((each for each in left if each.name == call.tool), None)
        if act is None:
            yield None
            continue
        left.remove(act)
        yield None if act.observation is None else messages.observed(act.observation).text


def _parts(a: _Did | None, b: _Did | None) -> Iterator[Part]:
    says = part("text", _text(a), _text(b))
    if says.a or says.b:
        yield says
    for mine, other in _called(a, b):
        yield _call_part(mine, other)
        if (mine and mine[1] is not None) or (other and other[1] is not None):
            yield part("result", mine[1] if mine else None, other[1] if other else None)


def _call_part(mine: _Call | None, other: _Call | None) -> Part:
    """The arguments of a call in both; with the names where these differ."""
    names = [format.one_line(each[0].tool) for each in (mine, other) if each is not None]
    if len(set(names)) == 1:
        return part(f"calls {names[0]}", _arguments(mine), _arguments(other))
    a, b = (f"{name} {_arguments(e)}" for name, e in zip(names, (mine, other), strict=True))
    return part(f"calls {' vs. '.join(names)}", a, b)


def _text(did: _Did | None) -> str | None:
    if did is None:
        return None
    return did.action.text or (f"({did.action.cut})" if did.action.cut else "")


def _called(a: _Did | None, b: _Did | None) -> Iterator[tuple[_Call | None, _Call | None]]:
    """The calls of both side by side: those of one tool first, then what is left, in order."""
    mine, other = _calls(a), _calls(b)
    alone: list[_Call] = []
    for call in mine:
        same = [each for each in other if each[0].tool == call[0].tool]
        if not same:
            alone.append(call)
            continue
        best = next((each for each in same if each[0] == call[0]), same[0])
        other.remove(best)
        yield call, best
    yield from zip_longest(alone, other)


def _calls(did: _Did | None) -> list[_Call]:
    if did is None:
        return []
    results = did.results or (None,) * len(did.action.calls)
    return list(zip(did.action.calls, results, strict=True))


def _arguments(call: _Call | None) -> str | None:
    if call is None:
        return None
    act = call[0]
    return act.raw if act.raw is not None else pretty(act.arguments)


AROUND = 1
"""Rows beside a difference that are shown though they are the same."""

LEAST = 2
"""Rows the same that are folded; one alone is shown."""

Kind: TypeAlias = Literal["known", "prompts", "row", "fold", "threads"]


class Line(Struct, frozen=True, eq=False, kw_only=True):
    """A line of the list: a `row` (its index), a fold over the rows `first` to `last`, a heading.

    `text` is what a fold, a heading or the line of prompts says.
    """

    kind: Kind
    first: int = 0
    last: int = 0
    text: str = ""


def lines(view: CompareView, *, every: bool = False, opened: Collection[int] = ()) -> list[Line]:
    """The lines in order. `every` folds nothing; `opened` are the first rows of open folds."""
    made: list[Line] = []
    known = known_line(view)
    if known:
        made.append(Line(kind="known", text=known))
    prompts = prompts_line(view.prompts)
    if prompts:
        made.append(Line(kind="prompts", text=prompts))
    at = 0
    for stretch in _stretches(view.rows):
        made += _headed(view.rows, at, at + len(stretch))
        first, last = _hidden(stretch, at, len(view.rows))
        folded = not every and first not in opened and last - first + 1 >= LEAST
        for index, row in enumerate(stretch, at):
            if not folded or not first <= index <= last:
                made.append(Line(kind="row", first=index, last=index))
            elif index == first:
                made.append(
                    Line(kind="fold", first=first, last=last, text=_fold(view, first, last))
                )
            del row
        at += len(stretch)
    return made


def _stretches(rows: Sequence[CompareRow]) -> Iterator[list[CompareRow]]:
    """Neighbours of one thread that are the same together, and those that are not."""
    same: list[CompareRow] = []
    for row in rows:
        if same and (quiet(row) != quiet(same[-1]) or row.main != same[-1].main):
            yield same
            same = []
        same.append(row)
    if same:
        yield same


def quiet(row: CompareRow) -> bool:
    """Is there nothing to see? The same was done, and it brought the same as far as is known."""
    return row.mark == "same" and row.results is not False


def _hidden(stretch: Sequence[CompareRow], at: int, total: int) -> tuple[int, int]:
    """The rows of a stretch that need not be shown, as places; none where the second is less."""
    if not quiet(stretch[0]):
        return at, at - 1
    first = at if at == 0 else at + AROUND
    end = at + len(stretch)
    return first, (end if end == total else end - AROUND) - 1


def _headed(rows: Sequence[CompareRow], at: int, end: int) -> Iterator[Line]:
    """A heading where the steps of sub-agents begin."""
    if at < end and not rows[at].main and (at == 0 or rows[at - 1].main):
        yield Line(kind="threads", text="sub-agents")


def _fold(view: CompareView, first: int, last: int) -> str:
    a, b = view.rows[first], view.rows[last]
    number = format.count(last - first + 1, "matching step")
    return f"{number}: A {a.a}–{b.a}, B {a.b}–{b.b}"


def compare_markdown(view: CompareView) -> str:
    """Who they are, how they differ, and the rows, what is the same folded."""
    parts = [f"## {_code(view.a.name)} vs. {_code(view.b.name)}", format.plain(view.sentence)]
    parts.append(f"({view.note})")
    parts.append(
        "\n".join(
            f"- {letter}: {_code(who.key)}, {'; '.join(map(_code, facts(who)))}"
            for letter, who in (("A", view.a), ("B", view.b))
        )
    )
    known = [f"- {_code(each)}" for each in known_facts(view)]
    parts += ["\n".join(known)] if known else []
    parts.append("\n".join(f"- {_code(each)}" for each in figures(view)))
    prompts = prompts_line(view.prompts)
    if prompts:
        parts.append(_code(prompts))
    parts += [f"- {_code(each)}" for each in view.lacks]
    parts.append(format.fenced("\n".join(_line(view, each) for each in lines(view))))
    return "\n\n".join(parts) + "\n"


def _line(view: CompareView, line: Line) -> str:
    if line.kind != "row":
        return f"    {format.one_line(line.text)}"
    row = view.rows[line.first]
    sign = "◆" if line.first == view.divergence else " "
    both = f"A: {row.action_a or '–'} | B: {row.action_b or '–'}"
    did = row.action_a if row.mark == "same" else both
    what = f"  ({row.what})" if row.what else ""
    return f"{sign}{MARKS[row.mark]} {place(row)}: {format.one_line(did)}{format.one_line(what)}"


def pair_markdown(pair: PairView) -> str:
    """A row in full, each part as a diff where both have it."""
    return "\n\n".join(
        [f"### {pair.title}", *(text for each in pair.parts for text in _part(each))]
    )


def _part(part: Part) -> Iterator[str]:
    yield f"**{format.one_line(part.title)}**"
    if part.diff is not None:
        yield format.fenced("\n".join(line.text for line in part.diff), "diff")
    elif part.same:
        yield format.fenced(part.a or "")
    else:
        for letter, text in (("A", part.a), ("B", part.b)):
            if text is not None:
                yield f"only {letter}:" if None in (part.a, part.b) else f"{letter}:"
                yield format.fenced(text)


def _code(text: str) -> str:
    return format.one_line(text)
