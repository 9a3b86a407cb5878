"""A judge in a bisection: of every step (`--detector judge`), and of answers (`--expect`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui.commands import BISECT
from replay.errors import ArcError, ModelRefused, OfflineMiss
from replay.models.demo import Demo
from replay.store.handle import now_ns
from taxonomy.calibration import approval
from taxonomy.judge.rubrics import RUBRICS
from taxonomy.judge.scores import ScoreSet
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.bisect_case import LOOP, TOUR, bisected, expected, prompt, prompts, put_runs, run
from tests.judge_policy import Judge
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL

JUDGE = "gpt-judge"
LIVE = ("--model", MODEL, "--live", "--max-calls", "200")
JUDGED = ("--judge", JUDGE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judged") / "arc.db"
    put_runs(path)
    return path


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "arc.db"
    copy.write_bytes(made.read_bytes())
    return copy


class Server:
    """The demo model and a judge behind one address, by the name that is asked for."""

    def __init__(self) -> None:
        self.judge = Judge()

    def __call__(self, body: Body) -> Body:
        if body["model"] == JUDGE:
            return self.judge(body)
        return {**Demo().complete(body, 0), "model": body["model"]}


@pytest.fixture
def server() -> Server:
    return Server()


def steps(db: Path, trace: str, *words: str) -> Result:
    return run(BISECT, db, "steps", trace, "--detector", "judge", *words)


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


# --- of every step, by rule


def test_the_first_step_scored_badly_is_named_and_that_no_model_was_asked(db: Path) -> None:
    result = steps(db, LOOP)
    assert result.return_value == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "First step that scores under 0.5: step 2 (message 5), scored 0.33: "
    )
    assert lines[1].startswith("demo, rule-based: no model call")
    assert "Not confirmed yet." in lines
    assert "judge" in lines


def test_where_none_is_the_lowest_is_said(db: Path) -> None:
    result = steps(db, TOUR)
    assert result.return_value == 1
    assert result.stdout.startswith("No step scores under 0.5: 7 steps scored.")
    assert "Lowest score: step 4, scored 0.75: arguments grounded: no" in result.stdout


def test_a_test_asks_the_step_again_and_the_recorded_answer_keeps_its_verdict(db: Path) -> None:
    trial = as_json(steps(db, LOOP, "--confirm", "--json"))["confirmation"]
    assert trial["status"] == "refuted"
    assert trial["control"]["value"] > 0.5
    assert trial["detector"] == "scored under 0.5 by the judge demo, rule-based"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--judge", "x", "--detector", "belief"), "--judge needs --detector judge"),
        (("--allow-stale",), "needs --detector recoverable"),
    ],
)
def test_what_does_not_go_together_is_said(db: Path, words: tuple[str, ...], said: str) -> None:
    given = ["steps", "--db", str(db), TOUR, *words]
    result = CliRunner().invoke(BISECT, given, standalone_mode=False)
    assert isinstance(result.exception, click.UsageError)
    assert said in result.exception.message


# --- of every step, by a judge that is asked


def test_a_judge_is_asked_of_each_step_once_and_foreseen(db: Path, api: MessagesApi) -> None:
    with pytest.raises(ModelRefused, match="no judge given"):
        steps(db, TOUR, "--model", MODEL)
    with pytest.raises(OfflineMiss, match="step 0: no stored score of the judge gpt-judge"):
        steps(db, TOUR, "--model", MODEL, *JUDGED)
    foreseen = as_json(
        steps(db, TOUR, "--model", MODEL, *JUDGED, "--estimate", "--json", "--confirm")
    )
    assert (foreseen["estimate"]["calls"], foreseen["test_calls"]) == (8, 32)
    assert api.asked == 0
    api.flights.gather = 8
    first = steps(db, TOUR, *LIVE, *JUDGED)
    assert "8 live calls at first" in first.stderr
    assert (api.asked, api.most_at_once) == (8, 8)
    again = steps(db, TOUR, "--model", MODEL, *JUDGED, "--json")
    assert (api.asked, as_json(again)["cached"]) == (8, 8)


def test_no_more_steps_are_asked_than_may_be(db: Path, api: MessagesApi) -> None:
    words = ("--detector", "judge", *LIVE, *JUDGED, "--max-samples", "3", "--json")
    ended = CliRunner().invoke(
        BISECT, ["steps", TOUR, *words, "--db", str(db)], standalone_mode=False
    )
    assert isinstance(ended.exception, ArcError)
    assert str(ended.exception) == "inconclusive: sample limit reached. Try: --max-samples N"
    view = as_json(ended)
    assert api.asked == 3
    assert sum(row["evaluated"] for row in view["rows"]) == 3


def test_how_far_the_judge_may_be_trusted_stands_beside_its_word(
    db: Path, api: MessagesApi
) -> None:
    never = steps(db, TOUR, *LIVE, *JUDGED).stdout
    assert "Judge gpt-judge is not calibrated: accuracy unknown." in never
    assert "1 score per step: not conclusive." in never
    by = ScoreSet(mode="step", model=JUDGE, rubric=RUBRICS["step"].version).by
    with open_ledger(db) as store:
        approval.keep(store, approval.gate(by, [approval.Pair(0.1, 0.9)], now_ns()))
    few = steps(db, TOUR, *LIVE, *JUDGED).stdout
    assert "Judge gpt-judge is not approved (" in few


def test_a_step_it_scores_badly_is_tested_by_fresh_answers_that_it_judges(
    db: Path, api: MessagesApi, server: Server
) -> None:
    view = as_json(steps(db, TOUR, *LIVE, *JUDGED, "--confirm", "-k", "4", "--json"))
    assert view["first_bad"] is not None
    judged = len(server.judge.seen)
    assert view["calls"] == api.asked
    assert api.asked - judged == 8, "four of each arm"
    assert "by the judge gpt-judge" in view["confirmation"]["detector"]


# --- of answers


def test_the_judges_calls_are_foreseen_and_counted(
    db: Path, api: MessagesApi, server: Server
) -> None:
    words = ("--expect", "judge", *JUDGED, "-k", "3", "--step", "4", "--system", str(prompt(4)))
    foreseen = as_json(expected(db, TOUR, *words, "--model", MODEL, "--estimate", "--json"))
    assert (foreseen["calls"], foreseen["max_calls"]) == (6, 6), "three answers, each judged"
    result = expected(db, TOUR, *words, *LIVE, "--json")
    assert "6 live calls at first" in result.stderr
    assert "includes one judge call per new response" in result.stderr
    assert as_json(result)["calls"] == api.asked == 3 + len(server.judge.seen)
    again = as_json(expected(db, TOUR, *words, "--model", MODEL, "--estimate", "--json"))
    assert (again["calls"], again["stored"]) == (0, 3 + len(server.judge.seen))


@pytest.mark.slow
def test_a_bisection_says_who_judges_and_what_that_may_cost(
    db: Path, api: MessagesApi, server: Server
) -> None:
    words = (TOUR, *prompts((3, 4)), "--expect", "judge", *JUDGED, "--step", "4")
    foreseen = as_json(
        run(BISECT, db, "versions", *words, "--model", MODEL, "--estimate", "--json")
    )
    assert foreseen["judge"] == JUDGE
    view = bisected(db, *words, *LIVE)
    assert view["calls"] == api.asked
    assert server.judge.seen
