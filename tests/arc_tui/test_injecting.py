"""`arc experiment inject-error` as a user types it: the demo offline, a model on a local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.features.error_injection.command import inject_error
from arc_tui.features.error_injection.run import ErrorInjectionRequest, run_error_injection
from arc_tui.places import fixtures
from replay.budget import Limits
from replay.errors import ModelRefused, NotFound, OfflineMiss
from taxonomy.judgements.schema import open_ledger
from taxonomy.stats import recovery, runs
from tests.arc_tui import nameless
from tests.messages_api import MessagesApi
from tests.replay.live_case import MODEL

RUNS = ("shop-refund-v8-0", "shop-where-is-it-v8-0", "shop-cancel-v8-0")
NO_CALLS = "shop-capitals-v4-0"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in (*RUNS, NO_CALLS)]
        for _ in importing.import_paths(store, files):
            pass
    return path


def run(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(inject_error, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def as_json(db: Path, *arguments: str) -> Any:
    return json.loads(run(db, *arguments, "--json").stdout)


def test_an_error_a_run_with_what_was_put_in_and_what_became_of_it(db: Path) -> None:
    result = run(db, *RUNS)
    assert result.return_value == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Corrected 2 of 3 errors within 2 steps; acted on 1.")
    assert "3 errors: not conclusive; the article uses 5 to 10 tasks" in lines[1]
    rows = [line for line in lines if "get_order →" in line]
    assert len(rows) == 3
    assert "$39.00 →" in rows[0]
    assert "✗ acted on it" in rows[1]


def test_the_json_holds_what_the_agent_was_shown(db: Path) -> None:
    view = as_json(db, RUNS[0])
    (row,) = view["rows"]
    assert json.loads(row["shown"])["order_id"] == "1038"
    assert view["recovery"]["n"] == 1
    assert row["tried"][0]["outcome"] == "corrected"
    assert row["path"][0] == "text"


def test_a_run_that_can_take_no_error_is_left_out_with_the_reason(db: Path) -> None:
    view = as_json(db, RUNS[0], "--step", "4")
    assert view["rows"] == []
    assert "step 4 calls no tool" in view["left_out"][0]["why"]
    result = run(db, RUNS[0], "--step", "4")
    assert result.return_value == 2
    assert "No error inserted." in result.stdout


def test_the_same_again_asks_nothing_and_says_the_same(db: Path) -> None:
    first = as_json(db, *RUNS, "-k", "3")
    again = as_json(db, *RUNS, "-k", "3")
    assert (first["calls"] > 0, again["calls"]) == (True, 0)
    assert again["rows"] == first["rows"]


def test_what_became_of_it_is_kept_for_the_recovery_rate(db: Path) -> None:
    run(db, *RUNS)
    run(db, *RUNS, "--kind", "tool-error")
    with open_ledger(db) as store:
        kept = recovery.kept(store)
    assert len(kept) == 6
    assert all(each.own for each in kept)
    assert recovery.recovery_of(kept).rate.n == 6


def test_the_exported_lines_give_stats_the_same_rate(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "errors.jsonl"
    view = as_json(db, *RUNS, "--export", str(file))
    with open_ledger(db) as store:
        found = runs.recovered(store, recovery.read(file))
    assert found.rate.value == pytest.approx(view["recovery"]["value"])
    assert found.rate.n == 3


def test_your_own_error_is_a_file_with_one_observation(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "late.toml"
    file.write_text('[[change]]\nkind = "set_observation"\ntarget = 1\ntext = "Only 14 days."\n')
    (row,) = as_json(db, RUNS[0], "--edit", str(file))["rows"]
    assert (row["kind"], row["step"], row["shown"]) == ("yours", 1, "Only 14 days.")
    with pytest.raises(click.UsageError, match="--edit sets the step"):
        run(db, RUNS[0], "--edit", str(file), "--step", "1")


def test_an_estimate_asks_nothing_and_counts_what_is_stored(db: Path) -> None:
    first = json.loads(run(db, RUNS[0], "--estimate", "--json").stdout)
    run(db, RUNS[0])
    again = json.loads(run(db, RUNS[0], "--estimate", "--json").stdout)
    assert (first["calls"], first["stored"]) == (2, 0)
    assert (again["calls"], again["stored"]) == (0, 2)


@pytest.mark.slow
def test_of_an_unknown_model_the_error_is_listed_and_nobody_is_asked(tmp_path: Path) -> None:
    path = nameless.put(tmp_path, RUNS[0])
    result = run(path, "last")
    assert result.return_value == 2
    assert "1 error ready; no model called." in result.stdout
    assert "model unknown in 1 run. Try: --model NAME" in result.stdout
    assert "get_order → total $39.00 → $79.00" in result.stdout
    assert "– not evaluated" in result.stdout
    assert "kept for the recovery rate" not in result.stdout
    estimate = json.loads(run(path, "last", "--estimate", "--json").stdout)
    assert (estimate["calls"], estimate["usd"]) == (2, None)
    assert as_json(path, "last")["rows"][0]["tried"] == []
    with open_ledger(path) as store:
        assert recovery.kept(store) == []
    assert as_json(path, "last", "--model", "demo")["rows"][0]["tried"]


def test_a_run_that_is_not_there_is_the_user_s_mistake(db: Path) -> None:
    with pytest.raises(NotFound, match="nobody"):
        run(db, "nobody")


def test_another_model_is_asked_with_a_limit_alone_and_not_counted_as_the_agent_s(
    db: Path, api: MessagesApi
) -> None:
    with pytest.raises(OfflineMiss):
        run(db, RUNS[0], "--model", MODEL)
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, RUNS[0], "--model", MODEL, "--live")
    result = run(db, RUNS[0], "--model", MODEL, "--live", "--max-calls", "5")
    assert "2 live calls at first" in result.stderr
    assert "is not the recorded model" in result.stdout
    with open_ledger(db) as store:
        assert recovery.recovery_of(recovery.kept(store)).rate.n == 0


@pytest.mark.slow
def test_cut_short_by_its_limit_it_goes_on_where_it_was(db: Path, api: MessagesApi) -> None:
    asked = ("--model", MODEL, "--live", "--max-calls")
    with pytest.raises(ModelRefused, match="No response for step"):
        run(db, *RUNS[:2], *asked, "1")
    with open_ledger(db) as store:
        assert not recovery.kept(store)
    view = as_json(db, *RUNS[:2], *asked, "9")
    whole = len(view["rows"][0]["path"]) + len(view["rows"][1]["path"])
    assert view["calls"] == whole - 1
    with open_ledger(db) as store:
        assert len(recovery.kept(store)) == 2


def test_one_pool_has_the_models_of_all_runs_so_that_they_can_be_stopped(db: Path) -> None:
    request = ErrorInjectionRequest(traces=RUNS, limits=Limits())
    with open_ledger(db) as store, request.model_pool(store) as models:
        views = list(run_error_injection(store, request, models))
    assert [model.name for model in models.models] == ["demo"]
    assert [view.done for view in views] == [False] * 3 + [True]
