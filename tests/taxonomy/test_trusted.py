"""Scores that may be used without asking: of a judge, only what was checked and still stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replay.store import Store
from taxonomy.calibration import gate
from taxonomy.calibration.agreement import Estimate
from taxonomy.ledger import open_ledger
from taxonomy.trusted import trusted_scores

TRACE, DAY_NS = "0123456789abcdef", 24 * 3600 * 10**9


@pytest.fixture
def store() -> Iterator[Store]:
    with open_ledger(":memory:") as opened:
        yield opened


def scored(store: Store, by: str, source: str, steps: int) -> None:
    for step in range(steps):
        store.db.table("score").insert(
            {"trace": TRACE, "span": f"s{step}", "step": step, "value": 0.5, "source": source,
             "by": by, "items": "[]"}
        )  # fmt: skip


def checked(store: Store, by: str, *missing: str, at_ns: int = 0) -> None:
    r = Estimate(value=0.9, low=0.8, high=0.95, n=50)
    gate.keep(store, gate.Gate(by=by, r=r, missing=missing, checked_ns=at_ns))


def names(store: Store, now_ns: int = DAY_NS, step: int | None = None) -> set[str]:
    return {score.by for score in trusted_scores(store, TRACE, now_ns, step)}


def test_a_judge_nobody_checked_is_left_out_and_everyone_else_is_there(store: Store) -> None:
    scored(store, "me", "human", 1)
    scored(store, "arc rules 1", "rule", 3)
    scored(store, "judge:step:m:1", "judge", 3)
    assert names(store) == {"me", "arc rules 1"}


def test_a_judge_counts_while_its_calibration_stands(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    checked(store, "judge:step:m:1")
    assert names(store) == {"judge:step:m:1"}
    assert names(store, now_ns=31 * DAY_NS) == set()


def test_a_judge_that_failed_its_check_is_left_out(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    checked(store, "judge:step:m:1", "r is under .80")
    assert names(store) == set()


def test_sets_of_a_judge_are_never_mixed(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    scored(store, "judge:window:m:1", "judge", 2)
    checked(store, "judge:step:m:1")
    checked(store, "judge:window:m:1")
    assert names(store) == {"judge:step:m:1"}
    assert names(store, step=0) == {"judge:step:m:1"}
