"""What changed in a tool, which differences chance explains, and what replays say of the model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from arc_tui.features.drift.text import probe_lines
from arc_tui.features.drift.view import DriftRequest, build_drift, change_words
from replay import kept
from replay.action import Act, Action
from replay.locked.run import Core, CoreAnswer, CoreRow
from replay.statistics import Table, all_on_one_side, fisher, stratified, tarone
from replay.trace import Json, Level, Tool
from taxonomy.environment.differences import Facts, Item, Known, compare, read_facts
from taxonomy.environment.schemas import schema_changes
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.listing import run_rows
from tests.arc_tui.drift_case import put_drift


def tool(properties: dict[str, Json], *required: str, **more: Json) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return Tool(name="find", description="Find rows.", schema=schema)


TEXT = {"type": "string", "description": "What to look for."}
NESTED = {"type": "object", "properties": {"day": {"type": "string"}, "n": {"type": "number"}}}
ROWS = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (tool({"q": TEXT}), tool({"q": TEXT}), []),
        (tool({"q": TEXT}), tool({"query": TEXT}), ["argument q renamed to query"]),
        (tool({"q": TEXT}, "q"), tool({"query": {"type": "string"}}),
         ["argument q renamed to query", "argument query: no longer required",
          "argument query: description changed"]),
        (tool({"q": TEXT}), tool({"q": TEXT, "n": {"type": "integer"}}, "n"),
         ["argument n added (integer, required)"]),
        (tool({"q": TEXT, "n": {"type": "integer"}}), tool({"q": TEXT}),
         ["argument n removed (integer)"]),
        (tool({"q": TEXT}), tool({"n": {"type": "integer"}}),
         ["argument q removed (string)", "argument n added (integer)"]),
        (tool({"q": TEXT}), tool({"q": {**TEXT, "type": ["string", "null"]}}, "q"),
         ["argument q: type string → string or null", "argument q: now required"]),
        (tool({"q": TEXT}), tool({"q": {**TEXT, "enum": ["a"]}}), ["argument q: enum changed"]),
        (tool({"f": NESTED}), tool({"f": {**NESTED, "properties": {"day": {"type": "string"}}}}),
         ["argument f.n removed (number)"]),
        (tool({"f": NESTED}), tool({}), ["argument f removed (object)"]),
        (tool({"r": ROWS}),
         tool({"r": {**ROWS, "items": {"type": "object",
                                       "properties": {"key": {"type": "string"}}}}}),
         ["argument r[].id renamed to r[].key"]),
        (tool({"q": TEXT}), tool({"q": TEXT}, additionalProperties=False),
         ["additionalProperties of the schema changed"]),
        (tool({"q": TEXT}), Tool(name="find", description="Find.", schema=tool({"q": TEXT}).schema),
         ["description changed"]),
        (tool({"q": TEXT}), Tool(name="find", description="Find rows.", schema=None),
         ["argument q removed (string)", "schema of the schema changed"]),
        (tool({"r": {"$ref": "#/a"}}), tool({"r": {"$ref": "#/b"}}), ["argument r: $ref changed"]),
    ],
)  # fmt: skip
def test_each_change_of_a_definition_is_named(before: Tool, after: Tool, said: list[str]) -> None:
    assert [change_words(each) for each in schema_changes(before, after)] == said


def test_chance_alone_on_one_side_is_the_tail_of_the_exact_test() -> None:
    assert 2 * all_on_one_side([Table(5, 5, 0, 5)]) == pytest.approx(fisher(5, 5, 0, 5))
    pairs = [Table(1, 1, 0, 1)] * 7
    assert 2 * all_on_one_side(pairs) == pytest.approx(stratified(pairs)) == 2 / 2**7
    assert all_on_one_side([Table(3, 4, 2, 4)]) == 0.0
    assert all_on_one_side([]) == 1.0


def test_a_test_that_can_never_hold_is_not_corrected_for() -> None:
    assert tarone([0.001], 0.05) == 0.05
    assert tarone([0.001, 1.0, 1.0, 0.9], 0.05) == 0.05
    assert tarone([0.001, 0.002, 0.003], 0.05) == pytest.approx(0.05 / 3)
    assert tarone([], 0.05) == 0.05


# --- simulated runs


def run(number: int, task: str | None, *values: str) -> Facts:
    """One that records what its tool returned: an object that may have each of some keys."""
    place = Known("path", "find")
    return Facts(
        trace=f"{number}",
        task=task,
        known=frozenset({place}),
        has=frozenset(Item(place, value) for value in values),
    )


def groups(seed: int, n: int, *, changed: bool, trials: int) -> tuple[list[Facts], list[Facts]]:
    """Two groups of n runs, of the same tasks where there are several trials; each result has
    thirty keys by chance, each task its own chances."""
    chance = random.Random(seed)
    shares = [[chance.choice((0.05, 0.3, 0.9, 1.0)) for _ in range(30)] for _ in range(n)]

    def group(number: int) -> list[Facts]:
        made = []
        for at in range(n):
            task = at // trials
            keys = [f"k{key}" for key, share in enumerate(shares[task]) if chance.random() < share]
            own = ["old", "new"][number : number + 1] if changed else []
            made.append(run(number * n + at, f"t{task}" if trials > 1 else None, *keys, *own))
        return made

    return group(0), group(1)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, 4])
def test_chance_alone_is_reported_in_at_most_one_comparison_in_twenty(trials: int) -> None:
    tries = 300
    false = sum(
        bool(compare(*groups(seed, 24, changed=False, trials=trials)).held)
        for seed in range(tries)
    )  # fmt: skip
    assert false <= 0.05 * tries


@pytest.mark.slow
def test_a_changed_key_is_found_with_ten_runs_each_and_not_told_with_three() -> None:
    for seed in range(50):
        found = compare(*groups(seed, 10, changed=True, trials=1))
        assert {each.item.value for each in found.held} == {"old", "new"}
        few = compare(*groups(seed, 3, changed=True, trials=1))
        assert few.held == ()
        assert few.untold >= 2


def test_unknown_is_no_absence() -> None:
    unknown = read_facts("1", None, {}, None)
    assert (unknown.known, unknown.has) == (frozenset(), frozenset())
    silent = [read_facts(f"s{at}", None, {}, None) for at in range(9)]
    pinned = [read_facts(f"p{at}", None, {"pin.index": "a"}, None) for at in range(9)]
    found = compare(silent, pinned)
    assert (found.held, found.seen) == ((), ())


# --- the model


def answer(key: str, tool: str, *, same: bool) -> CoreAnswer:
    return CoreAnswer(key=key, action=Action(calls=(Act(tool=tool, arguments={}),)), same=same)


def test_control_answers_are_the_probe_of_the_model_each_counted_once(tmp_path: Path) -> None:
    with open_ledger(put_drift(tmp_path / "arc.db")) as store:
        first = run_rows(store)[0].trace
        recorded = Action(calls=(Act(tool="a", arguments={}),))
        for model, levels in (("m-2026-01", (2,)), ("other", (3,)), ("m-2026-01", (4,))):
            row = CoreRow(
                step=0,
                thread="",
                fidelity=Level.EXACT,
                recorded=recorded,
                control=(answer("1", "a", same=True), answer("2", "b", same=False)),
            )
            kept.keep(store, Core(trace=first, edit=None, model=model, rows=(row,), levels=levels))
        view = build_drift(store, DriftRequest(first="variant=old", second="variant=new"))
    probe, none = view.drift.probes
    assert (probe.runs, probe.diverge.value, probe.diverge.n) == (1, 0.5, 2)
    assert (probe.noise.value, probe.noise.n) == (1.0, 1)
    assert none.runs == 0
    assert list(probe_lines(view)) == [
        "Model drift, A: replayed unchanged, answers diverge from the recording in"
        " 1/2 .50 (.09–.91) (1 run); noise floor: two answers to one request differ in"
        " 1/1 1.00 (.21–1.00).",
        "Model drift, B: unknown, no locked replay by its model yet.",
    ]
