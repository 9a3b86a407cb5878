"""The pages of a step's detail by their names, and the first of them: why. Pure.

Why begins with what is known for certain, then the strongest evidence, each with its kind: tags of
people, the last probe, check, rules, then signals, hints, scores side by side, origins, goals. A
fact stands there once: below a finding, what repeats its phrase refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from arc_tui.ui import format
from arc_tui.ui.document import INDENT, Block, Document, Fold, HintBlock, Item, StepLink, hiding
from arc_tui.views.evidence import (
    by_strength,
    candidate_kind,
    finding_kind,
    reasons,
)
from arc_tui.views.known import KnownLine
from arc_tui.views.step import Scored, StepView
from arc_tui.views.step_pages import raw_page, request_page, response_page, results_page
from arc_tui.views.trace import TraceView
from taxonomy.classes import BY_CLASS, SHAPES, Attribution, FailureClass, class_label
from taxonomy.findings import Diagnosis, Evidence, Finding, StepScore
from taxonomy.findings import Item as RubricItem

if TYPE_CHECKING:  # is not loaded before somebody looks for either
    from arc_tui.views.probe_offers import WhyProbes
    from arc_tui.views.value_origins import Served, StepOrigins, ValueRow

BLANK = Block(text="")

BLIND = "Blind review: findings, scores and other people's tags are hidden until you tag."


def why_page(trace: TraceView, step: StepView) -> Document:
    """All that is known of the step, the strongest evidence against it first."""
    ordered = by_strength(step.findings)
    hints = [finding for finding in ordered if finding.is_hint]
    findings = [finding for finding in ordered if not finding.is_hint]
    facts = {fact.text for fact in trace.known if fact.step == step.row.step}
    shown = facts | {finding.why for finding in findings}
    against = [
        tuple(_known_here(trace, step)),
        tuple(_tags(trace, step)),
        tuple(_probe_result(step)),
        *(tuple(_finding(finding, step)) for finding in findings),
        tuple(_candidate(trace, step, shown)),
        tuple(_published_rule(trace.diagnosis, step)),
    ]
    certain = tuple(_known_items(trace, step))
    parts = [
        (*against[0], *certain),
        *against[1:],
        *(tuple(_finding(finding, step)) for finding in hints),
        tuple(_offers(step)),
        tuple(score_blocks(step, shown)),
        *((tuple(goal_blocks(step.value_origins)), tuple(value_blocks(step.value_origins)))
          if step.value_origins is not None else ()),
        tuple(_run(trace)),
    ]  # fmt: skip
    if not any(against):
        parts.insert(1, (_nothing(trace, hints=len(hints)),))
    return tuple(item for part in parts if part for item in (*part, BLANK))[:-1]


def _probe_result(step: StepView) -> Iterator[Item]:
    if step.probes is not None:
        yield from last_blocks(step.probes)


def _offers(step: StepView) -> Iterator[Item]:
    if step.probes is not None:
        yield from offer_blocks(step.probes)


def class_name(failure: FailureClass, sub: str | None) -> str:
    """A class with its sub-label."""
    return format.one_line(class_label(failure, sub))


def _nothing(trace: TraceView, *, hints: int) -> Block:
    """Why there is no finding, and where there is a candidate."""
    if trace.blind:
        return Block(text=BLIND, style="quiet")
    if trace.diagnosis is None:
        return Block(text="Not analysed yet.", style="quiet")
    text = f"No findings, {format.count(hints, 'hint')}." if hints else "No findings."
    if not trace.marked:
        return Block(text=text, style="quiet")
    first = trace.marked[0]
    return HintBlock(
        text=text,
        style="quiet",
        aside=f"‹trace.candidate_next› candidate at step {first}",
        command=("arc", "show", trace.run.trace[:8], str(first)),
    )


def _tags(trace: TraceView, step: StepView) -> Iterator[Item]:
    for tag in trace.tags:
        if tag.step == step.row.step:
            attribution = f" · attribution: {tag.attribution}" if tag.attribution else ""
            yield Block(text=f"tagged {class_name(tag.failure, tag.sub)}", style="head",
                        aside=f"by {format.one_line(tag.by)}{attribution}")  # fmt: skip
            if tag.why:
                yield Block(text=format.plain(tag.why), indent=INDENT)


def _finding(finding: Finding, step: StepView) -> Iterator[Item]:
    hint = finding.is_hint
    kind, who = finding_kind(finding), format.one_line(finding.rule)
    named = who if kind in ("judge", "agent") else f"{kind}: {who}"
    named = f"hint, not counted · {named}" if hint else named
    yield Block(
        text=f"{class_name(finding.failure, finding.sub)}?",
        style="quiet" if hint else "candidate",
        aside=f"{named}{_sure(finding)}{_elsewhere(finding)}",
    )
    yield Block(text=format.plain(finding.why), indent=INDENT, key=f"why {finding.rule}")
    for place, evidence in enumerate(finding.evidence):
        key = f"evidence {finding.rule} {finding.step} {place}"
        yield _evidence(evidence, key, step.row.step)
    entry = BY_CLASS[finding.failure]
    if entry.fix != format.UNKNOWN and not hint:
        yield Block(text=entry.fix, label="first fix", indent=INDENT, style="quiet")


def _sure(finding: Finding) -> str:
    """The confidence of the rule, where it has one."""
    return "" if finding.confidence is None else f" · confidence {finding.confidence:.0%}"


def _elsewhere(finding: Finding) -> str:
    """The attribution, where it is not the agent."""
    if finding.attribution in (None, Attribution.AGENT):
        return ""
    return f" · attribution: {finding.attribution}"


def _evidence(evidence: Evidence, key: str, here: int) -> StepLink:
    """One thing a finding rests on; where it stands at another step, that can be gone to."""
    where = [f"step {evidence.step}" if evidence.step is not None else "", evidence.place]
    text, label = format.plain(evidence.text), format.one_line(evidence.role)
    place = ", ".join(format.one_line(part) for part in where if part)
    step = evidence.step if evidence.step != here else None
    return StepLink(step=step, text=text, label=label, aside=place, indent=INDENT, key=key)


def _known_here(trace: TraceView, step: StepView) -> Iterator[Item]:
    """What is known for certain of the step."""
    for place, fact in enumerate(trace.known):
        if fact.step == step.row.step:
            yield Block(text=format.plain(fact.text), style="candidate", aside=fact.kind)
            yield from _details(fact, place)


CALLS = {"call", "gold"}
"""Details that hold a whole call each, and are folded together."""


def _details(fact: KnownLine, place: int) -> Iterator[Item]:
    """What a fact is made of; whole calls behind one line."""
    blocks = [
        Block(text=format.plain(text), label=label, indent=INDENT, key=f"known {place} {at}")
        for at, (label, text) in enumerate(fact.details)
    ]
    yield from (each for each in blocks if each.label not in CALLS)
    calls = tuple(each for each in blocks if each.label in CALLS)
    if calls:
        line = " and ".join({"call": "the call", "gold": "the gold call"}[c.label] for c in calls)
        yield Fold(key=f"known {place}", line=line, inside=lambda: calls, says_key=True)


FEW = 3
"""So many facts of other steps are shown before they are folded."""


def _known_items(trace: TraceView, step: StepView) -> Iterator[Item]:
    """What is known for certain of the run as a whole, and of its other steps."""
    whole = [fact for fact in trace.known if fact.step is None]
    others = [fact for fact in trace.known if fact.step not in (None, step.row.step)]
    for place, fact in enumerate(whole):
        yield _fact(fact)
        yield from _details(fact, -1 - place)
    if len(others) <= FEW:
        yield from map(_fact, others)
    else:
        line = f"{format.count(len(others), 'fact')} of other steps"
        inside = tuple(map(_fact, others))
        yield Fold(key="known elsewhere", line=line, inside=lambda: inside, says_key=True)


def _fact(fact: KnownLine) -> StepLink:
    place = "" if fact.step is None else f"step {fact.step} · "
    return StepLink(step=fact.step, text=format.plain(f"{place}{fact.text}"), label=fact.kind)


def _candidate(trace: TraceView, step: StepView, shown: Collection[str]) -> Iterator[Item]:
    """The rank of the step, and the signals that put it there."""
    if trace.diagnosis is None or step.row.step not in trace.marked:
        return
    rank = trace.marked.index(step.row.step) + 1
    candidate = trace.diagnosis.candidates[rank - 1]
    yield Block(
        text=f"◆ candidate {rank} of {len(trace.marked)} · {candidate_kind(candidate)}"
        f" · weight {candidate.weight:+.2g}",
        style="candidate",
        aside=candidate.accuracy,
    )
    for reason in reasons(candidate, shown):
        text = "as above" if reason.known else format.plain(reason.phrase)
        yield Block(text=text, aside=format.one_line(reason.weights), indent=INDENT)


def _published_rule(said: Diagnosis | None, step: StepView) -> Iterator[Item]:
    """The votes of the published rule, where they name this step."""
    if said is None or said.published != step.row.step:
        return
    yield Block(text="baseline heuristic: this step", style="role")
    for vote in said.published_votes:
        yield Block(text=format.plain(vote.phrase), aside=format.one_line(vote.name), indent=INDENT)


def _run(trace: TraceView) -> Iterator[Item]:
    """The shape of the scores, and the baseline heuristic."""
    said = trace.diagnosis
    if said is None or (said.shape is None and said.published is None):
        return
    entry = next((each for each in SHAPES if each.name is said.shape), None)
    shape = f"{entry.name}: {entry.definition}" if entry else "shape unknown"
    first = f"try first: {entry.first}" if entry and entry.first != "nothing" else ""
    yield Block(text=shape, label="run", aside=first, style="quiet")
    shape = f"shape {said.published_shape}" if said.published_shape else "shape unknown"
    names = "no step" if said.published is None else f"step {said.published}"
    yield Block(text=f"baseline heuristic: {names} · {shape}", label=" ", style="quiet")


Maker = Callable[[TraceView, StepView], Document]

PAGES: dict[str, Maker] = {
    "Why": why_page,
    "Request": request_page,
    "Response": response_page,
    "Results": results_page,
    "Raw": raw_page,
}
"""The pages by name, in the order of their tabs."""


class MatchingPage(NamedTuple):
    """A page that contains a text; `folds`: only where something is folded behind a line."""

    tab: int
    folds: bool


_LOOKED_IN = ("Response", "Results", "Request", "Why", "Raw")
"""Where a text is looked for first: what the step did, what came back, what it was shown."""


def matching_page(
    view: TraceView, step: StepView, wanted: re.Pattern[str], front: int
) -> MatchingPage | None:
    """The page to show for a text: the one in front where it says it, unless its reasons are."""
    names = list(PAGES)
    order = [] if names[front] == "Why" else [names[front]]
    order += [name for name in _LOOKED_IN if name not in order]
    made: dict[str, Document] = {}
    for folds in (False, True):
        for name in order:
            made[name] = made[name] if folds else PAGES[name](view, step)
            if hiding(made[name], wanted, (), folds=folds) is not None:
                return MatchingPage(names.index(name), folds)
    return None


SHOWN = 6
"""Values with a known origin that are shown before the others are folded."""

VALUE = 160
"""Characters of one value shown before it is opened."""


def value_blocks(origins: StepOrigins) -> Iterator[Item]:
    """The values of the step's calls: from nowhere, then with their origins, then its own."""
    kinds = {row.known: [each for each in origins.values if each.known == row.known]
             for row in origins.values}  # fmt: skip
    lost = [*kinds.get("nowhere", ()), *kinds.get("unclear", ())]
    found, own = kinds.get("shown", []), kinds.get("own", [])
    if not (lost or found):
        return
    nowhere = sum(row.known == "nowhere" for row in lost)
    count = f"{nowhere} of {len(origins.values)} not found in context" if nowhere else ""
    yield Block(text="value origins", style="head", aside=count)
    yield from map(_value, lost)
    yield from map(_value, found[:SHOWN])
    yield from _fold_values(found[SHOWN:], "more found in context", origins.step)
    yield from _fold_values(own, "chosen by the model", origins.step)


def _fold_values(rows: Sequence[ValueRow], what: str, step: int) -> Iterator[Item]:
    def inside() -> Document:
        return tuple(map(_value, rows))

    if rows:
        line = f"{format.count(len(rows), 'value')} {what}"
        yield Fold(key=f"values {what} {step}", line=line, inside=inside, says_key=True)


def _value(row: ValueRow) -> StepLink:
    value, where = format.one_line(str(row.value)), format.one_line(row.where)
    mark, style = ("✗ ", "error") if row.known == "nowhere" else ("", "")
    return StepLink(
        step=row.step if row.known == "shown" else None,
        text=f"{mark}{format.one_line(row.path)}  {value}",
        style=style,
        aside=where,
        indent=INDENT,
        key=f"value {row.tool} {row.path}" if len(value) > VALUE else "",
        shown=VALUE,
    )


def goal_blocks(origins: StepOrigins) -> Iterator[Item]:
    """The goals that cover the step."""
    if origins.goals:
        yield Block(text="goals covered", style="head")
    for goal in origins.goals:
        yield Block(text=format.plain(goal.text), aside=" · ".join(_facts(goal)), indent=INDENT)


def _facts(goal: Served) -> Iterator[str]:
    yield f"weight {goal.weight}"
    if goal.owner:
        yield f"owner {format.one_line(goal.owner)}"
    yield format.one_line(goal.file)
    if goal.last:
        yield "last step of the goal: sets its score"
    if goal.hindsight is not False:
        late = "defined after the run" if goal.hindsight else "unknown if defined before the run"
        yield late


def last_blocks(probes: WhyProbes) -> Iterator[Item]:
    """What the last probe at the step came to, and what that rests on."""
    if probes.last is None:
        return
    from arc_tui.views.probe_offers import last_basis, last_words

    style = "good" if probes.last.classification is not None else "head"
    yield Block(text=format.one_line(last_words(probes.last)), style=style)
    yield Block(text=last_basis(probes.last), indent=INDENT, style="quiet")


def offer_blocks(probes: WhyProbes) -> Iterator[Item]:
    """The probes that fit, each with its letter, what it tells apart, its price and change; a
    command names the model where that is not known."""
    listed = probes.listed
    if listed is None or not listed.offers:
        return
    from arc_tui.views.probe_offers import between, price

    aside = "‹trace.probes›, then a digit, runs one"
    every = ("arc", "experiment", "probe", listed.trace[:8], "--step", str(probes.step))
    yield HintBlock(text="probes", style="head", aside=aside, command=every)
    named = () if listed.model is not None else ("--model", "NAME")
    for offer in listed.offers:
        aside = price(offer, listed.model)
        label = f"‹trace.probes› ‹probe.{offer.name}:{offer.key}›"
        command = (*offer.command, *named) if offer.command else ()
        yield HintBlock(text=f"{between(offer)}?", label=label, aside=aside, indent=INDENT,
                    command=command)  # fmt: skip
        yield Block(
            text=format.plain(offer.why_not or offer.change),
            label=" ",
            indent=INDENT,
            style="quiet",
        )


def score_blocks(step: StepView, shown: Collection[str] = ()) -> Iterator[Item]:
    """Every score of the step, most trusted first; one that is not counted is marked. What is
    `shown` already is not repeated."""
    for scored in step.scores:
        yield _head(scored, step)
        for item in scored.score.items:
            if item.held is not None or item.because:
                yield _item(item, shown)
        open_ = [item.name for item in scored.score.items if item.held is None and not item.because]
        if open_:
            names = ", ".join(map(format.one_line, open_))
            yield Block(text=f"· not evaluated: {names}", style="quiet", indent=INDENT)


def _head(scored: Scored, step: StepView) -> Block:
    score, who = scored.score, scored.who
    facts = [who.name, f"rubric {who.rubric}" if who.rubric else ""]
    if not who.used:
        facts.append("not counted")
    else:
        facts.append(_counts(scored, step))
    return Block(
        text=_score_text(score),
        style="head" if who.used else "quiet",
        aside=" · ".join(map(format.one_line, filter(None, facts))),
    )


def _score_text(score: StepScore) -> str:
    if score.value is not None:
        return f"score {format.score(score.value)}"
    return "no score" if score.source == "human" else "no score: no item evaluated"


def _counts(scored: Scored, step: StepView) -> str:
    """Is it the score that counts, and as what? A judge may count on some of its items only."""
    own, used = scored.score, step.score
    if used is None or (own.source, own.by) != (used.source, used.by):
        return ""
    if used.value != own.value:
        return f"counted as {format.score(used.value)}, on its calibrated items"
    return "counted" if len(step.scores) > 1 else ""


def _item(item: RubricItem, shown: Collection[str]) -> Block:
    mark, style = {True: ("✓", "good"), False: ("✗", "error"), None: ("·", "quiet")}[item.held]
    return Block(
        text=f"{mark} {format.one_line(item.name)}",
        style=style,
        aside="" if item.because in shown else format.one_line(item.because),
        indent=INDENT,
    )
