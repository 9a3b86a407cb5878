"""Logs of the Anthropic Messages API: request and answer, as they went over the wire.

Pairs of bodies, claude-trace files, results of a batch, streams of events. The request of a call is
known as it was sent; what a file does not say is which calls belong together (`runs`).

A file is gone through twice: the first time each request is only held against the ones before it,
by digests; the second time the runs are told, each let go with its last call. A log of calls that
repeat their conversation takes little more memory than one of its conversations.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from replay.errors import BadTrace
from replay.formats.anthropic_log import exchanges
from replay.formats.anthropic_log.exchanges import Exchange, Records, exchange, is_record
from replay.formats.anthropic_log.runs import Call, Links, Run, TooDeep, runs
from replay.formats.anthropic_log.spans import SpanBuilder
from replay.formats.common import known
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Header, Level

NAME = "anthropic"
TITLE = "Anthropic Messages logs (pairs, claude-trace, batches, streams)"
FILES = ".jsonl, .json, event streams"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "the request, in streams and batch results"
VERIFIED = "real files"

_LINES = 20
_CALL = (
    rb'\A[\s\xef\xbb\xbf]*\[?\s*\{\s*"(request|response|request_id|started_at|logged_at)"',
    rb'"request"\s*:\s*\{',
    rb'"url"\s*:\s*"[^"]*(anthropic|/v1/messages)|"max_tokens"\s*:\s*\d',
    rb'"(messages|system|tools|headers)"\s*:\s*[\[{"]',
)
"""What a record shows whose end is behind the head: Claude Code's own prompt and tools fill it."""


def sniff(head: Head) -> bool:
    if exchanges.is_event_stream(head):
        return True
    values = [exchanges.value(line) for line in head.lines()[:_LINES]]
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    if any(map(is_record, flat)):
        return True
    readable = any(isinstance(value, dict) for value in values)
    return not readable and head.starts(b"{", b"[") and head.has(*_CALL)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a run. Raises BadTrace where the source contains no call."""
    found = exchanges.records(source)
    links = Links()
    for number, line in found:
        _linked(found, number, line, links, source, tally)
    if not links.calls:
        raise BadTrace(source.display, "", "contains no call of the Messages API")
    yield from _batches(runs(links.calls), links.calls, found, source, tally)


def _linked(
    found: Records, number: int, line: bytes, links: Links, source: Source, tally: Tally
) -> None:
    where = found.where(number)
    tally.counts["records"] += 1
    try:
        made = exchange(number, line, source.display, where)
    except BadTrace as error:
        tally.problem(where, error.why)
        return
    if made is None:
        tally.counts["other requests"] += 1
        return
    tally.unknown.update(made.unknown)
    try:
        call = links.add(made)
    except (TooDeep, msgspec.DecodeError):
        tally.problem(where, "is nested too deeply to be read")
        return
    if call is None:
        tally.counts["repeated"] += 1
        return
    _count(made, tally)


def _count(made: Exchange, tally: Tally) -> None:
    answer = made.answer
    tally.counts["calls"] += 1
    tally.counts["errors"] += answer.error is not None
    tally.counts["without an answer"] += answer.message is None and answer.error is None


def _batches(
    all_runs: list[Run], calls: list[Call], found: Records, source: Source, tally: Tally
) -> Iterator[Batch]:
    """The runs, each at its last call."""
    at = {call.number: call for call in calls}
    run_of = {call.index: run for run in all_runs for call in run.calls}
    open_: dict[str, SpanBuilder] = {}
    for number, line in found:
        call = at.get(number)
        made = exchange(number, line, source.display, found.where(number)) if call else None
        if call is None or made is None:
            continue
        run = run_of[call.index]
        told = open_.get(run.source_id)
        if told is None:
            told = open_[run.source_id] = SpanBuilder(run, by_line=found.by_line)
        told.build(call, made)
        if call.index == run.last:
            yield _batch(run, open_.pop(run.source_id), source, tally)


def _batch(run: Run, told: SpanBuilder, source: Source, tally: Tally) -> Batch:
    tally.counts["traces"] += 1
    spans = told.spans()
    start_ns, end_ns = told.times
    custom_id = run.calls[0].custom_id
    labels = known(session=run.session, custom_id=custom_id)
    header = Header(
        format=NAME,
        source_id=run.source_id,
        path=source.display,
        run=run.session,
        title=told.title or custom_id,
        task=custom_id,
        labels={name: str(value) for name, value in labels.items()},
        start_ns=start_ns,
        end_ns=end_ns,
    )
    return Batch(header=header, spans=spans, last=True)
