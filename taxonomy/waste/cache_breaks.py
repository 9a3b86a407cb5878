"""Where did the prefix cache break, and why?

A provider keeps the front of a request and serves it cheaper to the next one that begins the same.
A break is a step that read clearly less of it than the step before it in its thread had left there.
Only recorded figures count: a source without them has no breaks, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.trace import Step, Trace, Usage
from taxonomy.waste.cache_causes import Cause, causes
from taxonomy.waste.sends import threads_of
from taxonomy.waste.spending import rates_of, unread_rate

SHARE = 0.1
"""A smaller fall is none: caches keep whole blocks of tokens, and forget one now and then."""

TOKENS = 256
"""Neither is one of fewer tokens than a block or two."""


class CacheBreak(Struct, frozen=True, kw_only=True):
    """Step `after` had left `left_tokens` in the cache, `step` read only `read_tokens` of them.

    `fall` is the share that was not read. `left_exact` False: the source does not count what was
    written, so that at least so many were there. `missed_tokens` of the request could have been
    read had it gone on as before; that they were not cost `extra_usd` more, None where the price is
    not known.
    """

    step: int
    after: int
    thread: str
    left_tokens: int
    left_exact: bool
    read_tokens: int
    fall: float
    missed_tokens: int
    extra_usd: float | None
    causes: tuple[Cause, ...]


def cache_breaks(trace: Trace) -> tuple[CacheBreak, ...]:
    """The breaks of every thread, in step order; none where no step counts what it read."""
    threads = threads_of(trace.steps)
    found = [each for steps in threads.values() for each in _in_thread(steps)]
    return tuple(sorted(found, key=lambda each: each.step))


def falls(left: int, read: int, size: int) -> int:
    """How many tokens a request of `size` should have read beyond those it did; 0 for no break.

    `left` tokens were in the cache. A shorter request can read no more than itself.
    """
    missed = min(left, size) - read
    return missed if missed >= TOKENS and missed >= SHARE * min(left, size) else 0


def _in_thread(steps: Sequence[Step]) -> Iterator[CacheBreak]:
    known: Step | None = None
    for place, step in enumerate(steps):
        read = _read(step)
        if read is None:
            continue
        if known is not None:
            left, exact = _left(known)
            missed = falls(left, read, _usage(step).input_tokens or 0)
            if missed:
                yield CacheBreak(
                    step=step.index,
                    after=known.index,
                    thread=step.thread,
                    left_tokens=left,
                    left_exact=exact,
                    read_tokens=read,
                    fall=1 - read / left,
                    missed_tokens=missed,
                    extra_usd=_extra_usd(step, missed),
                    causes=causes(known, steps[:place], step),
                )
        known = step


def _usage(step: Step) -> Usage:
    return step.ask.usage or Usage()


def _read(step: Step) -> int | None:
    """What a step read from the cache, None where it or the size of the request is not known."""
    usage = _usage(step)
    return None if usage.input_tokens is None else usage.cache_read_tokens


def _left(step: Step) -> tuple[int, bool]:
    """What a step left in the cache: what it read and what it wrote, and is that all of it?"""
    usage = _usage(step)
    written = usage.cache_write_tokens
    return (usage.cache_read_tokens or 0) + (written or 0), written is not None


def _extra_usd(step: Step, missed: int) -> float | None:
    rates = rates_of(step)
    return None if rates is None else missed * (unread_rate(_usage(step), rates) - rates.read)
