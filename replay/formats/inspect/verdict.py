"""What the scorers of a sample said: its outcome, and every score.

The first scorer decides. Inspect grades C, P, I, N (correct, partial, incorrect, no answer) or by
number; a run passes at 1.0. A number outside 0..1 is on a scale we do not know, a set of numbers
has no one value: both leave the outcome unknown, with the value kept.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.spans import Scored
from replay.trace import Json, Outcome, SourceScore

_GRADES = {
    "C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0,
    "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip


def final_scores(sample: dict[str, Any], scored: list[Scored]) -> dict[str, dict[str, Any]]:
    """Every scorer's last word: the sample's scores, else those of its events."""
    written = {name: obj(score) for name, score in obj(sample.get("scores")).items()}
    if not written and isinstance(sample.get("score"), dict):
        written = {"score": sample["score"]}
    if written:
        return written
    return {each.scorer: each.score for each in scored if not each.intermediate}


def outcome(scores: dict[str, dict[str, Any]]) -> Outcome:
    """The outcome by the first scorer; unknown where none scored."""
    for scorer, score in scores.items():
        value = score.get("value")
        number = _number(value)
        shown = value if isinstance(value, str) else number
        if number is None or not 0 <= number <= 1:
            return Outcome(value=shown, by=scorer)
        return Outcome(status="passed" if number == 1 else "failed", value=shown, by=scorer)
    return Outcome()


def source_scores(
    scores: dict[str, dict[str, Any]], scored: list[Scored], texts: Attachments
) -> tuple[SourceScore, ...]:
    """Final scores of the run, and intermediate ones of the model call they were given after."""
    found: list[SourceScore] = []
    for scorer, score in scores.items():
        found.extend(_rows(scorer, score, None, texts))
    for each in scored:
        if each.intermediate:
            found.extend(_rows(each.scorer, each.score, each.after, texts))
    return tuple(found)


def _rows(
    scorer: str, score: dict[str, Any], span: str | None, texts: Attachments
) -> list[SourceScore]:
    """One row a value; a scorer of several values names each `scorer.key`."""
    value = score.get("value")
    named = (
        {f"{scorer}.{key}": part for key, part in value.items()}
        if isinstance(value, dict)
        else {scorer: value}
    )
    explanation = word(texts.resolve(score.get("explanation")))
    return [
        SourceScore(
            name=name,
            by=scorer,
            span=span,
            value=_number(part),
            label=part if isinstance(part, str) else None,
            explanation=explanation,
        )
        for name, part in named.items()
    ]


def _number(value: Json) -> float | None:
    """The number of a score's value, None for anything that is no number."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if not isinstance(value, str):
        return None
    grade = _GRADES.get(value, _GRADES.get(value.lower()))
    if grade is not None:
        return grade
    try:
        return float(value)
    except ValueError:
        return None
