"""A prompt cache that charges as the real one does: prefixes, breakpoints, lifetimes.

A marked block writes the prefix that ends with it, and reads the longest live one that ends with it
or with one of the blocks shortly before it. What a request writes can be read once its answer
begins to be sent, so requests in flight together never read each other's writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import accumulate

from msgspec import Struct

from replay import digests
from tests.messages_api import prefix
from tests.messages_api.content import Body
from tests.messages_api.prefix import Block

FLOOR_TOKENS = 1024
"""A shorter prefix is not cached."""

LOOK_BACK_BLOCKS = 20
"""How many block ends a breakpoint looks at, its own included."""

LIFETIME_S = {"5m": 300.0, "1h": 3600.0}


class Entry(Struct, frozen=True):
    """A cached prefix: how long a read keeps it, and when it ends (seconds on the clock)."""

    lifetime_s: float
    ends_s: float


class Reading(Struct, frozen=True, kw_only=True):
    """What a request found in the cache and what it will leave there, in tokens.

    The four figures add up to the whole input. `writes` are digests with their lifetimes.
    """

    fresh_tokens: int
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    writes: tuple[tuple[str, float], ...] = ()


class PrefixCache:
    """The cache of one server. `clock` gives seconds; entries of another model are never found."""

    def __init__(
        self, clock: Callable[[], float], floor_tokens: int, look_back: int = LOOK_BACK_BLOCKS
    ) -> None:
        self._clock = clock
        self._floor_tokens = floor_tokens
        self._look_back = look_back
        self._entries: dict[str, Entry] = {}
        self._lock = threading.Lock()

    def read(self, body: Body) -> Reading:
        """What the cache holds of a request now. What is used lives on; nothing is written yet."""
        blocks = prefix.row(body)
        digests = list(_digests(str(body["model"]), blocks))
        ends = [prefix.tokens(sum_) for sum_ in accumulate(block.characters for block in blocks)]
        with self._lock:
            hit = self._longest(digests, blocks)
            self._refresh(digests[: hit + 1])
        return self._reading(hit, blocks, digests, ends)

    def write(self, reading: Reading) -> None:
        """Make readable what a request wrote: its answer begins to be sent."""
        now_s = self._clock()
        with self._lock:
            for digest, lifetime_s in reading.writes:
                self._entries[digest] = Entry(lifetime_s, now_s + lifetime_s)

    def _longest(self, digests: list[str], blocks: list[Block]) -> int:
        """The last block of the longest live prefix that a breakpoint reaches, -1 for none."""
        now_s = self._clock()
        ends = {
            at
            for mark, block in enumerate(blocks)
            if block.ttl
            for at in range(max(0, mark - self._look_back + 1), mark + 1)
        }
        live = (at for at in ends if self._ends_s(digests[at]) > now_s)
        return max(live, default=-1)

    def _ends_s(self, digest: str) -> float:
        entry = self._entries.get(digest)
        return entry.ends_s if entry is not None else float("-inf")

    def _refresh(self, used: list[str]) -> None:
        now_s = self._clock()
        for digest in used:
            entry = self._entries.get(digest)
            if entry is not None and entry.ends_s > now_s:
                self._entries[digest] = Entry(entry.lifetime_s, now_s + entry.lifetime_s)

    def _reading(
        self, hit: int, blocks: list[Block], digests: list[str], ends: list[int]
    ) -> Reading:
        read = ends[hit] if hit >= 0 else 0
        done, writes = read, list[tuple[str, float]]()
        written = dict.fromkeys(LIFETIME_S, 0)
        for at in range(hit + 1, len(blocks)):
            ttl = blocks[at].ttl
            if ttl is not None and ends[at] >= self._floor_tokens:
                written[ttl] += ends[at] - done
                done = ends[at]
                writes.append((digests[at], LIFETIME_S[ttl]))
        return Reading(
            fresh_tokens=ends[-1] - done,
            read_tokens=read,
            written_5m_tokens=written["5m"],
            written_1h_tokens=written["1h"],
            writes=tuple(writes),
        )


def _digests(model: str, blocks: list[Block]) -> Iterator[str]:
    """The identity of every prefix, each from the one before."""
    found = digests.digest("model", model)
    for block in blocks:
        found = digests.digest(found, block.identity)
        yield found
