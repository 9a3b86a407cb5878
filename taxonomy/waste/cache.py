"""Where did the prompt cache break, and why?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from replay import digests
from replay.messages import text
from replay.trace import Json, Level, Message, Request, Step, Tool, Trace, Usage
from taxonomy.evidence.claims import moments
from taxonomy.evidence.results import cut
from taxonomy.waste.repeats import rates_of, unread_rate
from taxonomy.waste.resent import threads_of

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


LIFE_NS = 300 * 1_000_000_000
LONG_LIFE_NS = 3600 * 1_000_000_000
"""How long providers keep a prefix that nobody reads: as written by default, and for an hour."""

FLOOR_TOKENS = 1024
"""Requests of fewer tokens are seldom kept; the floor differs by model."""

SETTINGS = ("tool_choice", "thinking")
"""Parameters whose change leaves the cached messages behind."""

_QUOTE = 40
_DIGITS = re.compile(r"\d+")


class Kind(StrEnum):
    TOOLS = "tools changed"
    SYSTEM = "system prompt changed"
    MESSAGE = "earlier message changed"
    REWRITTEN = "conversation rewritten"
    SETTINGS = "settings changed"
    MODEL = "model changed"
    PAUSE = "pause"
    SMALL = "short prompt"
    UNKNOWN = "cause unknown"


class Cause(Struct, frozen=True, kw_only=True):
    """One thing that differs between two requests, and in what."""

    kind: Kind
    detail: str


def causes(earlier: Step, before: Sequence[Step], later: Step) -> tuple[Cause, ...]:
    """Why `later` missed what `earlier` left; `before` are all steps of the thread before it."""
    found = tuple(_found(earlier, before, later))
    return found or (Cause(kind=Kind.UNKNOWN, detail=_not_known(earlier, later)),)


def _found(earlier: Step, before: Sequence[Step], later: Step) -> Iterator[Cause]:
    old, new = earlier.ask.request, later.ask.request
    yield from _tools(old.tools, new.tools)
    yield from _system(old.system, new.system)
    yield from _messages(_conversation(old), _conversation(new))
    yield from _settings(old, new)
    yield from _model(earlier, later)
    yield from _pause(before, later)
    yield from _small(later)


# --- what was sent


def _tools(old: tuple[Tool, ...] | None, new: tuple[Tool, ...] | None) -> Iterator[Cause]:
    if old is None or new is None or digests.toolset_digest(old) == digests.toolset_digest(new):
        return
    was = {tool.name: digests.toolset_digest((tool,)) for tool in old}
    now = {tool.name: digests.toolset_digest((tool,)) for tool in new}
    changes = {
        "added": [name for name in now if name not in was],
        "removed": [name for name in was if name not in now],
        "rewritten": [name for name in now if was.get(name, now[name]) != now[name]],
    }
    said = [f"{', '.join(names)} {word}" for word, names in changes.items() if names]
    yield Cause(kind=Kind.TOOLS, detail="; ".join(said) or "their order")


def _system(old: Message | None, new: Message | None) -> Iterator[Cause]:
    if old is None or new is None or _same(old, new):
        return
    was, now = text(old), text(new)
    dates = [_dates(was), _dates(now)]
    if dates[0] != dates[1] and _undated(was) == _undated(now):
        gone = next((date for date in dates[0] if date not in dates[1]), "none")
        come = next((date for date in dates[1] if date not in dates[0]), "none")
        detail = f"only its date: {gone} became {come}"
    elif _DIGITS.sub("0", was) == _DIGITS.sub("0", now):
        detail = f"only numbers: {_difference(was, now)}"
    else:
        detail = _difference(was, now)
    yield Cause(kind=Kind.SYSTEM, detail=detail)


def _dates(words: str) -> list[str]:
    return [moment.text for moment in moments(words, year=2000)]


def _undated(words: str) -> str:
    for date in sorted(_dates(words), key=len, reverse=True):
        words = words.replace(date, "")
    return words


def _difference(was: str, now: str) -> str:
    """The first words that differ, as they were and as they are."""
    at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), None)
    start = max(0, min(len(was), len(now)) if at is None else at)
    start = max(0, was.rfind(" ", 0, start) + 1)
    return f"“{cut(was[start:], _QUOTE)}” became “{cut(now[start:], _QUOTE)}”"


def _messages(old: list[Message], new: list[Message]) -> Iterator[Cause]:
    shared = _shared(old, new)
    if shared == len(old):
        return
    gone = old[shared:]
    if shared == len(new):
        detail = f"its last {len(gone)} of {len(old)} messages were removed"
        yield Cause(kind=Kind.REWRITTEN, detail=detail)
    elif _holds(new[shared:], gone):
        detail = f"inserted before message {shared} ({old[shared].role})"
        yield Cause(kind=Kind.MESSAGE, detail=detail)
    elif len(new) >= len(old):
        pairs = zip(old, new, strict=False)
        count = sum(not _same(was, now) for was, now in pairs)
        more = f", the first of {count} changed" if count > 1 else ""
        detail = f"message {shared} ({old[shared].role}) of {len(old)}{more}"
        yield Cause(kind=Kind.MESSAGE, detail=detail)
    else:
        detail = f"{len(old)} messages became {len(new)}, of which the first {shared} are the same"
        yield Cause(kind=Kind.REWRITTEN, detail=detail)


def _conversation(request: Request) -> list[Message]:
    return request.context.messages() if request.context is not None else []


def _shared(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many leading messages are the same."""
    for place, (was, now) in enumerate(zip(old, new, strict=False)):
        if not _same(was, now):
            return place
    return min(len(old), len(new))


def _holds(messages: Sequence[Message], part: Sequence[Message]) -> bool:
    """Do the messages begin, after some new ones, with all of `part`?"""
    starts = (at for at, each in enumerate(messages) if _same(each, part[0]))
    at = next(starts, len(messages))
    return _shared(messages[at:], part) == len(part)


def _same(left: Message, right: Message) -> bool:
    """Do two messages read the same to a model? A text is the same alone or in a block."""
    return left is right or _read_from_cache(left) == _read_from_cache(right)


def _read_from_cache(message: Message) -> Json:
    volatile = digests.VOLATILE[message.dialect]
    body = {name: each for name, each in message.body.items() if name not in volatile}
    content = body.get("content")
    if isinstance(content, str):
        body["content"] = [{"type": "text", "text": content}]
    return digests.seen(body)


# --- what lies beside it


def _settings(old: Request, new: Request) -> Iterator[Cause]:
    changed = [name for name in SETTINGS if old.params.get(name) != new.params.get(name)]
    if changed:
        yield Cause(kind=Kind.SETTINGS, detail=", ".join(changed))


def _model(earlier: Step, later: Step) -> Iterator[Cause]:
    for was, now in (
        (earlier.ask.request.model, later.ask.request.model),
        (earlier.ask.response.model, later.ask.response.model),
    ):
        if was is not None and now is not None and was != now:
            yield Cause(kind=Kind.MODEL, detail=f"{was} became {now}")
            return


def _pause(before: Sequence[Step], later: Step) -> Iterator[Cause]:
    """Longer since the step before ended than what had been written is kept."""
    ended = before[-1].ask.end_ns or before[-1].ask.start_ns
    if ended is None or later.ask.start_ns is None:
        return
    life, waited = _life_ns(before), later.ask.start_ns - ended
    if waited > life:
        minutes = f"{waited / 60e9:.0f} min after step {before[-1].index}"
        yield Cause(
            kind=Kind.PAUSE, detail=f"{minutes}; a prefix stays cached {life / 60e9:.0f} min"
        )


def _life_ns(before: Sequence[Step]) -> int:
    """An hour where all that was written was written for an hour."""
    usages = [step.ask.usage for step in before if step.ask.usage is not None]
    written = sum(each.cache_write_tokens or 0 for each in usages)
    for_an_hour = sum(each.cache_write_1h_tokens or 0 for each in usages)
    return LONG_LIFE_NS if for_an_hour and for_an_hour >= written else LIFE_NS


def _small(later: Step) -> Iterator[Cause]:
    size = later.ask.usage.input_tokens if later.ask.usage is not None else None
    if size is not None and size < FLOOR_TOKENS:
        detail = f"{size} tokens; providers rarely cache under {FLOOR_TOKENS}"
        yield Cause(kind=Kind.SMALL, detail=detail)


def _not_known(earlier: Step, later: Step) -> str:
    """That nothing differs, as far as it was recorded, and what was not."""
    asks = (earlier.ask, later.ask)
    missing = [
        name
        for name, absent in (
            ("tools", any(ask.request.tools is None for ask in asks)),
            ("system prompt", _lacks_system(earlier, later)),
            ("messages", any(ask.request.context is None for ask in asks)),
        )
        if absent
    ]
    said = "no recorded difference"
    if missing:
        return f"{said}; not recorded: {', '.join(missing)}"
    if any(ask.fidelity.level is not Level.EXACT for ask in asks):
        return f"{said}, but the requests themselves were not recorded"
    return said


def _lacks_system(earlier: Step, later: Step) -> bool:
    """No system prompt may mean that there was none, unless the request is known in full."""
    return any(
        ask.request.system is None and ask.fidelity.level is not Level.EXACT
        for ask in (earlier.ask, later.ask)
    )
