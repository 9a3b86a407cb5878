"""A recording that is under way in this process: who is recorded, what was heard, where it is
kept.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from replay.formats import arc
from replay.formats.anthropic_log.runs import MAIN, Links, Run, TooDeep, runs
from replay.formats.common import known
from replay.recorder.calls import Calls, Made, SpanBuilder
from replay.recorder.caps import CallGuard, Ticket
from replay.recorder.exchange import ExchangeCapture, RecordedExchange, Refusal, api_of
from replay.store import read
from replay.store.handle import Store, masked_by, now_ns
from replay.store.trouble import keeping_errors
from replay.store.write import Writer
from replay.trace import CAP_LABEL, STOP_LABEL, Batch, Header, Outcome

if TYPE_CHECKING:
    from replay.redact.rules import Policy


logger = logging.getLogger("replay.recorder")

NOT_OVER = "the recording ended before the response"

_current: ContextVar[RecordingSession | None] = ContextVar("recording", default=None)
_under_way: list[RecordingSession] = []


class Hearing:
    """One exchange that a recording listens to; ended once, the first word counts. One with a
    `refusal` is not sent."""

    def __init__(
        self,
        ear: ExchangeCapture,
        take: Callable[[Hearing, RecordedExchange], None],
        refusal: Refusal | None = None,
    ) -> None:
        self.ear = ear
        self.refusal = refusal
        self._take = take
        self._over = False

    def end(self, broken: str | None = None) -> None:
        if not self._over:
            self._over = True
            self._take(self, self.ear.end(broken, self.refusal))


class RecordingSession:
    """Records into a database or a file until `finish`; as a context manager, what is asked in its
    body. May be used from any thread."""

    def __init__(
        self, into: Path, about: About, *, apart: bool = False, redact: Policy | None = None
    ) -> None:
        self._keeper: Keeper = keeper(into, redact)
        self._guard = CallGuard(into)
        self._log = Log(about, apart=apart)
        self._lock = Lock()
        self._open: set[Hearing] = set()
        self._over = False
        self._troubled = False
        self._token: Token[RecordingSession | None] | None = None
        atexit.register(self.finish)

    @property
    def calls(self) -> int:
        """How many calls were recorded."""
        return len(self._log)

    def hear(self, method: str, path: str, headers: Mapping[str, str]) -> Hearing | None:
        """Listen to a request; None where it calls no model, or the recording is over."""
        api = api_of(method, path)
        if api is None or self._over:
            return None
        ear = ExchangeCapture(
            api, path, headers.get("content-encoding", ""), client=headers.get("user-agent")
        )
        hearing = Hearing(ear, self._take, self._refusal())
        self._open.add(hearing)
        return hearing

    def _refusal(self) -> Refusal | None:
        """Why the next call may not be made: somebody stopped the recorders of the database."""
        with self._lock:
            found = self._guard.ask()
            if isinstance(found, Ticket):  # nothing is counted here
                self._guard.settle(found, None)
        return found if isinstance(found, Refusal) else None

    def _take(self, hearing: Hearing, heard: RecordedExchange) -> None:
        with self._lock:
            self._open.discard(hearing)
            if self._log.add(heard):
                self._keep(self._keeper.grown)

    def _keep(self, how: Callable[[Log], None]) -> None:
        try:
            how(self._log)
        except keeping_errors() as error:
            if not self._troubled:
                self._troubled = True
                logger.warning("cannot save the recording: %s", error)

    def finish(self) -> None:
        """The recording is over: what it has is kept, whole or not."""
        if self._over:
            return
        self._over = True
        atexit.unregister(self.finish)
        for hearing in tuple(self._open):
            hearing.end(NOT_OVER)
        with self._lock:
            self._keep(self._keeper.over)

    def __enter__(self) -> RecordingSession:
        self._token = _current.set(self)
        _under_way.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _under_way.remove(self)
        if self._token is not None:
            _current.reset(self._token)
        self.finish()


def current() -> RecordingSession | None:
    """The recording in whose body this runs; in a thread that knows of none, the only one."""
    found = _current.get()
    if found is None and len(_under_way) == 1:
        return _under_way[0]
    return found


LIVE_FOR_NS = 60 * 10**9
"""How long the word that more is expected holds unless something more is written."""


class Keeper(Protocol):
    """Keeps what a log holds."""

    def grown(self, log: Log) -> None:
        """The log holds more."""
        ...

    def over(self, log: Log) -> None:
        """The log is whole."""
        ...


class InDatabase:
    """Writes the runs of a log into a database: at once where that is quick, and never for more
    than half of the time."""

    def __init__(self, path: Path, policy: Policy | None) -> None:
        self._path = path
        self._policy = policy
        self._rest_until_s = 0.0
        Store.open(path).close()  # that it cannot be used is said before anything is asked

    def grown(self, log: Log) -> None:
        began_s = time.monotonic()
        if began_s < self._rest_until_s:
            return
        self._write(log.changed(), now_ns() + LIVE_FOR_NS)
        ended_s = time.monotonic()
        self._rest_until_s = ended_s + (ended_s - began_s)

    def over(self, log: Log) -> None:
        self._write(log.every(), None)

    def _write(self, batches: list[Batch], live_until_ns: int | None) -> None:
        # A store never crosses threads, and calls end in any.
        with _opened(self._path, self._policy) as store:
            writer = Writer(store, live_until_ns=live_until_ns)
            for batch in batches:
                writer.finish(writer.write(batch))


class InFile:
    """Appends the runs of a log to an `arc/1` file when it is over, in one piece."""

    def __init__(self, path: Path, policy: Policy | None) -> None:
        self._path = path
        self._policy = policy
        path.parent.mkdir(parents=True, exist_ok=True)
        self._append(b"")  # that it cannot be written is said before anything is asked

    def grown(self, log: Log) -> None:
        pass

    def over(self, log: Log) -> None:
        with _opened(":memory:", self._policy) as store:
            writer = Writer(store)
            keys = [writer.finish(writer.write(batch)).id for batch in log.every()]
            lines = b"".join(arc.write(read.recorded(store, key) for key in keys))
        self._append(lines)

    def _append(self, lines: bytes) -> None:
        with open(self._path, "ab", buffering=0, opener=_private) as file:
            file.write(lines)


@contextmanager
def _opened(path: Path | str, policy: Policy | None) -> Iterator[Store]:
    """A store that masks by that policy, by the program's where there is none."""
    with masked_by(policy), Store.open(path) as store:
        yield store


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def keeper(into: Path, policy: Policy | None = None) -> Keeper:
    """The keeper for a path: an `arc/1` file where it ends in .jsonl, else a database.

    Raises StoreUnusable or OSError where nothing can be written there.
    """
    made = InFile if into.suffix == ".jsonl" else InDatabase
    return made(into, policy)


NAME = "recorded"
"""The format of traces that were recorded and never were a file of another tool's."""


_CLIENTS = {
    "claude-cli": "claude-code",
    "codex_cli_rs": "codex",
    "codex_exec": "codex",
    "codex-tui": "codex",
    "qwencode": "qwen-code",
}
"""What agents call themselves in a request, and in the sessions they keep."""

_CLIENT = re.compile(r"([\w.-]+)/(\d[\w.+-]*)")


def client_of(said: str | None) -> tuple[str, str] | None:
    """The agent and its version that a client says it is, None where it is none that is known."""
    found = _CLIENT.match(said or "")
    agent = _CLIENTS.get(found[1].lower()) if found is not None else None
    return None if found is None or agent is None else (agent, found[2])


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
        self._clients: dict[int, tuple[str, str]] = {}
        self._refused: dict[int, Refusal] = {}
        self._changed: set[int] = set()
        self.unread = 0
        """Calls whose request is none that can be read."""

    def __len__(self) -> int:
        """How many calls it holds."""
        return len(self._links.calls)

    def add(self, heard: RecordedExchange) -> bool:
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
        if heard.refused is not None:
            self._refused[number] = heard.refused
        client = client_of(heard.client)
        if client is not None:
            self._clients[number] = client
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
        return [split_overlapping(run, self._made) for run in runs(self._links.calls)]

    def _batch(self, run: Run) -> Batch:
        told = SpanBuilder(run, self._made)
        for call in run.calls:
            told.build(call, self._made[call.number].exchange)
        spans, about = told.spans(), self.about
        start_ns, end_ns = told.times
        session = run.session if run.session != self._own else None
        clients = (self._clients.get(call.number) for call in run.calls)
        agent, version = next(filter(None, clients), (None, None))
        refused = dict[str, str]()
        for refusal in (self._refused.get(call.number) for call in run.calls):
            if refusal is not None:
                label = CAP_LABEL if refusal.kind == "cap" else STOP_LABEL
                refused.setdefault(label, refusal.what)
        header = Header(
            format=NAME,
            source_id=run.source_id,
            run=session,
            title=about.title or told.title,
            task=about.task,
            trial=about.trial,
            variant=about.variant,
            agent=agent,
            outcome=about.outcome,
            labels=about.labels | known(session=session, version=version) | refused,
            start_ns=start_ns,
            end_ns=end_ns,
        )
        return Batch(header=header, spans=spans, last=True)


def split_overlapping(run: Run, made: Mapping[int, Made]) -> Run:
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
