"""`arc judge` as a user types it, against a local server that reads what it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from arc_tui.experiments.request import views_of
from arc_tui.features.judge.command import score
from arc_tui.features.judge.run import ScoringRequest, run_scoring
from replay.budget import Limits
from replay.errors import ModelRefused, NotFound, OfflineMiss
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import header, put
from tests.build import call, error, heard, step, trace
from tests.judge_policy import Judge, prompt
from tests.kept_scores import run_scores, step_scores
from tests.messages_api import MessagesApi, message, text
from tests.replay.live_case import MODEL

GOALS = """
[[task]]
match = "refund *"

[[task.goal]]
text = "Looks order 1042 up"
weight = 1
tool = "get_*"

[[task.goal]]
text = "Refunds what was asked"
weight = 3
owner = "payments"
tool = "refund_*"
"""


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Judge:
    return judge


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with one failed run of four steps."""
    path = tmp_path / "arc.db"
    run = trace(
        [
            step("I look it up.", call("get_order", {"order": 1042, "cents": 2500}, order_id=1042)),
            step("I refund it.", call("refund_order", error("too high"), amount=9900)),
            heard("And now?"),
            "It is done.",
            "Order 1042 is paid back.",
        ],
        task="Refund order 1042, please.",
    )
    put(
        path,
        header("refund 7", "0", Outcome(status="failed", value=0.0, by="verifier")),
        run.spans,
        diagnose(run),
    )
    return path


def run(db: Path, *arguments: str) -> Result:
    """The command; what it raises is raised here."""
    result = CliRunner().invoke(score, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def live(db: Path, *arguments: str) -> Result:
    return run(db, "last", "--model", MODEL, "--live", "--max-calls", "50", *arguments)


def as_json(result: Result) -> Any:
    (view,) = json.loads(result.stdout)
    return view


def test_steps_are_scored_live_and_then_again_from_what_is_stored(
    api: MessagesApi, db: Path
) -> None:
    first = live(db)
    assert first.return_value == 0
    assert "4 live calls at first, 0 answered already" in first.stderr
    assert "4 of 4 steps scored by claude-test, mode step" in first.stdout
    assert "9900 is not found in the context." in first.stdout
    again = run(db, "last", "--model", MODEL)
    assert api.asked == 4
    assert "0 calls · 4 cached" in again.stdout
    assert [r["value"] for r in as_json(run(db, "last", "--model", MODEL, "--json"))["rows"]] == [
        0.8, 0.2, 0.8, 0.2,
    ]  # fmt: skip


def test_nothing_is_asked_without_live_and_a_limit(api: MessagesApi, db: Path) -> None:
    with pytest.raises(OfflineMiss, match="4 answers of claude-test not stored"):
        run(db, "last", "--model", MODEL)
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, "last", "--model", MODEL, "--live")
    assert api.asked == 0


def test_a_judge_must_be_named(db: Path) -> None:
    with pytest.raises(ModelRefused, match="no judge given"):
        run(db, "last")


def test_an_unknown_trace_is_said_before_anything_is_asked(api: MessagesApi, db: Path) -> None:
    with pytest.raises(NotFound):
        live(db, "no-such-run")
    assert api.asked == 0


def test_the_estimate_asks_nothing(api: MessagesApi, db: Path) -> None:
    said = json.loads(run(db, "last", "--model", MODEL, "-k", "3", "--estimate", "--json").stdout)
    assert (said["calls"], said["stored"], api.asked) == (12, 0, 0)


@pytest.mark.pilot
def test_scores_are_kept_under_mode_model_and_rubric_with_their_samples(
    api: MessagesApi, db: Path
) -> None:
    for mode in ("step", "window", "run"):
        shown = as_json(live(db, "--mode", mode, "-k", "2", "--json"))
        with open_ledger(db) as store:
            found = [s for s in step_scores(store, shown["trace"]) if s.by == shown["by"]]
        assert [(s.step, s.value) for s in found] == [
            (row["step"], row["value"]) for row in shown["rows"]
        ]
        assert {s.source for s in found} == {"judge"}
        assert all(s.items[-1].because.count(",") == 1 for s in found)
        assert shown["by"].startswith(f"judge:{mode}:{MODEL}:1-")


def test_the_window_shows_what_failed_and_a_rate_with_its_interval(
    api: MessagesApi, db: Path
) -> None:
    said = live(db, "--mode", "window").stdout
    assert "✗ arguments grounded: It is so at step 1. [1]" in said
    shown = as_json(live(db, "--mode", "window", "--json"))
    assert shown["yes"]["n"] > 8
    assert shown["yes"]["low"] < shown["yes"]["value"] < shown["yes"]["high"]


def test_a_whole_run_is_scored_beside_its_steps(api: MessagesApi, db: Path) -> None:
    shown = as_json(live(db, "--mode", "run", "--json"))
    assert api.asked == 1
    assert shown["overall"]["value"] == pytest.approx(sum(r["value"] for r in shown["rows"]) / 4)
    with open_ledger(db) as store:
        (whole,) = run_scores(store, shown["trace"])
    assert whole.value == shown["overall"]["value"]


def test_one_sample_is_called_a_look_and_a_derived_goal_derived(api: MessagesApi, db: Path) -> None:
    assert "not conclusive" in live(db).stdout
    three = live(db, "-k", "3").stdout
    assert "a look" not in three
    assert "the sub-goal of 4 steps is derived from the last user request" in three


def test_goals_weigh_the_steps_that_reached_them(
    api: MessagesApi, judge: Judge, db: Path, tmp_path: Path
) -> None:
    file = tmp_path / "goals.toml"
    file.write_text(GOALS)
    shown = as_json(live(db, "--goals", str(file), "--json"))
    assert [(g["step"], g["weight"], g["value"]) for g in shown["goal_rows"]] == [
        (0, 1, 0.8),
        (1, 3, 0.2),
    ]
    assert shown["weighted"]["value"] == pytest.approx((0.8 + 3 * 0.2) / 4)
    assert shown["hindsight"] is True
    assert shown["by"].endswith(f"+goals-{shown['goals']}")
    assert any("Looks order 1042 up" in prompt(body) for body in judge.seen)
    said = run(db, "last", "--model", MODEL, "--goals", str(file)).stdout
    assert "hindsight: these goals were first seen after the run" in said
    assert "weighted by goals 0.35 over 2 of 2 goals" in said


def test_changed_weights_are_another_version_and_cost_nothing(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    file = tmp_path / "goals.toml"
    file.write_text(GOALS)
    first = as_json(live(db, "--goals", str(file), "--json"))
    asked = api.asked
    file.write_text(GOALS.replace("weight = 3", "weight = 1"))
    second = as_json(live(db, "--goals", str(file), "--json"))
    assert api.asked == asked
    assert second["weighted"]["value"] == pytest.approx(0.5)
    assert second["by"] != first["by"]


def test_goals_for_another_task_say_so_and_make_no_version(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    file = tmp_path / "goals.toml"
    file.write_text(GOALS.replace("refund *", "airline *"))
    shown = as_json(live(db, "--goals", str(file), "--json"))
    assert "no goals for its task (refund 7)" in shown["notices"]
    assert shown["goals"] is None
    assert "+goals" not in shown["by"]


def test_a_spent_budget_keeps_what_was_scored_and_the_next_run_asks_the_rest(
    api: MessagesApi, db: Path
) -> None:
    with pytest.raises(ModelRefused, match="limit of 2 calls"):
        run(db, "last", "--model", MODEL, "--live", "--max-calls", "2")
    assert api.asked == 2
    assert len(every(db)) == 2
    live(db)
    assert api.asked == 4
    assert len(every(db)) == 4


def every(db: Path) -> list[tuple[int, float | None]]:
    """All that judges said in a database of one run."""
    with open_ledger(db) as store:
        return [(each.step, each.value) for each in step_scores(store, last(store))]


def last(store: Store) -> str:
    return trace_row(store, "last").trace


def test_closing_the_work_keeps_what_is_in(api: MessagesApi, db: Path) -> None:
    with open_ledger(db) as store:
        wanted = ScoringRequest(
            traces=("last",), model=MODEL, samples=2, live=True, limits=Limits(calls=50)
        )
        going = views_of(run_scoring, store, wanted)
        first = next(going)
        going.close()
        assert len(step_scores(store, first.trace)) == first.scored == 1


def test_the_demo_judge_is_the_rules_and_says_so(db: Path) -> None:
    result = run(db, "last", "--model", "demo", "--mode", "window")
    assert "demo, rule-based: no model call" in result.stdout
    shown = as_json(run(db, "last", "--model", "demo", "--mode", "window", "--json"))
    with open_ledger(db) as store:
        found = step_scores(store, shown["trace"])
    assert {each.source for each in found} == {"rule"}
    assert {each.by for each in found} == {shown["by"]} == {"judge:window:demo:arc rules 1"}
    assert (shown["calls"], shown["cached"], shown["k"]) == (0, 0, 0)


def test_a_run_that_does_not_name_its_model_says_that_the_judge_may_be_of_its_family(
    api: MessagesApi, db: Path
) -> None:
    assert "which model the agent ran on is not recorded" in live(db).stdout


@pytest.mark.slow
def test_several_runs_are_scored_under_one_budget(api: MessagesApi, db: Path) -> None:
    with open_ledger(db) as store:
        first = last(store)
    greeting = trace(["Hello 5."], task="Say hello to 5.")
    second = put(db, header("greet", "1", Outcome()), greeting.spans)
    both = (first, second, "--model", MODEL, "--live", "--max-calls", "5")
    views = json.loads(run(db, *both, "--json").stdout)
    assert [(view["trace"], view["scored"], view["calls"]) for view in views] == [
        (first, 4, 4),
        (second, 1, 1),
    ]
    with pytest.raises(ModelRefused, match="limit of 5 calls"):
        run(db, *both, "-k", "3")


def test_refused_answers_are_counted_and_exit_says_that_nothing_was_scored(
    api: MessagesApi, db: Path
) -> None:
    api.policy = lambda body: message(text("Looks fine to me."))
    result = live(db)
    assert result.return_value == 1
    assert "0 of 4 steps scored" in result.stdout
    assert "4 refused" in result.stdout
    assert "does not follow its schema" in result.stdout
    assert every(db) == []


# --- many runs


@pytest.fixture
def many(db: Path) -> Path:
    """Six failed runs more, and a passed one."""
    for at in range(7):
        amount = 9900 + at
        given = trace(
            [
                step("I look it up.", call("get_order", {"order": at, "cents": 1}, order_id=at)),
                step("I refund it.", call("refund_order", error("too high"), amount=amount)),
                f"Order {at} is paid back.",
            ],
            task=f"Refund order {at}, please.",
        )
        outcome = Outcome(status="passed" if at == 6 else "failed", value=0.0, by="verifier")
        put(db, header(f"refund {at + 10}", "0", outcome), given.spans, diagnose(given))
    return db


def judged_by_batch(db: Path, *arguments: str) -> Result:
    asked = ("outcome:failed", "--model", MODEL, "--schedule", "batch", "--live")
    return run(db, *asked, "--max-calls", "50", *arguments)


@pytest.mark.slow
def test_words_that_name_no_run_are_a_query_and_each_of_its_runs_has_a_line(
    api: MessagesApi, many: Path
) -> None:
    result = judged_by_batch(many)
    assert result.return_value == 0
    assert "22 live calls at first, 0 answered already" in result.stderr
    assert "answered within a day" in result.stderr
    assert "7 of 7 runs scored by claude-test, mode step" in result.stdout
    assert sum("is not found in the context" in row for row in result.stdout.splitlines()) == 7
    assert "22 calls · 0 cached" in result.stdout
    assert api.asked == 0
    assert "0 calls · 22 cached" in run(many, "outcome:failed", "--model", MODEL).stdout


@pytest.mark.slow
def test_what_a_batch_lost_is_said_after_the_scores_and_asked_alone_the_next_time(
    api: MessagesApi, many: Path
) -> None:
    api.batch_expires = [3, 21]
    with pytest.raises(ModelRefused, match="2 of 22 requests got no response: 2 expired"):
        judged_by_batch(many)
    with open_ledger(many) as store:
        kept = sum(len(step_scores(store, row)) for (row,) in store.db.execute(_KEYS))
    assert kept == 20
    api.batch_expires = []
    assert "2 calls · 20 cached" in judged_by_batch(many).stdout
    assert api.asked == 0


_KEYS = "SELECT key FROM trace ORDER BY id"


def test_a_name_that_is_misspelt_is_no_query(many: Path) -> None:
    with pytest.raises(NotFound, match="no trace 'lasst'"):
        run(many, "lasst", "--model", "demo")
    with pytest.raises(NotFound, match="no run that matches 'tool:nothing'"):
        run(many, "tool:nothing", "--model", "demo")
