"""What the scorers of a sample said: its outcome, and every score.

The first scorer decides. Inspect grades C, P, I, N (correct, partial, incorrect, no answer) or by
number; a run passes at 1.0. A number outside 0..1 is on a scale we do not know, a set of numbers
has no one value: both leave the outcome unknown, with the value kept.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.scored import Scored
from replay.formats.normal import number
from replay.trace import Json, Outcome, SourceScore

_GRADES = {
    "C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0,
    "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip


_QUOTE = {
    "includes", "match", "exact", "f1", "pattern", "answer", "choice", "math", "score",
    "model_graded_qa", "model_graded_fact",
}  # fmt: skip
"""Inspect's own scorers, whose explanation is what the run or a judge said ("score": by name
unknown)."""

PRINTED = 20_000
"""Characters of what a check printed; what matters of it stands at its end."""


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


def printed(
    sample: dict[str, Any], scores: dict[str, dict[str, Any]], texts: Attachments, *, by_model: bool
) -> str | None:
    """What the check printed: the deciding scorer's explanation, its beginning left out where long.

    None where the explanation is the run's own words, as the scorers that compare texts have it,
    or those of a model that was asked (`by_model`).
    """
    scorer, score = next(iter(scores.items()), ("", {}))
    text = word(texts.resolve(score.get("explanation")))
    if text is None or by_model or scorer in _QUOTE or "grading" in obj(score.get("metadata")):
        return None
    output = texts.resolve(obj(sample.get("output")).get("completion"))
    for own in (output, texts.resolve(score.get("answer"))):
        words = own.strip() if isinstance(own, str) else ""
        if words and (words in text or text.strip() in words):
            return None
    over = len(text) - PRINTED
    return text if over <= 0 else f"[{over} characters before this left out]\n{text[over:]}"


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
    if not isinstance(value, str):
        return number(value)
    grade = _GRADES.get(value, _GRADES.get(value.lower()))
    if grade is not None:
        return grade
    try:
        return number(float(value))
    except ValueError:
        return None
