"""Goals a person wrote down: which steps they cover, what they weigh, and since when."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay.store.handle import Store
from replay.trace import Header
from taxonomy.evidence.reading import Reading
from taxonomy.goals import (
    BadGoals,
    Goal,
    Goals,
    first_seen,
    goal_scores,
    hindsight,
    read,
    weighted,
)
from tests.build import START_NS, call, step, trace

FILE = """
[[task]]
match = "airline *"

[[task.goal]]
text = "Reads the booking first"
weight = 3
owner = "retrieval"
tool = "get_*"

[[task.goal]]
text = "Says how it ended"
weight = 1
steps = "2-"
says = "done"
"""

RUN = trace(
    [
        step("I look.", call("get_booking", "7 May", id="A1")),
        step("Again.", call("GET_user", "Mei", id="u1")),
        step("Done, it is cancelled."),
        step("Anything else?", agent="closer"),
    ],
    header={"task": "Airline 26"},
)


def goals(folder: Path, text: str = FILE) -> Goals:
    file = folder / "goals.toml"
    file.write_text(text)
    return read(file)


def test_goals_belong_to_the_tasks_they_match(tmp_path: Path) -> None:
    found = goals(tmp_path)
    assert [goal.text for goal in found.of(RUN.header)] == [
        "Reads the booking first",
        "Says how it ended",
    ]
    assert found.of(structs.replace(RUN.header, task="retail 3")) == ()
    assert found.of(Header(format="f", source_id="s")) == ()


@pytest.mark.parametrize(
    ("goal", "covered"),
    [
        (Goal(text="t", steps="1"), [1]),
        (Goal(text="t", steps="1-2"), [1, 2]),
        (Goal(text="t", steps="2-"), [2, 3]),
        (Goal(text="t", tool="get_*"), [0, 1]),
        (Goal(text="t", tool="get_booking"), [0]),
        (Goal(text="t", says="CANCELLED"), [2]),
        (Goal(text="t", agent="clos*"), [3]),
        (Goal(text="t", tool="get_*", steps="1-"), [1]),
        (Goal(text="t", steps="9"), []),
    ],
)
def test_a_goal_covers_the_steps_for_which_all_it_says_holds(
    goal: Goal, covered: list[int]
) -> None:
    assert [turn.index for turn in Reading(RUN).turns if goal.covers(turn)] == covered


def test_a_goals_score_is_that_of_its_last_matching_step(tmp_path: Path) -> None:
    wanted = goals(tmp_path).of(RUN.header)
    values = {0: 0.2, 1: 0.9, 2: None, 3: 0.1}
    found = goal_scores(wanted, Reading(RUN).turns, values)
    assert [(each.step, each.value) for each in found] == [(1, 0.9), (2, None)]
    unmatched = goal_scores([Goal(text="t", tool="refund")], Reading(RUN).turns, values)
    assert [(each.step, each.value) for each in unmatched] == [(None, None)]


def test_the_articles_example_weighs_to_722_and_not_to_the_64_it_prints() -> None:
    scores = (0.30, 0.85, 0.80, 0.88, 0.82, 0.90, 0.91)
    weights = (3, 2, 3, 2, 1, 1, 1)
    found = weighted(list(zip(scores, weights, strict=True)))
    assert found.value == pytest.approx(0.722, abs=0.001)
    assert sum(scores) / len(scores) == pytest.approx(0.78, abs=0.001)


@given(st.lists(st.tuples(st.none() | st.floats(0, 1), st.integers(1, 3))))
def test_the_weighted_mean_lies_within_the_scores_it_is_made_of(
    pairs: list[tuple[float | None, int]],
) -> None:
    found = weighted(pairs)
    known = [value for value, _ in pairs if value is not None]
    assert (found.goals, found.of) == (len(known), len(pairs))
    if found.value is None:
        assert not known
    else:
        assert min(known) - 1e-9 <= found.value <= max(known) + 1e-9


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("match = ", "TOML|Invalid"),
        ('[[task]]\nmatch = "*"', "goal"),
        (FILE.replace("weight = 3", "weight = 4"), "weights are 1, 2 and 3"),
        (FILE.replace("weight = 3", 'weight = "3"'), "weight"),
        (FILE.replace("owner", "ovner"), "ovner"),
        (FILE.replace('tool = "get_*"', ""), "it sets no steps"),
        (FILE.replace('"2-"', '"2-1"'), "not a range"),
        (FILE.replace('"2-"', '"two"'), "not a range"),
        (FILE.replace('"Says how it ended"', '" "'), "text is empty"),
    ],
)
def test_a_file_that_says_less_than_it_must_is_refused_by_its_place(
    wrong: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(BadGoals, match=says) as refused:
        goals(tmp_path, wrong)
    assert "goals.toml" in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadGoals, match="cannot be read"):
        read(tmp_path / "none.toml")


def test_layout_and_comments_are_free_and_a_changed_weight_is_another_version(
    tmp_path: Path,
) -> None:
    first = goals(tmp_path)
    assert goals(tmp_path, f"# ours\n{FILE}\n\n").digest == first.digest
    assert goals(tmp_path, FILE.replace("weight = 3", "weight = 2")).digest != first.digest


def test_a_version_is_kept_with_the_time_it_was_first_seen(tmp_path: Path) -> None:
    first, other = goals(tmp_path), goals(tmp_path, FILE.replace("weight = 3", "weight = 2"))
    with Store.open(":memory:") as store:
        assert first_seen(store, first, "goals.toml", at_ns=10).first_seen_ns == 10
        assert first_seen(store, first, "again.toml", at_ns=20).first_seen_ns == 10
        assert first_seen(store, other, "goals.toml", at_ns=30).first_seen_ns == 30
        assert first_seen(store, first, "goals.toml").goals == first


def test_goals_first_seen_after_the_run_began_are_hindsight(tmp_path: Path) -> None:
    wanted = goals(tmp_path)
    with Store.open(":memory:") as store:
        early = first_seen(store, wanted, "goals.toml", at_ns=START_NS - 1)
    assert hindsight(early, RUN) is False
    assert hindsight(structs.replace(early, first_seen_ns=START_NS + 1), RUN) is True
    timeless = structs.replace(
        RUN, spans=tuple(structs.replace(span, start_ns=None) for span in RUN.spans)
    )
    assert hindsight(early, timeless) is None
