"""`arc judge A B --pair` as a user types it: two runs of one task, in both orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.features.judge.command import score
from replay.errors import ArcError, ModelRefused, OfflineMiss
from replay.trace import Json, Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judge.pairs import kept_verdicts
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import header, put
from tests.build import call, step, trace
from tests.judge_policy import Judge, prompt, quoted
from tests.messages_api import Body, MessagesApi, message, refusal, text
from tests.replay.live_case import MODEL


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Judge:
    return judge


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Two trials of one task, the first with an invented amount, and two of another task."""
    path = tmp_path / "arc.db"
    for trial, amount in enumerate((9900, 2500)):
        put_trial(path, "refund", trial, amount, Outcome(status="passed"))
    for trial, amount in enumerate((3000, 3001)):
        put_trial(path, "cancel", trial, amount, Outcome())
    return path


def put_trial(path: Path, task: str | None, trial: int, amount: int, outcome: Outcome) -> str:
    run = trace(
        [
            step("I look.", call("get_order", {"cents": 2500}, order_id=1042)),
            step("I refund it.", call("refund_order", "done", amount=amount)),
            "Paid back.\nTask outcome: passed",
        ],
        task="Refund order 1042, please.",
    )
    gold: dict[str, Json] = {"actions": [{"name": "refund_order", "kwargs": {"amount": 2500}}]}
    head = structs.replace(header(task or "", str(trial), outcome), task=task, reference=gold)
    return put(path, head, run.spans, diagnose(run))


def run(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(
        score, ["--db", str(db), "--pair", "--model", MODEL, *arguments], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result


def live(db: Path, *arguments: str) -> Result:
    return run(db, "--live", "--max-calls", "50", *arguments)


def favouring(place: str) -> Any:
    """A judge for whom the run in that place is always better."""

    def policy(body: Body) -> Body:
        said = {"better": place, "reason": "So.", "first_steps": [], "second_steps": [1]}
        return message(text(json.dumps(said)), model=body["model"])

    return policy


def test_two_answers_that_name_one_run_are_the_verdict(
    api: MessagesApi, judge: Judge, db: Path
) -> None:
    result = live(db, "refund/0", "refund/1")
    assert result.return_value == 0
    assert api.asked == 2
    assert "run B is better, in both orders" in result.stdout
    assert "A first: B is better: 1 and 0 values are invented." in result.stdout
    assert "B first: B is better: 0 and 1 values are invented." in result.stdout
    shown = [quoted(prompt(body)) for body in judge.seen]
    assert {pieces[0].label for pieces in shown} == {"gold: what a correct run of the task does"}
    first = [[piece for piece in pieces if piece.label.startswith("first run")] for pieces in shown]
    assert sorted(any("9900" in piece.text for piece in pieces) for pieces in first) == [
        False,
        True,
    ]
    assert all(refusal(body) is None for body in judge.seen)
    assert not any("Task outcome: passed" in prompt(body) for body in judge.seen)


def test_the_verdict_is_kept_and_the_answers_are_not_paid_for_twice(
    api: MessagesApi, db: Path
) -> None:
    shown = json.loads(live(db, "refund/0", "refund/1", "--json").stdout)
    (row,) = shown["rows"]
    with open_ledger(db) as store:
        (kept,) = kept_verdicts(store, row["b"], row["a"])
    assert (kept.verdict, kept.by) == ("B", shown["by"])
    run(db, "refund/0", "refund/1")
    assert api.asked == 2
    live(db, "refund/0", "refund/1", "--no-cache")
    assert api.asked == 4


@pytest.mark.parametrize(("place", "count"), [("first", (1, 0)), ("second", (0, 1))])
def test_answers_that_name_a_place_are_inconclusive_and_counted_as_position_bias(
    api: MessagesApi, db: Path, place: str, count: tuple[int, int]
) -> None:
    api.policy = favouring(place)
    result = live(db, "refund/0", "refund/1")
    assert result.return_value == 1
    assert "inconclusive: the verdict changes with the order (position bias)" in result.stdout
    shown = json.loads(run(db, "refund/0", "refund/1", "cancel/0", "cancel/1", "--live",
                           "--max-calls", "9", "--json").stdout)  # fmt: skip
    assert shown["bias"]["inconclusive"]["n"] == 2
    assert (shown["bias"]["towards_first"], shown["bias"]["towards_second"]) == (
        2 * count[0],
        2 * count[1],
    )


def test_several_pairs_have_rates_with_their_intervals(api: MessagesApi, db: Path) -> None:
    said = live(db, "refund/0", "refund/1", "cancel/0", "cancel/1").stdout
    assert "equal, in both orders" in said
    assert "B better 0.50 (n 2, 0.09–0.91)" in said
    assert "position bias: in 0 pairs the run shown first was named both times, in 0" in said


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("The first.", "does not follow its schema"),
        ('{"better": "A", "reason": "x", "first_steps": [], "second_steps": []}', "its schema"),
        ('{"better": "first", "reason": "", "first_steps": [], "second_steps": []}', "no reason"),
        ('{"better": "first", "reason": "x", "first_steps": [9], "second_steps": []}', "step 9"),
    ],
)
def test_an_answer_that_breaks_its_form_gives_no_verdict(
    api: MessagesApi, db: Path, answer: str, why: str
) -> None:
    api.policy = lambda body: message(text(answer), model=body["model"])
    result = live(db, "refund/0", "refund/1")
    assert result.return_value == 1
    assert "not evaluated" in result.stdout
    assert why in result.stdout
    with open_ledger(db) as store:
        row = json.loads(live(db, "refund/0", "refund/1", "--json").stdout)["rows"][0]
        assert list(kept_verdicts(store, row["a"], row["b"])) == []


def test_nothing_is_asked_without_live_and_a_limit(api: MessagesApi, db: Path) -> None:
    assert json.loads(run(db, "refund/0", "refund/1", "--estimate", "--json").stdout)["calls"] == 2
    with pytest.raises(OfflineMiss, match="2 answers of claude-test not stored"):
        run(db, "refund/0", "refund/1")
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, "refund/0", "refund/1", "--live")
    assert api.asked == 0


def test_runs_that_are_no_pair_are_refused(api: MessagesApi, db: Path) -> None:
    with pytest.raises(ArcError, match="two by two; 3 runs given"):
        live(db, "refund/0", "refund/1", "cancel/0")
    with pytest.raises(ArcError, match="are runs of two tasks: 'refund' and 'cancel'"):
        live(db, "refund/0", "cancel/0")
    with pytest.raises(ArcError, match="cannot be compared with itself"):
        live(db, "refund/0", "refund/0")
    assert api.asked == 0


def test_a_run_without_a_task_is_taken_for_one_of_the_other_s_and_that_is_said(
    api: MessagesApi, db: Path
) -> None:
    key = put_trial(db, None, 7, 2500, Outcome())
    assert "the task of a run is not recorded" in live(db, "refund/0", key).stdout


def test_through_the_demo_model_it_is_conformance(db: Path) -> None:
    said = CliRunner().invoke(
        score,
        ["--db", str(db), "--pair", "--model", "demo", "refund/0", "refund/1"],
        standalone_mode=False,
    )
    assert "demo, rule-based: no model call" in said.stdout
    assert "conformance" in said.stdout
