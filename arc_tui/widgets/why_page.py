"""Why a step is suspect: candidate signals, findings with their evidence, score, tags. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.step import StepView
from arc_tui.views.trace import TraceView
from arc_tui.widgets.document import INDENT, Block, Document, Item
from taxonomy.classes import BY_CLASS, FailureClass, Fault, class_label
from taxonomy.findings import Evidence, Finding
from taxonomy.findings import Item as RubricItem

BLANK = Block(text="")


def why_page(trace: TraceView, step: StepView) -> Document:
    """Everything said of the step, the strongest first; or that nothing was."""
    parts = [
        tuple(_tags(trace, step)),
        *(tuple(_finding(finding)) for finding in step.findings),
        tuple(_candidate(trace, step)),
        tuple(_score(step)),
    ]
    said = [part for part in parts if part]
    if not said:
        return (Block(text=_nothing(trace), style="quiet"),)
    return tuple(item for part in said for item in (*part, BLANK))[:-1]


def class_name(failure: FailureClass, sub: str | None) -> str:
    """A class with its sub-label."""
    return format.one_line(class_label(failure, sub))


def _nothing(trace: TraceView) -> str:
    if trace.diagnosis is None:
        return "the rules have not looked at this run yet"
    if trace.marked:
        return f"nothing stands out at this step; c goes to the candidate at step {trace.marked[0]}"
    return "nothing the rules know stands out at this step"


def _tags(trace: TraceView, step: StepView) -> Iterator[Item]:
    for tag in trace.tags:
        if tag.step == step.row.step:
            yield Block(text=f"tagged {class_name(tag.failure, tag.sub)}", style="head",
                        aside=f"by {format.one_line(tag.by)}")  # fmt: skip
            if tag.why:
                yield Block(text=format.plain(tag.why), indent=INDENT)


def _finding(finding: Finding) -> Iterator[Item]:
    yield Block(
        text=f"{class_name(finding.failure, finding.sub)}?",
        style="candidate",
        aside=f"suggested by {format.one_line(finding.rule)}{_elsewhere(finding)}",
    )
    yield Block(text=format.plain(finding.why), indent=INDENT, key=f"why {finding.rule}")
    for place, evidence in enumerate(finding.evidence):
        yield _evidence(evidence, f"evidence {finding.rule} {finding.step} {place}")
    entry = BY_CLASS[finding.failure]
    if entry.fix != format.UNKNOWN:
        yield Block(text=entry.fix, label="first fix", indent=INDENT, style="quiet")


def _elsewhere(finding: Finding) -> str:
    """Whose doing it was, where it was not the agent's."""
    if finding.fault in (None, Fault.AGENT):
        return ""
    return f", not the agent's doing: {finding.fault}"


def _evidence(evidence: Evidence, key: str) -> Block:
    where = [f"step {evidence.step}" if evidence.step is not None else "", evidence.place]
    place = ", ".join(format.one_line(part) for part in where if part)
    return Block(
        text=format.plain(evidence.text),
        label=format.one_line(evidence.role),
        aside=place,
        indent=INDENT,
        key=key,
    )


def _candidate(trace: TraceView, step: StepView) -> Iterator[Item]:
    if trace.diagnosis is None or step.row.step not in trace.marked:
        return
    rank = trace.marked.index(step.row.step) + 1
    yield Block(
        text=f"◆ candidate {rank} of {len(trace.marked)}",
        style="candidate",
        aside=trace.diagnosis.candidates[rank - 1].accuracy,
    )
    for signal in step.signals:
        yield Block(
            text=format.plain(signal.phrase),
            aside=f"{format.one_line(signal.name)} {signal.weight:+.2g}",
            indent=INDENT,
        )


def _score(step: StepView) -> Iterator[Item]:
    score = step.score
    if score is None:
        return
    shown = format.score(score.value) if score.value is not None else "no item decided"
    yield Block(text=f"score {shown}", style="head",
                aside=f"{score.source}, {format.one_line(score.by)}")  # fmt: skip
    for item in score.items:
        if item.held is not None:
            yield _item(item)


def _item(item: RubricItem) -> Block:
    mark, style = ("✓", "good") if item.held else ("✗", "error")
    return Block(text=f"{mark} {format.one_line(item.name)}", style=style,
                 aside=format.one_line(item.because), indent=INDENT)  # fmt: skip
