"""Replays of several traces at once come to what each comes to alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from replay.budget import Budget, Limits
from replay.edit.changes import Edit, SetSystem
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.row import Models, Sampling
from replay.locked.run import AT_ONCE, Lane, replay, replay_all
from replay.locked.tally import StepResult
from replay.models.cached import Cached
from replay.models.claude import Claude
from replay.store.handle import Store
from replay.trace import Trace
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL, clean_environment
from tests.replay.locked_case import DIALOGUE, VERIFY, Tiny, spans, stored, think

EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))
MANY = 2 * AT_ONCE + 1
AUTO = Sampling()
TWICE = Sampling(levels=(2,))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MessagesApi]:
    clean_environment(monkeypatch, tmp_path)

    def answer(body: Body) -> Body:
        return {**think(body), "model": body["model"]}

    with MessagesApi(answer) as running:
        yield running


def told_apart(store: Store, count: int) -> list[Trace]:
    """So many traces that ask for different orders, so that each is a question of its own."""
    return [
        stored(store, spans([("user", f"Hello from {place}"), *DIALOGUE[1:]]), id=f"case {place}")
        for place in range(count)
    ]


def seen(results: Sequence[StepResult]) -> dict[int, tuple[object, ...]]:
    last = {row.step: row for row in results}
    return {
        step: (
            [(each.key, each.action) for each in row.control],
            [(each.key, each.action) for each in row.edited],
            row.refused,
        )
        for step, row in last.items()
    }


@pytest.mark.parametrize("sampling", [AUTO, TWICE, Sampling(levels=(2,), schedule="fast")])
def test_every_trace_comes_to_what_it_comes_to_alone(store: Store, sampling: Sampling) -> None:
    traces = told_apart(store, 3)
    models = Models.one(Cached(store, "tiny", Tiny()))
    together: dict[str, list[StepResult]] = {trace.id: [] for trace in traces}
    lanes = (Lane(trace, EDIT, models, sampling=sampling) for trace in traces)
    for lane, result in replay_all(lanes):
        together[lane.trace.id].append(result)
    asked = models.control.asks
    for trace in traces:
        alone = list(replay(trace, EDIT, models, sampling=sampling))
        assert seen(together[trace.id]) == seen(alone)
    assert models.control.asks == asked > 0


def test_lanes_are_taken_as_others_end(store: Store) -> None:
    traces = told_apart(store, MANY)
    models = Models.one(Cached(store, "tiny", Tiny()))
    taken: list[str] = []

    def coming() -> Iterator[Lane]:
        for trace in traces:
            taken.append(trace.id)
            yield Lane(trace, EDIT, models, sampling=TWICE, steps={0, 1})

    going = replay_all(coming())
    first, _ = next(going)
    assert len(taken) == AT_ONCE
    assert {first.trace.id, *(lane.trace.id for lane, _ in going)} == {trace.id for trace in traces}
    assert len(taken) == MANY


def test_a_missing_answer_ends_its_own_lane_and_is_raised_last(store: Store) -> None:
    traces = told_apart(store, 3)
    asked, offline = (Models.one(Cached(store, "tiny", each)) for each in (Tiny(), None))
    for trace in (traces[0], traces[2]):
        list(replay(trace, EDIT, asked, sampling=TWICE))
    told: set[str] = set()
    with pytest.raises(OfflineMiss, match="case 1, step 0: no cached response of tiny"):
        told.update(
            lane.trace.id
            for lane, _ in replay_all(Lane(each, EDIT, offline, sampling=TWICE) for each in traces)
        )
    for lane, _ in _until_missing(traces, offline):
        told.add(lane.trace.id)
    assert told == {traces[0].id, traces[2].id}


def _until_missing(traces: Sequence[Trace], models: Models) -> Iterator[tuple[Lane, StepResult]]:
    try:
        yield from replay_all(Lane(each, EDIT, models, sampling=TWICE) for each in traces)
    except OfflineMiss:
        return


def test_calls_of_several_traces_are_in_flight_together_under_one_budget(
    api: MessagesApi, store: Store
) -> None:
    """Of one trace two calls at most could be: its first samples, control's and the edit's."""
    api.flights.gather = 8
    budget = Budget(Limits(calls=40))
    claude = Claude(MODEL, budget=budget, base_url=api.base_url)
    with Cached(store, MODEL, claude) as model:
        lanes = [
            Lane(trace, EDIT, Models.one(model), sampling=Sampling(levels=(1,)), steps={0})
            for trace in told_apart(store, 6)
        ]
        results = [result for _, result in replay_all(lanes)]
    assert len(results) == 6
    assert api.most_at_once == 8
    assert budget.calls == api.asked == 12


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("sampling", "steps", "marked"),
    [
        (Sampling(levels=(1,)), {0, 1}, True),
        (TWICE, {0}, True),
        (Sampling(levels=(1,)), {0}, False),
        (Sampling(levels=(2,), schedule="fast"), {0, 1}, False),
    ],
    ids=["steps in turn", "samples in turn", "a single request", "all at once"],
)
def test_a_request_is_marked_for_the_prefix_cache_where_another_goes_on_from_it(
    api: MessagesApi,
    store: Store,
    sampling: Sampling,
    steps: set[int],
    marked: bool,
    together: bool,
) -> None:
    trace = stored(store)
    claude = Claude(MODEL, budget=Budget(Limits(calls=40)), base_url=api.base_url)
    with Cached(store, MODEL, claude) as model:
        models = Models.one(model)
        if together:
            list(replay_all([Lane(trace, None, models, sampling=sampling, steps=steps)]))
        else:
            list(replay(trace, None, models, sampling=sampling, steps=steps))
    assert {"cache_control" in str(each.body) for each in api.received} == {marked}


def test_a_spent_budget_ends_all_that_are_under_way_and_takes_no_other(
    api: MessagesApi, store: Store
) -> None:
    budget = Budget(Limits(calls=4))
    claude = Claude(MODEL, budget=budget, base_url=api.base_url)
    with Cached(store, MODEL, claude) as model:
        lanes = (
            Lane(trace, EDIT, Models.one(model), sampling=TWICE, steps={0})
            for trace in told_apart(store, MANY)
        )
        ended = [result for _, result in replay_all(lanes) if result.ended is not None]
    assert len(ended) == AT_ONCE
    assert all("limit of 4 calls" in str(result.ended) for result in ended)
    assert api.asked == 4


def test_a_model_that_declines_the_first_request_ends_without_a_miss(store: Store) -> None:
    class Refuses:
        name = "tiny"

        def complete(self, body: Body, sample: int) -> Body:
            raise ModelRefused("closed today")

    models = Models.one(Cached(store, "tiny", Refuses()))
    lanes = [Lane(trace, EDIT, models, sampling=TWICE) for trace in told_apart(store, 2)]
    found = list(replay_all(lanes))
    assert {result.ended for _, result in found} == {"closed today"}
