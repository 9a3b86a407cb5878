"""Ids and names of a recording, without the secrets that somebody may have put there.

They are masked before anything refers to them, so that references still hold; the key of a trace
is made before. Texts and values are masked where they are stored, in `content`.
"""

from __future__ import annotations

from msgspec import structs

from replay.store.content import Content
from replay.trace import AnySpan, Header, ModelCall, SourceScore, ToolCall


def of_header(content: Content, header: Header) -> Header:
    """What a header says in names, masked."""
    known = (
        header.format, header.source_id, header.run, header.item, header.path, header.task,
        header.trial, header.variant, header.agent, header.outcome.by, str(header.outcome.value),
    )  # fmt: skip
    if content.harmless(known):
        return header
    said, value = header.outcome, header.outcome.value
    text = content.text
    return structs.replace(
        header,
        format=text(header.format) or "",
        source_id=text(header.source_id) or "",
        run=text(header.run),
        item=text(header.item),
        path=text(header.path),
        task=text(header.task),
        trial=text(header.trial),
        variant=text(header.variant),
        agent=text(header.agent),
        outcome=structs.replace(
            said, by=text(said.by), value=text(value) if isinstance(value, str) else value
        ),
    )


def of_span(content: Content, span: AnySpan) -> AnySpan:
    """A span whose ids and names are masked."""
    known = [span.id, span.parent, span.place.span]
    if isinstance(span, ModelCall):
        asked, said = span.request, span.response
        known += [span.agent, asked.model, said.id, said.model, said.stop_raw]
    elif isinstance(span, ToolCall):
        known += [span.call_id, span.asked_by]
    return span if content.harmless(known) else _masked(content, span)


def _masked(content: Content, span: AnySpan) -> AnySpan:
    text = content.text
    span = structs.replace(
        span,
        id=text(span.id) or "",
        parent=text(span.parent),
        place=structs.replace(span.place, span=text(span.place.span)),
    )
    if isinstance(span, ModelCall):
        said = span.response
        return structs.replace(
            span,
            agent=text(span.agent),
            request=structs.replace(span.request, model=text(span.request.model)),
            response=structs.replace(
                said,
                id=text(said.id),
                model=text(said.model),
                stop_raw=text(said.stop_raw),
            ),
        )
    if isinstance(span, ToolCall):
        return structs.replace(span, call_id=text(span.call_id), asked_by=text(span.asked_by))
    return span


def of_score(content: Content, score: SourceScore) -> SourceScore:
    """A score of the source, all of its texts masked."""
    text = content.text
    return structs.replace(
        score,
        name=text(score.name) or "",
        by=text(score.by) or "",
        span=text(score.span),
        label=text(score.label),
        explanation=text(score.explanation),
    )
