"""A trace that grows, written as far as it is known: again and again, then for the last time.

Each time the trace in the database is replaced as a whole, in one transaction, so that whoever
reads it sees it as it was or as it is, and a writer that is killed leaves it as it was. What an
earlier listener wrote of a trace, and what came before it was over, is kept beside what is new.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from arc_tui.jobs.importing import diagnose_one
from arc_tui.live.growing import Grown
from replay import canon
from replay.errors import BadTrace, NotFound
from replay.formats import otlp
from replay.formats.intake import Tally
from replay.store import read
from replay.store.handle import now_ns
from replay.store.live import keep_live
from replay.store.write import Writer
from replay.trace import Batch
from taxonomy.ledger import open_ledger

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


class Desk:
    """Writes into one database; made and used in one thread."""

    def __init__(self, path: Path) -> None:
        self._store = open_ledger(path)
        self._before: dict[str, Batch | None] = {}
        self._said_ns = 0
        _ = self._store.redactor  # what cannot be masked by is said now, not after the run

    def close(self) -> None:
        self._store.close()

    def write(self, grown: Grown) -> Written | None:
        """Write a trace as it is known; None where no agent is in it."""
        batch = otlp.batch_of(grown.name, *grown.records(), None, Tally())
        return self.put(batch, over=grown.over) if batch is not None else None

    def put(self, batch: Batch, *, over: bool) -> Written:
        """Write a whole trace, of which more is expected until it is `over`."""
        header = batch.header
        key = canon.trace_id(header.format, header.source_id, header.item)
        begun = key not in self._before
        if begun:
            self._before[key] = self._stored(key)
        batch = _beside(self._before[key], batch)
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
        """What is there of a trace before this desk first writes it."""
        try:
            return read.recorded(self._store, key)
        except NotFound:
            return None


def _beside(before: Batch | None, now: Batch) -> Batch:
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
