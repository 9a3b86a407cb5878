"""`arc stats --layers` as a person calls it: the sentence, the layers, the asserts, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_tui.views.layers import LayersRequest, build_layers, sentence
from replay.trace import Trace
from taxonomy.calibration.approval import JudgeApproval, keep
from taxonomy.findings import StepScore
from taxonomy.held_out import hold
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from taxonomy.query.fields import tool_definitions
from taxonomy.query.listing import run_rows
from taxonomy.stats.layers import layer_figures
from tests.arc_tui.gate_case import put_runs
from tests.arc_tui.layers_case import TASKS, put_pyramid, run
from tests.shared import Imported, needs_shared
from tests.spoken import Spoken, spoken

OLD_NEW = ("--before", "variant=old", "--after", "variant=new")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def layers(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), "stats", "--layers", *(words or OLD_NEW), cwd=db.parent)


def first_line(said: Spoken) -> str:
    assert said.code == 0, said.err
    return said.out.splitlines()[0]


pytestmark = pytest.mark.slow
"""Each makes, and has the rules look at, about a hundred runs."""


class TestSentence:
    @pytest.mark.parametrize(
        ("new", "lost", "words"),
        [
            (run(), 16, "L3 (outcome) is down and L2 (rubric) held: suspect the environment or the"
             " check."),
            (run(order=8, description="Reads one."), 16, "L1 (tool calls) is down and tool"
             " definitions differ (get_order changed): the blast radius of that."),
            (run(order=8), 16, "Unclear: L1 (tool calls) is down, and the tool definitions are the"
             " same in both groups."),
            (run(), 0, "No layer is down: L1 (tool calls), L2 (rubric) and L3 (outcome) held."),
            (run(), 4, "Unclear: no layer is shown to be down; inconclusive: L3 (outcome)."),
        ],
    )  # fmt: skip
    def test_it_is_where_the_layers_point(
        self, db: Path, new: Trace, lost: int, words: str
    ) -> None:
        assert first_line(layers(put_pyramid(db, new, lost=lost))) == words

    def test_the_plan_drifts_where_only_the_steps_got_worse(self, db: Path) -> None:
        put_pyramid(db)
        with open_ledger(db) as store:
            judged(store_of=db, value=lambda row: 0.9 if row.variant == "old" else 0.5)
            view = build_layers(store, LayersRequest(before="variant=old", after="variant=new"))
        assert sentence(view) == (
            "L2 (rubric) is down and L1 (tool calls) held: the plan drifts; look at the context."
        )
        assert view.figures.rubric == JUDGE

    def test_few_tasks_say_nothing_and_how_many_it_takes(self, db: Path) -> None:
        said = layers(put_pyramid(db, lost=4, tasks=8))
        assert first_line(said).startswith("Unclear: no layer is shown to be down;")
        assert "To tell a 20-point drop at one layer from none" in said.out
        assert " shared tasks)." in said.out

    def test_a_narrower_margin_takes_more(self, db: Path) -> None:
        put_pyramid(db, lost=16)
        assert first_line(layers(db, *OLD_NEW, "--margin", ".05")) == (
            "Unclear: L3 (outcome) is down, but it is not shown that L1 (tool calls) and"
            " L2 (rubric) held."
        )


JUDGE = "judge:model:rubric-1"


def judged(*, store_of: Path, value: Callable[[Any], float], every: int = 1) -> None:
    """An approved judge's scores of every such step."""
    with open_ledger(store_of) as store:
        for at, row in enumerate(run_rows(store)):
            if at % every == 0:
                given = [StepScore(step=step, value=value(row), source="judge", by=JUDGE)
                         for step in range(2)]  # fmt: skip
                keep_scores(store, row.trace, given)
        approved(store_of)


def approved(db: Path) -> None:
    from replay.store.handle import now_ns
    from taxonomy.calibration.approval import Pair, gate

    with open_ledger(db) as store:
        pairs = [Pair(human=v, other=v, category=None) for v in (0.1, 0.3, 0.6, 0.9, 1.0)]
        verdict: JudgeApproval = gate(JUDGE, pairs, now_ns())
        assert verdict.passed
        keep(store, verdict)


class TestFigures:
    def test_every_layer_has_its_figures_and_its_source(self, db: Path) -> None:
        said = layers(put_pyramid(db, lost=16), *OLD_NEW, "--json")
        found = json.loads(said.out)
        by_layer = {each["layer"]: each for each in found["figures"]["layers"]}
        assert [each["state"] for each in by_layer.values()] == [
            "not evaluated", "held", "held", "down",
        ]  # fmt: skip
        outcome = by_layer["L3"]
        assert outcome["change"] == pytest.approx(-16 / TASKS)
        assert outcome["before"]["value"] == 1
        assert (outcome["before"]["n"], outcome["runs"], outcome["paired"]) == (
            TASKS, [TASKS, TASKS], True,
        )  # fmt: skip
        assert found["figures"]["rubric"] == "rules"
        assert found["figures"]["verdict"]["suspect"] == "environment or check"
        assert found["chosen"] is None

    def test_what_is_not_evaluated_says_why_and_what_to_do(self, db: Path) -> None:
        put_runs(db, "old", {"a": (0, 0, 1), "b": (0, 0, 1)})
        put_runs(db, "new", {"a": (0, 0, 1), "b": (0, 0, 1)})
        out = layers(db).out
        assert "L0 (asserts) not evaluated: no asserts.toml beside the database." in out
        assert "L1 (tool calls) not evaluated: no gold calls. Try: arc gold import FILE." in out
        assert "L3 (outcome) not evaluated: no run has an outcome." in out

    def test_the_judge_counts_only_where_it_scored_both_groups(self, db: Path) -> None:
        put_pyramid(db, tasks=6)
        judged(store_of=db, value=lambda _: 0.5, every=4)
        said = layers(db)
        assert "L2: mean score of a run's steps, by arc's rules" in said.out
        assert f"{JUDGE} is approved, but scored 3 runs: fewer than half of a group." in said.out

    def test_what_else_differs_is_said(self, db: Path) -> None:
        put_runs(db, "old", {"a": (1, 0), "b": (1, 0)}, recorded=run().spans)
        other = run(description="Reads one.")
        put_runs(db, "new", {"a": (1, 0), "b": (1, 0)}, recorded=other.spans)
        assert "Tool definitions differ: get_order changed." in layers(db).out

    def test_definitions_are_read_by_tool(self, db: Path) -> None:
        put_pyramid(db, run(description="Other."), tasks=2)
        with open_ledger(db) as store:
            rows = run_rows(store)
            found = tool_definitions(store, [row.trace for row in rows])
            assert {*found} == {row.trace for row in rows}
            assert {*map(tuple, found.values())} == {("get_order",)}
            assert len({each["get_order"] for each in found.values()}) == 2

    def test_tools_of_tasks_that_are_not_shared_are_no_change(self, db: Path) -> None:
        put_runs(db, "old", {"a": (1, 0), "b": (1, 0)}, recorded=run().spans)
        put_runs(db, "new", {"a": (1, 0), "b": (1, 0)}, recorded=run().spans)
        put_runs(db, "new", {"c": (1, 0)}, recorded=run(description="Other.").spans)
        with open_ledger(db) as store:
            rows = run_rows(store)
            sides = tuple([r for r in rows if r.variant == name] for name in ("old", "new"))
            assert layer_figures(store, (sides[0], sides[1])).tools == ()

    def test_held_out_tasks_are_left_out_unless_wanted(self, db: Path) -> None:
        put_pyramid(db, tasks=20)
        with open_ledger(db) as store:
            kept = len(hold(store, run_rows(store)).tasks)
        assert kept
        said = layers(db)
        assert f"{20 - kept} shared" in said.out
        assert f"{2 * kept} runs of held-out tasks hidden." in said.out
        assert "20 shared" in layers(db, *OLD_NEW, "--include-held-out").out


class TestAsserts:
    TEXT = '[[assert]]\nname = "says the order"\nsteps = "last"\ncontains = "order 7"\n'

    def test_the_file_beside_the_database_is_layer_0(self, db: Path) -> None:
        put_pyramid(db, run(says="It is on its way."))
        db.with_name("asserts.toml").write_text(self.TEXT)
        said = layers(db)
        assert first_line(said) == (
            "Unclear: L0 (asserts) is down, and no layer stands below it: see which asserts fail."
        )
        row = next(line.split() for line in said.out.splitlines() if "says the order" in line)
        assert row[-4:] == ["1.00", ".00", f"{TASKS},", f"{TASKS}"]

    def test_another_file_is_named(self, db: Path) -> None:
        put_pyramid(db, tasks=4)
        file = db.with_name("other.toml")
        file.write_text(self.TEXT)
        found = json.loads(layers(db, *OLD_NEW, "--asserts", str(file), "--json").out)
        assert found["asserts"] == str(file)
        assert found["figures"]["asserts"][0]["checked"] == [4, 4]

    def test_asserts_of_other_tasks_leave_the_layer_unevaluated(self, db: Path) -> None:
        put_pyramid(db, tasks=4)
        db.with_name("asserts.toml").write_text(f'{self.TEXT}task = "none *"\n')
        assert "no assert is about a completion of these runs" in layers(db).out

    def test_a_bad_file_is_refused_with_its_place(self, db: Path) -> None:
        put_pyramid(db, tasks=2)
        db.with_name("asserts.toml").write_text(self.TEXT.replace("contains", "contain"))
        said = layers(db)
        assert said.code == 2
        assert "asserts.toml: Object contains unknown field `contain`" in said.err


class TestGroups:
    def test_without_names_they_are_the_two_newest_variants(self, db: Path) -> None:
        put_pyramid(db, tasks=4)
        said = spoken("--db", str(db), "stats", "--layers", cwd=db.parent)
        assert (
            "before 'variant=old', 4 runs; after 'variant=new', 4 runs (the two newest" in said.out
        )

    def test_a_variant_of_one_task_is_not_chosen(self, db: Path) -> None:
        put_pyramid(db, tasks=4)
        put_runs(db, "newest", {"task 00": (1, 0)}, recorded=run().spans)
        said = spoken("--db", str(db), "stats", "--layers", cwd=db.parent)
        assert "after 'variant=new', 4 runs" in said.out

    def test_one_task_a_group_has_rates_and_no_change(self, db: Path) -> None:
        put_pyramid(db, tasks=1)
        said = layers(db)
        assert first_line(said) == "Unclear: no layer was evaluated."
        assert "L3 (outcome) not evaluated: fewer than two tasks in a group have it." in said.out
        row = next(line for line in said.out.splitlines() if line.startswith("L3 outcome"))
        assert row.split()[2:4] == ["1.00", "(.21–1.00)"]

    def test_a_query_narrows_both(self, db: Path) -> None:
        put_pyramid(db, tasks=4)
        assert "2 shared" in layers(db, "task:00 or task:01", *OLD_NEW).out

    def test_one_variant_is_nothing_to_compare(self, db: Path) -> None:
        put_runs(db, "old", {"a": (1, 0)})
        said = spoken("--db", str(db), "stats", "--layers", cwd=db.parent)
        assert said.code == 2
        assert "no two groups to compare" in said.err
        assert "Try: arc stats --layers --before QUERY --after QUERY" in said.err

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("--before", "variant=old"), "--before and --after belong together"),
            (("--before", "variant=old", "--after", "variant=old"), "2 runs are in both --before"),
            (("--before", "variant=old", "--after", "variant=none"), "--after: no run matches"),
            (("--before", "cost>", "--after", "variant=new"), "--before: "),
            ((*OLD_NEW, "--margin", "0"), "Invalid value for '--margin'"),
            ((*OLD_NEW, "--margin", "nan"), "Invalid value for '--margin'"),
            ((*OLD_NEW, "--by", "model"), "--layers and --by cannot be combined"),
            ((*OLD_NEW, "--asserts", "none.toml"), "none.toml"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_compared_is_refused(
        self, db: Path, words: tuple[str, ...], why: str
    ) -> None:
        put_pyramid(db, tasks=2)
        said = layers(db, *words)
        assert said.code == 2
        assert why in said.err

    @pytest.mark.parametrize("words", [("--before", "a"), ("--asserts", __file__)])
    def test_its_options_need_it(self, db: Path, words: tuple[str, ...]) -> None:
        put_pyramid(db, tasks=2)
        said = spoken("--db", str(db), "stats", *words, cwd=db.parent)
        assert said.code == 2
        assert "need --layers" in said.err


@needs_shared
@pytest.mark.data
def test_trials_of_real_runs_of_one_agent_are_told_apart_by_nothing(real: Imported) -> None:
    """The four trials of tau-bench are of one agent: no sentence may come of any two of them."""
    with open_ledger(real.path) as store:
        for one, other in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
            view = build_layers(store, LayersRequest(
                before=f"format:tau-bench trial={one}", after=f"format:tau-bench trial={other}",
            ))  # fmt: skip
            assert view.figures.verdict.suspect == "unclear"
            assert view.figures.layers[3].before.n == 50
