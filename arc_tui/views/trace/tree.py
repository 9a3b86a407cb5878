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

Role = Literal["thread", "step", "call", "repeat", "other"]


class Branch(Struct, frozen=True, eq=False, kw_only=True):
    """A row of the tree and what hangs below it.

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


class TreeRow(Struct, frozen=True, eq=False, kw_only=True):
    """A visible row: a branch at its depth; `open` None where there is nothing to fold."""

    branch: Branch
    depth: int
    open: bool | None


def branches(spans: Sequence[SpanRow]) -> tuple[Branch, ...]:
    """The top of the tree. A single root agent is not a row: its thread is the tree."""
    below = _children(spans)
    acts = _acts(spans)
    roots = below.get(None, [])
    build = _Builder(below, acts)
    if len(roots) == 1 and roots[0].kind == "agent":
        return build.thread(roots[0].span_id)
    return build.rows(roots)


def _children(spans: Sequence[SpanRow]) -> dict[str | None, list[SpanRow]]:
    known = {span.span_id for span in spans}
    below: dict[str | None, list[SpanRow]] = {}
    for span in spans:
        parent = span.parent if span.parent in known else None
        below.setdefault(parent, []).append(span)
    return below


def _acts(spans: Sequence[SpanRow]) -> dict[str, list[SpanRow]]:
    """Tool calls by the model span that asked for them."""
    models = {span.span_id for span in spans if span.kind == "model"}
    asked: dict[str, list[SpanRow]] = {}
    for span in spans:
        if span.kind == "tool" and span.asked_by in models:
            asked.setdefault(span.asked_by or "", []).append(span)
    return asked


class _Builder:
    def __init__(
        self, below: dict[str | None, list[SpanRow]], acts: dict[str, list[SpanRow]]
    ) -> None:
        self._below = below
        self._acts = acts
        self._asked = {act.span_id for each in acts.values() for act in each}

    def thread(self, agent: str) -> tuple[Branch, ...]:
        return self.rows(self._below.get(agent, []))

    def rows(self, spans: Sequence[SpanRow]) -> tuple[Branch, ...]:
        if not spans:
            return ()
        shown = [(self.branch(span), span.seq) for span in spans if span.span_id not in self._asked]
        shown.sort(key=lambda each: (_first_step(each[0]), each[1]))
        return tuple(_folded([branch for branch, _ in shown]))

    def branch(self, span: SpanRow) -> Branch:
        match span.kind:
            case "model":
                return self.step(span)
            case "agent":
                below = self.thread(span.span_id)
                return _row(span, "thread", f"{span.name} · {_steps(below)}", below)
            case "tool":
                return self.call(span)
            case _:
                below = self.rows(self._below.get(span.span_id, []))
                quiet = all(branch.quiet for branch in below)
                return structs.replace(_row(span, "other", span.name, below), quiet=quiet)

    def step(self, ask: SpanRow) -> Branch:
        acts = self._acts.get(ask.span_id, [])
        below = self.rows(self._below.get(ask.span_id, []))
        if not acts:
            return _row(ask, "step", f"says: {ask.brief}" if ask.brief else "says nothing", below)
        calls = tuple(self.call(act) for act in acts)
        if len(acts) == 1 and all(branch.quiet for branch in calls[0].below):
            return self._one_call(ask, acts[0], (*calls[0].below, *below))
        label = _call(acts[0]) if len(acts) == 1 else f"{len(acts)} calls: {_names(acts)}"
        whole = _row(ask, "step", label, (*calls, *below))
        return structs.replace(
            whole, status="error" if any(c.status == "error" for c in calls) else ask.status
        )

    def _one_call(self, ask: SpanRow, act: SpanRow, below: tuple[Branch, ...]) -> Branch:
        """A step and its one call as one row, what the harness did for it folded below."""
        return structs.replace(
            _row(ask, "step", _call(act), below),
            spans=(ask.span_id, act.span_id),
            again=act.again,
            quiet=bool(below),
            status="error" if "error" in (ask.status, act.status) else ask.status,
        )

    def call(self, act: SpanRow) -> Branch:
        return _row(act, "call", _call(act), self.rows(self._below.get(act.span_id, [])))


def _row(span: SpanRow, role: Role, label: str, below: tuple[Branch, ...]) -> Branch:
    return Branch(
        id=span.span_id,
        role=role,
        label=label,
        step=span.step,
        status=span.status,
        spans=(span.span_id,),
        below=below,
    )


def _call(act: SpanRow) -> str:
    return f"{act.name} {act.brief}".rstrip() if act.brief else act.name


def _names(acts: Sequence[SpanRow]) -> str:
    return ", ".join(dict.fromkeys(act.name for act in acts))


def _first_step(branch: Branch) -> int:
    """The first step that a row shows or holds, -1 for what comes before every step."""
    if branch.role in ("thread", "other") and branch.below:
        return min(map(_first_step, branch.below))
    return -1 if branch.step is None else branch.step


def _steps(below: Sequence[Branch]) -> str:
    count = _count(below)
    return f"{count} step" if count == 1 else f"{count} steps"


def _count(below: Sequence[Branch]) -> int:
    """The steps among some rows, those within rows of the harness included."""
    own = sum(branch.count for branch in below if branch.role in ("step", "repeat"))
    return own + sum(_count(branch.below) for branch in below if branch.role == "other")


def _folded(rows: Sequence[Branch]) -> Iterator[Branch]:
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
    stack = [(branch, 0) for branch in reversed(top)]
    while stack:
        branch, depth = stack.pop()
        shown = branch.id in opened or (not branch.quiet and branch.id not in closed)
        found.append(TreeRow(branch=branch, depth=depth, open=shown if branch.below else None))
        if branch.below and shown:
            stack.extend((each, depth + 1) for each in reversed(branch.below))
    return found


def path_to(top: Sequence[Branch], span: str) -> tuple[Branch, ...]:
    """The branches from the top down to the one that stands for a span, () where none does."""
    for branch in top:
        if span in branch.spans or span == branch.id:
            return (branch,)
        inner = path_to(branch.below, span)
        if inner:
            return (branch, *inner)
    return ()
