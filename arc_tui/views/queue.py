"""A walk through the queue: which run is next, what was said on the way, and who else said what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from arc_tui.ui import format
from replay.store.handle import Store
from taxonomy.classes import class_label
from taxonomy.judgements.tags import CleanMark, Tag, human_words
from taxonomy.queue import Queue, Waiting

if TYPE_CHECKING:
    from taxonomy.calibration.disagreement import RaterPair

HumanMark = Tag | CleanMark
"""What a person said of a run."""


class Visit(Struct, frozen=True, eq=False, kw_only=True):
    """A queue as it was when it was opened, the place in it, and what was said since, last last.

    `seen` are the runs of a blind queue whose tags by others were shown. What was skipped is behind
    the place and nowhere else: the next visit offers it again.
    """

    queue: Queue
    place: int = 0
    marks: tuple[HumanMark, ...] = ()
    seen: frozenset[str] = frozenset()

    @property
    def here(self) -> Waiting:
        return self.queue.waiting[self.place]

    @property
    def blind(self) -> bool:
        return self.queue.blind

    @property
    def line(self) -> str:
        """Where in which queue: `queue 3 of 41 · untagged failure`."""
        name = "blind queue" if self.blind else "queue"
        return f"{name} {self.place + 1} of {len(self.queue.waiting)} · {self.here.reason}"

    @property
    def ended(self) -> str:
        """What is said after the last run."""
        done, runs = len({each.trace for each in self.marks}), len(self.queue.waiting)
        skipped = f", {runs - done} skipped" if done < runs else ""
        return f"Review queue done: {format.count(done, 'run')} done{skipped}"

    @property
    def last(self) -> bool:
        return self.place + 1 == len(self.queue.waiting)

    def at(self, place: int) -> Visit:
        """The same walk at another run."""
        return structs.replace(self, place=place)

    def place_of(self, mark: HumanMark) -> int:
        """The run that a word was said of."""
        return [each.trace for each in self.queue.waiting].index(mark.trace)


def mark_text(mark: HumanMark) -> str:
    """What was said, in a few words."""
    if isinstance(mark, CleanMark):
        return "clean run"
    return f"step {mark.step} tagged {format.one_line(class_label(mark.failure, mark.sub))}"


def nothing_waits(found: Queue, *, seen: str = "", blind: str = "") -> str:
    """What is said of an empty queue; `seen` and `blind` are how the other one is opened."""
    other, goes_to = (seen, "untagged runs") if found.blind else (blind, "runs tagged by others")
    hidden = f"{format.count(found.held_out, 'run')} of held-out tasks hidden"
    parts = [_nothing(found), hidden if found.held_out else ""]
    return "; ".join(filter(None, [*parts, f"{other} shows {goes_to}" if other else ""]))


def _nothing(found: Queue) -> str:
    if found.blind:
        return f"Review queue empty: no run tagged by others for {format.one_line(found.by)}"
    return "Review queue empty: no untagged failure, no ✓! run, no run of the audit sample"


class Compared(Struct, frozen=True, kw_only=True):
    """What others said of a run, each beside what this person said."""

    lines: tuple[str, ...]
    same: bool


def build_compared(store: Store, run: str, by: str) -> Compared:
    """What a blind second pass shows after the word was given."""
    from taxonomy.calibration.disagreement import RaterPair, opinions  # calibration is large

    known = list(opinions(human_words(store, run)))
    own = next((each for each in known if each.by == by), None)
    others = [each for each in known if each.by != by]
    if own is None:
        return Compared(lines=(), same=False)
    pairs = [RaterPair(one=own, other=each) for each in others]
    return Compared(
        lines=tuple(_comparison(pair) for pair in pairs),
        same=all(pair.same and not pair.apart for pair in pairs),
    )


def _comparison(pair: RaterPair) -> str:
    you, they = format.one_line(pair.one.words), format.one_line(pair.other.words)
    return (
        f"you: {you} · {format.one_line(pair.other.by)}: {they} · {', '.join(_differences(pair))}"
    )


def _differences(pair: RaterPair) -> Iterator[str]:
    yield "the same class" if pair.same else "another class"
    if pair.apart is not None:
        yield "the same step" if not pair.apart else f"{format.count(pair.apart, 'step')} apart"
