"""Which parts of one change broke it: hunks of a text, searched as versions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.bisection.course import spelled
from replay.bisection.hunks import (
    Culprits,
    Hunk,
    HunkSampleRequest,
    applied,
    expected_for_hunks,
    expected_for_versions,
    hunks,
    search_hunks,
)
from replay.bisection.rounds import Settings, Spent

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=12)


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def run(
    many: int, bad: Callable[[HunkSampleRequest], bool], settings: Settings | None = None
) -> tuple[Culprits, list[HunkSampleRequest]]:
    going = search_hunks(many, settings or Settings())
    asked: list[HunkSampleRequest] = []
    try:
        wanted = next(going)
        while True:
            asked += wanted.wishes
            wanted = going.send([bad(wish) for wish in wanted.wishes])
    except StopIteration as ended:
        culprits: Culprits = ended.value
        return culprits, asked


class TestTexts:
    @given(LINES, LINES)
    def test_all_hunks_make_the_new_text_and_none_leaves_the_old(
        self, old: list[str], new: list[str]
    ) -> None:
        parts = hunks(text(old), text(new))
        assert applied(text(old), parts, range(len(parts))) == text(new)
        assert applied(text(old), parts, ()) == text(old)

    def test_some_of_them_change_their_own_lines(self) -> None:
        old, new = "a\nb\nc\nd\n", "a\nB\nc\nD\nE\n"
        parts = hunks(old, new)
        assert len(parts) == 2
        assert applied(old, parts, {1}) == "a\nb\nc\nD\nE\n"

    def test_a_line_that_stands_everywhere_parts_a_long_text_no_worse(self) -> None:
        old, new = ["same"] * 250, [*["same"] * 125, "new", *["same"] * 125]
        assert hunks(text(old), text(new)) == (Hunk(at=125, old=(), new=("new\n",)),)

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            (set(), "old"),
            ({0, 1, 2, 3}, "new"),
            ({1}, "old + hunk 2"),
            ({0, 1, 2}, "old + hunks 1–3"),
            ({0, 2}, "old + hunks 1, 3"),
        ],
    )
    def test_a_text_is_called_by_its_hunks_counted_from_one(
        self, chosen: set[int], said: str
    ) -> None:
        assert spelled(frozenset(chosen), 4) == said


class TestSearch:
    @pytest.mark.parametrize("culprit", range(5))
    def test_one_hunk_is_named_and_is_enough_alone(self, culprit: int) -> None:
        found, _ = run(5, lambda wish: culprit in wish.chosen)
        assert (found.hunks, found.enough) == ((culprit,), True)

    def test_two_that_need_each_other_are_named_together(self) -> None:
        found, _ = run(6, lambda wish: {1, 4} <= wish.chosen)
        assert (found.hunks, found.enough) == ((1, 4), True)
        assert [(set(part.base), part.order) for part in found.parts] == [
            (set(), (0, 1, 2, 3, 4, 5)),
            (set(), (4,)),
            ({4}, (0, 1, 2, 3)),
            (set(), (1, 4)),
        ]

    def test_a_sample_of_a_text_is_never_counted_twice(self) -> None:
        def bad(wish: HunkSampleRequest) -> bool:
            drawn = random.Random(f"{sorted(wish.chosen)} {wish.sample}").random()
            return drawn < (0.8 if {1, 4} <= wish.chosen else 0.1)

        _, asked = run(6, bad)
        assert len(set(asked)) == len(asked)

    def test_the_limit_holds_for_all_its_searches_together(self) -> None:
        found, asked = run(6, lambda wish: {1, 4} <= wish.chosen, Settings(max_samples=30))
        assert found.samples == len(asked) == 30
        assert not found.enough

    def test_whoever_may_ask_no_more_is_told_what_is_known(self) -> None:
        going = search_hunks(5)
        wanted = next(going)
        going.send([2 in wish.chosen for wish in wanted.wishes])
        found: Culprits | None = None
        while found is None:
            try:
                going.throw(Spent())
            except StopIteration as ended:
                found = ended.value
        assert found.samples == len(wanted.wishes)
        assert (found.hunks, found.enough) == ((2,), False)
        assert found.parts[-1].found.status == "budget"


@pytest.mark.parametrize(
    ("versions", "at_once", "wanted"), [(2, 4, 15), (3, 4, 20), (5, 4, 32), (5, 1, 30), (16, 4, 73)]
)
def test_what_a_search_of_versions_will_want_is_the_same_on_every_machine(
    versions: int, at_once: int, wanted: int
) -> None:
    assert expected_for_versions(versions, Settings(at_once=at_once)) == wanted


@pytest.mark.slow
def test_what_a_search_of_very_many_versions_will_want_is_tried_on_two_places() -> None:
    assert expected_for_versions(256, Settings(check=False, confidence=0.8)) == 68


@pytest.mark.parametrize(("many", "wanted"), [(1, 10), (2, 26), (4, 43), (6, 59)])
def test_what_a_search_of_hunks_will_want_is_the_same_on_every_machine(
    many: int, wanted: int
) -> None:
    assert expected_for_hunks(many, Settings()) == wanted


@pytest.mark.slow
def test_what_a_search_will_want_is_reckoned_beforehand() -> None:
    usual = Settings()
    assert expected_for_versions(64, usual) > expected_for_versions(16, usual) > 20
    assert expected_for_hunks(6, usual) > 20
    assert expected_for_versions(16, Settings(max_samples=25)) <= 25
