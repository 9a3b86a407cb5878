"""Person, judge and rule on the same runs: the same class, the same step, and what they mix up."""

from __future__ import annotations

from msgspec import convert

from taxonomy.calibration.sources_agree import SourcesAgree, compare, sources_agree
from taxonomy.judgements.tags import TagRow
from taxonomy.query.failures import rows_beside_rules, tag_rows
from tests.taxonomy.pareto_case import BAD, LOOP, empty, found, put, tag


def row(trace: str, source: str, failure: str, step: int = 0, accepted: bool = False) -> TagRow:
    known = {
        "trace": trace,
        "run": trace,
        "recording": trace,
        "outcome": "failed",
        "span": "",
        "by": source,
    }
    rest = dict.fromkeys(("task", "trial", "variant", "models", "sub", "attribution", "why"), None)
    said = {"source": source, "class": failure, "step": step, "accepted": accepted, "place": 1}
    return convert({**known, **rest, **said}, TagRow)


def by_pair(rows: list[TagRow]) -> dict[tuple[str, str], SourcesAgree]:
    return {(pair.first, pair.second): pair for pair in compare(rows)}


ROWS = [
    row("a", "human", "loop", 2), row("a", "rule", "loop", 2),
    row("b", "human", "loop", 1), row("b", "rule", "gave up", 4), row("b", "judge", "loop", 1),
    row("c", "human", "loop", 1), row("c", "rule", "gave up", 1),
    row("d", "human", "bad args"), row("d", "rule", "loop"),
    row("e", "human", "bad args"),
    row("f", "rule", "loop"), row("f", "judge", "loop", 3),
]  # fmt: skip


def test_only_runs_of_which_both_said_something_count() -> None:
    pairs = by_pair(ROWS)
    assert {pair: found.same.n for pair, found in pairs.items()} == {
        ("human", "judge"): 1,
        ("human", "rule"): 4,
        ("judge", "rule"): 2,
    }
    people = pairs["human", "rule"]
    assert (people.same.value, people.step.value, people.kappa.n) == (1 / 4, 3 / 4, 4)


def test_the_pair_of_classes_mixed_up_most_comes_first_with_its_runs() -> None:
    people = by_pair(ROWS)["human", "rule"]
    assert [(each.first, each.second, each.traces) for each in people.differ] == [
        ("loop", "gave up", ("b", "c")),
        ("bad args", "loop", ("d",)),
    ]
    assert people.confusion.rows == ("bad args", "loop")
    assert people.confusion.columns == ("gave up", "loop")
    assert people.confusion.counts == ((0, 1), (2, 1))


def test_the_word_of_a_source_is_what_it_says_of_the_earliest_step() -> None:
    later = [row("a", "rule", "gave up", 9), *ROWS[:2]]
    assert by_pair(later)["human", "rule"].same.value == 1.0
    tagged = [row("a", "human", "gave up", 2, accepted=True), *ROWS[:2]]
    assert by_pair(tagged)["human", "rule"].same.value == 0.0


def test_nothing_said_is_a_figure_over_nothing() -> None:
    assert all(
        (pair.same.value, pair.kappa.value, pair.differ) == (None, None, ()) for pair in compare([])
    )


def test_it_reads_what_a_database_holds() -> None:
    store = empty()
    tag(store, put(store, "a", found(LOOP, 1)), LOOP, 1)
    tag(store, put(store, "b", found(LOOP, 1), status="passed"), BAD, 1)
    pairs = {(pair.first, pair.second): pair for pair in sources_agree(store)}
    assert (pairs["human", "rule"].same.value, pairs["human", "rule"].same.n) == (0.5, 2)


def test_runs_of_which_rules_alone_speak_change_nothing_and_are_not_read() -> None:
    store = empty()
    key = put(store, "a", found(LOOP, 1))
    put(store, "b", found(BAD, 1))
    assert rows_beside_rules(store) == []
    assert sources_agree(store) == compare(tag_rows(store))
    tag(store, key, LOOP, 1)
    assert {row.task for row in rows_beside_rules(store)} == {"a"}
    assert sources_agree(store) == compare(tag_rows(store))
