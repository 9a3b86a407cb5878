"""A command run behind a proxy that records what it asks models.

The proxy's thread passes on and overhears; another one writes, never more than half of the time.
The last of an answer is passed on when its call is committed: a kill of this process takes no
call that the command has whole. The command has the terminal to itself: its input and output are
ours, and ctrl-c is its affair. Whatever goes wrong with the recording, the command goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from arc_tui.features.record.live import Commits, LiveWriter, Written, write_until
from replay.budget import Limits
from replay.errors import ArcError
from replay.models.protocol import OFFICIAL
from replay.providers import Rates
from replay.recorder.caps import NO_CAPS, CallGuard, caps_text
from replay.recorder.exchange import RecordedExchange
from replay.recorder.recording import About, Log
from replay.store.handle import now_ns
from replay.store.trouble import keeping_errors
from replay.trace import CAPS_LABEL

_T = TypeVar("_T")

NOT_FOUND, NOT_ALLOWED, BY_SIGNAL = 127, 126, 128
"""What shells give for a command that is not there, cannot be run, was ended by a signal."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_PROVIDERS = (
    ("anthropic", "ANTHROPIC_BASE_URL", OFFICIAL),
    ("openai", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
)


class Recorded(Struct, frozen=True, kw_only=True):
    """What came of it: the command's exit code, the traces, how many calls could not be read, and
    why something could not be kept; how many calls were refused, how many of those are no part of
    the recording, and by which cap or order the last one was."""

    code: int
    traces: tuple[Written, ...] = ()
    unread: int = 0
    trouble: str | None = None
    refused: int = 0
    unrecorded: int = 0
    refusal: str | None = None


class CannotRun(ArcError):
    """The command did not start; `code` is what a shell would give."""

    def __init__(self, command: str, error: OSError) -> None:
        why = (error.strerror or str(error)).lower()
        super().__init__(f"{command}: cannot run: {why}")
        self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_ALLOWED


RECORDED_REFUSALS = 20
"""Refused calls that become steps; a program that goes on asking would fill the database."""


async def record(
    path: Path,
    command: Sequence[str],
    about: About,
    *,
    split: bool = False,
    caps: Limits = NO_CAPS,
    rates: Mapping[str, Rates] | None = None,
) -> Recorded:
    """Run a command and record what it asks into a database, within caps that are counted over all
    of it; `rates` are prices that a person configured.

    Raises CannotRun where there is no such command, StoreUnusable where there is no database, and
    ArcError where a provider's address in the environment is none, and where the recorders of the
    database are stopped.
    """
    from arc_tui.features.record.proxy import Provider, Proxy

    providers = tuple(
        Provider(name, variable, os.environ.get(variable) or official)
        for name, variable, official in _PROVIDERS
    )
    guard = CallGuard(path, caps, rates=rates)
    order = guard.stopped
    if order is not None:
        raise ArcError(f"recording into {path} is {order.text}", "Try: arc stop --off")
    if caps.any:
        about = structs.replace(about, labels=about.labels | {CAPS_LABEL: caps_text(caps)})
    exchanges: list[RecordedExchange] = []
    commits = Commits()
    refusals = count(1)
    unrecorded = 0

    def take(each: RecordedExchange) -> Awaitable[bool]:
        nonlocal unrecorded
        if each.refused is not None and next(refusals) > RECORDED_REFUSALS:
            unrecorded += 1
        else:
            exchanges.append(each)
        return commits.awaited()

    with ThreadPoolExecutor(1, thread_name_prefix="arc-writer") as thread:
        scribe = _ExchangeWriter(thread, about, split=split)
        await scribe.open(path)
        try:
            async with Proxy(providers, take, guard) as proxy:
                child = await _begun(command, {**os.environ, **_direct(proxy.environment())})
                code = await _while_it_runs(child, exchanges, commits, scribe)
                with commits.committing():  # for who still waits: a child of the command
                    await scribe.write(exchanges)
            await scribe.write(exchanges)
            await scribe.end()
        finally:
            await scribe.close()
    return Recorded(
        code=code,
        traces=tuple(scribe.traces.values()),
        unread=scribe.unread,
        trouble=scribe.trouble,
        refused=guard.refused,
        unrecorded=unrecorded,
        refusal=guard.refusal,
    )


def _direct(variables: Mapping[str, str]) -> dict[str, str]:
    """With them, that what goes to this machine goes there directly."""
    found = dict(variables)
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [each for each in os.environ.get(name, "").split(",") if each]
        found[name] = ",".join([*hosts, "127.0.0.1", "localhost"])
    return found


async def _begun(
    command: Sequence[str], environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        raise CannotRun(command[0], error) from error


async def _while_it_runs(
    child: asyncio.subprocess.Process,
    exchanges: list[RecordedExchange],
    commits: Commits,
    scribe: _ExchangeWriter,
) -> int:
    """Write what is heard until the command ends; its exit code."""
    ended = asyncio.Event()
    waiting = asyncio.create_task(child.wait())

    async def write() -> None:
        with commits.committing():
            await scribe.write(exchanges)

    waiting.add_done_callback(lambda _: ended.set())
    with _signals_for(child):
        await write_until(ended, commits.news, write)
        code = await waiting
    return code if code >= 0 else BY_SIGNAL - code


@contextmanager
def _signals_for(child: asyncio.subprocess.Process) -> Iterator[None]:
    """What would end us is for the command to decide. A terminal tells ctrl-c to both."""
    loop = asyncio.get_running_loop()

    def hand_on(number: signal.Signals) -> None:
        sent_by_terminal = number == signal.SIGINT and _has_terminal()
        if not sent_by_terminal and child.returncode is None:
            child.send_signal(number)

    with suppress(NotImplementedError):  # where loops know no signals, ctrl-c ends us too
        for each in _SIGNALS:
            loop.add_signal_handler(each, hand_on, each)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for each in _SIGNALS:
                loop.remove_signal_handler(each)


def _has_terminal() -> bool:
    """Are we, and so the command, what a terminal tells of ctrl-c?"""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class _ExchangeWriter:
    """Writes what is heard, in a thread of its own. Trouble is remembered and nothing is lost by
    it: at the end everything is written once more."""

    def __init__(self, thread: ThreadPoolExecutor, about: About, *, split: bool) -> None:
        self.traces: dict[str, Written] = {}
        self.trouble: str | None = None
        self._thread = thread
        self._log = Log(about, apart=split)
        self._writer: LiveWriter | None = None

    @property
    def unread(self) -> int:
        return self._log.unread

    async def open(self, path: Path) -> None:
        self._writer = await self._there(partial(LiveWriter, path))

    async def write(self, exchanges: list[RecordedExchange]) -> None:
        """Take what is in the list out of it, and write what it adds."""
        while exchanges:
            await self._there(partial(self._log.add, exchanges.pop(0)))
        await self._there(partial(self._guarded, self._write))

    async def end(self) -> None:
        await self._there(partial(self._guarded, self._end))

    async def close(self) -> None:
        if self._writer is not None:
            await self._there(self._writer.close)

    def _there(self, work: Callable[[], _T]) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _guarded(self, work: Callable[[LiveWriter], None]) -> None:
        assert self._writer is not None
        try:
            work(self._writer)
        except keeping_errors() as error:
            self.trouble = str(error)

    def _write(self, writer: LiveWriter) -> None:
        for batch in self._log.changed():
            self._keep(writer.put(batch, over=False))
        writer.keep_live(now_ns())

    def _end(self, writer: LiveWriter) -> None:
        self.trouble = None
        for batch in self._log.every():
            self._keep(writer.put(batch, over=True))

    def _keep(self, written: Written) -> None:
        if written.state == "refused":
            self.trouble = written.why
        else:
            self.traces[written.id] = written
