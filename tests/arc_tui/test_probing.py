"""`arc experiment probe` as a user types it: the demo offline, and a model on a local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.experiments.request import views_of
from arc_tui.features.probes.command import probe
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import offered, run_probe
from arc_tui.places import fixtures
from replay.errors import ArcError, BadEdit, ModelRefused, NotFound, OfflineMiss
from replay.models.demo import Demo
from replay.store import edits
from taxonomy.judgements.schema import open_ledger
from taxonomy.probes.result import kept
from tests.arc_tui import sample
from tests.judge_policy import prompt
from tests.messages_api import Body, MessagesApi, message, text
from tests.replay.live_case import MODEL

START = "shop-refund-v1-0"
LATE = "shop-many-wishes-v5-0"
UNBROKEN = "shop-refund-v8-0"


class Server:
    """The demo model; asked for a summary it writes one, and `written` holds what it was shown."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __call__(self, body: Body) -> Body:
        if body.get("tools"):
            return {**Demo().complete(body, 0), "model": body["model"]}
        self.written.append(prompt(body))
        return message(text("Order 1039 cost 12900 cents."), model=body["model"])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in (START, LATE, UNBROKEN)]
        for _ in importing.import_paths(store, files):
            pass
    return path


def run(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(probe, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def as_json(db: Path, *arguments: str) -> Any:
    return json.loads(run(db, *arguments, "--json").stdout)


# --- which probes


def test_it_says_the_symptom_the_probes_and_their_price_and_names_no_cause(db: Path) -> None:
    result = run(db, START)
    assert result.return_value == 0
    first, *_ = result.stdout.splitlines()
    assert first.startswith("refund: wrong answer, step 1–2 (step 0)")
    assert "▸  constraint" in result.stdout
    assert "Never make up a value: amount 40 not found in context" in result.stdout
    assert f"arc --db {db} experiment probe {START} --probe constraint" in result.stdout
    assert "Try:" not in result.stdout


def test_the_probe_of_the_symptom_stands_first_with_what_it_would_ask(db: Path) -> None:
    view = as_json(db, LATE)
    assert [each["symptom"] for each in view["symptoms"]] == ["right middle, wrong late"]
    first, *others = view["offers"]
    assert (first["name"], first["key"], first["fits"]) == ("summary", "2", True)
    assert first["estimate"]["calls"] == 2 * 8 + 2 * 3
    assert first["command"] == ["arc", "experiment", "probe", LATE, "--probe", "summary"]
    assert [each["fits"] for each in others] == [False] * 3


def test_a_run_without_a_break_offers_nothing(db: Path) -> None:
    result = run(db, UNBROKEN)
    assert result.return_value == 0
    assert "no break candidate (--step N sets the step)" in result.stdout
    assert run(db, UNBROKEN, "--step", "3").return_value == 0
    assert "no symptom of the table matches" in run(db, UNBROKEN, "--step", "3").stdout


def test_the_list_of_a_run_whose_model_is_not_known_says_how_to_name_one(tmp_path: Path) -> None:
    path = tmp_path / "unknown.db"
    sample.put_failed(path)
    result = run(path, "last", "--step", "3")
    assert "summary" in result.stdout
    assert "model unknown. Try: --model NAME" in result.stdout
    view = as_json(path, "last", "--step", "3")
    assert view["model"] is None
    assert {each["estimate"] and each["estimate"]["calls"] for each in view["offers"]} == {None}
    with pytest.raises(ModelRefused, match="Model unknown: not recorded in the trace"):
        run(path, "last", "--step", "3", "--probe", "summary")
    named = as_json(path, "last", "--step", "3", "--model", MODEL)
    assert named["offers"][1]["estimate"]["calls"] > 0


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "nowhere"])
def test_a_server_that_is_none_is_said_beside_each_probe_and_hinders_no_list(
    db: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    view = as_json(db, LATE, "--model", MODEL)
    assert view["model"] == MODEL
    assert all("ANTHROPIC_BASE_URL" in each["why_not"] for each in view["offers"][:2])
    assert "is not a server address" in view["offers"][0]["why_not"] or url != "nowhere"
    with pytest.raises(ModelRefused, match="ANTHROPIC_BASE_URL"):
        run(db, LATE, "--model", MODEL, "--probe", "summary")


def test_your_own_words_stand_in_the_command(db: Path) -> None:
    view = as_json(db, START, "--step", "0", "--constraint", "Read it first.")
    first = view["offers"][0]
    assert (first["text"], first["by"]) == ("Read it first.", "yours")
    assert first["command"][-2:] == ["--constraint", "Read it first."]


# --- one probe


def test_a_probe_names_the_cause_once_its_samples_tell(db: Path) -> None:
    result = run(db, START, "--probe", "constraint")
    assert result.return_value == 0
    assert result.stdout.splitlines()[0] == (
        "Likely cause: goal misread, not hallucination. The failure is fixed with the probe (the"
        " correct constraint is stated explicitly). Try: clarification prompt."
    )
    assert "0/8 with the probe, 8/8 without" in result.stdout
    line = next(each for each in result.stdout.splitlines() if " | " in each)
    assert line.split(" | ")[1:] == [
        "refund",
        "wrong answer, step 1–2",
        "constraint",
        "repairs",
        "goal misread",
        "clarification prompt",
    ]


def test_a_constraint_that_does_not_help_speaks_for_the_other_cause(db: Path) -> None:
    view = as_json(db, START, "--probe", "constraint", "--constraint", "Be kind.")
    assert (view["result"], view["classification"]) == ("persists", "hallucination")
    assert view["intervention"] == "grounding prompt"


def test_one_sample_is_no_result(db: Path) -> None:
    result = run(db, START, "--probe", "constraint", "-k", "1")
    assert result.return_value == 1
    assert result.stdout.startswith("Inconclusive: hallucination or goal misread")
    assert " | undecided | – | –" in result.stdout


def test_an_answer_that_begins_anew_repairs_nothing(db: Path) -> None:
    view = as_json(db, LATE, "--probe", "summary")
    assert (view["result"], view["classification"]) == ("undecided", None)
    assert "8 more only repeat an earlier call" in view["why"]
    assert [row["step"] for row in view["rows"]] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("summary", "result", "classification"),
    [
        ("The user asked: please refund the Orbit Headphones of order 1039. Order 1039 cost 12900"
         " cents, is delivered, and belongs to dev.patel@example.com.", "repairs", "context loss"),
        ("The user wants a refund of order 1039.", "persists", "capability gap"),
    ],
)  # fmt: skip
def test_a_summary_that_has_what_is_needed_tells_context_loss_from_a_capability_gap(
    db: Path, tmp_path: Path, summary: str, result: str, classification: str
) -> None:
    file = tmp_path / "summary.md"
    file.write_text(summary)
    view = as_json(db, LATE, "--probe", "summary", "--summary", str(file))
    assert (view["result"], view["classification"]) == (result, classification)
    assert (view["test"]["control"], view["test"]["control_n"]) == (8, 8)
    assert (view["text"], view["by"]) == (summary, "yours")
    assert view["line"]["classification"] == classification


def test_a_probe_whose_symptom_was_not_seen_says_so(db: Path) -> None:
    view = as_json(db, LATE, "--probe", "constraint")
    assert view["assumed"]
    assert "not detected in this run" in view["notices"][0]
    assert "(assumed)" in run(db, "--log").stdout


def test_before_it_is_done_no_cause_is_named(db: Path) -> None:
    with open_ledger(db) as store:
        views = list(views_of(run_probe, store, ProbeRequest(trace=LATE, probe="rename")))
        assert edits.listed(store)[0].name == "probe rename at 4"
    assert len(views) > 1
    for view in views[:-1]:
        assert (view.done, view.classification, view.line) == (False, None, None)
        assert "Try:" not in view.sentence
    assert views[-1].done


def test_the_same_again_asks_nothing_and_keeps_one_line(db: Path) -> None:
    first = as_json(db, START, "--probe", "constraint")
    again = as_json(db, START, "--probe", "constraint")
    assert (first["calls"], again["calls"]) == (16, 0)
    assert again["line"] == first["line"]
    with open_ledger(db) as store:
        assert len(kept(store)) == 1


@pytest.mark.parametrize(
    ("arguments", "raised", "why"),
    [
        ((), click.UsageError, "no TRACE given"),
        ((START, "--probe", "rename", "--constraint", "x"), click.UsageError, "not rename"),
        ((START, "--probe", "constraint", "--summary", "ask"), click.UsageError, "not constraint"),
        ((START, "--estimate"), click.UsageError, "needs --probe"),
        ((START, "--probe", "summary"), BadEdit, "there is nothing before step 0"),
        ((UNBROKEN, "--probe", "summary"), NotFound, "break"),
        ((START, "--step", "99"), NotFound, "step"),
        ((LATE, "--probe", "summary", "--summary", "ask"), ModelRefused, "no summary"),
        ((LATE, "--probe", "summary", "--summary", "gone.md"), BadEdit, "cannot be read"),
    ],
)
def test_what_cannot_be_probed_says_why(
    db: Path, arguments: tuple[str, ...], raised: type[Exception], why: str
) -> None:
    with pytest.raises(raised, match=why):
        run(db, *arguments)


# --- the log


@pytest.mark.slow
def test_the_log_is_printed_and_exported(db: Path) -> None:
    assert run(db, "--log").stdout == ""
    run(db, START, "--probe", "constraint")
    run(db, LATE, "--probe", "rename")
    shown = run(db, "--log").stdout.splitlines()
    assert shown[0] == "date | task_id | symptom | probe | result | classification | intervention"
    assert len(shown) == 3
    exported = as_json(db, "--log")
    assert [each["task_id"] for each in exported] == ["refund", "many-wishes"]
    assert exported[0]["control"] == [8, 8]
    assert [each["task_id"] for each in as_json(db, "--log", "refund")] == ["refund"]


# --- a model on a server


@pytest.mark.slow
def test_a_summary_can_be_asked_of_the_model_and_is_shown(
    db: Path, api: MessagesApi, server: Server
) -> None:
    arguments = (LATE, "--probe", "summary", "--summary", "ask", "-k", "5", "--model", MODEL)
    with pytest.raises(OfflineMiss):
        run(db, *arguments)
    live = (*arguments, "--live", "--max-calls", "60")
    estimate = json.loads(run(db, *arguments, "--estimate", "--json").stdout)
    view = as_json(db, *live)
    assert view["by"] == f"written by {MODEL}"
    assert view["text"] == "Summary of the conversation so far.\nOrder 1039 cost 12900 cents."
    (shown,) = server.written
    assert "Where is order 1049?" in shown
    assert "calls get_order" in shown
    assert estimate["calls"] == view["calls"] == 1 + 2 * 5 + 2 * 3


@pytest.mark.slow
def test_a_probe_that_was_cut_short_leaves_no_line_and_goes_on_where_it_was(
    db: Path, api: MessagesApi
) -> None:
    asked = (START, "--probe", "constraint", "--model", MODEL, "--live", "--max-calls")
    with pytest.raises(ArcError, match=r"not finished: .*limit"):
        run(db, *asked, "5")
    assert run(db, "--log").stdout == ""
    view = as_json(db, *asked, "50")
    assert (view["calls"], view["cached"]) == (11, 5)
    assert len(as_json(db, "--log")) == 1


def test_the_list_asks_nobody(db: Path, api: MessagesApi, server: Server) -> None:
    with open_ledger(db) as store:
        view = offered(store, ProbeRequest(trace=LATE, model=MODEL, ask_summary=True))
    assert view.ready[0].estimate is not None
    assert view.ready[0].estimate.calls == 1 + 2 * 8 + 2 * 3
    assert not server.written


class Partly:
    """The demo model; under the probe three answers of eight are one of those without it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.without: Body = {}
        self.under = 0

    def __call__(self, body: Body) -> Body:
        answer = {**Demo().complete(body, 0), "model": body["model"]}
        if self.text not in json.dumps(body):
            self.without = answer
            return answer
        self.under += 1
        return self.without if self.under % 8 in (1, 4, 7) else answer


class TestPartly:
    TEXT = "Never make up a value"

    @pytest.fixture
    def server(self) -> Partly:
        return Partly(self.TEXT)

    @pytest.mark.slow
    def test_a_failure_that_is_rarer_and_still_there_is_a_partial_effect_and_names_no_cause(
        self, db: Path, api: MessagesApi
    ) -> None:
        asked = (START, "--probe", "constraint", "--model", MODEL)
        view = as_json(db, *asked, "--live", "--max-calls", "50")
        test = view["test"]
        assert (test["control"], test["control_n"]) == (8, 8)
        assert (test["edited"], test["edited_n"]) == (3, 8)
        assert (view["result"], view["classification"]) == ("partial", None)
        assert view["p"] == pytest.approx(0.0256, abs=1e-3)
        assert (view["left"]["n"], round(view["left"]["low"], 2)) == (8, 0.14)
        assert view["sentence"].startswith("Partial effect: with the probe")
        assert "Neither hallucination nor goal misread alone" in view["sentence"]
        result = run(db, *asked)
        assert result.return_value == 1
        assert "3/8 with the probe, 8/8 without" in result.stdout
        assert " | partial | – | –" in result.stdout
