"""Whose a failure is: the fault before the goal, the goal before the class."""

from __future__ import annotations

from pathlib import Path

from replay.store.handle import Store
from taxonomy import goals
from taxonomy.classes import Attribution
from taxonomy.failures import pareto
from taxonomy.owners import NOBODY, owners_from, owners_of
from taxonomy.query.failures import tag_rows
from tests.taxonomy.pareto_case import BAD, LOOP, OTHER, empty, found, put, put_again, tag

OWNERS = owners_from(
    {"loop": "runtime", "attribution:environment": "platform", "attribution:agent": "prompting"}
)

FILE = """
[[task]]
match = "refund *"
[[task.goal]]
text = "Reads the order first"
weight = {weight}
owner = "{owner}"
tool = "get_*"
[[task.goal]]
text = "Says something"
weight = 2
owner = "dialogue"
says = "look"
[[task.goal]]
text = "Ends"
steps = "2-"
"""


def seen(store: Store, folder: Path, at_ns: int, owner: str = "retrieval", weight: int = 3) -> None:
    file = folder / "goals.toml"
    file.write_text(FILE.format(owner=owner, weight=weight))
    goals.first_seen(store, goals.read(file), "goals.toml", at_ns)


def test_the_fault_goes_first_then_the_goal_then_the_class_then_the_agent() -> None:
    assert OWNERS.of(LOOP, attribution=Attribution.ENVIRONMENT, goal="retrieval") == "platform"
    assert OWNERS.of(LOOP, attribution=Attribution.USER, goal="retrieval") is None
    assert OWNERS.of(LOOP, goal="retrieval") == "retrieval"
    assert OWNERS.of(LOOP, attribution=Attribution.AGENT) == "runtime"
    assert OWNERS.of(BAD) == "prompting"
    assert NOBODY.of(BAD) is None


def test_a_goal_with_an_owner_outranks_the_class_where_it_covers_the_step(tmp_path: Path) -> None:
    store = empty()
    seen(store, tmp_path, 1)
    put(store, "refund a", found(LOOP, 0))
    put(store, "refund b", found(LOOP, 1))
    put(store, "refund c", found(LOOP, 2))
    put(store, "address", found(LOOP, 0))
    put(store, "refund d", found(OTHER, 0, Attribution.ENVIRONMENT))
    rows = tag_rows(store)
    by_task = dict(zip([row.task for row in rows], owners_of(store, rows, OWNERS), strict=True))
    assert by_task == {
        "refund a": "retrieval",
        "refund b": "runtime",
        "refund c": "runtime",
        "address": "runtime",
        "refund d": "platform",
    }
    (bar,) = pareto(store, owners=OWNERS).bars
    assert (bar.owner, bar.owners) == ("runtime", 2)


def test_of_several_goals_the_weightiest_and_the_newest_version_count(tmp_path: Path) -> None:
    store = empty()
    put(store, "refund a", found(LOOP, 0))
    seen(store, tmp_path, 1)
    seen(store, tmp_path, 3, owner="search", weight=1)
    seen(store, tmp_path, 2, owner="archive")
    (newest,) = goals.newest(store)
    assert newest.goals.task[0].goal[0].owner == "search"
    assert owners_of(store, tag_rows(store), OWNERS) == ("dialogue",)


def test_a_step_the_recording_does_not_have_belongs_to_the_class(tmp_path: Path) -> None:
    store = empty()
    seen(store, tmp_path, 1)
    put(store, "refund a", found(LOOP, 99))
    assert owners_of(store, tag_rows(store), OWNERS) == ("runtime",)


def test_a_tag_on_another_recording_belongs_to_the_goal_of_its_step_there(tmp_path: Path) -> None:
    store = empty()
    seen(store, tmp_path, 1)
    short, _ = put_again(store, "refund a")
    tag(store, short, LOOP, 0)
    assert owners_of(store, tag_rows(store), OWNERS) == ("runtime",)
