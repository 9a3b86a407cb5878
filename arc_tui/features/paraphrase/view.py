"""One failing task in several wordings: what each scored, how far apart they are, what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.experiments.models import Spending
from arc_tui.ui import format
from replay.trace import Trace
from taxonomy.judge.scores import Judged
from taxonomy.metrics.grounding import Surface, surface_variation
from taxonomy.paraphrase_test.paraphrases import Paraphrase, Request
from taxonomy.paraphrase_test.result import ORIGINAL, RecordedPath, Scored, Varied


class WordingRow(Struct, frozen=True, kw_only=True):
    """A wording and its score 0..1, None where nothing could be judged (`note` says why).

    `samples` are the scores of each sample, `steps` those that were judged. `diverged` is the
    step where the model diverged from the recording, None where it did not. `response` is what the
    first sample did at the last of the judged steps, `why` the reason of the judge.
    """

    label: str
    text: str
    by: str
    score: float | None = None
    spread: float | None = None
    samples: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    diverged: int | None = None
    response: str = ""
    why: str = ""
    note: str = ""


class RefusedText(Struct, frozen=True, kw_only=True):
    """A paraphrase that was skipped, and why."""

    text: str
    by: str
    why: str


class ParaphraseView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything `arc experiment paraphrase` prints of one run.

    `broke` is the step the wordings are scored at, None where all steps are scored.
    `surface` is the spread over all wordings with a score, None for fewer than two; `reading` what
    it says, `chance` how often chance alone spreads them so far (None of one sample each);
    `paraphrases_range` the range without the user's own wording. `model` None is unknown:
    nothing is called then. `done` once all are in.
    """

    trace: str
    task: str | None
    model: str | None
    judge: str | None
    message: int
    broke: int | None
    k: int
    rows: tuple[WordingRow, ...]
    total: int
    refused: tuple[RefusedText, ...]
    surface: Surface | None
    reading: str | None
    chance: float | None
    paraphrases_range: float | None
    sentence: str
    notices: tuple[str, ...]
    missing: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    done: bool = False

    @property
    def scored(self) -> int:
        return sum(row.score is not None for row in self.rows)


def build_paraphrase_view(
    found: Varied,
    rows: Sequence[WordingRow],
    texts: Sequence[Paraphrase],
    spent: Spending,
    missing: int,
    *,
    message: int,
    standing: Sequence[str],
    done: bool,
) -> ParaphraseView:
    """The view of a run as far as its wordings are in. `standing` holds whatever they score."""
    good = [each for each in texts if each.refusal is None]
    names = tuple(dict.fromkeys(name for each in good for name in each.names))
    others = surface_variation([each.value for each in found.wordings[1:]])
    return ParaphraseView(
        trace=found.trace,
        task=found.task,
        model=found.model,
        judge=found.judge,
        message=message,
        broke=found.broke,
        k=found.samples,
        rows=tuple(rows),
        total=1 + len(good),
        refused=_refused(texts),
        surface=found.surface,
        reading=found.reading,
        chance=found.chance,
        paraphrases_range=others.range if others is not None else None,
        sentence=sentence(found, 1 + len(good)),
        notices=(*standing, *notices(found, rows, names)),
        missing=missing,
        calls=spent.calls,
        cached=spent.cached,
        spent_usd=spent.usd,
        spent_complete=spent.complete,
        done=done,
    )


_NOT_RUN = "not evaluated"


def build_without_model(
    trace: Trace,
    request: Request,
    texts: Sequence[Paraphrase],
    *,
    broke: int | None,
    judge: str | None,
    samples: int,
    unwritten: int,
) -> ParaphraseView:
    """The view of a run whose model is unknown: its wordings, except `unwritten` ones."""
    good = [each for each in texts if each.refusal is None]
    name = trace.header.task or trace.id[:8]
    rows = [WordingRow(label=ORIGINAL, text=request.text, by="the run", note=_NOT_RUN)]
    for at, each in enumerate(good):
        label = chr(ord("A") + at)
        rows.append(WordingRow(label=label, text=each.text, by=each.by, note=_NOT_RUN))
    written = format.count(unwritten, "paraphrase")
    return ParaphraseView(
        trace=trace.id,
        task=trace.header.task,
        model=None,
        judge=judge,
        message=request.message,
        broke=broke,
        k=samples,
        rows=tuple(rows),
        total=1 + len(good) + unwritten,
        refused=_refused(texts),
        surface=None,
        reading=None,
        chance=None,
        paraphrases_range=None,
        sentence=f"{name}: model unknown. Try: --model NAME",
        notices=(f"{written} would be written first",) if unwritten else (),
        done=True,
    )


def _refused(texts: Sequence[Paraphrase]) -> tuple[RefusedText, ...]:
    return tuple(
        RefusedText(text=each.text, by=each.by, why=each.refusal)
        for each in texts
        if each.refusal is not None
    )


def wording_row(
    found: Scored, way: RecordedPath, opinions: Sequence[Sequence[Judged]]
) -> WordingRow:
    """A wording as it is shown; `opinions` by step and sample."""
    last = opinions[-1][0] if opinions else None
    ends = [each for each in way.answers if last is not None and each.step == last.step]
    return WordingRow(
        label=found.label,
        text=found.text,
        by=found.by,
        score=found.value,
        spread=found.spread,
        samples=found.samples,
        steps=found.steps,
        diverged=found.diverges,
        response=ends[0].actions[0].phrase if ends else "",
        why=_why(last) if last is not None else "",
        note=_note(way, opinions),
    )


def _why(given: Judged) -> str:
    failed = [f"✗ {item.name}: {item.because}" for item in given.items if item.held is False]
    said = [item.because for item in given.items if item.held is None and item.because]
    return " · ".join(failed or said)


def _note(way: RecordedPath, opinions: Sequence[Sequence[Judged]]) -> str:
    """Why there is no score, or not of every answer."""
    flat = [each for step in opinions for each in step]
    if not flat:
        return f"step {way.unasked[0][0]}: {way.unasked[0][1]}" if way.unasked else "no response"
    for each in flat:
        if each.unasked is not None:
            return each.unasked
        if each.refused:
            return f"judge response invalid: {each.refused[0]}"
    return "judge response not cached" if any(each.missing for each in flat) else ""


def sentence(found: Varied, total: int) -> str:
    """The verdict with what it rests on."""
    name = found.task or found.trace[:8]
    n = format.count(sum(each.value is not None for each in found.wordings), "wording")
    spread, reading = found.surface, found.reading
    if spread is None or reading is None:
        return f"{name}: inconclusive: {n} of {total} scored"
    chance = found.chance
    if reading == "undecided" and spread.reading != "undecided":
        reading = _BY_CHANCE
    said = _READINGS[reading].format(range=f"{spread.range:.2f}")
    return f"{name}: {said} ({n}, {_samples(found, chance)})"


_BY_CHANCE = "chance"
_READINGS = {
    "surface sensitivity": "surface sensitivity: score range {range}, above .15; fix the wording"
    " before the agent",
    _BY_CHANCE: "inconclusive: score range {range}, not significant: samples of one wording differ"
    " as much. Try: more samples (-k)",
    "undecided": "inconclusive: score range {range}, between .08 and .15",
    "consistent capability gap": "consistent capability gap: score range {range}, below .08 over"
    " all wordings",
    "no failure in any wording": "no failure in any wording: score range {range}, every score good",
}


def _samples(found: Varied, chance: float | None) -> str:
    if chance is None:
        return "1 sample each: not conclusive"
    return f"{found.samples} samples each, permutation test p = {chance:.2f}"


def notices(found: Varied, rows: Sequence[WordingRow], names: Sequence[str]) -> Iterator[str]:
    """What a reader must know besides the verdict."""
    ends = sorted({row.steps[-1] for row in rows if row.steps})
    if found.broke is not None and len(ends) > 1:
        shown = ", ".join(map(str, ends))
        yield f"paths end at different steps ({shown}): scores of different steps are compared"
    if found.broke is None and rows:
        yield (
            "no break candidate: scores are means over all steps, which hides a difference at one"
            " step. Try: --step N"
        )
    left = [row.label for row in rows if row.diverged is not None and row.label != ORIGINAL]
    if left:
        yield (
            f"{', '.join(left)} diverged: later steps are not shown."
            f" Try: arc replay {found.trace[:8]} --free --edit FILE"
        )
    if names:
        yield f"names may be missing in a paraphrase: {', '.join(names)}"
