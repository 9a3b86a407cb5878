"""`arc replay --expect`: is it met, and does `git bisect run` read that from the code?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from arc_tui.commands import BISECT
from replay.errors import CannotTell, Stopped
from replay.models.demo import Demo
from replay.store.handle import Store
from replay.trace import Fidelity, Level
from tests.arc_tui.bisect_case import (
    GUESS,
    LOOP,
    TOUR,
    bisected,
    expected,
    prompt,
    prompts,
    put_runs,
    run,
)
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL, clean_environment
from tests.replay.locked_case import SYSTEM, VERIFY, request, spans, stored, think


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("expect") / "arc.db"
    put_runs(path)
    return path


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "arc.db"
    copy.write_bytes(made.read_bytes())
    return copy


def met(db: Path, *arguments: str, trace: str = TOUR) -> Any:
    return json.loads(expected(db, trace, *arguments, "--json").stdout)


V4, V5 = ("--system", str(prompt(4))), ("--system", str(prompt(5)))
LOOKS = ("--expect", "tool=get_order")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*V4, *LOOKS), 0),
        ((*V5, *LOOKS), 1),
        ((*V4, "--expect", "tool=get_order, args.order_id=1039"), 0),
        ((*V4, "--expect", "rule"), 0),
        (("--expect", "rule"), 1),
        ((*V4, "--expect", "judge", "-k", "2"), 0),
        ((*V4, "--free", "--expect", "args.order_id=1039"), 0),
        ((*V4, "--free", "--expect", "tool=none"), 1),
        ((*V4, *LOOKS, "--model", "claude-test"), 125),
        (("--system", "/nowhere/prompt.md", *LOOKS), 125),
        (("--edit", "/nowhere/edit.toml", *LOOKS), 125),
        (("--expect", "tol=get_order"), 128),
        (("--expect", "tool=get_oder"), 128),
        (("--expect", "gold"), 128),
        (("--expect", "rule", "--step", "0"), 128),
        ((*LOOKS, "--step", "99"), 128),
        ((*LOOKS, "--free", "--step", "99"), 128),
        ((*LOOKS, "--no-such-option"), 128),
        ((*LOOKS, "--bundle", "x.zip"), 128),
        ((*LOOKS, "--model", "claude-test", "--live"), 128),
        (("--expect=rule", "--model", "claude-test", "--live"), 128),
    ],
)
def test_the_code_says_met_or_not_or_why_nobody_can_tell(
    db: Path, words: tuple[str, ...], code: int
) -> None:
    result = expected(db, TOUR, *words)
    assert result.exception is None
    assert result.return_value == code
    assert (result.stderr == "") is (code < 2), "what went wrong is said"


def test_a_run_that_is_not_there_is_said_wrongly(db: Path) -> None:
    assert expected(db, "nothing", *LOOKS).return_value == 128


def test_a_step_without_a_known_request_cannot_tell(db: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost.db"
    with Store.open(lost) as store:
        unknown = Fidelity(level=Level.NONE, reasons=("its text was cut",))
        key = stored(store, spans(fidelity=unknown)).id
    words = (key, *LOOKS, "--step", "1", "--model", "demo")
    assert expected(lost, *words).return_value == 125


def test_samples_go_on_until_the_share_is_clear(db: Path) -> None:
    few = met(db, *V4, *LOOKS)
    assert (few["hits"], few["share"]["n"], few["met"]) == (3, 3, True)
    many = met(db, "--expect", "rule", "--share", "0.8", trace=GUESS)
    assert (many["share"]["n"], many["met"]) == (8, False)
    more = met(db, "--expect", "rule", trace=GUESS)
    assert (more["share"]["n"], more["met"]) == (20, None)
    assert expected(db, GUESS, "--expect", "rule").return_value == 125


def test_one_sample_is_a_look_and_says_so(db: Path) -> None:
    look = expected(db, TOUR, *V4, *LOOKS, "-k", "1")
    assert look.return_value == 0
    assert look.stdout.startswith("met: 1 of 1 response, not conclusive\n")


def test_answers_that_cannot_be_judged_are_counted_apart(db: Path) -> None:
    view = met(db, "--system", str(prompt(6)), "--expect", "rule", trace=LOOP)
    assert view["met"] is False
    assert view["lost"] > 0
    assert view["reasons"] == ["loop, by rule: inconclusive"]


def test_what_it_asked_is_kept_and_its_edit_too(db: Path) -> None:
    assert met(db, *V4, *LOOKS)["calls"] == 3
    again = met(db, *V4, *LOOKS)
    assert (again["calls"], again["cached"], again["edit"]) == (0, 3, "v4")


@pytest.mark.slow
def test_what_one_command_asked_afresh_is_not_taken_for_fresh_by_another(db: Path) -> None:
    """Each with `--resample`: expectations, a bisection and a replay of the same step."""
    bisection = ("--expect", "tool=get_order", "--step", "4", "--no-cache")
    asked = [
        met(db, *V4, *LOOKS, "--no-cache")["calls"],
        met(db, *V4, *LOOKS, "--no-cache")["calls"],
        bisected(db, TOUR, *prompts((3, 4, 5)), *bisection)["calls"],
        met(db, *V4, *LOOKS, "--no-cache")["calls"],
    ]
    assert asked == [3, 3, 13, 3]
    replayed = json.loads(expected(db, TOUR, "-k", "1", "--no-cache", "--json").stdout)
    assert (replayed["calls"], replayed["range"]) == (8, 5)


def test_a_bug_is_129_and_being_stopped_stays_what_it_is(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Demo, body: Body, sample: int) -> Body:
        raise ZeroDivisionError("a bug")

    def stopped(self: Demo, body: Body, sample: int) -> Body:
        raise Stopped("stopped")

    monkeypatch.setattr(Demo, "complete", broken)
    result = expected(db, TOUR, *V4, *LOOKS)
    assert result.return_value == 129
    assert "ZeroDivisionError: a bug" in result.stderr
    monkeypatch.setattr(Demo, "complete", stopped)
    assert isinstance(expected(db, TOUR, *V4, *LOOKS).exception, Stopped)


def test_a_limit_reached_while_asking_cannot_tell(
    db: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean_environment(monkeypatch, tmp_path)

    def answer(body: Body) -> Body:
        return {**Demo().complete(body, 0), "model": body["model"]}

    with MessagesApi(answer) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        words = (*V4, *LOOKS, "--model", MODEL, "--live", "--max-calls")
        assert expected(db, TOUR, *words, "2").return_value == 125
        assert expected(db, TOUR, *words, "9").return_value == 0
        assert api.asked == 3


@pytest.mark.slow
def test_what_was_recorded_and_is_not_sent_is_named_with_the_fidelity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    db = tmp_path / "arc.db"
    asking = request(model=MODEL, params={"temperature": 0, "top_p": 0.9})
    with Store.open(db) as store:
        stored(store, spans(asking=asking, model=MODEL))
    old, new = tmp_path / "old.md", tmp_path / "new.md"
    old.write_text(VERIFY)
    new.write_text(SYSTEM)
    said = ["`temperature` not sent", "`top_p` not sent"]
    shown = "fidelity rebuilt (`temperature` not sent; `top_p` not sent)"
    with MessagesApi(think) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        live = ("--live", "--max-calls", "99")
        words = ("--system", str(old), *LOOKS, "--step", "1", *live)
        found = met(db, *words, trace="case")
        assert (found["fidelity"], found["fidelity_reasons"]) == ("rebuilt", said)
        assert shown in expected(db, "case", *words).stdout
        both = ("case", str(old), str(new), *LOOKS, "--step", "1", *live)
        found = bisected(db, *both)
        assert (found["fidelity"], found["fidelity_reasons"]) == ("rebuilt", said)
        assert shown in run(BISECT, db, "versions", *both).stdout
        assert not any("temperature" in each.body for each in api.received if each.body)


def test_without_an_expectation_its_options_and_codes_are_not_its(db: Path) -> None:
    assert isinstance(expected(db, TOUR, "--step", "3").exception, click.UsageError)
    assert isinstance(expected(db, TOUR, "--share", ".5").exception, click.UsageError)
    assert not isinstance(expected(db, TOUR, "--edit", "/nowhere/x.toml").exception, CannotTell)
