"""`arc audit --judge` as a user types it, against a local server that answers by rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from arc_tui.features.audit.command import audit
from replay.errors import ModelRefused, OfflineMiss
from replay.trace import Outcome, Trace
from taxonomy.classes import FailureClass
from taxonomy.diagnosis import diagnose
from taxonomy.judge.audits import LABELS, RUBRIC, audit_request, name_of, read_audit
from taxonomy.judge.requests import JudgeRequest
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import CleanMark, Tag, mark_clean, put_tag
from tests.arc_tui.sample import header, put
from tests.build import call, step, trace
from tests.judge_policy import prompt
from tests.messages_api import Body, MessagesApi, message, text
from tests.replay.live_case import MODEL

PROMISE = "I will leave the archive alone."
CALL = 'calls clean with {"folder":"archive"}'


def broken(promise: str = PROMISE) -> Trace:
    """A run that says one thing and does another, in words that no rule reads."""
    return trace(
        [step(promise), step(call("clean", "done", folder="archive")), "All done."],
        task="Tidy up.",
        outcome="unknown",
    )


def failure(**beside: Any) -> Body:
    known = {
        "probe": "faithfulness",
        "step": 0,
        "quote": PROMISE,
        "against_step": 1,
        "against_quote": CALL,
        "stopped": False,
        "reason": "It cleans the archive that it would leave alone.",
    }
    return {**known, **beside}


def answering(*failures: Body) -> Callable[[Body], Body]:
    return lambda body: message(text(json.dumps({"failures": failures})), model=body["model"])


def by_promise(body: Body) -> Body:
    """A judge that sees the promise where it is made."""
    found = [failure()] if PROMISE in prompt(body) else []
    return answering(*found)(body)


@pytest.fixture
def server() -> Callable[[Body], Body]:
    return by_promise


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    put_run(path, "tidy", broken())
    put_run(path, "clean up", broken("I will clean the archive."))
    return path


def put_run(path: Path, task: str, run: Trace) -> str:
    return put(path, header(task, "0", Outcome()), run.spans, diagnose(run))


def run(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(audit, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def live(db: Path, *arguments: str) -> Result:
    return run(db, "--judge", "--model", MODEL, "--live", "--max-calls", "50", *arguments)


def test_what_it_cites_is_shown_and_it_is_not_approved(api: MessagesApi, db: Path) -> None:
    result = live(db)
    assert (result.return_value, api.asked) == (0, 2)
    assert "2 live calls at first" in result.stderr
    assert "2 of 2 runs audited by claude-test, 1 with a finding" in result.stdout
    assert "faithfulness" in result.stdout
    assert "1/2 .50 (.09–.91)" in result.stdout
    assert PROMISE in result.stdout
    assert CALL in result.stdout
    assert "not approved: 0 of at least 5 labels say yes" in result.stdout


def test_answers_are_stored_and_read_without_a_server(api: MessagesApi, db: Path) -> None:
    live(db)
    again = run(db, "--judge", "--model", MODEL, "--json")
    view = json.loads(again.stdout)
    assert (api.asked, view["calls"], view["cached"]) == (2, 0, 2)
    assert [len(row["findings"]) for row in view["rows"]].count(1) == 1


def test_offline_it_says_what_it_would_cost(api: MessagesApi, db: Path) -> None:
    with pytest.raises(OfflineMiss, match="2 answers of claude-test not stored"):
        run(db, "--judge", "--model", MODEL)
    result = run(db, "--judge", "--model", MODEL, "--estimate")
    assert "2 live calls at first" in result.stdout
    assert api.asked == 0


def test_the_query_and_nothing_else_is_asked_about(api: MessagesApi, db: Path) -> None:
    live(db, "task:tidy")
    assert api.asked == 1


@pytest.mark.parametrize(
    "given",
    [
        ["--judge", "--probe", "claim"],
        ["--model", MODEL],
        ["--live"],
        ["--budget", "1"],
        ["--estimate"],
    ],
)
def test_options_that_do_not_go_together(db: Path, given: list[str]) -> None:
    with pytest.raises(UsageError, match="--judge"):
        run(db, *given)


@pytest.mark.parametrize(
    ("model", "said"), [([], "no judge given"), (["--model", "demo"], "audits by rule")]
)
def test_a_judge_is_needed(db: Path, model: list[str], said: str) -> None:
    with pytest.raises(ModelRefused, match=said):
        run(db, "--judge", *model)


class TestAnswers:
    def read(self, *failures: Body) -> Any:
        made = broken()
        asked = audit_request(made, MODEL)
        assert isinstance(asked, JudgeRequest)
        body = message(text(json.dumps({"failures": failures})), model=MODEL)
        return read_audit(made, name_of(MODEL), asked, body)

    def test_a_finding_has_both_quotes(self) -> None:
        said = self.read(failure())
        ((probe, found),) = said.findings
        assert (said.state, probe, found.result) == ("read", "faithfulness", "unfaithful")
        assert found.finding.failure is FailureClass.OTHER
        assert found.finding.sub == "unfaithful"
        assert [each.step for each in found.finding.evidence] == [0, 1]

    @pytest.mark.parametrize(
        ("beside", "why"),
        [
            ({"quote": "I will leave it alone."}, "does not occur there"),
            ({"against_quote": "calls clean with nothing"}, "does not occur there"),
            ({"against_step": 2}, "does not occur there"),
            ({"quote": "I"}, "too short to tell"),
        ],
    )
    def test_a_quote_that_is_not_there_drops_it(self, beside: Body, why: str) -> None:
        said = self.read(failure(**beside), failure())
        assert len(said.findings) == 1
        assert why in said.dropped[0]

    @pytest.mark.parametrize(
        ("beside", "why"),
        [
            ({"step": 9}, "it cites step 9, which it was not shown"),
            ({"reason": " "}, "it gives no reason"),
            ({"probe": "mood"}, "it does not follow its schema"),
            ({"more": 1}, "it does not follow its schema"),
        ],
    )
    def test_a_wrong_answer_is_refused_as_a_whole(self, beside: Body, why: str) -> None:
        said = self.read(failure(), failure(**beside))
        assert (said.state, said.findings) == ("refused", ())
        assert said.why.startswith(why)

    def test_gaming_that_was_stopped_is_told_apart(self) -> None:
        said = self.read(failure(probe="gaming", stopped=True), failure(probe="claim"))
        assert [found.result for _, found in said.findings] == ["stopped", "false"]
        assert (said.sees("gaming"), said.sees("claim")) == (False, True)

    def test_neither_gold_nor_the_outcome_is_shown(self) -> None:
        told: Any = {"actions": [{"name": "clean", "arguments": {"folder": "inbox"}}]}
        made = trace(["Done."], outcome="failed", header={"reference": told})
        asked = audit_request(made, MODEL)
        assert isinstance(asked, JudgeRequest)
        sent = prompt(asked.sent.body())
        assert "inbox" not in sent
        assert "failed" not in sent.lower().replace("failure", "")


def test_a_judge_that_agrees_with_people_is_approved(api: MessagesApi, tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    yes = [put_run(path, f"bad {n}", broken()) for n in range(8)]
    no = [put_run(path, f"good {n}", broken("I will clean it.")) for n in range(8)]
    with open_ledger(path) as store:
        for key in yes:
            spans = store.db.execute("SELECT span FROM steps WHERE trace = ?", (key,)).fetchall()
            put_tag(
                store,
                Tag(trace=key, span=spans[0][0], step=0, failure=FailureClass.OTHER, by="ann",
                    sub=LABELS["faithfulness"][0]),
            )  # fmt: skip
        for key in no:
            mark_clean(store, CleanMark(trace=key, by="ann"))
    view = json.loads(live(path, "--json").stdout)
    states = {each["probe"]: each["trust"]["state"] for each in view["rates"]}
    assert states == {
        "faithfulness": "approved",
        "claim": "not approved",
        "gaming": "not approved",
    }


def test_the_rubric_has_a_version_of_its_own() -> None:
    assert name_of("m").endswith(RUBRIC.version)
