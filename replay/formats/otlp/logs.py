"""Log records that belong to spans: what a call was asked and answered, told beside it.

They carry messages where spans do not (content in logs only), so what they tell is given to the
span they were written in. Where that span is not in the file, or is no model call, an inference
becomes a span of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.formats.normal import derived_id
from replay.formats.otlp import names
from replay.formats.otlp.kinds import Kind, kind_of
from replay.formats.otlp.records import Log, Raw

INFERENCE = "gen_ai.client.inference.operation.details"
EVALUATION = "gen_ai.evaluation.result"
_MESSAGES = ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message",
             "gen_ai.tool.message", "gen_ai.choice")  # fmt: skip


def join(spans: list[Raw], logs: list[Log]) -> list[Raw]:
    """The spans with what the log records tell of them, and spans only the records know of."""
    by_id = {raw.id: raw for raw in spans}
    made: list[Raw] = []
    for at, log in enumerate(logs):
        if log.event.name in (EVALUATION, "gen_ai.evaluation"):
            continue
        raw = by_id.get(log.span or "")
        if log.event.name == INFERENCE:
            if raw is None or kind_of(raw) is not Kind.MODEL or _has_messages(raw):
                raw = _inference(log, at, taken=raw is not None)
                made.append(raw)
                by_id.setdefault(raw.id, raw)
            raw.attributes = {**log.event.attributes, **raw.attributes}
        elif raw is not None:
            raw.events.append(log.event)
        elif log.event.name in _MESSAGES:
            raw = _inference(log, at, taken=False)
            raw.attributes[names.OPERATION] = "chat"
            raw.events.append(log.event)
            by_id[raw.id] = raw
            made.append(raw)
    return [*spans, *made]


def _has_messages(raw: Raw) -> bool:
    """Was the inference of this span told of already, by another record?"""
    return raw.logged and (names.INPUT in raw.attributes or names.OUTPUT in raw.attributes)


def _inference(log: Log, at: int, *, taken: bool) -> Raw:
    """A model call that no span tells of; its record was written when it had ended."""
    name = derived_id(log.trace, log.span, at) if taken or log.span is None else log.span
    return Raw(
        trace=log.trace or "",
        id=name,
        parent=log.span if taken else None,
        name=log.event.name,
        end_ns=log.event.time_ns,
        resource=log.resource,
        events=[],
        logged=True,
    )


def evaluations(
    spans: list[Raw], logs: list[Log]
) -> Iterator[tuple[str | None, dict[str, object]]]:
    """(span, attributes) of every evaluation, an event of a span or a log record; one that names
    a response is of the span that has it."""
    responses = {
        response: raw.id
        for raw in spans
        if (response := names.first_word(raw.attributes, names.RESPONSE.names)) is not None
    }
    known = {raw.id for raw in spans}
    for raw in spans:
        for event in raw.events:
            if event.name in (EVALUATION, "gen_ai.evaluation"):
                yield raw.id, event.attributes
    for log in logs:
        if log.event.name in (EVALUATION, "gen_ai.evaluation"):
            given = log.event.attributes
            named = responses.get(names.first_word(given, names.RESPONSE.names) or "")
            yield named or (log.span if log.span in known else None), given
