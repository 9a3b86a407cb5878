"""`arc cost`: what it says of a run, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from arc_tui.features.cost.command import cost
from arc_tui.features.cost.view import CostView, build_cost
from replay.errors import NotFound
from replay.trace import Outcome, Trace
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import header, put
from tests.build import Part, call, error, step, tool
from tests.taxonomy.waste_case import paid, usage, with_request

FAILS = step(call("get_order", error("no such order"), id=7))
PARTS: list[Part] = [
    step("I read.", call("read_file", "A silver heron. " * 100, path="pond.txt")),
    FAILS,
    FAILS,
    FAILS,
    "\x1b[31mDone.",
]
USAGES = [
    usage(20_000, 30, read=0, write=20_000),
    usage(20_430, 40, read=20_000, write=430),
    usage(20_500, 40, read=20_430, write=70),
    usage(20_570, 40, read=1_000, write=19_570),
    usage(20_640, 500, read=20_570, write=70),
]


def heron(*, model: str | None = "claude-sonnet-4-5") -> Trace:
    """A run that reads a file it never needs, loops, and loses its cache to a new tool."""
    tools = [tool("read_file"), tool("get_order")]
    run = paid(PARTS, USAGES, model=model, system="You help.", tools=tools)
    for index in (3, 4):
        run = with_request(run, index, tools=(*tools, tool("sweep")))
    return run


def stored(path: Path, run: Trace) -> Path:
    put(path, header("26", "1", Outcome(status="failed")), run.spans, diagnose(run))
    return path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return stored(tmp_path / "arc.db", heron())


def printed(db: Path, *options: str) -> str:
    result = CliRunner().invoke(cost, ["--db", str(db), *options], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def view(db: Path) -> CostView:
    with open_ledger(db) as store:
        return build_cost(store, "last")


def test_each_line_names_its_steps(db: Path) -> None:
    text = printed(db, "last")
    assert "26 / 1" in text
    assert "cache read fell 95 % at step 3 (20.5k → 1.0k, $0.0673 more)" in text
    assert "tools changed (sweep added)" in text
    assert "step 0: read_file returned 400 tokens, resent 3× up to step 4" in text
    assert "not repeated later" in text
    assert "get_order rejected the same call 3×" in text
    assert "steps 2, 3: $0.08" in text
    assert "2 of 4 calls (0.50, 95 % 0.15–0.85)" in text


def test_the_dearest_steps_come_first(db: Path) -> None:
    found = view(db)
    assert [step.step for step in found.expensive_steps[:2]] == [0, 3]
    costs = [step.cost_usd or 0.0 for step in found.expensive_steps]
    assert costs == sorted(costs, reverse=True)


def test_text_of_a_trace_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    parts: list[Part] = [
        step(call("\x1b[31mred", "x", n=1)),
        step(call("\x1b[31mred", "x", n=1)),
        "Bye.",
    ]
    db = stored(tmp_path / "arc.db", paid(parts, USAGES[:3]))
    assert "\x1b" not in printed(db, "last")


def test_json_holds_every_list_in_full(db: Path) -> None:
    found: dict[str, Any] = json.loads(printed(db, "last", "--json"))
    assert found["spending"]["cost_complete"] is True
    assert len(found["spending"]["steps"]) == 5
    assert found["cache_breaks"][0]["causes"] == [
        {"kind": "tools changed", "detail": "sweep added"}
    ]
    assert found["resent"][0]["repeated"] is False
    assert found["redundant"]["share"].keys() == {"value", "n", "low", "high"}
    assert found["route"] is None


def test_a_what_if_says_that_it_is_about_cost_only(db: Path) -> None:
    text = printed(db, "last", "--route", "gpt-4o-mini", "--where", "short")
    assert "steps with a short response, 4 steps routed" in text
    assert "cost only: resolution must be re-measured" in text


def test_a_what_if_for_an_unknown_model_says_so(db: Path) -> None:
    text = printed(db, "last", "--route", "no-such-model")
    assert "No step has a known price for both models." in text


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    bare = [
        structs.replace(each, cache_read_tokens=None, cache_write_tokens=None) for each in USAGES
    ]
    run = paid(PARTS, [*bare[:4], None], model="no-such-model")
    text = printed(stored(tmp_path / "arc.db", run), "last")
    assert "cost of 5 steps unknown" in text
    assert "cache reads not recorded" in text
    assert "cost unknown" in text
    assert "where it went" not in text


def test_a_trace_that_is_not_there_is_not_found(db: Path) -> None:
    with pytest.raises(NotFound):
        printed(db, "nothing")
