"""`arc try` as a user types it: the demo offline, and a model on a local server."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import views_of
from arc_tui.features.edit_test.command import build_edits, try_
from arc_tui.features.edit_test.command import list_edits as edits_
from arc_tui.features.edit_test.plan import estimate_cost, plan_edit_test, saved_edit_tests
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.text import NOT_OUTCOMES, p_words
from arc_tui.features.edit_test.view import EditTestRequest, EditTestView
from arc_tui.places import fixtures
from arc_tui.ui import format
from replay.errors import ArcError, BadEdit, ModelRefused, NotFound, OfflineMiss
from replay.models.demo import Demo
from replay.store import edits
from replay.store.edits import edit_named
from taxonomy import held_out
from taxonomy.classes import Attribution, FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.language import BadQuery
from tests.arc_tui import try_case
from tests.arc_tui.try_case import CLASS, V4, V4_EDIT
from tests.messages_api import FAULTS, Body, MessagesApi
from tests.replay.live_case import MODEL

MADE_UP = f"{CLASS} variant:v5"


class Counted:
    """Counts what the demo model is asked, and can kill the process at an answer."""

    def __init__(self, patch: pytest.MonkeyPatch, dies_at: int | None = None) -> None:
        self.asked = 0
        think = Demo.complete

        def complete(model: Demo, body: Body, sample: int) -> Body:
            if self.asked == dies_at:
                raise KeyboardInterrupt
            self.asked += 1
            return think(model, body, sample)

        patch.setattr(Demo, "complete", complete)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("try") / "arc.db"
    try_case.put(path, *try_case.OTHERS)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    """The runs in a database that a test may change."""
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


def run(db: Path, *arguments: str) -> Result:
    return try_case.invoke(try_, db, *arguments)


def demo(db: Path, *arguments: str) -> Result:
    return run(db, *arguments, "--model", "demo")


def traces(db: Path) -> dict[str, str]:
    with open_ledger(db) as store:
        rows = store.db.execute("SELECT source_id, trace FROM trace_summary").fetchall()
    return dict(rows)


# --- what it comes to


@pytest.mark.slow
def test_the_older_prompt_fixes_the_class_that_the_newer_one_planted(db: Path) -> None:
    """Conformance: the demo model really reads its prompt."""
    result = demo(db, str(V4), "--on", MADE_UP)
    assert result.return_value == 0
    head, sentence, *_ = result.stdout.splitlines()
    assert head == (
        "v4: fixed 3/3 (.21–1), expected by chance < .1"
        " · broke 3/12 (.09–.53), expected by chance < .1"
    )
    assert "failure in 0/5 edited, 5/5 control (significant, p = .008)" in sentence
    assert sentence.endswith(NOT_OUTCOMES)
    assert "2 runs have the same request as another: called once" in result.stdout
    assert "3 runs of 1 task: effective sample size 1.0" in result.stdout
    assert "would pass" not in result.stdout
    assert "demo, rule-based" in result.stdout


@pytest.mark.slow
def test_json_holds_every_row_and_rates_as_everywhere(db: Path) -> None:
    view = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "--json"))
    assert [(row["run"], row["step"], row["ruling"]) for row in view["runs"]] == [
        (f"many-wishes · {trial}", 4, "fixed") for trial in range(3)
    ]
    assert {row["detector"] for row in view["runs"]} == {"hallucinated state, by rule"}
    assert [row["like"] for row in view["runs"]] == [None, *["many-wishes · 0"] * 2]
    assert set(view["fixed"]["rate"]) == {"value", "n", "low", "high"}
    assert (view["fixed"]["hits"], view["fixed"]["groups"]) == (3, 1)
    assert Counter(row["effect"] for row in view["steps"]) == {"held": 9, "broke": 3}
    assert [round(row["p"], 4) for row in view["runs"]] == [0.0079] * 3
    assert view["fixed_by_chance"] == pytest.approx(3 / 126)
    chances = [row["by_chance"] for row in view["steps"]]
    assert view["broke_by_chance"] == pytest.approx(sum(chances))
    assert max(chances) < 0.05
    assert (view["control"], view["edited"]) == ({"hits": 5, "n": 5}, {"hits": 0, "n": 5})
    assert view["done"] == view["total"] == 15
    assert (view["spent"]["calls"], view["spent"]["cached"]) == (stored(db), 0) == (130, 0)


@pytest.mark.slow
def test_healthy_steps_are_those_before_the_break_and_of_passed_runs_alike(db: Path) -> None:
    view = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "--json"))
    passed = [row for row in view["steps"] if row["passed"]]
    assert {row["run"] for row in passed} == {"refund · 0", "refund · 1", "cancel · 0"}
    before = [row for row in view["steps"] if not row["passed"]]
    assert before
    assert all(row["step"] < 4 for row in before)
    assert ("refund · 0", 0) not in {(row["run"], row["step"]) for row in passed}
    per_run = Counter(row["trace"] for row in view["steps"])
    assert max(per_run.values()) <= 3


@pytest.mark.slow
def test_an_edit_of_another_matter_fixes_nothing(db: Path) -> None:
    file = str(fixtures() / "demo" / "edits" / "sharper-stock.toml")
    result = demo(db, file, "--on", MADE_UP, "-k", "3")
    assert result.return_value == 1
    assert "fixed 0/3" in result.stdout
    assert "Not fixed at any judged break" in result.stdout


@pytest.mark.slow
def test_an_argument_that_is_of_no_matter_diverges_nowhere(db: Path) -> None:
    older = (str(V4.parent / "v1.md"), "--on", MADE_UP, "-k", "4")

    def refund(*rules: str) -> str:
        """What becomes of a refund that went well: the older prompt makes up its amount."""
        view = try_case.as_json(demo(db, *older, "--json", *rules))
        (row,) = (row for row in view["steps"] if (row["run"], row["step"]) == ("refund · 1", 1))
        return str(row["effect"])

    assert refund() == "broke"
    rule = ("--compare", "refund_order.amount=ignore")
    assert refund(*rule) == "held"
    assert "your comparison rules: refund_order.amount: ignored" in demo(db, *older, *rule).stdout
    with pytest.raises(ArcError, match="sometimes"):
        demo(db, *older, "--compare", "refund_order.amount=sometimes")


def test_one_sample_is_called_a_look_and_proves_nothing(db: Path) -> None:
    result = demo(db, str(V4), "--on", MADE_UP, "-k", "1")
    assert "1 sample: not conclusive." in result.stdout
    assert "not significant" in result.stdout
    assert "fixed 0/3" in result.stdout
    assert "1 sample an arm cannot be significant" in result.stdout
    assert "that takes 4" in result.stdout
    assert result.return_value == 1


@pytest.mark.slow
def test_what_three_samples_cannot_tell_is_called_neither_fixed_nor_broken(db: Path) -> None:
    """All differ, and yet chance alone does that in one of ten."""
    view = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "-k", "3", "--json"))
    assert {row["ruling"] for row in view["runs"]} == {"inconclusive"}
    assert {row["effect"] for row in view["steps"]} == {"held", "inconclusive"}
    assert (view["fixed"]["hits"], view["broke"]["hits"]) == (0, 0)
    assert (view["fixed_by_chance"], view["broke_by_chance"]) == (0, 0)
    result = demo(db, str(V4), "--on", MADE_UP, "-k", "3")
    assert result.stdout.count("? inconclusive") == 6
    assert "No single break tests as fixed; in all" in result.stdout
    assert result.return_value == 1


def test_the_words_of_a_query_narrow_a_class(db: Path) -> None:
    def runs(query: str) -> set[str]:
        view = try_case.as_json(
            demo(db, str(V4), "--on", query, "--json", "-k", "1", "--healthy-steps", "0")
        )
        return {row["run"] for row in view["runs"]}

    assert runs("class:h variant:v1") == {"refund · 0", "where-is-it · 0"}
    assert runs("class:loop") == {"warranty · 0"}
    assert runs("variant:v1 class:'hallucinated state' outcome:failed task:refund") == {
        "refund · 0"
    }


def test_held_steps_are_counted_unless_all_rows_are_asked_for(db: Path) -> None:
    brief = demo(db, str(V4), "--on", MADE_UP, "-k", "1").stdout
    whole = demo(db, str(V4), "--on", MADE_UP, "-k", "1", "--rows").stdout
    assert "more healthy steps unchanged (--rows shows them)" in brief
    assert "· same" not in brief
    assert whole.count("· same") == 9


# --- what is left out, and why


@pytest.mark.pilot
def test_failures_of_others_and_held_out_tasks_are_left_out_and_said(db: Path) -> None:
    names = traces(db)
    with open_ledger(db) as store:
        made_up = FailureClass.HALLUCINATED_STATE
        try_case.tagged(store, names["shop-refund-v1-0"], 0, made_up, Attribution.ENVIRONMENT)
        holding_of(store, "where-is-it")
    said = demo(db, str(V4), "--on", "outcome:failed", "-k", "1").stdout
    assert "1 run left out: attribution: environment; a prompt edit cannot fix it" in said
    assert "1 run left out: held-out task" in said
    assert "not applicable to 1 run: the edit does not change the request" in said
    shown = demo(db, str(V4), "--on", "outcome:failed", "-k", "1", "--include-held-out").stdout
    assert "held-out" not in shown
    assert "where-is-it · 0" in shown


def holding_of(store: Any, task: str) -> None:
    from replay.store import answers

    answers.keep(store, "held out", held_out.HeldOutSet(strata={task: ""}, since_ns={task: 1}))
    assert held_out.hidden(store) == {task}


def test_a_persons_tag_moves_the_break(db: Path) -> None:
    names = traces(db)
    with open_ledger(db) as store:
        for name in try_case.BROKEN[:1]:
            try_case.tagged(store, names[name], 2, FailureClass.LOOP)
    view = try_case.as_json(demo(db, str(V4), "--on", "class:loop variant:v5", "--json", "-k", "1"))
    (row,) = view["runs"]
    assert (row["step"], row["by"], row["detector"]) == (2, "tagged by ann", "the recorded action")


def test_an_anchor_that_a_run_lacks_makes_it_not_applicable_and_no_error(
    db: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anchor.toml"
    file.write_text(
        '[[change]]\nkind = "replace_text"\nanchor = "no need to"\ntext = "always a need to"\n'
    )
    result = demo(db, str(file), "--on", CLASS, "-k", "1")
    assert result.return_value in (0, 1)
    assert (
        "not applicable to 2 runs: anchor 'no need to' not found in the system prompt"
        in result.stdout
    )
    with pytest.raises(BadEdit, match="cannot test the edit on any of 2 runs: anchor"):
        demo(db, str(file), "--on", f"{CLASS} variant:v1")


def test_a_mistake_is_told_in_a_sentence(db: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no edit 'nope'"):
        demo(db, "nope", "--on", CLASS)
    with pytest.raises(BadEdit, match=r"no file and no saved edit 'v99\.md'"):
        demo(db, "v99.md", "--on", CLASS)
    with pytest.raises(BadQuery, match=r"class 'lop' \(at character 1\); did you mean 'loop'"):
        demo(db, str(V4), "--on", "class:lop")
    with pytest.raises(NotFound, match="no run that matches"):
        demo(db, str(V4), "--on", "nothing-like-it")
    with pytest.raises(BadEdit, match="passed: no failure to fix"):
        demo(db, str(V4), "--on", "outcome:passed")
    with pytest.raises(Exception, match="no edit given"):
        demo(db, "--on", CLASS)


@pytest.mark.slow
def test_an_edit_is_a_prompt_a_toml_file_or_a_kept_name(db: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "mine.txt"
    prompt.write_text(V4.read_text())
    with open_ledger(db) as store:
        assert edit_named(store, str(prompt)).digest == V4_EDIT.digest
        toml = fixtures() / "demo" / "edits" / "sharper-stock.toml"
        assert edit_named(store, str(toml)).name == "sharper stock tools"
        edits.save(store, V4_EDIT)
        assert edit_named(store, "v4").digest == V4_EDIT.digest
    assert "v4: fixed 3/3" in demo(db, "--system", str(V4), "--on", MADE_UP, "-k", "4").stdout


# --- nothing is asked twice


@pytest.mark.slow
def test_the_same_again_asks_nothing_and_says_the_same(db: Path) -> None:
    first = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "--json"))
    again = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "--json"))
    assert (first["spent"]["calls"] > 0, again["spent"]["calls"]) == (True, 0)
    assert {**first, "spent": None} == {**again, "spent": None}


@pytest.mark.parametrize("answers", [1, 7, 38])
@pytest.mark.slow
def test_interrupted_after_some_answers_it_asks_only_the_rest(
    db: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    def going() -> list[EditTestView]:
        request = EditTestRequest(edit=V4_EDIT, query=MADE_UP, model="demo", samples=2)
        with open_ledger(db) as store, closing(views_of(run_edit_test, store, request)) as work:
            return list(work)

    with pytest.MonkeyPatch.context() as patch:
        Counted(patch, dies_at=answers)
        with pytest.raises(KeyboardInterrupt):
            going()
    assert stored(db) == answers
    rest = Counted(monkeypatch)
    view = going()[-1]
    assert view.spent.calls == rest.asked == stored(db) - answers
    assert view.done == view.total


def stored(db: Path) -> int:
    """Every answer that is stored by now."""
    with open_ledger(db) as store:
        (count,) = store.db.execute("SELECT count(*) FROM answer").fetchone()
    return int(count)


@pytest.mark.slow
def test_the_plan_asks_nothing_and_foresees_what_is_asked(db: Path) -> None:
    request = EditTestRequest(edit=V4_EDIT, query=MADE_UP, model="demo")
    with open_ledger(db) as store:
        before = estimate_cost(store, request)
        assert stored(db) == 0
        view = list(views_of(run_edit_test, store, request))[-1]
        after = estimate_cost(store, request)
        assert plan_edit_test(store, request, ModelPool(store)).controls
    assert before.estimate.calls == view.spent.calls
    assert (after.estimate.calls, after.estimate.stored) == (0, before.estimate.calls)
    assert before.models == ("demo",)


# --- what is kept of it


@pytest.mark.slow
def test_a_finished_try_is_listed_with_its_edit_and_shown_for_the_same_runs(db: Path) -> None:
    demo(db, str(V4), "--on", MADE_UP)
    first = try_case.as_json(demo(db, str(V4), "--on", MADE_UP, "-k", "2", "--json"))
    listed = CliRunner().invoke(edits_, ["--db", str(db)], standalone_mode=False).stdout
    assert 'class:"hallucinated state" variant:v5  3/3 (.21–1), expected by chance < .1' in listed
    assert "3/12 (.09–.53), expected by chance < .1" in listed
    assert "demo, rule-based, k 5" in listed
    with open_ledger(db) as store:
        (row,) = build_edits(store)
        assert [each.samples for each in row.tries] == [2, 5]
        assert row.tries[0].digest == first["digest"]
        request = EditTestRequest(edit=V4_EDIT, query=MADE_UP, model="demo")
        before = estimate_cost(store, request).before
        assert before is not None
        assert before.view.samples == 2
        others = structs.replace(request, query=f"{MADE_UP} trial:0")
        assert estimate_cost(store, others).before is None
        assert estimate_cost(store, structs.replace(request, model=MODEL)).before is None


def test_a_try_that_was_cut_short_is_not_kept_as_a_result(db: Path) -> None:
    with open_ledger(db) as store:
        work = views_of(
            run_edit_test, store, EditTestRequest(edit=V4_EDIT, query=MADE_UP, model="demo")
        )
        assert next(work).digest is None
        work.close()
        assert saved_edit_tests(store) == []


# --- live


LIVE = ("--model", MODEL, "--live", "--max-calls", "99", "-k", "2", "--healthy-steps", "3")


@pytest.mark.slow
def test_the_estimate_comes_before_the_first_live_call_and_is_what_is_asked(
    api: MessagesApi, db: Path
) -> None:
    arguments = (str(V4), "--on", MADE_UP)
    estimate = try_case.as_json(run(db, *arguments, *LIVE, "--estimate", "--json"))
    assert api.asked == 0
    result = run(db, *arguments, *LIVE, "--json")
    assert f"{estimate['calls']} live calls at first" in result.stderr
    assert try_case.as_json(result)["spent"]["calls"] == api.asked == estimate["calls"]


def test_without_live_or_a_limit_nothing_is_asked(api: MessagesApi, db: Path) -> None:
    with pytest.raises(OfflineMiss, match="shop-many-wishes-v5-0, step 4: no cached response"):
        run(db, str(V4), "--on", MADE_UP, "--model", MODEL)
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, str(V4), "--on", MADE_UP, "--model", MODEL, "--live")
    assert api.asked == 0


@pytest.mark.slow
def test_a_spent_budget_keeps_what_was_paid_for_and_the_rest_is_asked_later(
    api: MessagesApi, db: Path
) -> None:
    arguments = [str(V4), "--on", MADE_UP, *LIVE]
    arguments[arguments.index("99")] = "6"
    result = CliRunner().invoke(try_, ["--db", str(db), *arguments], standalone_mode=False)
    assert isinstance(result.exception, ModelRefused)
    assert "stopped after 3 of 6 steps: limit of 6 calls" in result.stdout
    assert "fixed 0/3" in result.stdout, "two samples decide nothing"
    assert api.asked == 6
    view = try_case.as_json(run(db, str(V4), "--on", MADE_UP, *LIVE, "--json"))
    assert view["done"] == view["total"]
    assert api.asked == 6 + view["spent"]["calls"]


def test_a_request_that_is_declined_says_so_in_its_row(api: MessagesApi, db: Path) -> None:
    for _ in range(4):  # both samples of both arms
        api.fault(FAULTS["too large"])
    view = try_case.as_json(run(db, str(V4), "--on", MADE_UP, *LIVE, "--json"))
    assert [row["ruling"] for row in view["runs"]] == ["unknown"] * 3  # one question to a model
    assert all("413" in row["why"] for row in view["runs"])
    assert view["fixed"]["rate"]["n"] == 0
    assert view["done"] == view["total"]


def test_the_calls_of_several_runs_are_in_flight_at_once(api: MessagesApi, db: Path) -> None:
    """Of no run is more asked than one sample of each arm; the server waits for four of them."""
    api.flights.gather = 4
    arguments = (str(V4), "--on", 'class:"hallucinated state"', *LIVE, "-k", "1")
    view = try_case.as_json(run(db, *arguments, "--json"))
    questions = [row for row in view["runs"] if row["like"] is None]
    assert len(questions) >= 2
    assert api.most_at_once >= 4
    assert view["done"] == view["total"]
    assert view["spent"]["calls"] == api.asked


@pytest.mark.slow
def test_whatever_is_answered_first_the_result_and_its_digest_are_the_same(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    """Step after step, all at once and as one batch; and offline from what those kept."""
    arguments = (str(V4), "--on", MADE_UP, "-k", "2", "--healthy-steps", "3", "--json")
    seen = []
    for schedule in ("cheap", "fast", "batch"):
        copy = Path(shutil.copy(db, tmp_path / f"{schedule}.db"))
        seen.append(try_case.as_json(run(copy, *arguments, *LIVE, "--schedule", schedule)))
        seen.append(try_case.as_json(run(copy, *arguments, "--model", MODEL)))
        with open_ledger(copy) as store:
            rows = store.db.execute("SELECT DISTINCT source FROM answer").fetchall()
        assert rows == [("batch" if schedule == "batch" else "claude",)]
    assert seen[0]["digest"].startswith("sha256:")
    assert all({**each, "spent": None} == {**seen[0], "spent": None} for each in seen)


@pytest.mark.slow
def test_asked_afresh_it_counts_other_answers_and_the_old_ones_stay(
    api: MessagesApi, db: Path
) -> None:
    arguments = (str(V4), "--on", MADE_UP, *LIVE, "--json")
    first = try_case.as_json(run(db, *arguments))
    asked = api.asked
    estimate = try_case.as_json(run(db, *arguments, "--no-cache", "--estimate", "--json"))
    assert (estimate["calls"], estimate["stored"]) == (asked, 0)
    fresh = try_case.as_json(run(db, *arguments, "--no-cache"))
    assert (first["range"], fresh["range"], api.asked) == (0, 1, 2 * asked)
    assert fresh["digest"] != first["digest"]
    assert try_case.as_json(run(db, *arguments))["digest"] == first["digest"]
    assert api.asked == 2 * asked


def test_offline_all_that_is_stored_is_shown_before_what_is_missing_is_named(
    api: MessagesApi, db: Path
) -> None:
    run(db, str(V4), "--on", f"{CLASS} variant:v1", *LIVE, "--healthy-steps", "0")
    asked = api.asked
    arguments = ["--db", str(db), str(V4), "--on", CLASS, "--model", MODEL, "-k", "2"]
    result = CliRunner().invoke(try_, [*arguments, "--healthy-steps", "0"], standalone_mode=False)
    assert isinstance(result.exception, OfflineMiss)
    assert "shop-many-wishes-v5-0, step 4" in result.exception.message
    assert result.stdout.count("waiting") == 3
    assert "refund · 0" in result.stdout
    assert api.asked == asked


@pytest.mark.slow
def test_answers_that_are_missing_are_said_to_be(api: MessagesApi, db: Path) -> None:
    api.fault(FAULTS["too large"])
    said = run(db, str(V4), "--on", MADE_UP, *LIVE).stdout
    assert "1 step with missing samples: " in said


# --- words


def test_numbers_read_as_a_person_writes_them() -> None:
    assert [format.fraction(value) for value in (0, 0.005, 0.21, 0.999, 1)] == [
        "0",
        ".01",
        ".21",
        "1",
        "1",
    ]
    assert [p_words(p) for p in (0.0001, 0.008, 0.5)] == ["p < .001", "p = .008", "p = .500"]


def test_a_command_without_an_edit_in_its_wish_tries_nothing(db: Path) -> None:
    with open_ledger(db) as store, pytest.raises(ArcError, match="no edit to test"):
        next(views_of(run_edit_test, store, EditTestRequest(edit=None, query=CLASS)))
