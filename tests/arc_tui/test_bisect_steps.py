"""`arc bisect steps`: the step, its sources, and its test, offline and on a local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.commands import BISECT
from arc_tui.features.bisect_steps.plan import BisectStepsRequest
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.places import fixtures
from replay import kept
from replay.errors import ArcError, BadEdit, ModelRefused, OfflineMiss
from replay.free.recorded_results import Stub
from replay.models.demo import Demo
from replay.store import edits
from replay.store.rows import trace_row
from taxonomy.first_contradiction.question import DemoBeliefs
from taxonomy.judgements.schema import open_ledger
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL
from tests.shared import DATA, needs_shared

TOUR, LONG = "shop-many-wishes-v5-0", "shop-long-v6-0"


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "arc.db"
    names = (TOUR, LONG, "shop-long-v8-0")
    with open_ledger(path) as store:
        list(importing.take_in(store, [fixtures() / "traces" / f"{name}.jsonl" for name in names]))
    return path


@pytest.fixture
def db(bundled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy


def run(db: Path, trace: str, *arguments: str) -> Result:
    """The command; what it raises is raised here."""
    given = ["steps", "--db", str(db), trace, *arguments]
    result = CliRunner().invoke(BISECT, given, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def constraint(folder: Path, text: str) -> str:
    file = folder / "fix.toml"
    change = f'[[change]]\nkind = "inject_constraint"\ntext = {json.dumps(text)}\n'
    file.write_text(f'name = "mine"\n{change}')
    return str(file)


# --- contradictions: read off the recording


def test_the_first_line_names_the_step_and_the_last_the_next_command(db: Path) -> None:
    result = run(db, TOUR)
    lines = result.stdout.splitlines()
    assert result.return_value == 0
    assert lines[0] == (
        "First contradiction: step 4 (message 9): amount 7500 not found in context."
    )
    goes_on = f"bisect steps {TOUR} --detector contradiction --confirm"
    assert lines[-1] == f"next: arc --db {db} {goes_on}", "with the database it was given"
    assert "from the recording: no model call" in result.stdout
    assert "not found in  system prompt, tool definitions, user message, 4 tool results" in (
        result.stdout
    )


def test_the_view_has_a_row_a_step_and_sources_with_their_places(db: Path) -> None:
    view = as_json(run(db, LONG, "--json"))
    assert [row["step"] for row in view["rows"]] == list(range(22))
    assert [row["step"] for row in view["rows"] if row["decisive"]] == [16]
    assert (view["status"], view["first_bad"], view["model"]) == ("found", 16, None)
    assert [(each["role"], each["step"], bool(each["span"])) for each in view["sources"]] == [
        ("called", 16, True),
        ("observed", 0, True),
        ("observed", 2, True),
    ]


def test_nothing_found_is_exit_code_1(db: Path) -> None:
    result = run(db, "shop-long-v8-0")
    assert result.return_value == 1
    assert result.stdout.startswith("No contradiction found: 24 steps evaluated.")


@pytest.mark.data
@needs_shared
def test_the_airline_run_is_named_with_its_two_sources(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    with open_ledger(db) as store:
        list(importing.take_in(store, [DATA / "tau_bench" / "gpt-4o-airline.json"]))
    result = run(db, "26/1")
    assert "step 3 (message 8): falsely claims 12 May is within 24 h of 15 May" in result.stdout
    assert "observed  created_at 2024-05-12T00:14:30  [step 2, get_reservation" in result.stdout
    assert "stated    current time is 2024-05-15 15:00:00  [system prompt]" in result.stdout
    assert f"next: arc --db {db} attach 26/1 --infer-tools" in result.stdout


# --- the test of it


def test_telling_the_fact_takes_the_failure_away(db: Path) -> None:
    result = run(db, TOUR, "--confirm")
    assert (
        "Confirmed at step 4: failure in 0/8 edited, 8/8 control (p < .001)."
        " Outcome not evaluated.\n"
    ) in result.stdout
    with open_ledger(db) as store:
        assert edits.find(store, "instruction at step 4").changes
    assert as_json(run(db, TOUR, "--confirm", "--json"))["calls"] == 0


def test_a_fix_that_does_not_help_is_refuted_and_the_users_own_is_tried(
    db: Path, tmp_path: Path
) -> None:
    refuted = as_json(run(db, LONG, "--confirm", "--json"))["confirmation"]
    assert (refuted["status"], refuted["control"]["value"], refuted["edited"]["value"]) == (
        "refuted", 1.0, 1.0
    )  # fmt: skip
    mine = constraint(tmp_path, "Read an order again before you change it.")
    view = as_json(run(db, LONG, "--confirm", "--fix", mine, "--json"))
    assert (view["confirmation"]["status"], view["fix"]["name"]) == ("confirmed", "mine")


def test_what_comes_next_goes_on_from_the_step_with_the_edit_that_helped(db: Path) -> None:
    view = as_json(run(db, TOUR, "--confirm", "--json"))
    assert view["next"][3:8] == ["replay", TOUR, "--free", "--step", "4"]
    with open_ledger(db) as store:
        assert edits.find(store, view["next"][-1]).name == "instruction at step 4"


def test_few_samples_prove_nothing(db: Path) -> None:
    trial = as_json(run(db, TOUR, "--confirm", "-k", "3", "--json"))["confirmation"]
    assert trial["status"] == "inconclusive"
    assert "more samples (-k) may decide" in trial["sentence"]


def test_a_fix_that_changes_nothing_there_is_refused(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "late.toml"
    file.write_text(
        'name = "late"\n[[change]]\nkind = "inject_constraint"\ntarget = 6\ntext = "Look."\n'
    )
    with pytest.raises(BadEdit):
        run(db, TOUR, "--confirm", "--fix", str(file))


# --- beliefs


def test_the_belief_is_wrong_before_the_act_is(db: Path) -> None:
    view = as_json(run(db, LONG, "--detector", "belief", "--json"))
    assert (view["first_bad"], view["scanned"], view["model"]) == (15, True, "demo, rule-based")
    assert view["facts"][0] == "total_cents of order_id 1047: 8150 from step 1"
    assert [each["role"] for each in view["sources"]] == ["believes", "observed"]
    assert [row["evaluated"] for row in view["rows"][:2]] == [False, True]


def test_a_question_of_the_users_is_asked_instead(db: Path) -> None:
    asked = ("--question", "total_cents of order_id 1047", "--truth", "0:total_cents")
    view = as_json(run(db, LONG, "--detector", "belief", *asked, "--json"))
    assert len(view["facts"]) == 1
    assert view["first_bad"] == 15


def test_what_it_would_ask_is_said_and_nothing_asked(db: Path) -> None:
    found = as_json(run(db, LONG, "--detector", "belief", "--confirm", "--estimate", "--json"))
    assert (found["estimate"]["calls"], found["test_calls"]) == (18, 16)
    assert found["facts"]
    assert as_json(run(db, LONG, "--detector", "belief", "--json"))["cached"] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--question", "x"), "--question and --truth go together"),
        (("--question", "x", "--truth", "y"), "--question needs --detector belief"),
        (("--detector", "recoverable"), "--detector recoverable needs --fix EDIT"),
        (("--expect", "tool=none"), "--expect needs --detector recoverable"),
        (("--fix", "x"), "no edit"),
    ],
)
def test_what_does_not_go_together_is_said(db: Path, given: tuple[str, ...], said: str) -> None:
    with pytest.raises((click.UsageError, ArcError), match=said):
        run(db, TOUR, *given)


def test_a_run_without_a_fact_says_how_to_name_one(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    with open_ledger(db) as store:
        list(importing.take_in(store, [fixtures() / "traces" / "shop-prefix-v6-0.jsonl"]))
    with pytest.raises(ModelRefused, match="--question QUESTION --truth VALUE"):
        run(db, "shop-prefix-v6-0", "--detector", "belief")


# --- runs that go on


READ = Stub(
    tool="get_order",
    arguments={"order_id": "1039"},
    result=json.dumps({"order_id": "1039", "status": "delivered", "total_cents": 12900}),
)


def test_the_point_of_no_return_is_the_step_that_refunds(db: Path, tmp_path: Path) -> None:
    with open_ledger(db) as store:
        kept.put(store, trace_row(store, TOUR).trace, READ, source="test")
    fix = constraint(tmp_path, "Never make up an amount. Read what an order cost before.")
    saved = ("--fix", fix, "--expect", "tool=refund_order, args.amount=12900", "-k", "3")
    view = as_json(run(db, TOUR, "--detector", "recoverable", *saved, "--json"))
    assert view["sentence"].startswith("Last recoverable step: 4. ")
    row = view["rows"][4]
    assert (view["decisive"], row["decisive"], row["bad_of"], row["n"]) == (4, True, 0, 3)
    assert sum(each["evaluated"] for each in view["rows"]) <= len(view["rows"])


def test_the_runs_of_a_test_are_fresh_and_what_asks_afresh_later_does_not_meet_them(
    db: Path, tmp_path: Path
) -> None:
    with open_ledger(db) as store:
        kept.put(store, trace_row(store, TOUR).trace, READ, source="test")
    fix = constraint(tmp_path, "Never make up an amount. Read what an order cost before.")
    saved = ("--fix", fix, "--expect", "tool=refund_order, args.amount=12900", "-k", "3")
    view = as_json(run(db, TOUR, "--detector", "recoverable", *saved, "--confirm", "--json"))
    assert view["confirmation"]["step"] == 4
    with open_ledger(db) as store:
        assert kept.next_range(store, view["trace"], "demo") == 2


def test_runs_that_the_tape_does_not_answer_say_nothing(db: Path, tmp_path: Path) -> None:
    fix = constraint(tmp_path, "Never make up an amount. Read what an order cost before.")
    saved = ("--fix", fix, "--expect", "tool=refund_order, args.amount=12900", "-k", "1")
    view = as_json(run(db, TOUR, "--detector", "recoverable", *saved, "--json"))
    row = view["rows"][4]
    assert (row["bad"], row["unusable"]) == (None, 1)
    assert "No recorded result for get_order" in row["phrase"]


def test_why_the_runs_told_nothing_is_said_in_full_and_where_a_stub_helps(
    db: Path, tmp_path: Path
) -> None:
    fix = constraint(tmp_path, "Never make up an amount. Read what an order cost before.")
    saved = ("--fix", fix, "--expect", "tool=refund_order, args.amount=12900", "-k", "2")
    result = run(db, TOUR, "--detector", "recoverable", *saved, "--confirm")
    assert result.return_value == 1
    assert (
        "From steps 0, 1, 2, 3, 4: no usable run: No recorded result for get_order("
        'order_id="1039"): never recorded with these arguments.'
    ) in result.stdout
    assert "No step found, so nothing to confirm." in result.stdout
    assert f"next: arc --db {db} replay {TOUR} --free --step 0 --edit " in result.stdout


@pytest.mark.slow
def test_a_read_of_another_moment_may_answer_the_runs(db: Path, tmp_path: Path) -> None:
    fix = constraint(tmp_path, "Read an order again before you change it.")
    saved = ("--fix", fix, "--expect", "tool=refund_order, args.amount=8150", "-k", "3")
    given = ["steps", "--db", str(db), LONG, "--detector", "recoverable", *saved, "--json"]
    ended = CliRunner().invoke(BISECT, given, standalone_mode=False)
    assert isinstance(ended.exception, ArcError), "no usable sample: neither yes nor no"
    strict = as_json(ended)
    loose = as_json(run(db, LONG, "--detector", "recoverable", *saved, "--allow-stale", "--json"))
    judged = [sum(row["n"] or 0 for row in view["rows"]) for view in (strict, loose)]
    assert judged[0] < judged[1]
    assert loose["sentence"].startswith("Recoverable from every step with enough usable")
    assert "inconclusive: steps 0, 1, 2, 3, 4, 5." in loose["sentence"]


@pytest.mark.slow
def test_runs_are_foreseen_by_what_the_recorded_steps_asked(
    db: Path, tmp_path: Path, api: MessagesApi
) -> None:
    fix = constraint(tmp_path, "Never make up an amount.")
    words = ("--fix", fix, "--expect", "tool=refund_order", "-k", "3", "--detector", "recoverable")
    found = as_json(run(db, TOUR, *words, "--estimate", "--json", "--model", MODEL, "--confirm"))
    assert found["runs"] == {"steps": 6, "of": 8, "each": 3, "max_calls": 21}
    assert found["estimate"]["calls"] == 6 * 3 * 8 // 2
    assert (found["estimate"]["max_calls"], found["test_calls"]) == (8 * 3 * 21, 2 * 3 * 21)
    assert api.asked == 0
    live = run(db, TOUR, *words, *LIVE, "500")
    assert "3 free runs from each of about 6 of 8 steps, at most 21 calls each ·" in live.stderr
    assert 0 < api.asked <= 8 * 3 * 21


# --- live


class Server:
    """Beliefs where those are asked, else the demo model; dies after so many answers."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, body: Body) -> Body:
        self.asked += 1
        request = body.get("output_config")
        model = DemoBeliefs() if request else Demo()
        return {**model.complete(body, self.asked), "model": body["model"]}


@pytest.fixture
def server() -> Server:
    return Server()


LIVE = ("--model", MODEL, "--live", "--max-calls")


@pytest.mark.slow
def test_a_live_scan_says_before_what_it_asks_and_about_what(db: Path, api: MessagesApi) -> None:
    result = run(db, LONG, "--detector", "belief", *LIVE, "40")
    assert "fact: total_cents of order_id 1047: 8150 from step 1" in result.stderr
    assert "18 live calls at first" in result.stderr
    assert "step 15 (message 25)" in result.stdout
    assert api.asked == 18


@pytest.mark.slow
def test_a_scan_that_ran_into_its_limit_goes_on_where_it_stopped(
    db: Path, api: MessagesApi
) -> None:
    with pytest.raises(ModelRefused):
        run(db, LONG, "--detector", "belief", *LIVE, "7")
    assert api.asked == 7
    result = run(db, LONG, "--detector", "belief", *LIVE, "40", "--json")
    assert api.asked == 18
    view = as_json(result)
    assert (view["first_bad"], view["cached"], view["calls"]) == (15, 7, 11)


def test_without_live_a_missing_answer_is_an_error_that_names_its_step(
    db: Path, api: MessagesApi
) -> None:
    with pytest.raises(OfflineMiss, match="step 1, belief"):
        run(db, LONG, "--detector", "belief", "--model", MODEL)
    assert api.asked == 0


def test_the_model_is_in_the_pool_so_that_another_thread_can_stop_it(db: Path) -> None:
    request = BisectStepsRequest(trace=LONG, detector="belief")
    with open_ledger(db) as store, request.model_pool(store) as models:
        *_, view = run_step_bisection(store, request, models)
    assert len(models.models) == 1
    assert view.first_bad == 15
