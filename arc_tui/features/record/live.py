"""Which traces are under way, what is known of each, and how each is written while it grows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from arc_tui.importing import diagnose_one
from replay import digests
from replay.errors import BadTrace, NotFound
from replay.formats import otlp
from replay.formats.genai.records import Log, RawSpan, Record
from replay.formats.source import Tally
from replay.store import read
from replay.store.handle import now_ns
from replay.store.rows import keep_live
from replay.store.write import Writer
from replay.trace import Batch
from taxonomy.judgements.schema import open_ledger

QUIET_S = 30.0
"""Exporters hand spans on every few seconds; what comes later than this after the root is late."""

SILENT_S = 15 * 60.0
"""After this long without a root the agent is taken to have died, or its root to be elsewhere."""

BUDGET_BYTES = 256 * 1024 * 1024


class Piece(Struct, array_like=True):
    """The records of one trace in one export."""

    spans: list[RawSpan]
    logs: list[Log]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Piece).decode


class LiveTrace(Struct, eq=False):
    """A trace under way. `pieces` are encoded: putting a trace together may change its records."""

    name: str
    heard_s: float
    pieces: list[bytes] = []
    size: int = 0
    rooted: bool = False
    waiting: bool = False
    """Something arrived since it was last handed out."""

    def is_over(self, now_s: float) -> bool:
        return now_s - self.heard_s >= (QUIET_S if self.rooted else SILENT_S)


class LiveSnapshot(Struct, frozen=True, eq=False):
    """All that is known of a trace at a moment; `over`: no more of it is expected."""

    name: str
    pieces: tuple[bytes, ...]
    over: bool = False

    def records(self) -> tuple[list[RawSpan], list[Log]]:
        """Its spans and log records, made anew for every caller."""
        spans: list[RawSpan] = []
        logs: list[Log] = []
        for piece in map(_decode, self.pieces):
            spans += piece.spans
            logs += piece.logs
        return spans, logs


class Traces:
    """The traces under way, by name."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._found: dict[str, LiveTrace] = {}

    def add(self, records: Iterable[Record], now_s: float) -> None:
        """Keep what an export holds; a record that belongs to no trace is left out."""
        pieces: dict[str, Piece] = {}
        for record in records:
            name = otlp.trace_of(record)
            if name is None:
                continue
            piece = pieces.setdefault(name, Piece([], []))
            if isinstance(record, RawSpan):
                piece.spans.append(record)
            else:
                piece.logs.append(record)
        for name, piece in pieces.items():
            self._keep(name, piece, now_s)

    def _keep(self, name: str, piece: Piece, now_s: float) -> None:
        trace = self._found.get(name)
        if trace is None:
            trace = self._found[name] = LiveTrace(name, now_s)
        data = _encode(piece)
        trace.pieces.append(data)
        trace.size += len(data)
        trace.heard_s = now_s
        trace.rooted = trace.rooted or any(_is_root(span) for span in piece.spans)
        trace.waiting = True

    def arrived(self) -> list[LiveSnapshot]:
        """The traces of which something arrived since this was last asked."""
        found = [each for each in self._found.values() if each.waiting]
        for each in found:
            each.waiting = False
        return [LiveSnapshot(each.name, tuple(each.pieces)) for each in found]

    def take_back(self, found: Iterable[LiveSnapshot], now_s: float) -> None:
        """What was handed out and could not be written is handed out again."""
        for each in found:
            trace = self._found.get(each.name)
            if trace is None:  # it is over: it was let go, and nothing of it was heard since
                size = sum(map(len, each.pieces))
                trace = LiveTrace(each.name, now_s, list(each.pieces), size, rooted=each.over)
                self._found[each.name] = trace
            trace.waiting = True

    def over(self, now_s: float) -> list[LiveSnapshot]:
        """The traces that are over, which are then no longer held."""
        ended = [each for each in self._found.values() if each.is_over(now_s)]
        held = sum(each.size for each in self._found.values()) - sum(each.size for each in ended)
        for each in sorted(self._found.values(), key=lambda trace: trace.heard_s):
            if held <= self._budget:
                break
            if each not in ended:
                ended.append(each)
                held -= each.size
        return self._let_go(ended)

    def all_over(self) -> list[LiveSnapshot]:
        """Every trace that is held, at the end of listening."""
        return self._let_go(list(self._found.values()))

    def _let_go(self, ended: list[LiveTrace]) -> list[LiveSnapshot]:
        for each in ended:
            del self._found[each.name]
        return [LiveSnapshot(each.name, tuple(each.pieces), over=True) for each in ended]


def _is_root(span: RawSpan) -> bool:
    """A span is exported when it ends, so that one without a parent says that the trace has."""
    return span.parent is None and span.end_ns is not None


LIVE_FOR_NS = 60 * 10**9
"""How long the word that more is expected holds unless it is given again."""


class Written(Struct, frozen=True, kw_only=True):
    """A trace as it now stands in the database; "refused" where it contradicts what is there."""

    id: str
    state: Literal["begun", "grown", "over", "refused"]
    title: str | None
    spans: int = 0
    steps: int = 0
    why: str = ""


class LiveWriter:
    """Writes into one database; made and used in one thread."""

    def __init__(self, path: Path) -> None:
        self._store = open_ledger(path)
        self._before: dict[str, Batch | None] = {}
        self._said_ns = 0
        _ = self._store.redactor  # what cannot be masked by is said now, not after the run

    def close(self) -> None:
        self._store.close()

    def write(self, snapshot: LiveSnapshot) -> Written | None:
        """Write a trace as it is known; None where no agent is in it."""
        batch = otlp.batch_of(snapshot.name, *snapshot.records(), None, Tally())
        return self.put(batch, over=snapshot.over) if batch is not None else None

    def put(self, batch: Batch, *, over: bool) -> Written:
        """Write a whole trace, of which more is expected until it is `over`."""
        header = batch.header
        key = digests.trace_id(header.format, header.source_id, header.item)
        begun = key not in self._before
        if begun:
            self._before[key] = self._stored(key)
        batch = _merged(self._before[key], batch)
        writer = Writer(self._store, live_until_ns=None if over else now_ns() + LIVE_FOR_NS)
        title = batch.header.title and self._store.redactor.text(batch.header.title)
        try:
            writer.write(batch)
            finished = writer.finish(key)
        except BadTrace as refused:
            writer.drop(key)
            self._before.pop(key)
            return Written(id=key, state="refused", title=title, why=str(refused))
        if over:
            self._before.pop(key)
            diagnose_one(self._store, key)
        return Written(
            id=key,
            state="over" if over else "begun" if begun else "grown",
            title=title,
            spans=finished.spans,
            steps=finished.steps,
        )

    def keep_live(self, at_ns: int) -> None:
        """Say again, once in a while, that more is expected of what is under way."""
        if self._before and at_ns - self._said_ns > LIVE_FOR_NS // 3:
            keep_live(self._store, tuple(self._before), at_ns + LIVE_FOR_NS)
            self._said_ns = at_ns

    def _stored(self, key: str) -> Batch | None:
        """What is there of a trace before this writer first writes it."""
        try:
            return read.recorded(self._store, key)
        except NotFound:
            return None


def _merged(before: Batch | None, now: Batch) -> Batch:
    """What is new of a trace with what was written of it before."""
    if before is None:
        return now
    spans = {span.id: span for span in (*before.spans, *now.spans)}
    header, known = now.header, before.header
    header = structs.replace(
        header,
        title=known.title or header.title,
        variant=header.variant or known.variant,
        agent=known.agent or header.agent,
        labels=known.labels | header.labels,
    )
    scores = dict.fromkeys((*before.scores, *now.scores))
    return Batch(header=header, spans=tuple(spans.values()), scores=tuple(scores), last=True)


LEAST_PAUSE_S = 0.01
LOOK_S = 1.0
"""How often it is looked what is over, though nothing new came."""


async def first_of(*events: asyncio.Event, seconds: float) -> None:
    """Until one of them happens or the time is over."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


async def write_until(
    ended: asyncio.Event, news: asyncio.Event, write: Callable[[], Awaitable[None]]
) -> None:
    """Write at news and once in a while, never more than half of the time, until it `ended`."""
    while not ended.is_set():
        await first_of(news, ended, seconds=LOOK_S)
        began_s = time.monotonic()
        await write()
        await first_of(ended, seconds=max(time.monotonic() - began_s, LEAST_PAUSE_S))


class Commits:
    """Who waits until what they brought is committed; `news` is set while somebody does."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._waiting: list[asyncio.Future[bool]] = []

    def awaited(self) -> asyncio.Future[bool]:
        """Becomes True once everything that was brought until now is committed, False where that
        failed."""
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(found)
        self.news.set()
        return found

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Around the commit of everything that was brought until now."""
        waiting, self._waiting = self._waiting, []
        self.news.clear()
        done = False
        try:
            yield
            done = True
        finally:
            for each in waiting:
                if not each.done():
                    each.set_result(done)


LOOPBACK, PORT = "127.0.0.1", 4318
"""The one address that is listened on, and where OTLP over HTTP is expected unless told."""
