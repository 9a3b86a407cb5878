"""Two runs beside each other: what is said of them, and `arc compare`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.features.compare.command import compare
from arc_tui.features.compare.pair import (
    MOST,
    build_pair,
    compare_markdown,
    lines,
    pair_markdown,
    part,
    prompts_pair,
)
from arc_tui.features.compare.run import build_compare, build_siblings
from arc_tui.features.compare.view import CompareRow, CompareView, figures, prompts_line
from replay.errors import NotFound
from replay.kept import begun
from replay.store.handle import Store
from replay.trace import Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.compare_case import make, named, replayed
from tests.arc_tui.sample import header, put
from tests.build import Part, call, step, trace
from tests.faults import hostile


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("compare") / "arc.db")


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    with open_ledger(db) as opened:
        yield opened


@pytest.fixture
def refunds(store: Store) -> CompareView:
    """A run that refunds at once, and one that looks the order up before."""
    return build_compare(store, named(store, "refund", "v1"), named(store, "refund", "v4"))


def printed(db: Path, *words: str) -> Result:
    result = CliRunner().invoke(compare, ["--db", str(db), *words], standalone_mode=False)
    assert result.exception is None, result.exception
    return result


# --- two runs


def test_steps_that_did_the_same_stand_beside_each_other(refunds: CompareView) -> None:
    marks = [(row.a, row.b, row.mark) for row in refunds.rows]
    assert marks == [
        (None, 0, "only_b"),
        (0, 1, "differs"),
        (1, 2, "inconclusive"),
        (2, 3, "same"),
        (3, 4, "same"),
    ]
    assert refunds.rows[1].what == "refund_order amount: 40 → 3900"


def test_the_sentence_says_where_they_differ_and_that_they_come_together_again(
    refunds: CompareView,
) -> None:
    assert refunds.sentence == (
        "A and B differ in 2 of 5 rows, first at step 0 of B, and match again at the end."
    )
    assert refunds.note == "a difference, not a quality verdict"
    assert not refunds.same
    assert (refunds.first, refunds.lasting, refunds.divergence) == (0, None, 0)


def test_a_run_beside_one_that_went_another_way_says_where_they_part(store: Store) -> None:
    view = build_compare(
        store, named(store, "many-wishes", "v5"), named(store, "many-wishes", "v4")
    )
    assert view.lasting == view.divergence
    assert view.divergence is not None
    assert view.rows[view.divergence].b == 4
    assert view.sentence.startswith(
        "A and B diverge at step 4 of B and match only briefly after it: only in B: get_order"
    )


def test_they_part_for_good_where_nothing_after_that_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    kept(path, "0", step(call("read", path="a")), "Done.")
    kept(path, "1", step(call("read", path="a")), step(call("write", path="b")))
    with open_ledger(path) as store:
        view = build_compare(store, "26/0", "26/1")
    assert view.sentence.startswith("A and B diverge at step 1 and never match again: A: says")


def test_figures_say_how_they_changed_from_a_to_b(refunds: CompareView) -> None:
    said = list(figures(refunds))
    assert "steps 4 → 5 (+1)" in said
    assert "errors 0" in said
    assert not any("cost" in each for each in said), "nobody knows it"
    changes = {delta.name: delta.change for delta in refunds.deltas}
    assert changes["calls"] == 1
    assert changes["cost_usd"] is None


def test_prompts_that_differ_are_counted_by_words_and_shown(refunds: CompareView) -> None:
    added, removed = refunds.prompts.words_added, refunds.prompts.words_removed
    assert prompts_line(refunds.prompts).startswith(
        f"system prompts differ: +{added} −{removed} words"
    )
    shown = prompts_pair(refunds.prompts).parts[0]
    assert shown.diff is not None
    assert any(line.kind == "new" and "Look up the order" in line.text for line in shown.diff)


def test_the_same_the_other_way_round(store: Store, refunds: CompareView) -> None:
    other = build_compare(store, refunds.b.trace, refunds.a.trace)
    assert [(row.b, row.a) for row in other.rows] == [(row.a, row.b) for row in refunds.rows]
    assert other.prompts.words_added == refunds.prompts.words_removed
    assert [d.change for d in other.deltas] == [
        None if d.change is None else -d.change for d in refunds.deltas
    ]


def test_a_run_beside_itself_is_the_same(db: Path, refunds: CompareView) -> None:
    result = printed(db, refunds.a.trace, refunds.a.trace[:8])
    assert result.return_value == 0
    assert "A and B match at all 4 steps." in result.output


def test_a_name_that_is_nobodys_is_told_as_that_of_a_trace(store: Store) -> None:
    with pytest.raises(NotFound, match="no trace 'nobody'"):
        build_compare(store, "nobody", named(store, "refund", "v1"))


def kept(path: Path, trial: str, *parts: Part, passed: bool = True) -> Path:
    run = trace(parts, system="You help.")
    outcome = Outcome(status="passed" if passed else "failed")
    put(path, header("26", trial, outcome), run.spans, diagnose(run))
    return path


def test_runs_that_did_the_same_are_the_same_and_other_results_are_said(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    kept(path, "0", step(call("get", "sunny", city="Oslo")), "It is sunny.")
    kept(path, "1", step(call("get", "rainy", city="Oslo")), "It is sunny!")
    result = printed(path, "26/0", "26/1")
    assert result.return_value == 0
    assert "A and B match at all 2 steps, 1 with different tool results." in (result.output)
    with open_ledger(path) as store:
        view = build_compare(store, "26/0", "26/1")
        assert [row.results for row in view.rows] == [False, None]
        got = build_pair(store, view, view.rows[0]).parts[-1]
        assert (got.title, got.a, got.b) == ("result", "sunny", "rainy")


def test_the_same_steps_to_another_end_are_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    kept(path, "0", "It is sunny.")
    kept(path, "1", "It is sunny.", passed=False)
    result = printed(path, "26/0", "26/1")
    assert result.return_value == 1
    assert "A and B match at the only step, but A passed and B failed" in result.output


def test_what_was_told_in_other_words_is_neither_the_same_nor_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    kept(path, "0", "It is sunny.")
    kept(path, "1", "The sun shines.")
    result = printed(path, "26/0", "26/1")
    assert result.return_value == 0
    assert "inconclusive (wording differs or cannot be compared)" in result.output


# --- a run and a replay


def test_a_locked_replay_stands_beside_its_run_step_by_step(store: Store) -> None:
    view = build_compare(store, named(store, "refund", "v1"), replayed(store, "locked"))
    assert view.is_locked
    assert [row.a for row in view.rows] == [row.b for row in view.rows] == [0, 1, 2, 3]
    assert view.lasting is None
    assert view.first == 0
    assert "Locked replay: 2 of 4 steps diverge" in view.sentence
    assert (view.b.edit, view.b.outcome) == ("v8", "unknown")
    assert view.b.input_tokens is not None
    assert view.prompts.system


def test_a_replay_is_found_by_the_beginning_of_its_digest(store: Store) -> None:
    digest = replayed(store, "locked")
    assert begun(store, digest[:16]).digest == digest
    run = named(store, "refund", "v1")
    assert build_compare(store, run, digest.partition(":")[2][:8]).b.digest == digest
    for nobody in ("", "sha256:", "sha256:0000"):
        with pytest.raises(NotFound):
            begun(store, nobody)


def test_a_free_replay_is_the_recording_up_to_where_it_began(store: Store) -> None:
    view = build_compare(store, named(store, "refund", "v1"), replayed(store, "free"))
    assert [row.mark for row in view.rows[:2]] == ["same", "same"]
    assert view.b.start == 2
    assert "the free replay starts at step 2; steps before it are recorded" in view.lacks
    pairs = [build_pair(store, view, row) for row in view.rows]
    assert all(pair.parts for pair in pairs)


def test_another_run_may_be_compared_with_a_replay(store: Store) -> None:
    view = build_compare(store, named(store, "refund", "v8"), replayed(store, "locked"))
    assert not view.is_locked
    assert any(row.mark == "same" for row in view.rows)


# --- a row in full


def test_a_row_in_full_marks_the_words_that_differ(store: Store, refunds: CompareView) -> None:
    pair = build_pair(store, refunds, refunds.rows[1])
    assert [each.title for each in pair.parts] == ["text", "calls refund_order", "result"]
    diff = pair.parts[1].diff
    assert diff is not None
    marked = {line.text[start:end] for line in diff for start, end in line.words}
    assert marked == {"40", "3900"}


def test_texts_too_long_to_be_held_against_each_other_are_both_there() -> None:
    found = part("says", "a" * (MOST + 1), "b")
    assert found.diff is None
    assert not found.same
    assert (found.a, found.b) == ("a" * (MOST + 1), "b")


def test_what_a_terminal_would_obey_is_made_visible() -> None:
    found = part("says", "a\x1b[2Jb", "a\x1b[2Jc")
    assert found.diff is not None
    assert not any("\x1b" in line.text for line in found.diff)


# --- folding, and what is copied


def test_what_is_the_same_is_folded_and_unfolds(store: Store) -> None:
    view = with_rows(store, 9)
    folded = lines(view)
    assert [each.kind for each in folded].count("fold") == 1
    fold = next(each for each in folded if each.kind == "fold")
    assert fold.text.endswith("B 0–7")
    every = lines(view, every=True)
    assert [each.kind for each in every].count("row") == len(view.rows)
    opened = lines(view, opened={fold.first})
    assert [each.first for each in opened] == [each.first for each in every]


def with_rows(store: Store, number: int) -> CompareView:
    """So many rows the same, then one of A alone."""
    view = build_compare(store, named(store, "refund", "v1"), named(store, "refund", "v4"))
    same = [CompareRow(a=at, b=at, mark="same") for at in range(number)]
    return structs.replace(view, rows=(*same, CompareRow(a=number, b=None, mark="only_a")))


def test_a_comparison_is_copied_as_markdown(store: Store, refunds: CompareView) -> None:
    text = compare_markdown(refunds)
    assert text.startswith("## refund/0 vs. refund/0\n\nA and B differ in 2 of 5 rows")
    assert "(a difference, not a quality verdict)" in text
    assert "≠ step 0 of A, 1 of B: A: refund_order" in text
    row = pair_markdown(build_pair(store, refunds, refunds.rows[1]))
    assert row.startswith("### step 0 of A, 1 of B")
    assert "```diff" in row


# --- what to compare with


def test_trials_that_passed_come_before_others_and_replays_last(store: Store) -> None:
    found = build_siblings(store, named(store, "refund", "v1"))
    assert [each.called for each in found.choices] == [
        "✓ refund/0",
        "✓ refund/0",
        "free replay",
        "locked replay",
    ]
    assert all(build_compare(store, found.trace, each.name) for each in found.choices)


def test_a_run_without_a_task_has_no_siblings(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    run = trace(["Done."])
    put(path, structs.replace(header("", "", Outcome()), task=None, trial=None), run.spans,
        diagnose(run))  # fmt: skip
    with open_ledger(path) as store:
        assert build_siblings(store, "last").choices == ()


# --- the command


def test_the_command_prints_the_rows_and_says_by_its_code_that_they_differ(
    db: Path, refunds: CompareView
) -> None:
    result = printed(db, refunds.a.trace, refunds.b.trace)
    assert result.return_value == 1
    assert "(a difference, not a quality verdict)" in result.output
    assert "refund_order amount: 40 → 3900" in result.output
    assert "system prompts differ" in result.output


def test_rows_prints_what_is_the_same_too(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    parts = [step(call("read", path=f"{number}")) for number in range(6)]
    kept(path, "0", *parts, "Done.")
    kept(path, "1", *parts, step(call("write", path="x")))
    folded, every = printed(path, "26/0", "26/1"), printed(path, "26/0", "26/1", "--rows")
    assert "5 matching steps: A 0–4, B 0–4" in folded.output
    assert 'read(path="3")' not in folded.output
    assert 'read(path="3")' in every.output


def test_step_prints_one_row_in_full(db: Path, refunds: CompareView) -> None:
    result = printed(db, refunds.a.trace, refunds.b.trace, "--step", "0")
    assert '-  "amount": 40,' in result.output
    assert '+  "amount": 3900,' in result.output
    wrong = CliRunner().invoke(
        compare,
        ["--db", str(db), refunds.a.trace, refunds.b.trace, "--step", "9"],
        standalone_mode=False,
    )
    assert isinstance(wrong.exception, NotFound)
    assert wrong.exception.hint == "A has steps 0 to 3"


def test_a_rule_says_what_does_not_count(db: Path, refunds: CompareView) -> None:
    rule = ["--compare", "refund_order.amount=ignore"]
    result = printed(db, refunds.a.trace, refunds.b.trace, *rule)
    assert "A and B differ in 1 of 5 rows" in result.output
    assert "refund_order.amount: ignored" in result.output


def test_json_has_the_whole_view(db: Path, refunds: CompareView) -> None:
    said = json.loads(printed(db, refunds.a.trace, refunds.b.trace, "--json").output)
    assert said["a"]["trace"] == refunds.a.trace
    assert [row["mark"] for row in said["rows"]] == [row.mark for row in refunds.rows]
    assert said["same"] is False
    assert said["note"] == "a difference, not a quality verdict"


def test_replay_last_is_the_latest_of_the_run(db: Path, refunds: CompareView) -> None:
    assert "free replay of refund/0" in printed(db, refunds.a.trace, "--replay", "last").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{a}"], "B is missing: name a run"),
        (["{a}", "{b}", "--replay", "last"], "B is missing: name a run"),
        (["{b}", "--replay", "last"], "no saved replay of"),
        (["{a}", "--replay", "sha256:00"], "no saved replay"),
    ],
)
def test_what_was_said_wrongly_is_told(
    words: list[str], said: str, db: Path, refunds: CompareView
) -> None:
    given = [each.format(a=refunds.a.trace, b=refunds.b.trace) for each in words]
    result = CliRunner().invoke(compare, ["--db", str(db), *given], standalone_mode=False)
    assert said in str(result.exception)


@pytest.mark.slow
def test_nothing_that_a_run_says_is_obeyed(tmp_path: Path) -> None:
    path = hostile.database(tmp_path)
    first, *others = hostile.runs_of(path)
    for other in others[:3]:
        for more in ([], ["--rows"], ["--json"]):
            said = hostile.said_by(["compare", first, other, *more], path)
            assert "Traceback" not in said
            assert not hostile.obeyed(said)
    with open_ledger(path) as store:
        view = build_compare(store, first, others[0])
        copied = compare_markdown(view) + "".join(
            pair_markdown(build_pair(store, view, row)) for row in view.rows
        )
    assert not hostile.OBEYED & set(copied)
