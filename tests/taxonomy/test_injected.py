"""What became of errors put in, kept and counted as a recovery rate."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from replay.error_injection.run import Outcome
from replay.error_injection.values import Wrong
from replay.store.handle import Store
from taxonomy.stats import recovery
from taxonomy.stats.recovery import Injected, Tried


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def found(
    *outcomes: Outcome, step: int = 2, own: bool = True, trace: str = "a", text: str = "x"
) -> Injected:
    wrong = Wrong(kind="observation", step=step, call=0, tool="t", arguments={}, text=text)
    tried = tuple(
        Tried(sample=at, outcome=each, because="", after=1 if each == "corrected" else None)
        for at, each in enumerate(outcomes)
    )
    return Injected(trace=trace, task="t", model="m", own=own, wrong=wrong, tried=tried)


def test_samples_of_one_error_count_once_by_their_share() -> None:
    made = recovery.recovery_of(
        [found("corrected", "acted", "corrected", "carried"), found("corrected", trace="b")]
    )
    assert (made.rate.value, made.rate.n) == (0.75, 2)


def test_what_cannot_be_told_is_counted_apart_and_so_is_another_place() -> None:
    made = recovery.recovery_of(
        [found("unknown"), found("unknown", "acted"), found("corrected", step=5)]
    )
    assert (made.rate.value, made.rate.n, made.unknown, made.elsewhere) == (0.5, 2, 1, 1)


def test_errors_after_which_another_model_was_asked_are_not_the_agent_s() -> None:
    made = recovery.recovery_of([found("corrected", own=False)])
    assert (made.rate.value, made.rate.n, made.elsewhere) == (None, 0, 0)


def test_the_lines_are_those_that_stats_reads_and_leave_out_what_cannot_be_told() -> None:
    lines = recovery.lines([found("corrected", "unknown", "carried")])
    assert [msgspec.json.encode(line) for line in lines] == [
        b'{"run":"a","step":2,"corrected_after":1}',
        b'{"run":"a","step":2,"corrected_after":null}',
    ]


def test_the_same_error_again_takes_the_place_of_what_was_known_of_it(store: Store) -> None:
    recovery.keep(store, found("acted"))
    recovery.keep(store, found("corrected"))
    recovery.keep(store, found("carried", text="another"))
    kept = recovery.kept(store)
    assert sorted(each.tried[0].outcome for each in kept) == ["carried", "corrected"]
    assert all(each.at_ns for each in kept)
