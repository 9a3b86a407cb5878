"""What a source says of its own runs: evaluations and annotations, as scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.formats.fields import listed, obj, word
from replay.formats.normal import number
from replay.formats.openinference.attributes import grown
from replay.formats.otlp import logs as records
from replay.formats.otlp.names import first_word
from replay.formats.otlp.records import Log
from replay.formats.otlp.spans import Known
from replay.trace import SourceScore

_STEM = "gen_ai.evaluation."
_COUNTED = (("annotations", "annotation"), ("evaluations", "evaluation"))


def scores(spans: list[Known], logs: list[Log]) -> Iterator[SourceScore]:
    """The scores of a trace; one that is given to the root is of the whole run."""
    several = len(spans) > 1
    roots = {each.raw.id for each in spans if each.raw.parent is None} if several else set()
    for span, given in records.evaluations([each.raw for each in spans], logs):
        yield SourceScore(
            name=word(given.get(f"{_STEM}name")) or "evaluation",
            by=first_word(given, (f"{_STEM}evaluator.name", "gen_ai.provider.name")) or "source",
            span=None if span in roots else span,
            value=number(given.get(f"{_STEM}score.value", given.get(f"{_STEM}score"))),
            label=word(given.get(f"{_STEM}score.label", given.get(f"{_STEM}label"))),
            explanation=word(given.get(f"{_STEM}explanation")),
        )
    for each in spans:
        if each.given.scores:
            yield from _annotations(each, None if each.raw.id in roots else each.raw.id)


def _annotations(known: Known, span: str | None) -> Iterator[SourceScore]:
    """Those that OpenInference counts in the names of attributes, of the span or the whole run."""
    tree = grown(known.given.scores)
    for several, one in _COUNTED:
        for entry in listed(tree.get(several)):
            yield _annotation(obj(obj(entry).get(one)), one, span)
        for entry in listed(obj(tree.get("trace")).get(several)):
            yield _annotation(obj(obj(entry).get(one)), one, None)


def _annotation(said: dict[str, Any], one: str, span: str | None) -> SourceScore:
    return SourceScore(
        name=word(said.get("name")) or one,
        by=word(said.get("annotator_kind")) or "source",
        span=span,
        value=number(said.get("score")),
        label=word(said.get("label")),
        explanation=word(said.get("explanation")),
    )
