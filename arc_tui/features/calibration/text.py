"""The text of the calibration screen: its first sentence, what is missing, what to distrust."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.features.calibration.tables import ONLY_JUDGES
from arc_tui.features.calibration.view import TITLES, CalibrationState, PartDrawn, Scorer
from arc_tui.ui import format
from arc_tui.ui.tables import estimate, share, short
from arc_tui.views.scores import stands
from taxonomy.calibration.approval import LEAST_R, counts_by_item
from taxonomy.calibration.labelled import MEANT
from taxonomy.calibration.report import Calibration

NO_LABELS = """No labels yet.

{tag:<21}  label a step with its failure class
arc label TRACE 3 0.4  score step 3, to compare a judge with
{labels:<21}  read a file of labels, one per line:
"""
LABEL_LINES = """
  {"trace": "run-17", "at": {"step": 3}, "decisive": true, "by": "mei"}
  {"trace": "run-17", "class": ["loop"], "by": "mei"}
  {"trace": "run-18", "class": [], "by": "mei"}

arc calibrate --labels FILE prints what this screen shows (--json: all)"""

MAKE_DECISIVE = (
    'No label names the decisive step of a run. A line of a label file can: {"trace": …,'
    ' "at": {"step": 3}, "decisive": true}. A tag names the class only, not the decisive step.'
)
MAKE_CLASSES = (
    'No label names a class. ‹trace.tag:t› in a run tags a step; a label file has "class": […].'
)
MAKE_SCORES = (
    "No step has both a person's score and another one. Try: arc label TRACE STEP SCORE"
    " (--item NAME=yes, for a rubric item), arc judge TRACE --model NAME."
    " Rules score automatically."
)
ALL_AGREE = "No disagreements."


def sentence(state: CalibrationState, drawn: PartDrawn | None) -> str:
    """What a person in a hurry needs of one part, or what is missing where there is none."""
    if drawn is None:
        return _nothing(state)
    figures = drawn.part.figures
    facts = " ".join((*_broke(figures), *_scores(drawn), *_classes(figures)))
    if not facts:
        counted = format.count(figures.labels, "label")
        facts = f"{counted} here, none of a break point, class or score: nothing to compare."
    lead = "" if drawn.made_by == "people" else "Conformance to a rule's labels, not accuracy. "
    return lead + facts


def _nothing(state: CalibrationState) -> str:
    if state.trouble:
        return state.trouble
    if not state.view.read:
        return "No labels yet: accuracy unknown."
    name = format.one_line(state.view.source)
    return f"None of the {format.count(state.view.read, 'label')} of {name} matches a run here."


def _broke(figures: Calibration) -> Iterator[str]:
    ours = next((each for each in figures.localisation if each.name == "candidates"), None)
    known = figures.baselines
    if ours is None or known is None:
        return
    hits = ours.over_all
    exact = max(known.constant.exact.value or 0.0, known.relative.exact.value or 0.0)
    near = max(known.constant.within_3.value or 0.0, known.relative.within_3.value or 0.0)
    right = round((hits.exact.value or 0.0) * hits.exact.n)
    yield (
        f"The first candidate is the labelled step in {right} of {hits.exact.n} runs,"
        f" {share(hits.exact)}, within 3 steps in {short(hits.within_3.value)}; naive baselines:"
        f" at best {short(exact)} and {short(near)}."
    )


def _classes(figures: Calibration) -> Iterator[str]:
    for each in figures.classes:
        if each.source == "rule" and each.per == "run" and each.macro_labelled.classes:
            macro = each.macro_labelled
            classes = format.count(macro.classes, "labelled class", "labelled classes")
            runs = format.count(each.n, "run")
            yield f"Rules: macro-F1 {short(macro.value)} over {classes}, {runs}."


def _scores(drawn: PartDrawn) -> Iterator[str]:
    """Every judge; whoever else scored where no judge did."""
    judges = [each for each in drawn.scorers if each.source == "judge"]
    for each in judges or drawn.scorers[:1]:
        name = format.one_line(each.name[:1].upper() + each.name[1:])
        facts = [_follows(each), _items(each), _trusted(each)]
        yield f"{name}: {', '.join(filter(None, facts))}."


def _follows(scorer: Scorer) -> str:
    if not scorer.agreements:
        return ""
    r = scorer.agreements[0].r
    return f"r {estimate(r)}" if r.value is not None else f"r unknown on {r.n}"


def _items(scorer: Scorer) -> str:
    if not scorer.item_gates:
        return ""
    passed = sum(each.passed for each in scorer.item_gates)
    return f"{passed} of {format.count(len(scorer.item_gates), 'rubric item')} pass"


def _trusted(scorer: Scorer) -> str:
    """Whether a judge's scores are approved; rules need no approval."""
    if scorer.trust is None:
        return ""
    if scorer.trust.state == "approved" or scorer.trust.state == "expired":
        return stands(scorer.trust)
    return "passes: ‹calibration.keep› approves it" if may_pass(scorer) else "not approved"


def may_pass(scorer: Scorer) -> bool:
    """Do a judge's scores, or some of its items, pass on these labels?"""
    of_scores = scorer.gate is not None and (
        scorer.gate.passed or any(each.passed for each in scorer.gate.categories)
    )
    return of_scores or any(each.passed for each in scorer.item_gates)


def trust_lines(scorer: Scorer) -> Iterator[str]:
    """How a judge stands, and what these labels say of that."""
    if scorer.trust is None:
        yield ONLY_JUDGES
        return
    yield f"status: {stands(scorer.trust)}"
    gate = scorer.gate
    if gate is None or counts_by_item(scorer.by):
        return
    passed = [each.category for each in gate.categories if each.passed]
    if gate.passed:
        yield "passes on these labels: ‹calibration.keep› approves it for 30 days"
    elif passed:
        tasks = ", ".join(map(format.one_line, passed))
        missing = "; ".join(gate.missing)
        let = f"passes on these labels for {tasks}"
        yield f"{let}: ‹calibration.keep› approves it there. {missing}"
    else:
        yield f"does not pass on these labels: {'; '.join(gate.missing)}"


def basis(state: CalibrationState, drawn: PartDrawn | None) -> str:
    """What the sentence rests on: whose labels, how many, and how the other part is reached."""
    view = state.view
    if drawn is None:
        return ""
    figures = drawn.part.figures
    counts = f"{format.count(figures.labels, 'label')} on {format.count(figures.runs, 'run')}"
    facts = [f"{format.one_line(view.source)}: {counts}"]
    facts += [f"{count} {format.one_line(name)}" for name, count in drawn.part.strengths.items()]
    if drawn.part.prompted:
        facts.append(f"{drawn.part.prompted} not blind")
    if view.unusable:
        facts.append(f"{len(view.unusable)} left out")
    facts.append("by people" if drawn.made_by == "people" else "by a rule")
    if len(state.parts) > 1:
        other = "a rule's" if drawn.made_by == "people" else "people's"
        facts.append(f"‹calibration.view› shows {other}")
    return " · ".join(facts)


# --- what the figures mean


def meanings() -> tuple[tuple[str, str], ...]:
    """When to distrust which figure: (the figure, what is to be known of it)."""
    return (
        ("(.35–.52)", "the 95 % interval: two figures whose intervals overlap much may be equal. "
         "Under about 20 labels an interval is wider than most differences."),
        ("naive", "one step number, or one relative position, for every run: the best possible, "
         "chosen in hindsight on these labels. A localiser that is not above it adds nothing."),
        ("abstained", "no candidate was named: a miss in every figure but the answered ones."),
        ("confidence", "a stated confidence should equal the share that was right; one bin off "
         "says little, all on one side means overconfident or underconfident."),
        ("precision", "of what was found, how much was labelled: low means false alarms. A "
         "class counts as found from a confidence of "
         f"{short(MEANT)} on."),
        ("recall", "of what was labelled, how much was found: low means missed failures. The "
         "labels of a run are taken to name every class it shows."),
        ("r, ρ", "do both rise together? r is linear, ρ by rank. A high r may hide a shift: see "
         f"bias. A judge is approved from r {short(LEAST_R)} on, for 30 days or until its model, "
         "rubric or prompt changes."),
        ("κ", "agreement beyond chance, over the four bands of the scale: 0 is chance, 1 is all. "
         "Where nearly all labels are the same it is low although most agree."),
        ("TPR, TNR", "of what people call achieved, the share that the source does too; of the "
         "rest, the share that it also does not. A judge that always says yes has TNR 0."),
        ("bias", "mean of its scores − people's: above 0 it is more lenient than people."),
        ("shape", "noisy scores and short runs make it less accurate: ‹calibration.view› measures "
         "how much, in seconds."),
        ("strong, weak", "how certain the labeller was; all count the same."),
        ("not blind", "a tag given while rule suggestions were visible makes the rules look better "
         "than they are; a blind one does not."),
        ("a rule's labels", f"{TITLES['rule'].partition(';')[0]}: agreement with them shows that "
         "two programs agree, not that either is right."),
    )  # fmt: skip
