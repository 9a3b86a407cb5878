"""Tasks held out, errors put in, users' signals, and what moved: all kept or told from outside."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from arc_tui import importing
from arc_tui.views.runs import NO_RUN
from replay.store.handle import Store
from replay.store.read import load
from replay.store.rows import trace_rows
from replay.trace import AgentSpan
from taxonomy.classes import Shape
from taxonomy.held_out import held, hidden, hold, parted, release, strata
from taxonomy.judgements.schema import open_ledger
from taxonomy.metrics.cost import NOTHING_KNOWN
from taxonomy.query.fields import agent_extras
from taxonomy.stats.recovery import BadInjections, Injection, read, recovery
from taxonomy.stats.runs import ABANDONED, UNTOUCHED, Run, proxies, read_signs, signs_of
from taxonomy.stats.trend import moved
from tests.replay.test_claude_code import call, heard, init, result, said, stream, words, written

ROWS = tuple(
    structs.replace(
        NO_RUN,
        trace=f"{task}-{trial}",
        task=f"t{task}",
        labels='{"difficulty":"hard"}' if task >= 12 else "{}",
    )
    for task in range(20)
    for trial in range(2)
)

# --- held out


def test_a_fifth_of_the_tasks_is_held_out_over_their_strata_and_remembered() -> None:
    with Store.open(":memory:") as store:
        assert hidden(store) == frozenset()
        found = hold(store, ROWS)
        assert Counter(found.strata.values()) == {"": 2, "hard": 2}
        assert hidden(store) == found.tasks
        assert hold(store, ROWS) == found
        shown, apart = parted(ROWS, found.tasks)
        assert (len(shown), len(apart)) == (32, 8)
        release(store)
        assert hidden(store) == frozenset()


def test_later_tasks_fill_the_share_and_let_none_out() -> None:
    with Store.open(":memory:") as store:
        first = hold(store, ROWS[:20])
        second = hold(store, ROWS)
        assert first.tasks < second.tasks
        assert len(second.tasks) == 4
        assert all(second.since_ns[task] == first.since_ns[task] for task in first.tasks)
        assert held(store).since == datetime.datetime.now(datetime.UTC).date()


def test_a_task_s_stratum_is_what_any_of_its_runs_says() -> None:
    silent = structs.replace(ROWS[0], labels="{}")
    says = structs.replace(ROWS[0], labels='{"task_type":"refund","difficulty":"easy"}')
    assert strata([silent, says, silent]) == {"t0": "refund · easy"}
    assert strata([structs.replace(NO_RUN, labels="{}")]) == {}


# --- errors put in


def test_errors_told_of_in_a_file_are_counted_within_two_steps(tmp_path: Path) -> None:
    file = tmp_path / "errors.jsonl"
    file.write_text(
        '{"run": "a", "step": 2, "corrected_after": 2}\n\n'
        '{"run": "b", "step": 3, "corrected_after": 3}\n'
        '{"run": "c", "step": 5, "corrected_after": null}\n'
        '{"run": "d", "step": 2}\n'
        '{"run": "e", "step": 2}\n'
    )
    scores: dict[str, list[float | None]] = {
        "d": [0.9, 0.9, 0.1, 0.2, 0.8],
        "e": [0.9, 0.9, 0.1, None],
    }
    found = recovery(read(file), scores)
    assert (found.rate.value, found.rate.n) == (0.5, 4)
    assert (found.unknown, found.elsewhere) == (1, 1)


def test_the_article_s_two_agents_differ_by_their_recovery() -> None:
    """.85 clean and .30 recovered is less ready than .80 and .65."""
    one = recovery([Injection(run="a", step=2, corrected_after=1)] * 6
                   + [Injection(run="a", step=2, corrected_after=None)] * 14, {})  # fmt: skip
    assert one.rate.value == pytest.approx(0.30)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"run": "a"}', "line 2: Object missing required field `step`"),
        ('{"run": "a", "step": -1}', "line 2: steps count from 0"),
        ('{"run": "a", "step": 1, "corrected_after": 0}', "line 2: steps count from 0"),
        ('{"run": "a", "step": 1, "corrected": 1}', "line 2: Object contains unknown field"),
        ("nonsense", "line 2: JSON is malformed"),
    ],
)
def test_a_line_that_will_not_do_is_named(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "errors.jsonl"
    file.write_text(f'{{"run": "a", "step": 1}}\n{line}\n')
    with pytest.raises(BadInjections, match=why):
        read(file)


# --- users


def test_what_users_did_is_read_from_what_agents_keep() -> None:
    root = {"signals": [{"kind": "interrupt", "line": 3}, {"kind": "compaction"}, "odd"]}
    assert signs_of([root, {"signals": [{"kind": "rewind"}]}]) == {"interrupted", "rewound"}
    said = {"role": "user", "content": "And now?"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}
    assert signs_of([{"unanswered": [said]}]) == {ABANDONED}
    assert signs_of([{"unanswered": [result]}]) == frozenset()
    assert signs_of([{"unanswered": [said], "abandoned": True}]) == frozenset()
    assert signs_of([{}, {"signals": 3, "unanswered": "x"}]) == frozenset()


def test_what_a_session_keeps_of_its_users_is_read_without_its_messages(tmp_path: Path) -> None:
    asked = [heard("Do it."), said("m1", call("t1")), heard(result("t1", "done"))]
    stopped = heard([words("[Request interrupted by user]")])
    for name, lines in (("stopped", [*asked, stopped]), ("through", [*asked, said("m2")])):
        written(tmp_path / f"{name}.jsonl", stream(init(), *lines, session=name))
    with open_ledger(tmp_path / "arc.db") as store:
        list(importing.import_paths(store, sorted(tmp_path.glob("*.jsonl"))))
        rows = trace_rows(store)
        keys = [row.trace for row in rows]
        kept = agent_extras(store, keys)
        for key in keys:
            spans = load(store, key).spans
            assert kept[key] == [s.extra for s in spans if isinstance(s, AgentSpan) and s.extra]
        signs = {row.source_id: read_signs(store, [row]) for row in rows}
    assert [set(*each.values()) for each in signs.values()] == [
        {"interrupted", ABANDONED},
        set(),
    ]
    assert agent_extras(Store.open(":memory:"), ["nothing"]) == {}


def test_shares_of_users_signs_are_of_the_runs_that_would_say_so() -> None:
    found = proxies([frozenset({ABANDONED}), frozenset(), frozenset(), frozenset()])
    assert {name: each.value for name, each in found.rates.items()} == {
        ABANDONED: 0.25,
        UNTOUCHED: 0.75,
    }
    assert proxies([]).rates == {}


# --- what moved


def shaped(*shapes: Shape | None, passed: bool | None = None) -> list[Run]:
    return [
        Run(trace=f"{at}", steps=1, money=NOTHING_KNOWN, shape=shape, passed=passed)
        for at, shape in enumerate(shapes)
    ]


def test_a_shape_that_declines_beyond_chance_is_told_from_one_that_may_have() -> None:
    drift, fine = Shape.LATE_DRIFT, Shape.HEALTHY
    many = moved(shaped(*[drift] * 40, *[fine] * 60), shaped(*[drift] * 10, *[fine] * 90))
    by_name = {each.name: each for each in many}
    assert by_name["late drift"].difference == pytest.approx(-0.30)
    assert by_name["late drift"].beyond_chance
    assert (by_name["late drift"].high or 0) < 0
    few = moved(shaped(*[drift] * 4, *[fine] * 6), shaped(drift, *[fine] * 9))
    assert not any(each.beyond_chance for each in few)


def test_a_side_without_runs_moves_nothing() -> None:
    (passed,) = moved([], shaped(None, None, passed=True))
    assert (passed.name, passed.difference, passed.beyond_chance) == ("passed", None, False)
    assert moved([], []) == ()


def test_signs_of_users_move_among_the_runs_that_keep_them() -> None:
    before, since = shaped(None, None), shaped(None)
    kept = {"0": frozenset({ABANDONED})}
    (found,) = moved(before, since, kept)
    assert (found.before.n, found.since.n) == (1, 1)
