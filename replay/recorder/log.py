"""Everything that was heard in one recording, and the runs it makes.

One recording is one run, its conversations the run's threads: the main thread is the longest
conversation with tools and those with the same tools that begin when it is over (a compaction); one
that goes on beside it is a thread of its own. Where requests name a session of their agent
(Claude Code's do), the session is the run. `apart` makes a run of every conversation instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from replay.formats.anthropic_log.gist import TooDeep
from replay.formats.anthropic_log.links import Links
from replay.formats.anthropic_log.runs import MAIN, Run, runs
from replay.formats.fields import known
from replay.recorder.calls import Calls, Made
from replay.recorder.heard import Heard
from replay.recorder.told import Told
from replay.trace import Batch, Header, Outcome

NAME = "recorded"
"""The format of traces that were recorded and never were a file of another tool's."""


class About(Struct, frozen=True, kw_only=True):
    """What the one who records says of the runs."""

    title: str | None = None
    task: str | None = None
    trial: str | None = None
    variant: str | None = None
    labels: dict[str, str] = {}
    outcome: Outcome = Outcome()


class Log:
    """Takes exchanges in the order in which they ended; gives the runs they make so far."""

    def __init__(self, about: About, *, apart: bool = False) -> None:
        self.about = about
        self._own = None if apart else uuid4().hex
        self._calls = Calls()
        self._links = Links()
        self._made: dict[int, Made] = {}
        self._changed: set[int] = set()
        self.unread = 0
        """Calls whose request is none that can be read."""

    def __len__(self) -> int:
        """How many calls it holds."""
        return len(self._links.calls)

    def add(self, heard: Heard) -> bool:
        """Take an exchange; False where it is no call that can be read, or heard already."""
        number = len(self._made)
        made = self._calls.made(number, heard)
        if made is None:
            self.unread += 1
            return False
        session = made.exchange.session or self._own
        made = structs.replace(made, exchange=structs.replace(made.exchange, session=session))
        try:
            call = self._links.add(made.exchange)
        except (TooDeep, msgspec.DecodeError, RecursionError):
            self.unread += 1
            return False
        if call is None:
            return False
        self._made[number] = made
        self._changed.add(call.index)
        return True

    def changed(self) -> list[Batch]:
        """The runs that are new or longer since this was last asked, each as a whole."""
        changed, self._changed = self._changed, set()
        return [self._batch(run) for run in self._runs() if changed & run.threads.keys()]

    def every(self) -> list[Batch]:
        """All its runs."""
        return [self._batch(run) for run in self._runs()]

    def _runs(self) -> list[Run]:
        return [beside(run, self._made) for run in runs(self._links.calls)]

    def _batch(self, run: Run) -> Batch:
        told = Told(run, self._made)
        for call in run.calls:
            told.tell(call, self._made[call.number].exchange)
        spans, about = told.spans(), self.about
        start_ns, end_ns = told.times
        session = run.session if run.session != self._own else None
        header = Header(
            format=NAME,
            source_id=run.source_id,
            run=session,
            title=about.title or told.title,
            task=about.task,
            trial=about.trial,
            variant=about.variant,
            outcome=about.outcome,
            labels=about.labels | known(session=session),
            start_ns=start_ns,
            end_ns=end_ns,
        )
        return Batch(header=header, spans=spans, last=True)


def beside(run: Run, made: Mapping[int, Made]) -> Run:
    """The run with conversations of its main thread that overlap made threads of their own."""
    first: dict[int, int] = {}
    spans: dict[int, tuple[int, int]] = {}
    for call in run.calls:
        root = first[call.index] = first.get(-1 if call.parent is None else call.parent, call.index)
        if run.threads[call.index] == MAIN:
            exchange = made[call.number].exchange
            start_ns, end_ns = exchange.start_ns or 0, exchange.end_ns or 0
            known_start_ns, known_end_ns = spans.get(root, (start_ns, end_ns))
            spans[root] = min(known_start_ns, start_ns), max(known_end_ns, end_ns)
    over_ns, apart = 0, set[int]()
    for root, (start_ns, end_ns) in sorted(spans.items(), key=lambda each: each[1]):
        if start_ns < over_ns:
            apart.add(root)
        else:
            over_ns = end_ns
    threads = {
        at: first[at] if thread == MAIN and first[at] in apart else thread
        for at, thread in run.threads.items()
    }
    return structs.replace(run, threads=threads)
