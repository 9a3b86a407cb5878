"""What each model call was shown, as chains that share what calls have in common.

Since 2025 the messages of all model calls stand in one pool and a call names ranges of it; older
logs repeat the whole conversation in every call. Either way only what is new since the last call
of a conversation is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, field

from replay.formats.fields import listed, obj
from replay.formats.inspect.attachments import Attachments
from replay.trace import Context, Json, Message, extend

NO_INPUT = "the input was not recorded"
NOT_WHOLE = "part of the input is not in the log"

MAX_CONVERSATION = 1_000_000
"""Messages that the ranges of one call may name; more is no conversation but a broken log."""


class Asked(NamedTuple):
    """What a model call was shown. `fresh` joined since the last call of its conversation."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    flaws: tuple[str, ...] = ()


Range: TypeAlias = tuple[int, int]
"""Places of the pool: from, up to but without."""


class _Chain(Struct):
    """A conversation as far as it is known: what was said, a node and the flaws at each message."""

    said: Sequence[Json] = ()
    nodes: list[Context] = field(default_factory=list)
    flaws: list[tuple[str, ...]] = field(default_factory=list)

    def cut(self, length: int) -> None:
        del self.nodes[length:], self.flaws[length:]

    def add(self, message: Message, flaw: str | None) -> None:
        known = self.flaws[-1] if self.flaws else ()
        grown = extend(self.nodes[-1] if self.nodes else None, (message,))
        assert grown is not None
        self.nodes.append(grown)
        self.flaws.append((*known, flaw) if flaw and flaw not in known else known)


class Conversations:
    """The contexts of one sample's model calls, in the order of its events."""

    def __init__(self, sample: dict[str, Any], attachments: Attachments) -> None:
        pooled = obj(sample.get("events_data")).get("messages") or sample.get("message_pool")
        self._pool = listed(pooled)
        self._attachments = attachments
        self._read: dict[int, tuple[Message, str | None]] = {}
        self._chains: dict[tuple[str, int | bytes], _Chain] = {}
        self._system: tuple[Json, Message, str | None] | None = None

    def asked(self, thread: str, event: dict[str, Any]) -> Asked:
        """What a model event of that thread was shown: its input, or the ranges it names."""
        given, refs = event.get("input"), event.get("input_refs")
        if isinstance(given, list) and given:
            return self._inline(thread, given)
        if isinstance(refs, list) and refs:
            return self._pooled(thread, refs)
        return Asked(flaws=(NO_INPUT,))

    # --- conversations repeated in every call

    def _inline(self, thread: str, given: list[Json]) -> Asked:
        bodies = [body for body in given if isinstance(body, dict)]
        broken = (NOT_WHOLE,) if len(bodies) < len(given) else ()
        system, flaw = None, None
        if bodies and bodies[0].get("role") == "system":
            system, flaw = self._lifted(bodies[0])
            bodies = bodies[1:]
        if not bodies:
            return Asked(system=system, flaws=_all(broken, flaw))
        chain = self._chain(thread, msgspec.json.encode(bodies[0]))
        shared = _shared(chain.said, bodies)
        new = (self._attachments.message(body) for body in bodies[shared:])
        return self._grow(chain, bodies, shared, new, system, _all(broken, flaw))

    def _lifted(self, body: dict[str, Any]) -> tuple[Message, str | None]:
        """The system message, the same object as long as it stays the same."""
        if self._system is None or self._system[0] != body:
            self._system = (body, *self._attachments.message(body))
        return self._system[1:]

    # --- conversations that name ranges of the pool

    def _pooled(self, thread: str, refs: list[Json]) -> Asked:
        ranges = list(_ranges(refs, len(self._pool)))
        if not ranges or sum(stop - start for start, stop in ranges) > MAX_CONVERSATION:
            return Asked(flaws=(NO_INPUT,))
        broken = (NOT_WHOLE,) if _named(refs) != _named(ranges) else ()
        system, flaw = None, None
        first, stop = ranges[0]
        if obj(self._pool[first]).get("role") == "system":
            system, flaw = self._at(first)
            ranges[:1] = [(first + 1, stop)] if first + 1 < stop else []
        if not ranges:
            return Asked(system=system, flaws=_all(broken, flaw))
        chain = self._chain(thread, ranges[0][0])
        shared = _shared_ranges(chain.said, ranges)
        new = map(self._at, _after(ranges, shared))
        return self._grow(chain, ranges, shared, new, system, _all(broken, flaw))

    def _at(self, place: int) -> tuple[Message, str | None]:
        if place not in self._read:
            body = self._pool[place]
            if isinstance(body, dict):
                self._read[place] = self._attachments.message(body)
            else:
                nothing: dict[str, Json] = {"role": "", "content": ""}
                self._read[place] = Message(dialect="inspect", body=nothing), NOT_WHOLE
        return self._read[place]

    # --- both

    def _chain(self, thread: str, begins: int | bytes) -> _Chain:
        """The conversation of a thread that begins so: an agent and its critic may take turns."""
        return self._chains.setdefault((thread, begins), _Chain())

    def _grow(
        self,
        chain: _Chain,
        said: Sequence[Json],
        shared: int,
        new: Iterable[tuple[Message, str | None]],
        system: Message | None,
        flaws: tuple[str, ...],
    ) -> Asked:
        chain.cut(shared)
        chain.said = said
        for message, flaw in new:
            chain.add(message, flaw)
        return Asked(
            system=system,
            context=chain.nodes[-1],
            fresh=tuple(node.message for node in chain.nodes[shared:]),
            flaws=tuple(dict.fromkeys((*flaws, *chain.flaws[-1]))),
        )


def _all(flaws: tuple[str, ...], flaw: str | None) -> tuple[str, ...]:
    return (*flaws, flaw) if flaw else flaws


def _shared(before: Sequence[Json], now: Sequence[Json]) -> int:
    """How many leading messages are equal."""
    count = 0
    for ours, theirs in zip(before, now, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _ranges(refs: list[Json], size: int) -> Iterator[Range]:
    """The ranges that lie in the pool; adjacent ones are one."""
    last: Range | None = None
    for ref in refs:
        if not _is_range(ref) or not 0 <= ref[0] < ref[1] <= size:
            continue
        if last is not None and last[1] == ref[0]:
            last = (last[0], ref[1])
            continue
        if last is not None:
            yield last
        last = (ref[0], ref[1])
    if last is not None:
        yield last


def _is_range(ref: Json) -> bool:
    return isinstance(ref, (list, tuple)) and len(ref) == 2 and all(type(end) is int for end in ref)


def _named(refs: Sequence[Json]) -> int:
    """How many messages the ranges name, -1 where one of them is no range."""
    if not all(map(_is_range, refs)):
        return -1
    return sum(max(0, stop - start) for start, stop in refs)


def _shared_ranges(before: Sequence[Json], now: Sequence[Range]) -> int:
    """How many leading messages two lists of ranges share; neither has adjacent ranges."""
    count = 0
    for ours, theirs in zip(before, now, strict=False):
        if ours[0] != theirs[0]:
            break
        count += min(ours[1], theirs[1]) - ours[0]
        if ours[1] != theirs[1]:
            break
    return count


def _after(ranges: Iterable[Range], count: int) -> Iterator[int]:
    """The places that the ranges name, without the first `count`."""
    for start, stop in ranges:
        skipped = min(count, stop - start)
        count -= skipped
        yield from range(start + skipped, stop)
