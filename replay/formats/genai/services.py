"""The export of a tracing service: its records by trace, and the spans of one trace.

Records of traces that are still being read are held in memory up to a budget, then in a
temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

import msgspec

from replay import files
from replay.depth import TOO_DEEP, is_deep
from replay.errors import BadTrace
from replay.formats.chat import cut, user_label
from replay.formats.genai.builder import Builder, count_spans
from replay.formats.genai.functions import request_of
from replay.formats.genai.messages import several
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import RawSpan
from replay.formats.source import Source, Tally, decode
from replay.trace import AgentSpan, AnySpan, Json, ModelCall


def values(source: Source, tally: Tally) -> Iterator[tuple[str, Json]]:
    """Each value with its place in words. A broken line is a problem where others are good;
    raises BadTrace where the file is no JSON at all."""
    lines = source.lines()
    first = next(lines, None)
    if first is None:
        return
    try:
        yield f"line {first[0]}", decode(first[1], source.display, "line 1")
    except BadTrace as error:
        if error.why != TOO_DEEP:
            yield "the document", source.document()
            return
        tally.problem("line 1", TOO_DEEP)
    for number, line in lines:
        where = f"line {number}"
        try:
            yield where, decode(line, source.display, where)
        except BadTrace as error:
            tally.problem(where, error.why)


def records(value: Json, *lists: str) -> Iterator[dict[str, Any]]:
    """The objects of a value: itself, those of a list, those under one of these names of it."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, dict):
            inner = next((each[name] for name in lists if isinstance(each.get(name), list)), None)
            if inner is not None:
                waiting.extend(reversed(inner))
            else:
                yield each


Record = dict[str, Any]

BUDGET_BYTES = 64 * 1024 * 1024


class Groups:
    """Records by the trace they belong to, in the order they were added, as JSON."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._size = 0
        self._near: dict[str, list[bytes]] = {}
        self._far: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, trace: str, record: Record) -> None:
        text = msgspec.json.encode(record)
        self._near.setdefault(trace, []).append(text)
        self._far.setdefault(trace, [])
        self._size += len(text)
        if self._size > self._budget:
            self._move()

    def taken(self) -> Iterator[tuple[str, list[Record]]]:
        """Each trace with its records, in the order of their first ones; nothing is left."""
        try:
            for trace in list(self._far):
                yield trace, [msgspec.json.decode(text) for text in self._texts(trace)]
        finally:
            if self._file is not None:
                self._file.close()

    def _texts(self, trace: str) -> Iterator[bytes]:
        for start, size in self._far.pop(trace):
            assert self._file is not None
            self._file.seek(start)
            yield self._file.read(size)
        yield from self._near.pop(trace, ())

    def _move(self) -> None:
        """All that is in memory to the file."""
        if self._file is None:
            self._file = files.unlinked()
        start = self._file.seek(0, 2)
        for trace, texts in self._near.items():
            for text in texts:
                self._file.write(text)
                self._far[trace].append((start, len(text)))
                start += len(text)
        self._near.clear()
        self._size = 0


_TASK = ("question", "query", "task", "prompt", "q", "input", "text", "content")


def spans(raws: Iterable[RawSpan], tally: Tally) -> tuple[AnySpan, ...]:
    """The spans of a trace, each id once; they are counted in the tally."""
    by_id: dict[str, RawSpan] = {}
    for raw in raws:
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "occurs twice in the file; read once")
    found = reconcile(by_id.values())
    made = Builder(found, tally).spans()
    tally.counts["traces"] += 1
    tally.counts["spans"] += len(found)
    count_spans(made, tally)
    return made


def made_of(record: dict[str, Any], where: str, make: Any, tally: Tally) -> Iterator[RawSpan]:
    """The span that `make` takes a record for; a problem where it is none or nested too deeply."""
    try:
        raw = make(record)
    except RecursionError:
        tally.problem(where, TOO_DEEP)
        return
    if raw is None:
        tally.problem(where, "has no id")
    elif is_deep(raw.attributes):
        tally.problem(where, TOO_DEEP)
    else:
        yield raw


def agent_of(found: tuple[AnySpan, ...]) -> str | None:
    return next((span.name for span in found if isinstance(span, AgentSpan)), None)


def title_of(found: tuple[AnySpan, ...], given: Json, otherwise: str | None) -> str | None:
    """The first line of what the run was asked: in what it was `given`, else what the first model
    call was told; else another name for it."""
    task = _task(given)
    if task is not None:
        return task
    for span in found:
        if isinstance(span, ModelCall) and span.request.context is not None:
            title = user_label([message.body for message in span.request.context.messages()])
            if title is not None:
                return title
    return cut(otherwise) if otherwise else None


_ARGUMENTS = ("input_args", "kwargs", "inputs")
"""Under which names a function's record has what it was called with."""


def _task(given: Json) -> str | None:
    if isinstance(given, dict):
        given = next((given[n] for n in _ARGUMENTS if isinstance(given.get(n), dict)), given)
        said = next((given[n] for n in _TASK if isinstance(given.get(n), str) and given[n]), None)
        if said is not None:
            return user_label([{"role": "user", "content": said}])
    if not isinstance(given, (dict, list, str)) or not given:
        return None
    request = request_of(given)
    return user_label(several(request.messages)) if request is not None else None


def root_of(raws: list[RawSpan]) -> RawSpan | None:
    """The first span in time that hangs below none of the others."""
    ids = {raw.id for raw in raws}
    roots = [raw for raw in raws if raw.parent not in ids]
    return min(roots, key=lambda raw: raw.start_ns or 2**63, default=None)


# --- asked


# --- what a tool gave back


# --- answered
