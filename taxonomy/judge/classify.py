"""Which class of failure does a judge see in a run, at which step, and does it quote the run?

All of a run is shown, with its system prompt and its gold. What the judge quotes is looked for in
the trace at the step it cites before anything is made of the answer: a quote that does not occur
there is dropped and counted, and without one that does there is no suggestion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from replay import messages
from replay.messages import content_text
from replay.store.handle import Store
from replay.trace import SourceScore, Trace
from taxonomy.classes import CLASSES, SUB_LABELS, Attribution, FailureClass
from taxonomy.evidence.reading import Turn
from taxonomy.findings import Evidence, Finding
from taxonomy.judge.exhibit import Exhibits, call_text
from taxonomy.judge.requests import JudgeRequest, Place, Refused, Unasked, sent_to, why_incomplete
from taxonomy.judge.rubrics import QUOTED, Rubric, closed_object
from taxonomy.judgements.suggestions import NONE, keep_suggestion

LEAST_QUOTED = 6
"""Characters of a quote, blanks left out: what is shorter occurs anywhere."""

LONGEST_SUB_LABEL = 60

ANSWER_TOKENS = 400
"""About what an answer takes."""

_NAMES = [each.value for each in FailureClass]
_SHAPE = closed_object(
    **{"class": {"type": "string", "enum": [*_NAMES, NONE]}},
    sub_label={"type": "string"},
    step={"type": "integer"},
    attribution={"type": "string", "enum": [each.value for each in Attribution]},
    reason={"type": "string"},
    citations={
        "type": "array",
        "items": closed_object(step={"type": "integer"}, quote={"type": "string"}),
    },
)

RUBRIC = Rubric(
    mode="run",
    number=1,
    words="You say what first went wrong in a whole run of an agent: the class of the failure, the"
    " step that decided it, and whose it is. The decisive step is the first whose correction would"
    " have let the run succeed: the cause, not where it came to light.\n\nClasses:\n"
    + "\n".join(
        f"- {each.name.value}: {each.definition}; seen as {each.signature}" for each in CLASSES[:-1]
    )
    + "\n- other: none of these; `sub_label` names it in a few words, such as "
    + ", ".join(SUB_LABELS)
    + f"\n- {NONE}: you see no failure\n\n"
    "Attributions: agent (what it decided), user (what it was asked or told), environment (a tool,"
    " its data or the harness), grader (what checks the run asks for something else than the task"
    " does).",
    shape=_SHAPE,
    manners=f"{QUOTED}\n"
    "Where gold is shown, it is what a correct run calls and says: another way to the same end is"
    " no failure. `reason` is one sentence. `citations` are exact quotes from what is shown, each"
    " with the number of the step where it stands: copy them letter by letter, do not shorten them"
    " in the middle, and cite no gold. Your answer is dropped where no quote is found in the run."
    " `sub_label` is empty but for other.",
)
"""What a judge is told. A version of its own, as of every rubric."""

State = Literal["suggested", "none", "no quote", "refused", "missing", "unasked"]


class Classified(Struct, frozen=True, kw_only=True):
    """What a judge says of a run.

    `suggestion` is a finding by the judge's name in the state `suggested`, else None; `reason` what
    the judge says, or why it says nothing. `dropped` names the citations that were not found.
    `shown` counts the run's steps that the judge was shown, `left_out` are the first and last of
    those it was not; `cut` and `withheld` as of an `Exhibit`.
    """

    trace: str
    by: str
    state: State
    reason: str = ""
    suggestion: Finding | None = None
    dropped: tuple[str, ...] = ()
    steps: int = 0
    shown: int = 0
    left_out: tuple[int, int] | None = None
    withheld: int = 0
    cut: int = 0
    gold: bool = False


def name_of(model: str) -> str:
    """The name that a model's suggestions are kept under."""
    return f"judge:classify:{model}:{RUBRIC.version}"


def classify_request(
    trace: Trace, model: str, scores: Sequence[SourceScore] = ()
) -> JudgeRequest | Unasked:
    """What to ask a model, by the name its server knows, about a run."""
    exhibits = Exhibits(trace, scores=scores)
    turns = [turn for turn in exhibits.reading.turns if not turn.observer]
    if not turns:
        return Unasked(step=None, why="it has no step")
    shown = exhibits.of_whole()
    said = "This run failed." if exhibits.reading.failed else "How this run ended is not told."
    if shown.left_out is not None:
        first, last = shown.left_out
        said += f" It is too long to be shown whole: steps {first} to {last} are left out."
    return JudgeRequest(
        rubric=RUBRIC,
        places=tuple(Place(turn.index, turn.ask.id) for turn in exhibits.reading.turns),
        exhibit=shown,
        sent=sent_to(model, RUBRIC, shown.pieces, f"{said} Now say what went wrong."),
        answer_tokens=ANSWER_TOKENS,
    )


class Citation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: int
    quote: str


class _Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    failure: str = msgspec.field(name="class")
    sub_label: str
    step: int
    attribution: Attribution
    reason: str
    citations: tuple[Citation, ...]


def read_answer(
    trace: Trace, by: str, asked: JudgeRequest, answer: Mapping[str, Any]
) -> Classified:
    """What a message of the Messages API says of the run it was asked about."""
    known = before_answer(trace, by, asked)
    found = _decode(asked, answer)
    if isinstance(found, Refused):
        return msgspec.structs.replace(known, state="refused", reason=found.why)
    reason = " ".join(found.reason.split())
    if found.failure == NONE:
        return msgspec.structs.replace(known, state="none", reason=reason)
    quotes = Quotes(trace)
    evidence: list[Evidence] = []
    dropped: list[str] = []
    for each in found.citations:
        why = quotes.problem(each)
        if why is None:
            evidence.append(quotes.evidence(each))
        else:
            dropped.append(why)
    known = msgspec.structs.replace(known, reason=reason, dropped=tuple(dropped))
    if not evidence:
        return msgspec.structs.replace(known, state="no quote")
    failure = FailureClass(found.failure)
    sub = " ".join(found.sub_label.split()) if failure is FailureClass.OTHER else ""
    suggestion = Finding(
        failure=failure,
        step=found.step,
        why=reason,
        rule=by,
        span=next(place.span for place in asked.places if place.step == found.step),
        sub=sub or None,
        attribution=found.attribution,
        evidence=tuple(evidence),
    )
    return msgspec.structs.replace(known, state="suggested", suggestion=suggestion)


def before_answer(trace: Trace, by: str, asked: JudgeRequest | Unasked) -> Classified:
    """What is known of a run before the judge has answered: it is missing, or not asked for."""
    if isinstance(asked, Unasked):
        return Classified(trace=trace.id, by=by, state="unasked", reason=asked.why)
    shown = asked.exhibit
    return Classified(
        trace=trace.id,
        by=by,
        state="missing",
        steps=len(asked.places),
        shown=len(shown.steps),
        left_out=shown.left_out,
        withheld=shown.withheld,
        cut=shown.cut,
        gold=any(piece.label.startswith("gold: ") for piece in shown.pieces),
    )


def _decode(asked: JudgeRequest, answer: Mapping[str, Any]) -> _Answer | Refused:
    incomplete = why_incomplete(answer)
    if incomplete is not None:
        return incomplete
    try:
        found = msgspec.json.decode(content_text(answer.get("content")), type=_Answer)
    except msgspec.DecodeError as error:
        return Refused(f"it does not follow its schema: {error}")
    return next((Refused(why) for why in _flaws(asked, found)), found)


def _flaws(asked: JudgeRequest, found: _Answer) -> Iterator[str]:
    if found.failure not in (*_NAMES, NONE):
        yield f"it names a class that does not exist: {found.failure[:LONGEST_SUB_LABEL]!r}"
    if not found.reason.strip():
        yield "it gives no reason"
    if found.failure == NONE:
        return
    if found.step not in asked.exhibit.steps:
        yield f"it blames step {found.step}, which it was not shown"
    if found.failure == FailureClass.OTHER and not found.sub_label.strip():
        yield "it names no sub-label of other"
    if len(found.sub_label) > LONGEST_SUB_LABEL:
        yield f"its sub-label is longer than {LONGEST_SUB_LABEL} characters"


class Quotes:
    """Looks for quotes in a trace; blanks do not count."""

    def __init__(self, trace: Trace) -> None:
        reading = Exhibits(trace).reading
        self._turns = {turn.index: turn for turn in reading.turns}
        self._texts: dict[int, list[str]] = {}

    def problem(self, given: Citation) -> str | None:
        """Why a citation does not count, None where it does."""
        wanted = _squeeze(given.quote)
        shown = " ".join(given.quote.split())
        shown = shown if len(shown) <= LONGEST_SUB_LABEL else f"{shown[:LONGEST_SUB_LABEL]}…"
        if given.step not in self._turns:
            return f"there is no step {given.step}: '{shown}'"
        if len(wanted) < LEAST_QUOTED:
            return f"step {given.step}: '{shown}' is too short to tell"
        if not any(wanted in text for text in self._at(given.step)):
            return f"step {given.step}: '{shown}' does not occur there"
        return None

    def evidence(self, given: Citation) -> Evidence:
        return Evidence(
            role="quoted",
            text=given.quote.strip(),
            step=given.step,
            span=self._turns[given.step].ask.id,
        )

    def _at(self, step: int) -> list[str]:
        if step not in self._texts:
            self._texts[step] = [_squeeze(text) for text in _texts(self._turns[step])]
        return self._texts[step]


def _texts(turn: Turn) -> Iterator[str]:
    """All that stands at a step: what was said to it, what it said and called, what came back."""
    system = turn.ask.request.system
    if system is not None:
        yield messages.text(system)
    yield from (heard.text for heard in (*turn.heard, *turn.overheard))
    yield turn.said
    for act in turn.acts:
        yield call_text(act)
        if act.span.observation is not None:
            yield messages.observed(act.span.observation).text


def _squeeze(text: str) -> str:
    return "".join(text.split())


# --- what is kept


def keep_classified(store: Store, given: Classified, *, approved: bool) -> None:
    """Keep what a judge said of a run, in place of what it said before. What was no answer changes
    nothing."""
    if given.state not in ("suggested", "none", "no quote"):
        return
    keep_suggestion(store, given.trace, given.by, given.suggestion, approved=approved)
