"""A run for the page: what is said of it, its tree and lanes, a document of each step, and its
recording, masked again and shown to come back with the digest that the page names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from arc_tui.features.report.view import (
    LaneView,
    List,
    Mark,
    Page,
    Part,
    Row,
    RunPart,
    Text,
    write_line,
)
from arc_tui.features.report.view import texts as page_texts
from arc_tui.ui import format
from arc_tui.ui.document import Document
from arc_tui.views.brief import brief_text
from arc_tui.views.columns import caps_text, run_name
from arc_tui.views.evidence import by_strength, candidate_text, finding_kind
from arc_tui.views.lane_scale import scale, summarise, write_scale
from arc_tui.views.step import StepView, build_steps
from arc_tui.views.step_pages import request_page, response_page, results_page
from arc_tui.views.trace import Lane, TraceView, build_trace
from arc_tui.views.tree import TreeRow, visible
from replay.formats import arc
from replay.formats.report import EmbeddedRun
from replay.formats.source import BytesSource, Tally
from replay.redact.redactor import Redactor
from replay.redact.text import restored
from replay.store.handle import Store
from replay.store.read import content_digest, recorded, span_digests
from replay.store.write import Writer
from taxonomy.classes import Attribution, class_label
from taxonomy.findings import Finding
from taxonomy.query.listing import RunRow

Why: TypeAlias = Callable[[TraceView, StepView], Document]
"""Makes the page that says why a step is suspect."""

BINS = 240
"""Columns of a lane at the most."""


def build_run_page(store: Store, name: str, why: Why) -> Page:
    """The page of one run. Raises NotFound."""
    view = build_trace(store, name)
    run = build_run(store, view, why, key="")
    rows = tuple(tree_rows(view))
    first = next((at for at, row in enumerate(rows) if view.opens_at in row.steps), 0)
    return Page(
        kind="run",
        title=run_name(view.run, " / "),
        outcome=view.run.outcome,
        facts=tuple(head_facts(view.run)),
        summary=tuple(summary(view)),
        tables=(),
        list=List(
            kind="tree",
            title="Steps",
            columns=("step", "what it did"),
            rows=rows,
            opens_at=first,
        ),
        runs=(run,),
        brief=brief_text(store, view.run.trace),
    )


def build_run(store: Store, view: TraceView, why: Why, *, key: str) -> RunPart:
    """A run as a part of a page, whatever its list is."""
    held, lines = pack_run(store, view.run.trace)
    return RunPart(
        key=key,
        name=run_name(view.run, " / "),
        lanes=tuple(map(_lane, view.lanes)),
        marked=_find_marked(view),
        pages=tuple(_pages(view, build_steps(store, view.run.trace), why)),
        held=held,
        lines=lines,
    )


def head_facts(row: RunRow) -> Iterator[str]:
    """What stands below the name of a run."""
    value = format.one_line(row.outcome_value)
    ended = "outcome unknown" if row.outcome == "unknown" else row.outcome
    yield f"{ended} ({value})" if value and value != row.outcome else ended
    if row.title and row.task:
        yield format.one_line(row.title)
    yield format.count(row.steps, "step")
    yield format.count(row.calls, "tool call")
    yield format.count(row.errors, "error")
    yield format.one_line(row.models) or "model unknown"
    yield f"time {format.duration(row.duration_ns)}"
    yield f"cost {format.usd(row.cost_usd, complete=row.cost_complete)}"
    yield f"fidelity {row.fidelity.value if row.fidelity else format.UNKNOWN}"
    caps = caps_text(row)
    if caps:
        yield caps
    if row.masked:
        yield f"{row.masked} masked"


def summary(view: TraceView) -> Iterator[Text]:
    """What is known for certain, where it may have broken, what else was found, tags."""
    if view.known:
        yield write_line("Known for certain", "title")
    for fact in view.known:
        place = "" if fact.step is None else f"step {fact.step} · "
        yield write_line(f"{place}{fact.text}", step=fact.step, label=fact.kind)
    candidates = view.diagnosis.candidates if view.diagnosis else ()
    yield write_line("Where it broke" if not candidates else "Break candidates", "title")
    if view.diagnosis is None:
        yield write_line("Not analysed yet.", "quiet")
    elif not candidates:
        yield write_line("No break candidates.", "quiet")
    for candidate in candidates:
        text = f"step {candidate.step} · {format.one_line(candidate_text(candidate))}"
        made = write_line(text, "candidate", step=candidate.step)
        yield structs.replace(made, aside=candidate.accuracy)
        found = view.diagnosis.findings if view.diagnosis else ()
        for finding in by_strength([each for each in found if each.step == candidate.step]):
            yield from _finding(finding, candidate.why)
    rest = [
        each
        for each in by_strength(view.diagnosis.findings if view.diagnosis else ())
        if each.step not in view.marked and not each.is_hint
    ]
    if rest or view.judged:
        yield write_line("Other findings", "title")
    for finding in (*rest, *view.judged):
        yield write_line(_finding_line(finding), step=finding.step)
    if view.tags:
        yield write_line("Tags", "title")
    for tag in view.tags:
        because = f" · {tag.why}" if tag.why else ""
        label = class_label(tag.failure, tag.sub)
        yield write_line(f"step {tag.step} · {label} · by {tag.by}{because}", step=tag.step)


def _finding_line(finding: Finding) -> str:
    kind = finding_kind(finding)
    who = format.one_line(finding.rule) if kind == "judge" else kind
    outside = finding.attribution not in (None, Attribution.AGENT)
    whose = f" · attribution: {finding.attribution}" if outside else ""
    label = class_label(finding.failure, finding.sub)
    return format.one_line(f"step {finding.step} · {who} · {label}: {finding.why}{whose}")


def _finding(finding: Finding, known: str) -> Iterator[Text]:
    """A finding of a candidate and what it rests on; its phrase where the candidate has not said
    it."""
    hint = "hint, not counted · " if finding.is_hint else ""
    label = format.one_line(class_label(finding.failure, finding.sub))
    phrase = "" if finding.why == known else f": {format.one_line(finding.why)}"
    yield structs.replace(write_line(f"{hint}{label}{phrase}", "quiet" if hint else ""), indent=1)
    for each in finding.evidence:
        place = each.place or ("" if each.step is None else f"step {each.step}")
        yield Text(
            text=format.plain(each.text),
            label=format.one_line(each.role),
            aside=format.one_line(place),
            indent=2,
            step=each.step if each.step != finding.step else None,
        )


def _find_marked(view: TraceView) -> tuple[int, ...]:
    """The steps that something was found at, in their order."""
    found = view.diagnosis.findings if view.diagnosis else ()
    steps = {each.step for each in (*found, *view.judged) if not each.is_hint}
    steps |= {*view.marked, *(tag.step for tag in view.tags)}
    steps |= {fact.step for fact in view.known if fact.step is not None}
    return tuple(sorted(step for step in steps if 0 <= step < len(view.steps)))


# --- the tree


def tree_rows(view: TraceView) -> Iterator[Row]:
    """Every row of the tree, what hangs from it after it; folds begin as they do in the app."""
    marked = _find_marked(view)
    for row in visible(view.tree, _Every(), ()):
        yield _tree_row(row, view, marked)


class _Every(frozenset[str]):
    """Holds every name."""

    def __contains__(self, _: object) -> bool:
        return True


def _tree_row(row: TreeRow, view: TraceView, marked: Sequence[int]) -> Row:
    branch = row.branch
    is_step = branch.role == "step" and branch.step is not None
    mark: Mark = ""
    if is_step and branch.step in view.marked:
        mark = "candidate"
    elif is_step and branch.step in marked:
        mark = "finding"
    times = f"×{branch.count} " if branch.count > 1 else ""
    return Row(
        cells=(str(branch.step) if is_step else "", f"{times}{format.one_line(branch.label)}"),
        steps=(branch.step,) if branch.step is not None else (),
        mark=mark,
        error=branch.status == "error",
        depth=row.depth,
        parent=bool(branch.below),
        closed=bool(branch.below) and branch.quiet,
    )


# --- lanes


def _lane(lane: Lane) -> LaneView:
    count = min(len(lane.values), BINS)
    edges = [len(lane.values) * at // count for at in range(count + 1)] if count else []
    bins = [range(*pair) for pair in pairwise(edges)]
    on = scale(lane)
    span = on.top - on.low

    def columns_of(steps: Iterable[int]) -> frozenset[int]:
        return frozenset(bisect_right(edges, step) - 1 for step in steps)

    summary = summarise(lane, [lane.values[each.start : each.stop] for each in bins], columns_of)
    return LaneView(
        name=lane.name,
        heights=tuple(
            None
            if value is None
            else round(min(max((value - on.low) / span if span else 0.0, 0.0), 1.0), 3)
            for value in summary.shown
        ),
        high=tuple(sorted(summary.high)),
        scale=write_scale(lane),
        note=format.one_line(lane.note) if lane.empty or lane.name == "score" else "",
    )


# --- steps


def _pages(view: TraceView, steps: Iterator[StepView], why: Why) -> Iterator[tuple[Part, ...]]:
    """What is shown of each step; what an earlier one shows too is a link to that."""
    given: dict[str, int] = {}
    for step in steps:
        if step.before is None or step.system_changed:
            given[step.row.thread] = step.row.step
        pages: Mapping[str, Document] = {
            "Why": why(view, step),
            "Request": request_page(view, structs.replace(step, shared=0)),
            "Response": response_page(view, step),
            "Results": results_page(view, step),
        }
        parts = {title: page_texts(document) for title, document in pages.items()}
        parts["Request"] = tuple(_request(parts["Request"], step, given))
        yield tuple(Part(title=title, texts=found) for title, found in parts.items())


def _request(found: Sequence[Text], step: StepView, given: Mapping[str, int]) -> Iterator[Text]:
    """What is new in a request, and links in place of what earlier steps were sent."""
    first = given.get(step.row.thread)
    for text in found:
        if text.inside and text.text.startswith("system prompt ·"):
            line = text.text.partition(" · as in step ")[0]
            yield Text(text=f"{line} · as in step {first}", style="quiet", step=first)
        else:
            yield text
        if text is found[0] and step.shared:
            yield Text(text=step.earlier_line, style="quiet", step=step.before)


# --- the recording


def pack_run(store: Store, trace: str) -> tuple[EmbeddedRun, bytes]:
    """The recording of a run in `arc/1`, every text of it masked again by the rules as they are
    now, and what came of it: it is read back into an empty database before anybody is told its
    digest."""
    batch = recorded(store, trace)
    header = structs.replace(batch.header, path=None)  # where it lay on this machine
    lines = list(arc.write([structs.replace(batch, header=header)]))
    before = span_digests(store, trace)
    back = _read_back(store.redactor, lines)
    if back.spans != before:  # what comes back must be what was masked, so that is read back too
        back = _read_back(store.redactor, [_mask(store.redactor, line) for line in lines])
    held = EmbeddedRun(
        trace=trace,
        recorded=content_digest(store, trace),
        digest=back.digest,
        masked=tuple(
            name
            for (_, was), (name, now) in zip(before.items(), back.spans.items(), strict=True)
            if was != now
        ),
    )
    return held, back.lines


class _Back(NamedTuple):
    """A recording that was read back: the digests of its spans and its own, and what is stored of
    it as lines."""

    spans: dict[str, str]
    digest: str
    lines: bytes


def _read_back(redactor: Redactor, lines: Iterable[bytes]) -> _Back:
    """The lines as they come out of an empty database, which masks what it stores."""
    with Store.open(":memory:") as copy:
        copy.redactor = redactor
        writer = Writer(copy)
        (read,) = arc.read(BytesSource(b"".join(lines), "report"), Tally())
        key = writer.finish(writer.write(read)).id
        return _Back(
            spans=span_digests(copy, key),
            digest=content_digest(copy, key),
            lines=b"".join(arc.write([recorded(copy, key)])),
        )


def _mask(redactor: Redactor, line: bytes) -> bytes:
    if redactor.clear(line):
        return line
    value = msgspec.json.decode(line)
    masked = restored(value, redactor.value(value), lambda _: False)
    return line if masked == value else msgspec.json.encode(masked) + b"\n"
