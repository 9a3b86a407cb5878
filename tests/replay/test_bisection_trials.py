"""The samples a search wants, really asked: answers at one step, and runs that go on from one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from replay.action import Action
from replay.bisection.course import Ended, Progress, bisect, bisect_hunks
from replay.bisection.hunks import Chosen, Culprits, hunks
from replay.bisection.rounds import Found, SampleRequest, Seen, Settings
from replay.bisection.trials import NotReplayable, Reaches, Rollouts, Trials, Version, as_one
from replay.edit.changes import Edit, ReplaceText, SetSystem
from replay.errors import BadEdit, ModelRefused, NotFound, OfflineMiss, RequestRefused
from replay.free.recorded_results import Terms
from replay.locked.row import RANGE
from replay.models.cached import Cached
from replay.plan import plans
from replay.predicate import Unmet, predicate
from replay.store.handle import Store
from replay.trace import Fidelity, Level, Trace
from tests.arc_tui.free_case import ACCOUNT, WITHDRAWN
from tests.build import tool, trace
from tests.messages_api import Body
from tests.replay.free_case import Script, says, uses
from tests.replay.locked_case import BREAK, SYSTEM, VERIFY, Fixed, Moody, Tiny, spans, stored, tiny

LOOKS = Unmet(predicate("tool=get_order"), BREAK)


def prompt(name: str, text: str) -> Version:
    return Version(name=name, edit=Edit(name=name, changes=(SetSystem(text),)))


def versions(first_bad: int, many: int) -> list[Version]:
    """Prompts that make the tiny model look first, and from one of them on no longer do."""
    return [
        prompt(f"p{at}", f"{VERIFY if at < first_bad else SYSTEM} Version {at}.")
        for at in range(many)
    ]


def ended(going: Generator[Progress, None, Ended[Any]]) -> tuple[Any, list[Progress]]:
    seen: list[Progress] = []
    while True:
        try:
            seen.append(next(going))
        except StopIteration as end:
            return end.value, seen


class Counting(Tiny):
    """The tiny model, which declines after so many answers."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def complete(self, body: Body, sample: int) -> Body:
        if self.asked == self.most:
            raise ModelRefused("the limit of calls is reached")
        return super().complete(body, sample)


class Unsure:
    """A detector of the tests: a refund is bad, of anything else it cannot tell."""

    name, step = "refunds, by the test", BREAK

    def shows(self, action: Action) -> bool | None:
        return True if any(call.tool == "refund_order" for call in action.calls) else None


class TestTrials:
    def test_the_version_that_broke_the_step_is_named(self, store: Store) -> None:
        trials = Trials(stored(store), LOOKS, tiny(store), versions(4, 9))
        result, seen = ended(bisect(trials, 9))
        assert isinstance(result.found, Found)
        assert (result.found.first_bad, result.refused) == (4, None)
        assert seen[0].wanted == (0, 8)
        assert seen[0].seen == (Seen(bad=0, n=0, censored=0),) * 9
        assert seen[1].seen[0] == Seen(bad=0, n=1, censored=0)
        assert seen[1].seen[8] == Seen(bad=1, n=1, censored=0)
        assert [each.round for each in seen] == list(range(1, len(seen) + 1))
        assert seen[-1].likely[4] > 0.9
        assert len(trials.evidence) == result.found.samples + result.found.more

    def test_where_the_model_declines_the_search_ends_and_goes_on_from_there(
        self, store: Store
    ) -> None:
        kept = stored(store)
        whole = Tiny()
        with Store.open(":memory:") as other:
            ended(bisect(Trials(stored(other), LOOKS, tiny(other, whole), versions(4, 9)), 9))
        for most in (1, 5, 11):
            short = Counting(most)
            trials = Trials(kept, LOOKS, tiny(store, short), versions(4, 9))
            result, _ = ended(bisect(trials, 9))
            assert result.refused == "the limit of calls is reached"
        rest = Tiny()
        result, _ = ended(bisect(Trials(kept, LOOKS, tiny(store, rest), versions(4, 9)), 9))
        assert (result.found.first_bad, result.found.verified) == (4, True)
        assert 1 + 5 + 11 + rest.asked == whole.asked, "what was paid for is not paid for again"

    def test_an_answer_that_is_not_stored_is_missed_by_its_version(self, store: Store) -> None:
        trials = Trials(stored(store), LOOKS, Cached(store, "tiny"), versions(1, 3))
        with pytest.raises(OfflineMiss, match="p0, sample 1"):
            trials.outcomes([SampleRequest(0, 0)])

    def test_a_refused_request_and_a_cut_answer_cannot_be_judged(self, store: Store) -> None:
        declined = Fixed(RequestRefused("too long"))
        trials = Trials(stored(store), LOOKS, tiny(store, declined), versions(1, 2))
        assert trials.outcomes([SampleRequest(0, 0), SampleRequest(1, 0)]) == [None, None]
        assert trials.lost == {0: "too long", 1: "too long"}
        assert [each.key for each in trials.evidence] == [None, None]
        cut = Fixed({**says("I"), "stop_reason": "max_tokens"})
        trials = Trials(stored(store), LOOKS, tiny(store, cut), versions(1, 2))
        assert trials.outcomes([SampleRequest(0, 0)]) == [None]
        assert trials.lost == {0: "cut at the token limit"}

    def test_an_answer_that_the_detector_cannot_judge_says_who_could_not(
        self, store: Store
    ) -> None:
        trials = Trials(stored(store), Unsure(), tiny(store), versions(1, 2))
        assert trials.outcomes([SampleRequest(0, 0), SampleRequest(1, 0)]) == [None, True]
        assert trials.lost == {0: "refunds, by the test: inconclusive"}
        assert [(each.bad, each.why) for each in trials.given] == [
            (None, "refunds, by the test: inconclusive"),
            (True, None),
        ]

    def test_samples_that_cannot_be_judged_are_counted_as_the_search_goes_on(
        self, store: Store
    ) -> None:
        trials = Trials(stored(store), Unsure(), tiny(store), versions(1, 3))
        _, rounds = ended(bisect(trials, 3, Settings(at_once=1)))
        known = Seen(bad=3, n=3, censored=0)
        assert rounds[1].seen == (Seen(bad=0, n=0, censored=3), known, known)

    def test_what_stored_answers_do_is_had_without_asking(self, store: Store) -> None:
        kept, model = stored(store), Tiny()
        first = Trials(kept, LOOKS, tiny(store, model), versions(1, 2))
        first.outcomes([SampleRequest(0, 0), SampleRequest(1, 1)])
        wishes = [SampleRequest(version, sample) for version in (0, 1) for sample in (0, 1)]
        again = Trials(kept, LOOKS, Cached(store, "tiny"), versions(1, 2))
        assert [each.phrase for each in again.actions(wishes)] == [
            "get_order(order_id=1042)",
            "refund_order(order_id=1042, amount=100)",
        ]
        assert model.asked == 2

    def test_a_version_that_does_not_apply_is_named_with_what_to_do(self, store: Store) -> None:
        lost = Version(name="p1", edit=Edit(name="e", changes=(ReplaceText("gone", "x"),)))
        kept = stored(store)
        with pytest.raises(BadEdit) as alone:
            plans(kept, lost.edit, "tiny", {BREAK})
        for make in (
            lambda: Trials(kept, LOOKS, tiny(store), [lost]),
            lambda: Rollouts(kept, Reaches(predicate("tool=get_order")), tiny(store), [lost]),
        ):
            with pytest.raises(BadEdit, match=r"^p1: .*'gone'") as error:
                make()
            assert error.value.hint == alone.value.hint is not None

    def test_a_step_whose_request_is_not_known_cannot_be_asked(self, store: Store) -> None:
        unknown = Fidelity(level=Level.NONE, reasons=("its text was cut",))
        kept = stored(store, spans(fidelity=unknown))
        with pytest.raises(NotReplayable, match="its text was cut"):
            Trials(kept, LOOKS, tiny(store), versions(1, 2))

    def test_samples_of_another_range_are_asked_afresh(self, store: Store) -> None:
        kept, model = stored(store), tiny(store)
        for number in (0, 0, 1):
            Trials(kept, LOOKS, model, versions(1, 2), range=number).outcomes([SampleRequest(0, 0)])
        assert (model.asks, model.hits) == (2, 1)

    def test_ranges_of_answers_and_of_runs_are_a_thousand_samples_apart(self, store: Store) -> None:
        kept, moody = stored(store), Moody(1000)
        model = tiny(store, moody)
        trials = Trials(kept, LOOKS, model, versions(1, 2), range=2)
        trials.outcomes([SampleRequest(0, 0), SampleRequest(0, 3)])
        assert moody.asked == [2 * RANGE, 2 * RANGE + 3]
        moody.asked.clear()
        end = Reaches(predicate("tool=get_order"))
        Rollouts(kept, end, model, versions(1, 2), range=1).outcomes([SampleRequest(1, 2)])
        assert set(moody.asked) == {RANGE + 2}


class TestHunks:
    def test_the_hunk_that_broke_the_step_is_named(self, store: Store) -> None:
        old = f"Be brief.\n\n{VERIFY}\n\nBe kind.\nBe calm.\n"
        new = f"Be short.\n\n{SYSTEM}\n\nBe kind.\nBe quiet.\n"
        parts = hunks(old, new)

        def edit(chosen: Chosen, text: str) -> Edit:
            return Edit(name=str(sorted(chosen)), changes=(SetSystem(text),))

        trials = Trials(stored(store), LOOKS, tiny(store))
        result, seen = ended(bisect_hunks(trials, old, parts, edit))
        assert isinstance(result.found, Culprits)
        assert (result.found.hunks, result.found.enough) == ((1,), True)
        assert {each.name for each in trials.versions} >= {"old", "new", "old + hunk 2"}
        assert all(len(each.seen) == len(each.versions) for each in seen)
        few = Trials(stored(store), LOOKS, tiny(store))
        short, _ = ended(bisect_hunks(few, old, parts, edit, Settings(max_samples=5)))
        assert short.found.samples == len(few.given) == 5


class TestRollouts:
    def run(self) -> Trace:
        return trace(
            ACCOUNT, system="Be brief.", tools=[tool("get_balance"), tool("withdraw", amount={})]
        )

    def rollouts(
        self, store: Store, expect: str, *answers: Body, stubs: bool = False, start: int = 1
    ) -> Rollouts:
        model = Cached(store, "script", Script(*answers))
        terms = Terms(stubs=(WITHDRAWN,)) if stubs else Terms()
        version = Version(name="as recorded", edit=None, start=start)
        return Rollouts(self.run(), Reaches(predicate(expect)), model, [version], terms=terms)

    READS, ASKS, DONE = uses(("get_balance", {})), uses(("withdraw", {"amount": 20})), says("Done.")

    def test_a_run_is_judged_as_a_whole_with_what_was_recorded_before_it(
        self, store: Store
    ) -> None:
        answers = (self.READS, self.READS, self.DONE, self.DONE)
        never = self.rollouts(store, "tool!=withdraw", *answers)
        assert never.outcomes([SampleRequest(0, 0)]) == [False]
        after = self.rollouts(store, "tool!=withdraw", *answers, start=2)
        assert after.outcomes([SampleRequest(0, 0)]) == [True], "it was withdrawn before the start"

    def test_a_run_that_stopped_is_judged_only_where_that_is_settled(self, store: Store) -> None:
        stops = (self.READS, self.ASKS, self.READS, self.DONE)
        settled = self.rollouts(store, "tool=withdraw, args.amount=20", *stops)
        assert settled.outcomes([SampleRequest(0, 0)]) == [False]
        open_ = self.rollouts(store, "tool=withdraw, args.amount=10", *stops)
        assert open_.outcomes([SampleRequest(0, 0)]) == [None]
        assert "withdraw" in open_.lost[0]
        stubbed = self.rollouts(store, "tool=withdraw, args.amount=10", *stops, stubs=True)
        assert stubbed.outcomes([SampleRequest(0, 0)])[0] is not False

    def test_the_last_words_are_those_of_a_run_that_ended(self, store: Store) -> None:
        answers = (self.READS, self.DONE)
        rollouts = self.rollouts(store, "text~Done", *answers)
        (rollout,) = rollouts.rollouts(None, 1, 1)
        assert (rollout.bad, rollout.start, rollout.sample) == (False, 1, 0)
        assert (rollout.version, rollout.why) == (0, None)
        whole = as_one(self.run(), rollout.run)
        assert [call.tool for call in whole.calls] == ["get_balance"]
        assert whole.text == "Done."

    def test_a_step_that_is_not_there_is_named(self, store: Store) -> None:
        with pytest.raises(NotFound, match="99"):
            self.rollouts(store, "text~Done", start=99)

    def test_a_limit_is_no_word_about_the_run(self, store: Store) -> None:
        model = Cached(store, "tiny", Counting(0))
        rollouts = Rollouts(stored(store), Reaches(predicate("tool=get_order")), model)
        rollouts.add(Version(name="as recorded", edit=None))
        with pytest.raises(ModelRefused, match="the limit of calls"):
            rollouts.outcomes([SampleRequest(0, 0)])
        assert rollouts.evidence == []

    def test_the_last_step_a_fix_saves_the_run_from_is_found(self, store: Store) -> None:
        kept = stored(store)
        fix = Edit(name="verify", changes=(SetSystem(VERIFY),))
        model = tiny(store)
        looks = Reaches(predicate("tool=get_order, args.order_id=1042"))
        each_step = [
            Version(name=f"step {step.index}", edit=fix, start=step.index) for step in kept.steps
        ]
        runs = Rollouts(kept, looks, model, each_step)
        result, _ = ended(bisect(runs, len(each_step), Settings(at_once=1)))
        assert result.found.status == "found"
        assert result.found.first_bad == BREAK + 1
