"""What each model call was shown, as chains that share what calls have in common.

Since 2025 the messages of all model calls stand in one pool and a call names ranges of it; older
logs repeat the whole conversation in every call. Either way only what is new since the last call
of a conversation is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Raw, Struct, field

from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.opened import ModelEvent
from replay.formats.inspect.record import entries
from replay.trace import Context, Json, Message, extend

NO_INPUT = "the input was not recorded"
NOT_WHOLE = "part of the input is not in the log"

MAX_CONVERSATION = 1_000_000
"""Messages that the ranges of one call may name; more is no conversation but a broken log."""


_NOTHING = Message(dialect="inspect", body={"role": "", "content": ""})


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

    said: Sequence[Any] = ()
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

    def __init__(self, pool: Sequence[Raw], attachments: Attachments) -> None:
        self._pool = pool
        self._attachments = attachments
        self._read: dict[int, Message] = {}
        self._flaws: dict[int, str] = {}
        self._chains: dict[tuple[str, int | bytes], _Chain] = {}
        self._opening: tuple[Raw, Message, str | None] | None = None
        self._answers: dict[str, Message] = {}

    def answered(self, thread: str, answer: Message) -> None:
        """The model's last answer: where the next call of the thread is shown it, it is this."""
        self._answers[thread] = answer

    def asked(self, thread: str, event: ModelEvent) -> Asked:
        """What a model event of that thread was shown: its input, or the ranges it names."""
        given = entries(event.input)
        if given:
            return self._inline(thread, given)
        refs = event.input_refs
        if isinstance(refs, list) and refs:
            return self._pooled(thread, refs)
        return Asked(flaws=(NO_INPUT,))

    # --- conversations repeated in every call

    def _inline(self, thread: str, given: list[Raw]) -> Asked:
        system, flaw = None, None
        first, missing = self._opened(given[0])
        if first.role == "system":
            system, flaw = first, missing
            given = given[1:]
        if not given:
            return Asked(system=system, flaws=_all((), flaw))
        chain = self._chain(thread, bytes(given[0]))
        shared = _shared(chain.said, given)
        new = (self._message(raw, thread) for raw in given[shared:])
        return self._grow(chain, given, shared, new, system, flaw)

    def _opened(self, raw: Raw) -> tuple[Message, str | None]:
        """The first message, the same object as long as it stays the same."""
        if self._opening is None or self._opening[0] != raw:
            self._opening = (raw, *self._message(raw))
        return self._opening[1:]

    def _message(self, raw: Raw, thread: str | None = None) -> tuple[Message, str | None]:
        message, flaw = self._attachments.message(raw)
        if message is None:
            return _NOTHING, NOT_WHOLE
        answer = self._answers.get(thread or "")
        return (answer, flaw) if answer is not None and answer == message else (message, flaw)

    # --- conversations that name ranges of the pool

    def _pooled(self, thread: str, refs: list[Json]) -> Asked:
        ranges, broken = _ranges(refs, len(self._pool))
        if not ranges or sum([stop - start for start, stop in ranges]) > MAX_CONVERSATION:
            return Asked(flaws=(NO_INPUT,))
        system, flaw = None, None
        first, stop = ranges[0]
        opening = self._at(first)
        if opening[0].role == "system":
            system, flaw = opening
            ranges[:1] = [(first + 1, stop)] if first + 1 < stop else []
        if not ranges:
            return Asked(system=system, flaws=_all((), broken, flaw))
        chain = self._chain(thread, ranges[0][0])
        shared = _shared_ranges(chain.said, ranges)
        new = (self._at(place, thread) for place in _after(ranges, shared))
        return self._grow(chain, ranges, shared, new, system, broken, flaw)

    def _at(self, place: int, thread: str | None = None) -> tuple[Message, str | None]:
        found = self._read.get(place)
        if found is None:
            found, flaw = self._message(self._pool[place], thread)
            self._read[place] = found
            if flaw is not None:
                self._flaws[place] = flaw
        return found, self._flaws.get(place)

    # --- both

    def _chain(self, thread: str, begins: int | bytes) -> _Chain:
        """The conversation of a thread that begins so: an agent and its critic may take turns."""
        return self._chains.setdefault((thread, begins), _Chain())

    def _grow(
        self,
        chain: _Chain,
        said: Sequence[Any],
        shared: int,
        new: Iterable[tuple[Message, str | None]],
        system: Message | None,
        *flaws: str | None,
    ) -> Asked:
        chain.cut(shared)
        chain.said = said
        for message, flaw in new:
            chain.add(message, flaw)
        return Asked(
            system=system,
            context=chain.nodes[-1],
            fresh=tuple(node.message for node in chain.nodes[shared:]),
            flaws=_all(chain.flaws[-1], *flaws),
        )


def _all(known: tuple[str, ...], *flaws: str | None) -> tuple[str, ...]:
    """What is missing, each thing once."""
    if not any(flaws):
        return known
    return tuple(dict.fromkeys((*filter(None, flaws), *known)))


def _shared(before: Sequence[Raw], now: Sequence[Raw]) -> int:
    """How many leading messages are equal."""
    for count, (ours, theirs) in enumerate(zip(before, now, strict=False)):
        if ours != theirs:
            return count
    return min(len(before), len(now))


def _ranges(refs: list[Json], size: int) -> tuple[list[Range], str | None]:
    """The ranges that lie in the pool, adjacent ones as one; what is missing where one does not."""
    found: list[Range] = []
    broken = None
    for ref in refs:
        if not _is_range(ref) or not 0 <= ref[0] < ref[1] <= size:
            broken = NOT_WHOLE
        elif found and found[-1][1] == ref[0]:
            found[-1] = (found[-1][0], ref[1])
        else:
            found.append((ref[0], ref[1]))
    return found, broken


def _is_range(ref: Json) -> bool:
    if not isinstance(ref, (list, tuple)) or len(ref) != 2:
        return False
    return type(ref[0]) is int and type(ref[1]) is int


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
