"""The tree of a trace as a person reads it: steps, their calls, sub-agents, repeats folded.

A step is one row; its calls stand below it where there are several, or where a call ran a
sub-agent. Neighbouring steps that made the same call fold into one `×N` row. Every span of the
trace is on exactly one row, so a span can always be found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from replay.store.rows import SpanRow

MOST_INDENTED = 24
"""Levels: to the right of more there is no room, and a page of a deep run would be all blanks."""

MOST_NESTED = 50
"""Levels of a tree in JSON: its readers go down by recursion, and each level is indented."""

Role = Literal["thread", "step", "call", "repeat", "other"]


class Branch(Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A row of the tree and what hangs below it, which never is what it hangs from.

    `id` is the span the row stands for (the first one's for a `repeat`), `spans` all spans it
    stands for, `step` the step it shows, `count` how many steps a repeat folds. `again`: a step
    whose one call is that of the call before it, arguments and all. `quiet` branches start folded:
    repeats, and what holds nothing of the agent's.
    """

    id: str
    role: Role
    label: str
    step: int | None
    status: str
    spans: tuple[str, ...]
    below: tuple[Branch, ...] = ()
    count: int = 1
    again: bool = False
    quiet: bool = False


class EveryBranch(frozenset[str]):
    """Every branch is open."""

    def __contains__(self, _: object) -> bool:
        return True


class TreeRow(Struct, frozen=True, eq=False, gc=False):
    """A visible row: a branch at its depth; `open` None where there is nothing to fold."""

    branch: Branch
    depth: int
    open: bool | None


def branches(spans: Sequence[SpanRow]) -> tuple[Branch, ...]:
    """The top of the tree. A single root agent is not a row: its thread is the tree."""
    build = _Builder(spans)
    roots = build.roots
    if len(roots) == 1 and roots[0].kind == "agent":
        return build.under(roots[0])
    return build.rows(roots)


class _Builder:
    """The spans by what they hang from; a call that a model asked for stands in its step."""

    def __init__(self, spans: Sequence[SpanRow]) -> None:
        known = {span.span_id for span in spans}
        models = {span.span_id for span in spans if span.kind == "model"}
        self._acts: dict[str, list[SpanRow]] = {}
        self._below: dict[str | None, list[SpanRow]] = {}
        for span in spans:
            if span.kind == "tool" and span.asked_by in models:
                self._acts.setdefault(span.asked_by or "", []).append(span)
            else:
                parent = span.parent if span.parent in known else None
                self._below.setdefault(parent, []).append(span)

        self._under: dict[str, tuple[Branch, ...]] = {}
        self._made: dict[str, Branch] = {}
        self._firsts: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._make()

    @property
    def roots(self) -> Sequence[SpanRow]:
        return self._below.get(None, ())

    def _make(self) -> None:
        """Every branch after all that hangs from it: spans may nest deeper than calls can."""
        found = [*self.roots]
        for span in found:  # it grows meanwhile
            found += self._acts.get(span.span_id, ())
            found += self._below.get(span.span_id, ())
        for span in reversed(found):
            below = self.rows(self._below.get(span.span_id, ()))
            self._under[span.span_id] = below
            made = self._made[span.span_id] = self.branch(span)
            holds = made.role in ("thread", "other")
            firsts = [self._first_step(each) for each in below] if holds else ()
            own = -1 if made.step is None else made.step
            self._firsts[made.id] = min(firsts, default=own)
            self._counts[made.id] = self._count(below) if made.role == "other" else 0

    def rows(self, spans: Sequence[SpanRow]) -> tuple[Branch, ...]:
        if not spans:
            return ()
        made = (self._made[span.span_id] for span in spans)
        return tuple(_fold_repeats(sorted(made, key=self._first_step)))

    def branch(self, span: SpanRow) -> Branch:
        below = self.under(span)
        match span.kind:
            case "model":
                return self.step(span)
            case "agent":
                count = self._count(below)
                steps = f"{count} step" if count == 1 else f"{count} steps"
                return _row(span, "thread", f"{span.name} · {steps}", below)
            case "tool":
                return self.call(span)
            case _:
                quiet = all(branch.quiet for branch in below)
                return _row(span, "other", span.name, below, quiet=quiet)

    def under(self, span: SpanRow) -> tuple[Branch, ...]:
        """What hangs from a span."""
        return self._under[span.span_id]

    def _first_step(self, branch: Branch) -> int:
        """The first step that a row shows or holds, -1 for what comes before every step."""
        own = -1 if branch.step is None else branch.step
        return own if branch.role == "repeat" else self._firsts[branch.id]

    def _count(self, below: Sequence[Branch]) -> int:
        """The steps among some rows, those within rows of the harness included."""
        return sum(
            branch.count if branch.role in ("step", "repeat") else self._counts[branch.id]
            for branch in below
        )

    def step(self, ask: SpanRow) -> Branch:
        acts, below = self._acts.get(ask.span_id, ()), self.under(ask)
        if not acts:
            return _row(ask, "step", f"says: {ask.brief}" if ask.brief else "empty response", below)
        error = any(span.status == "error" for span in (ask, *acts))
        status = "error" if error else ask.status
        if len(acts) > 1:
            label = f"{len(acts)} calls: {_names(acts)}"
            return _row(ask, "step", label, (*map(self.call, acts), *below), status=status)
        (act,) = acts
        done = self.under(act)
        if not all(branch.quiet for branch in done):
            called = _row(act, "call", _call(act), done)
            return _row(ask, "step", _call(act), (called, *below), status=status)
        below = (*done, *below)  # one row for both, what the harness did for it folded
        return _row(
            ask, "step", _call(act), below, act.span_id,
            status=status, again=act.again, quiet=bool(below),
        )  # fmt: skip

    def call(self, act: SpanRow) -> Branch:
        return _row(act, "call", _call(act), self.under(act))


def _row(
    span: SpanRow,
    role: Role,
    label: str,
    below: tuple[Branch, ...],
    *others: str,
    status: str | None = None,
    again: bool = False,
    quiet: bool = False,
) -> Branch:
    return Branch(
        id=span.span_id,
        role=role,
        label=label,
        step=span.step,
        status=status or span.status,
        spans=(span.span_id, *others),
        below=below,
        again=again,
        quiet=quiet,
    )


def _call(act: SpanRow) -> str:
    return f"{act.name} {act.brief}".rstrip() if act.brief else act.name


def _names(acts: Sequence[SpanRow]) -> str:
    return ", ".join(dict.fromkeys(act.name for act in acts))


def _fold_repeats(rows: Sequence[Branch]) -> Iterator[Branch]:
    """Neighbouring steps that made the same call become one row with the steps below it."""
    same: list[Branch] = []
    for row in rows:
        if same and not (row.again and _is_one_call(same[-1]) and _is_one_call(row)):
            yield _repeat(same)
            same = []
        same.append(row)
    if same:
        yield _repeat(same)


def _is_one_call(branch: Branch) -> bool:
    return branch.role == "step" and len(branch.spans) > 1 and (branch.quiet or not branch.below)


def _repeat(same: list[Branch]) -> Branch:
    first = same[0]
    if len(same) == 1:
        return first
    return Branch(
        id=f"{first.id}×",
        role="repeat",
        label=first.label,
        step=first.step,
        status="error" if any(each.status == "error" for each in same) else first.status,
        spans=(),
        below=tuple(same),
        count=len(same),
        quiet=True,
    )


def visible(
    top: Sequence[Branch], opened: Collection[str], closed: Collection[str]
) -> list[TreeRow]:
    """The rows to draw. Quiet branches start folded, the others open; `opened` and `closed` name
    the branches a person changed."""
    found: list[TreeRow] = []
    stack = [iter(top)]
    while stack:
        depth = len(stack) - 1
        for branch in stack[-1]:
            if not branch.below:
                found.append(TreeRow(branch, depth, None))
                continue
            shown = branch.id in opened or (not branch.quiet and branch.id not in closed)
            found.append(TreeRow(branch, depth, shown))
            if shown:
                stack.append(iter(branch.below))
                break
        else:
            stack.pop()
    return found


def limit_depth(top: tuple[Branch, ...], opened: Collection[str]) -> tuple[Branch, ...]:
    """The tree for JSON: what nests deeper hangs from the last branch above that, row after row.
    `opened` holds every branch."""
    rows = visible(top, opened, ())
    if all(row.depth <= MOST_NESTED for row in rows):
        return top
    below: list[list[Branch]] = [[] for _ in range(MOST_NESTED + 2)]
    for row in reversed(rows):
        level = min(row.depth, MOST_NESTED)
        own = tuple(reversed(below[level + 1]))
        below[level + 1].clear()
        below[level].append(structs.replace(row.branch, below=own))
    return tuple(reversed(below[0]))


def indent(row: TreeRow, unit: str) -> str:
    """What stands before a row for each branch it hangs from: of very many their number."""
    if row.depth <= MOST_INDENTED:
        return unit * row.depth
    return f"{unit * MOST_INDENTED}{row.depth} deep "


def path_to(top: Sequence[Branch], span: str) -> tuple[Branch, ...]:
    """The branches from the top down to the one that stands for a span, () where none does."""
    above: dict[str, Branch] = {}
    waiting = [*reversed(top)]
    while waiting:
        branch = waiting.pop()
        if span in branch.spans or span == branch.id:
            path = [branch]
            while path[-1].id in above:
                path.append(above[path[-1].id])
            return tuple(reversed(path))
        above.update((each.id, branch) for each in branch.below)
        waiting += reversed(branch.below)
    return ()
