"""Why a step is suspect: tags, findings with their evidence, signals, scores, origins. Pure.

What speaks against the step comes first; where nothing does, one line says so. Hints are marked:
they are shown beside their step and count nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.trace.step import StepView, is_hint
from arc_tui.views.trace.view import TraceView
from arc_tui.widgets.document import INDENT, Block, Document, Item, Keyed
from arc_tui.widgets.placed import Placed
from arc_tui.widgets.trace.why_grounds import goal_blocks, value_blocks
from arc_tui.widgets.trace.why_scores import score_blocks
from taxonomy.classes import BY_CLASS, SHAPES, FailureClass, Fault, class_label
from taxonomy.findings import Diagnosis, Evidence, Finding

BLANK = Block(text="")

BLIND = "a blind pass: what others and the rules say is hidden until you have said what you see"


def why_page(trace: TraceView, step: StepView) -> Document:
    """Everything said of the step, what speaks against it first."""
    hints = [finding for finding in step.findings if is_hint(finding)]
    findings = [finding for finding in step.findings if not is_hint(finding)]
    against = [
        tuple(_tags(trace, step)),
        tuple(_probed(step)),
        *(tuple(_finding(finding, step)) for finding in findings),
        tuple(_candidate(trace, step)),
        tuple(_published(trace.diagnosis, step)),
    ]
    parts = [
        *against,
        *(tuple(_finding(finding, step)) for finding in hints),
        tuple(_offers(step)),
        tuple(score_blocks(step)),
        *((tuple(goal_blocks(step.grounds)), tuple(value_blocks(step.grounds)))
          if step.grounds is not None else ()),
        tuple(_run(trace)),
    ]  # fmt: skip
    if not any(against):
        parts.insert(0, (_nothing(trace, hints=bool(hints)),))
    return tuple(item for part in parts if part for item in (*part, BLANK))[:-1]


def _probed(step: StepView) -> Iterator[Item]:
    if step.probes is not None:
        from arc_tui.widgets.trace.why_probes import (
            last_blocks,  # what it knows is not loaded before
        )

        yield from last_blocks(step.probes)


def _offers(step: StepView) -> Iterator[Item]:
    if step.probes is not None:
        from arc_tui.widgets.trace.why_probes import offer_blocks

        yield from offer_blocks(step.probes)


def class_name(failure: FailureClass, sub: str | None) -> str:
    """A class with its sub-label."""
    return format.one_line(class_label(failure, sub))


def _nothing(trace: TraceView, *, hints: bool) -> Block:
    """Why nothing speaks against the step, and where something does."""
    if trace.blind:
        return Block(text=BLIND, style="quiet")
    if trace.diagnosis is None:
        return Block(text="the rules have not looked at this run yet", style="quiet")
    only = ", but a hint" if hints else ""
    if not trace.marked:
        return Block(text=f"nothing the rules know stands out at this step{only}", style="quiet")
    first = trace.marked[0]
    return Keyed(
        text=f"nothing stands out at this step{only}",
        style="quiet",
        aside=f"‹trace.candidate_next› goes to the candidate at step {first}",
        command=("arc", "show", trace.run.trace[:8], str(first)),
    )


def _tags(trace: TraceView, step: StepView) -> Iterator[Item]:
    for tag in trace.tags:
        if tag.step == step.row.step:
            fault = f", whose doing: {tag.fault}" if tag.fault else ""
            yield Block(text=f"tagged {class_name(tag.failure, tag.sub)}", style="head",
                        aside=f"by {format.one_line(tag.by)}{fault}")  # fmt: skip
            if tag.why:
                yield Block(text=format.plain(tag.why), indent=INDENT)


def _finding(finding: Finding, step: StepView) -> Iterator[Item]:
    hint = is_hint(finding)
    how = "a hint, counted nowhere, by" if hint else "suggested by"
    yield Block(
        text=f"{class_name(finding.failure, finding.sub)}?",
        style="quiet" if hint else "candidate",
        aside=f"{how} {format.one_line(finding.rule)}{_sure(finding)}{_elsewhere(finding)}",
    )
    yield Block(text=format.plain(finding.why), indent=INDENT, key=f"why {finding.rule}")
    for place, evidence in enumerate(finding.evidence):
        key = f"evidence {finding.rule} {finding.step} {place}"
        yield _evidence(evidence, key, step.row.step)
    entry = BY_CLASS[finding.failure]
    if entry.fix != format.UNKNOWN and not hint:
        yield Block(text=entry.fix, label="first fix", indent=INDENT, style="quiet")


def _sure(finding: Finding) -> str:
    """How sure the rule is, where it says."""
    return "" if finding.confidence is None else f", {finding.confidence:.0%} sure"


def _elsewhere(finding: Finding) -> str:
    """Whose doing it was, where it was not the agent's."""
    if finding.fault in (None, Fault.AGENT):
        return ""
    return f", not the agent's doing: {finding.fault}"


def _evidence(evidence: Evidence, key: str, here: int) -> Placed:
    """One thing a finding rests on; where it stands at another step, that can be gone to."""
    where = [f"step {evidence.step}" if evidence.step is not None else "", evidence.place]
    text, label = format.plain(evidence.text), format.one_line(evidence.role)
    place = ", ".join(format.one_line(part) for part in where if part)
    goes = evidence.step if evidence.step != here else None
    return Placed(goes=goes, text=text, label=label, aside=place, indent=INDENT, key=key)


def _candidate(trace: TraceView, step: StepView) -> Iterator[Item]:
    if trace.diagnosis is None or step.row.step not in trace.marked:
        return
    rank = trace.marked.index(step.row.step) + 1
    candidate = trace.diagnosis.candidates[rank - 1]
    yield Block(
        text=f"◆ candidate {rank} of {len(trace.marked)}, {candidate.weight:+.2g}",
        style="candidate",
        aside=candidate.accuracy,
    )
    for signal in candidate.signals:
        yield Block(
            text=format.plain(signal.phrase),
            aside=f"{format.one_line(signal.name)} {signal.weight:+.2g}",
            indent=INDENT,
        )


def _published(said: Diagnosis | None, step: StepView) -> Iterator[Item]:
    """The votes of the published rule, where they name this step."""
    if said is None or said.published != step.row.step:
        return
    yield Block(text="the published rule names this step", style="role")
    for vote in said.published_votes:
        yield Block(text=format.plain(vote.phrase), aside=format.one_line(vote.name), indent=INDENT)


def _run(trace: TraceView) -> Iterator[Item]:
    """How the scores of the whole run go, and what the published rule makes of them."""
    said = trace.diagnosis
    if said is None or (said.shape is None and said.published is None):
        return
    entry = next((each for each in SHAPES if each.name is said.shape), None)
    shape = f"{entry.name}: {entry.definition}" if entry else "shape unknown"
    first = f"try first: {entry.first}" if entry and entry.first != "nothing" else ""
    yield Block(text=shape, label="the run", aside=first, style="quiet")
    published = f"shape {said.published_shape}" if said.published_shape else "shape unknown"
    names = "names no step" if said.published is None else f"names step {said.published}"
    yield Block(text=f"{names}, {published}", label="published", style="quiet")
