"""Pages of reports that rest on other features: two runs side by side, a replay, a free replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from arc_tui.cli import diagnose_new
from arc_tui.experiments.locked_view import MARKS as REPLAY_MARKS
from arc_tui.experiments.locked_view import (
    ReplayView,
    StepRow,
    arm_cell,
    arm_names,
    difference,
    mark_words,
    sentences,
    step_rows,
    tally,
)
from arc_tui.features.compare import view as compared
from arc_tui.features.compare.run import build_compare
from arc_tui.features.compare.view import CompareRow, CompareView
from arc_tui.features.free.view import MARKS as FREE_MARKS
from arc_tui.features.free.view import UNCHECKED, FreeRow, did_words, got_words
from arc_tui.features.report.run import build_run, head_facts
from arc_tui.features.report.view import (
    List,
    Mark,
    Page,
    Part,
    Row,
    RunPart,
    Text,
    texts,
    write_line,
)
from arc_tui.features.trace.pages import why_page
from arc_tui.ui import format
from arc_tui.ui.diff import diff_texts
from arc_tui.views.columns import run_name
from arc_tui.views.trace import TraceView, build_trace
from replay import bundle, kept
from replay.errors import ArcError
from replay.free.result import FreeCore
from replay.store import edits
from replay.store.handle import Store
from replay.store.rows import trace_row

LAST = "last"
"""Stands for the latest saved replay of a run."""


# --- two runs


def compare_page(store: Store, a: str, b: str) -> Page:
    """Two runs side by side. Raises NotFound, and ArcError where a name means several."""
    view = build_compare(store, a, b)
    if view.a.kind != "run" or view.b.kind != "run":
        raise ArcError("--compare takes runs, not replays", "Try: arc report --replay DIGEST")
    sides = (build_trace(store, view.a.trace), build_trace(store, view.b.trace))
    rows = tuple(map(_compare_row, view.rows))
    place = view.divergence
    if place is not None:
        rows = (*rows[:place], structs.replace(rows[place], mark="candidate"), *rows[place + 1 :])
    runs = tuple(
        build_run(store, side, why_page, key=key) for side, key in zip(sides, "ab", strict=True)
    )
    return Page(
        kind="comparison",
        title=_title(*sides),
        outcome=None,
        facts=(view.note,),
        summary=tuple(_compare_summary(view)),
        tables=(),
        list=List(
            kind="compare",
            title="Steps of A and B",
            columns=("", "A", "did", "B", "did", "difference"),
            rows=rows,
            opens_at=place or 0,
        ),
        runs=_with_letters(runs),
        brief="\n".join(_compare_brief(view)),
    )


def _with_letters(runs: Sequence[RunPart]) -> tuple[RunPart, ...]:
    return tuple(structs.replace(run, name=f"{run.key.upper()} · {run.name}") for run in runs)


def _name(view: TraceView) -> str:
    return run_name(view.run, " / ")


def _title(a: TraceView, b: TraceView) -> str:
    """Both by their names, and by their ids where that is one name."""
    names = [_name(a), _name(b)]
    if names[0] == names[1]:
        return f"{names[0]}: {a.run.trace[:8]} and {b.run.trace[:8]}"
    return " and ".join(names)


def _compare_row(row: CompareRow) -> Row:
    mark: Mark = "finding" if row.differs else ""
    return Row(
        cells=(
            compared.MARKS[row.mark],
            "" if row.a is None else str(row.a),
            row.action_a,
            "" if row.b is None else str(row.b),
            row.action_b,
            row.what,
        ),
        steps=(row.a, row.b),
        mark=mark,
    )


def _compare_summary(view: CompareView) -> Iterator[Text]:
    yield write_line("Difference", "title")
    yield write_line(view.sentence)
    for letter, who in (("A", view.a), ("B", view.b)):
        yield write_line(
            f"{who.name} · {who.trace} · {' · '.join(compared.facts(who))}", label=letter
        )
    for fact in compared.known_facts(view):
        yield write_line(fact)
    for figure in compared.figures(view):
        yield write_line(figure, "quiet")
    line = compared.prompts_line(view.prompts)
    if line:
        before, after = (each.system or "" for each in (view.prompts.a, view.prompts.b))
        changed = diff_texts(format.plain(before), format.plain(after))
        styles = {"new": "good", "gone": "error"}
        inside = tuple(Text(text=each.text, style=styles.get(each.kind, "")) for each in changed)
        yield structs.replace(write_line(line), inside=inside)
    for lack in (*view.lacks, *compared.unknown_prompts(view.prompts)):
        yield write_line(lack, "quiet")


def _compare_brief(view: CompareView) -> Iterator[str]:
    yield view.sentence
    for letter, who in (("A", view.a), ("B", view.b)):
        yield f"{letter}: {who.name} · {who.trace} · {' · '.join(compared.facts(who))}"
    yield from compared.figures(view)
    yield compared.prompts_line(view.prompts)
    yield from (
        f"{compared.MARKS[row.mark]} {compared.place(row)}: {compared.both(row)}"
        for row in view.rows
        if row.differs
    )


# --- a replay


def kept_page(store: Store, runs: Sequence[str], again: str) -> Page:
    """A saved replay, by its digest, or the latest of a run."""
    if again != LAST:
        found = kept.begun(store, again)
    else:
        listed = kept.of_trace(store, trace_row(store, runs[0]).trace)
        if not listed:
            raise ArcError(f"no saved replay of {runs[0]}", f"Try: arc replay {runs[0]}")
        found = listed[0]
    if found.kind == "free":
        return free_page(store, found.digest)
    return _locked_page(store, [found.digest])


def bundle_page(store: Store, file: Path) -> Page:
    """The replay of a bundle, which is all that stands in the database."""
    held = bundle.read(file)
    trace, _ = bundle.restore(store, held)
    diagnose_new(store)
    for stub in held.added.stubs if held.added is not None else ():
        kept.put(store, trace.id, stub, source="file")
    for arm in held.arms:
        edits.save(store, arm.edit)
    results = [kept.keep(store, each) for each in held.results]
    if isinstance(held.result, FreeCore):
        return free_page(store, results[0])
    return _locked_page(store, results)


def _locked_page(store: Store, digests: Sequence[str]) -> Page:
    """A locked replay, each of its arms kept under a digest."""
    from arc_tui.features.replay.run import show_kept  # with all that replays

    first, *others = (show_kept(store, kept.find(store, digest)) for digest in digests)
    return _page_of_arms(store, structs.replace(first, others=tuple(others)))


def _page_of_arms(store: Store, view: ReplayView) -> Page:
    """Every step in each arm, below what the replay came to."""
    from arc_tui.features.replay.text import footer

    trace = build_trace(store, view.trace)
    names = arm_names(view)
    rows = tuple(_replay_row(row, view, names) for row in step_rows(view))
    telling = (at for at, row in enumerate(rows) if row.mark)
    found = [*sentences(view), *dict.fromkeys(n for arm in view.arms for n in arm.verdict.notices)]
    diffs = [
        Text(
            text=f"edit {name} · {format.count(len(arm.diff), 'line')} of diff",
            inside=tuple(_diff_line(line) for line in arm.diff),
        )
        for name, arm in zip(names, view.arms, strict=True)
        if arm.diff
    ]
    rest = [write_line(line, "quiet") for line in footer(view)]
    edited = ("edited",) if not view.others else names
    return Page(
        kind="replay",
        title=f"Replay of {_name(trace)}",
        outcome=None,
        facts=tuple(_replayed_facts(trace)),
        summary=(write_line("Locked replay", "title"), *map(write_line, found), *diffs, *rest),
        tables=(),
        list=List(
            kind="replay",
            title="Steps",
            columns=("step", "recorded", "control", " | ".join(edited), "effect"),
            rows=rows,
            opens_at=next(telling, 0),
        ),
        runs=(build_run(store, trace, why_page, key=""),),
        brief="\n".join([*found, *footer(view), "", *(_line(row) for row in rows)]),
    )


def _replayed_facts(trace: TraceView) -> Iterator[str]:
    """Those of the recording: how a replay would have ended nobody evaluated."""
    first, *others = head_facts(trace.run)
    yield f"recorded run {first}"
    yield from others


def _line(row: Row) -> str:
    return " · ".join(filter(None, row.cells))


def _diff_line(line: str) -> Text:
    style = {"+": "good", "-": "error"}.get(line[:1], "")
    return Text(text=format.plain(line), style=style)


def _replay_row(row: StepRow, view: ReplayView, names: Sequence[str]) -> Row:
    from arc_tui.features.replay.pages import arms_page, step_page

    first = row.first
    if len(row.arms) == 1:
        edited = first.edited_refused or arm_cell(first.edited)
        effect = mark_words(first)
        document = step_page(first, view.verdict)
    else:
        each = (f"{difference(arm)} {tally(arm.edited)}".rstrip() for arm in row.arms)
        edited, effect = " | ".join(each), " | ".join(map(mark_words, row.arms))
        arms = zip(names, row.arms, (arm.verdict for arm in view.arms), strict=True)
        document = arms_page(list(arms))
    changed = any(arm.mark in REPLAY_MARKS and arm.mark != "same" for arm in row.arms)
    mark: Mark = "candidate" if first.at_break else "finding" if changed else ""
    recorded = format.one_line(first.recorded) or format.UNKNOWN
    control = format.one_line(first.refused or "") or arm_cell(first.control)
    return Row(
        cells=(f"{first.step}", recorded, control, format.one_line(edited), effect),
        steps=(first.step,),
        mark=mark,
        parts=(Part(title="Replay", texts=texts(document)),),
    )


# --- a free replay


def free_page(store: Store, digest: str) -> Page:
    """A free replay: the agent goes on by itself."""
    from arc_tui.features.free.run import show_kept_run  # with all that replays

    view = show_kept_run(store, digest)
    trace = build_trace(store, view.trace)
    rows = tuple(_free_row(row) for row in view.rows)
    server = f" at {view.server}" if view.server else ""
    edit = f" · edit {format.one_line(view.edit)}" if view.edit else ""
    lines = [
        view.sentence,
        UNCHECKED,
        *view.notices,
        f"model {view.model}{server}{edit}",
        f"digest {digest}",
    ]
    return Page(
        kind="replay",
        title=f"Free replay of {_name(trace)}",
        outcome=None,
        facts=tuple(_replayed_facts(trace)),
        summary=(write_line("Free replay", "title"), *map(write_line, lines)),
        tables=(),
        list=List(
            kind="replay",
            title="Responses",
            columns=("step", "action", "tool result", "recorded action", "mark"),
            rows=rows,
            opens_at=next((at for at, row in enumerate(rows) if row.mark), 0),
        ),
        runs=(build_run(store, trace, why_page, key=""),),
        brief="\n".join([*lines, "", *map(_line, rows)]),
    )


def _free_row(row: FreeRow) -> Row:
    from arc_tui.features.free.widgets import row_page  # stands beside what draws it

    results = "; ".join(f"{each.phrase} {got_words(each)}" for each in row.got)
    return Row(
        cells=(
            format.UNKNOWN if row.step is None else str(row.step),
            did_words(row),
            format.one_line(results),
            "" if row.mark == "same" else format.one_line(row.recorded),
            FREE_MARKS[row.mark],
        ),
        steps=(row.step,),
        mark="finding" if row.mark in ("diverged", "unclear") else "",
        parts=(Part(title="Replay", texts=texts(row_page(row))),),
    )
