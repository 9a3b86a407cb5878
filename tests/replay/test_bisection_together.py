"""Runs and judgements asked side by side: the same evidence as one after another, sooner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.bisection.rounds import SampleRequest
from replay.bisection.trials import Evidence, Reaches, Rollouts, Trials, Version
from replay.budget import Budget, Limits
from replay.edit.changes import Edit, SetSystem
from replay.errors import ModelRefused, OfflineMiss
from replay.free import run as free
from replay.models.cached import Cached
from replay.predicate import predicate
from replay.store.handle import Store
from taxonomy.detectors import JudgeDetector
from tests.judge_policy import Judge
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import clean_environment, client, kept
from tests.replay.locked_case import BREAK, VERIFY, stored, think

EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))
LOOKS = Reaches(predicate("tool=get_order, args.order_id=1042"))
VERSIONS = [
    Version(name="as recorded", edit=None, start=BREAK),
    Version(name="edited", edit=EDIT, start=BREAK),
    Version(name="edited earlier", edit=EDIT, start=BREAK - 1),
]
WISHES = [SampleRequest(version, sample) for sample in range(2) for version in range(3)]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(think) as running:
        yield running


def evidence(api: MessagesApi, **beside: Any) -> list[Evidence]:
    """What six runs come to in a database of their own."""
    with Store.open(":memory:") as store, client(api, **beside) as claude:
        model = kept(store, claude, api)
        runs = Rollouts(stored(store), LOOKS, model, VERSIONS)
        runs.outcomes(WISHES)
        return runs.evidence


@pytest.mark.slow
def test_runs_go_on_side_by_side_and_each_comes_to_what_it_does_alone(api: MessagesApi) -> None:
    alone = evidence(api, most_at_once=1)
    assert api.most_at_once == 1
    api.flights.gather = 6
    together = evidence(api)
    assert api.most_at_once == 6
    assert together == alone
    assert [(each.version, each.sample) for each in together] == WISHES
    assert len({each.key for each in together}) > 2


class LateFirst:
    """The tiny model, whose first question is answered only after five others were."""

    def __init__(self) -> None:
        self.others = threading.Semaphore(0)
        self._first = threading.Lock()

    def __call__(self, body: Body) -> Body:
        if self._first.acquire(blocking=False):
            for _ in range(5):
                assert self.others.acquire(timeout=300)
        else:
            self.others.release()
        return think(body)


@pytest.mark.slow
def test_the_order_in_which_answers_come_changes_no_evidence(api: MessagesApi) -> None:
    in_order = evidence(api)
    api.policy = LateFirst()
    assert evidence(api) == in_order


def test_equal_requests_of_several_runs_are_asked_once(api: MessagesApi) -> None:
    with Store.open(":memory:") as store, client(api) as claude:
        model = kept(store, claude, api)
        runs = Rollouts(stored(store), LOOKS, model, [VERSIONS[1], VERSIONS[1]])
        runs.outcomes([SampleRequest(0, 0), SampleRequest(1, 0)])
        asked = api.asked
        assert runs.given[0].run.digest == runs.given[1].run.digest
        assert asked == model.asks == len(runs.given[0].run.steps)


@pytest.mark.slow
def test_a_limit_reached_by_one_run_ends_the_round_and_keeps_what_was_answered(
    api: MessagesApi,
) -> None:
    with Store.open(":memory:") as store:
        trace = stored(store)
        with client(api, budget=Budget(Limits(calls=7))) as claude:
            runs = Rollouts(trace, LOOKS, kept(store, claude, api), VERSIONS)
            with pytest.raises(ModelRefused, match="No response for"):
                runs.outcomes(WISHES)
            assert (api.asked, runs.evidence) == (7, [])
        with client(api) as claude:
            model = kept(store, claude, api)
            runs = Rollouts(trace, LOOKS, model, VERSIONS)
            runs.outcomes(WISHES)
            assert api.asked == 7 + model.asks
    assert runs.evidence == evidence(api)


def test_a_run_alone_is_a_run_among_others(store: Store, api: MessagesApi) -> None:
    with client(api) as claude:
        model = kept(store, claude, api)
        trace = stored(store)
        alone = list(free.run(trace, EDIT, model, start=BREAK))[-1]
        among = [free.FreeRunner(trace, EDIT, model, start=BREAK, sample=at) for at in range(3)]
        free.run_all(among, model)
    assert among[0].made.digest == alone.digest


def test_a_miss_of_one_run_names_its_step(store: Store, api: MessagesApi) -> None:
    trace = stored(store)
    with pytest.raises(OfflineMiss, match=f"step {BREAK}: no cached response"):
        Rollouts(trace, LOOKS, Cached(store, "x"), VERSIONS).outcomes(WISHES)


def test_a_judge_is_asked_about_all_new_answers_at_once(store: Store, api: MessagesApi) -> None:
    """Two versions act in two ways: four answers, two questions for the judge, together."""
    judge = Judge()
    with MessagesApi(judge) as bench, client(api) as claude, client(bench) as judging:
        judging.name = "judge-test"
        bench.flights.gather = 2
        trace = stored(store)
        detector = JudgeDetector(trace, BREAK, kept(store, judging, bench))
        trials = Trials(trace, detector, kept(store, claude, api), VERSIONS[:2])
        assert None not in trials.outcomes([SampleRequest(v, s) for v in (0, 1) for s in (0, 1)])
        assert (bench.asked, bench.most_at_once) == (2, 2)
        trials.outcomes([SampleRequest(0, 2)])
        assert bench.asked == 2, "what it said of an answer holds for the same answer"
