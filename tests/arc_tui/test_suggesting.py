"""`arc suggest` as a user types it: the demo offline, and a model on a local server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.attachment import attach_to, supplement
from arc_tui.experiments.models import ModelPool
from arc_tui.features.edit_test.command import list_edits, try_
from arc_tui.features.edit_test.suggest.command import suggest
from arc_tui.features.edit_test.suggest.plan import plan_suggestions
from arc_tui.features.edit_test.suggest.run import estimate_cost
from arc_tui.features.edit_test.suggest.view import SuggestRequest, SuggestView, score_of
from replay import bundle
from replay.edit.changes import ReplaceText
from replay.errors import ArcError, BadEdit, ModelRefused, NotFound, OfflineMiss
from replay.formats import arc
from replay.store.edits import find, listed
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Batch, Header, Outcome
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import try_case
from tests.bench.suggest import PLANTED, of_demo
from tests.build import call, error, step, trace
from tests.judge_policy import quoted
from tests.messages_api import Body, MessagesApi, message, text
from tests.replay.live_case import MODEL
from tests.shared import DATA, needs_shared

LOOPS = ("shop-capitals-v3-0", "shop-many-wishes-v6-0", "shop-prefix-v1-0", "shop-warranty-v3-0")
HEALTHY = ("shop-find-and-refund-v3-0", "shop-compare-v4-0", "shop-stock-v8-0")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suggest") / "arc.db"
    try_case.put(path, *LOOPS, *HEALTHY)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


def run(db: Path, *arguments: str) -> Result:
    return run_on(suggest, db, *arguments)


def demo(db: Path, *arguments: str) -> Result:
    return run(db, *arguments, "--model", "demo")


def planned(db: Path, query: str) -> Any:
    with open_ledger(db) as store:
        request = SuggestRequest(query=query, model="demo")
        return plan_suggestions(store, request, ModelPool(store))


# --- what it comes to


@pytest.mark.slow
def test_a_class_is_compared_on_one_half_and_looked_at_on_the_other(db: Path) -> None:
    """Conformance: the demo model really reads its prompt."""
    result = demo(db, "loop")
    assert result.return_value == 0
    said = result.stdout
    assert "Compared on 2 runs of 2 tasks; 2 runs of 2 other tasks held back for one look." in said
    assert "✓ fix · suggested: no " in said
    assert (
        "held back: fixed at the recorded break 2/2 (.34–1), expected by chance .1 · broke" in said
    )
    assert "Fix: on 2 tasks held back, failure in 0/" in said
    assert "Outcomes not evaluated." in said
    assert "  +Never make the same call twice" in said


@pytest.mark.slow
def test_what_is_compared_and_what_is_looked_at_share_no_run_task_or_healthy_step(db: Path) -> None:
    view = try_case.as_json(demo(db, "loop", "--json"))
    (best,) = (each for each in view["edits"] if each["looked"])
    tests = best["compared"], best["looked"]
    for rows in ("runs", "steps"):
        seen = [{(row["trace"], row["task"]) for row in test[rows]} for test in tests]
        assert not seen[0] & seen[1]
    tasks = [{row["task"] for row in test["runs"]} for test in tests]
    assert not tasks[0] & tasks[1]
    assert all(test["steps"] for test in tests if test is best["looked"])


def test_edits_are_written_for_runs_of_the_first_half_alone(db: Path) -> None:
    plan = planned(db, "class:loop")
    assert {origin.trace for origin in plan.origins} <= set(plan.compared.traces)
    assert set(plan.compared.traces).isdisjoint(plan.held_back.traces)
    assert plan.compared.healthy.isdisjoint(plan.held_back.healthy)


@pytest.mark.slow
def test_runs_that_cannot_be_replayed_take_no_part_in_the_halves(db: Path, tmp_path: Path) -> None:
    """They are named with the reason; the others are split without them."""
    again = [step(call("get_order", error("not found"), order_id="1039"))] * 4
    made = trace([*again, "I stop."], task="Where is order 1039?")
    for number in range(3):
        named, outcome = f"silent {number}", Outcome(status="failed")
        head = Header(format="arc", source_id=named, task=named, outcome=outcome)
        batch = Batch(header=head, spans=made.spans, last=True)
        (tmp_path / f"{number}.jsonl").write_bytes(b"".join(arc.write([batch])))
    with open_ledger(db) as store:
        for _ in importing.import_paths(store, sorted(tmp_path.glob("*.jsonl"))):
            pass
    view = try_case.as_json(demo(db, "loop", "--json"))
    assert (view["compared"], view["held_back"], view["runs"]) == (2, 2, 4)
    (left,) = view["not_applicable"]
    assert left["why"].startswith("tools were called, but tool definitions not recorded")
    assert len(left["traces"]) == 3


@pytest.mark.slow
def test_the_score_that_decides_counts_as_arc_try_does(db: Path) -> None:
    view = try_case.as_json(demo(db, "loop", "--json"))
    with open_ledger(db) as store:
        request = SuggestRequest(query='class:"loop"', model="demo")
        before = estimate_cost(store, request).before
    assert before is not None
    for each in before.edits:
        for test in filter(None, (each.compared, each.looked)):
            found = score_of(test)
            assert found.p == pytest.approx(test.p)
            assert found.rarer == (test.edited.hits * test.control.n
                                   < test.control.hits * test.edited.n)  # fmt: skip
    assert [each["verdict"] for each in view["edits"]].count("fix") == 1


@pytest.mark.slow
def test_of_one_run_nothing_is_claimed(db: Path) -> None:
    result = demo(db, "shop-capitals-v3-0")
    assert result.return_value == 1
    assert "1 edit suggested: a look at 1 run, no result." in result.stdout
    assert "1 run of 1 task: nothing can be held back, so a test is a look." in result.stdout
    assert "Nothing was held back, so nothing is claimed of other runs." in result.stdout
    assert "✓ fix" not in result.stdout


@pytest.mark.slow
def test_what_another_prompt_said_where_the_task_passed_is_tried_too(tmp_path: Path) -> None:
    """And only what passed in a task of the first half: nothing of the other is read."""
    path = tmp_path / "arc.db"
    try_case.put(path, *LOOPS, "shop-capitals-v4-0", "shop-prefix-v8-0", "shop-warranty-v4-0")
    plan = planned(path, "class:loop")
    restored = [each for each in plan.origins if "says" in each.made.edit.name]
    assert restored
    assert {each.trace for each in restored} <= set(plan.compared.traces)
    assert all(each.made.because.startswith("the task passed under v") for each in restored)


def test_where_no_edit_is_written_the_reason_stands(db: Path) -> None:
    tag_as_other(db)
    result = demo(db, "shop-capitals-v3-0")
    assert result.return_value == 1
    assert "No edit to suggest." in result.stdout
    assert "no edit for 1 run: “other” names no failure" in result.stdout


def tag_as_other(db: Path) -> None:
    with open_ledger(db) as store:
        names = dict(store.db.execute("SELECT source_id, trace FROM trace_summary").fetchall())
        try_case.tagged(store, names["shop-capitals-v3-0"], 2, FailureClass.OTHER)


# --- nothing is asked twice, and nothing of the user's is written


@pytest.mark.slow
def test_a_second_call_shows_it_again_without_asking(db: Path) -> None:
    first = try_case.as_json(demo(db, "loop", "--json"))
    asked = stored(db)
    again = try_case.as_json(demo(db, "loop", "--json"))
    assert again == first
    assert stored(db) == asked
    assert "--no-cache asks again" not in demo(db, "loop", "--no-cache").stdout
    assert stored(db) == 2 * asked


@pytest.mark.slow
def test_no_edit_is_among_the_saved_ones_until_it_is_saved(db: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    demo(db, "loop")
    with open_ledger(db) as store:
        assert listed(store) == []
    said = demo(db, "loop", "--save", "no loops").stdout
    assert "saved: no loops" in said
    assert "--edit 'no loops'" in said
    with open_ledger(db) as store:
        assert find(store, "no loops").name == "no loops"
    assert {path.name for path in tmp_path.iterdir()} - {path.name for path in before} <= {
        "arc.db-wal", "arc.db-shm",
    }  # fmt: skip
    tried = CliRunner().invoke(
        try_, ["--db", str(db), "no loops", "--on", "class:loop", "--model", "demo"]
    )
    assert tried.exit_code == 0
    assert "no loops: fixed" in tried.stdout


def stored(db: Path) -> int:
    with open_ledger(db) as store:
        (count,) = store.db.execute("SELECT count(*) FROM answer").fetchone()
    return int(count)


@pytest.mark.slow
def test_a_saved_edit_is_listed_with_what_its_tests_came_to_on_each_half(db: Path) -> None:
    before = try_case.as_json(demo(db, "loop", "--json"))
    demo(db, "loop", "--save", "no loops")
    (kept,) = try_case.as_json(run_on(list_edits, db, "--json"))
    tested = {each["query"]: each for each in kept["tries"]}
    assert set(tested) == {'class:"loop" (compared)', 'class:"loop" (held back)'}
    best = next(each for each in before["edits"] if each["looked"])
    assert tested['class:"loop" (held back)']["fixed"] == best["looked"]["fixed"]
    assert tested['class:"loop" (compared)']["digest"] == best["compared"]["digest"]


@pytest.mark.slow
def test_bundles_hold_what_the_test_of_a_saved_edit_rests_on(db: Path, tmp_path: Path) -> None:
    before = try_case.as_json(demo(db, "loop", "--json"))
    asked, folder = stored(db), tmp_path / "bundles"
    demo(db, "loop", "--save", "no loops", "--bundles", str(folder))
    assert stored(db) == asked, "all of it was answered"
    best = next(each for each in before["edits"] if each["looked"])
    for test, half in (("compared", "compared"), ("looked", "held-back")):
        rows = [*best[test]["runs"], *best[test]["steps"]]
        wanted = {f"{half}-{row['trace'][:8]}.zip" for row in rows}
        assert {file.name for file in folder.glob(f"{half}-*.zip")} == wanted
    said = json.loads((folder / "suggestion.json").read_bytes())
    assert (said["saved"], said["edits"], said["digest"]) == (
        "no loops", before["edits"], before["digest"],
    )  # fmt: skip
    for file in folder.glob("*.zip"):
        found = bundle.verify(file)
        assert found.same
        assert found.edit == "no loops"
    with open_ledger(db) as store:
        assert find(store, "no loops")
        (kept,) = listed(store)
        assert kept.replays == len([*folder.glob("*.zip")])


def test_bundles_without_a_saved_edit_are_refused(db: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--save NAME --bundles"):
        demo(db, "loop", "--bundles", str(tmp_path / "bundles"))


def test_bundles_that_cannot_be_written_are_told_in_a_sentence(db: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "bundles")
    with pytest.raises(bundle.BadBundle, match="bundles: cannot be written: Not a directory"):
        demo(db, "shop-capitals-v3-0", "--save", "mine", "--bundles", folder)


def run_on(command: Any, db: Path, *arguments: str) -> Result:
    return try_case.invoke(command, db, *arguments)


# --- before and while a server is asked


LIVE = ("--model", MODEL, "--live", "--max-calls", "99", "-k", "1", "--healthy-steps", "2")


@pytest.mark.slow
def test_the_estimate_is_what_is_asked_of_all_edits_and_of_the_look(db: Path) -> None:
    estimate = try_case.as_json(demo(db, "loop", "--estimate", "--json"))
    assert stored(db) == 0
    view = try_case.as_json(demo(db, "loop", "--json"))
    looked = next(each["looked"] for each in view["edits"] if each["looked"])
    assert looked["done"] == looked["total"]
    assert view["spent"]["calls"] == estimate["calls"] == stored(db)


def test_without_live_the_edits_are_shown_and_said_to_be_untested(
    api: MessagesApi, db: Path
) -> None:
    arguments = ["--db", str(db), "loop", "--model", MODEL]
    result = CliRunner().invoke(suggest, arguments, standalone_mode=False)
    assert isinstance(result.exception, OfflineMiss)
    assert "suggested, not tested" in result.stdout
    assert "+Never make the same call twice" in result.stdout
    assert "fix ·" not in result.stdout
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, "loop", "--model", MODEL, "--live")
    assert api.asked == 0


@pytest.mark.slow
def test_a_spent_budget_claims_nothing_and_the_rest_is_asked_later(
    api: MessagesApi, db: Path
) -> None:
    arguments = [*LIVE]
    arguments[arguments.index("99")] = "3"
    command = ["--db", str(db), "loop", *arguments]
    result = CliRunner().invoke(suggest, command, standalone_mode=False)
    assert isinstance(result.exception, ModelRefused)
    assert "stopped: limit of 3 calls" in result.stdout
    assert "✓ fix" not in result.stdout
    assert api.asked == 3
    view = try_case.as_json(run(db, "loop", *LIVE, "--json"))
    assert view["ended"] is None
    assert api.asked == 3 + view["spent"]["calls"]


# --- mistakes


def test_a_mistake_is_told_in_a_sentence(db: Path) -> None:
    with pytest.raises(NotFound, match="no run or class 'lop'") as found:
        demo(db, "lop")
    assert found.value.hint == "did you mean loop?"
    with pytest.raises(NotFound, match="no trace 'nothing-like-it'"):
        demo(db, "nothing-like-it")
    with pytest.raises(BadEdit, match="no edit to suggest: passed: no failure to fix"):
        demo(db, "shop-refund-v5-0")
    with pytest.raises(NotFound, match="no run that matches 'class:loop task:nowhere'"):
        demo(db, "class:loop task:nowhere")
    tag_as_other(db)
    with pytest.raises(ArcError, match="no edit to save"):
        demo(db, "shop-capitals-v3-0", "--save", "mine")


def test_an_empty_view_says_that_nothing_was_suggested() -> None:
    assert SuggestView(query="", samples=0).best is None


# --- coding agents

CLAUDE_MD = """You are an agent.

Contents of /home/user/shop/CLAUDE.md (project instructions, checked into the codebase):

Orders are in orders.json."""


def logs(store: Store, *folders: str) -> Any:
    """What would be compared for the runs in the agents' own logs, and what cannot be."""
    for _ in importing.import_paths(store, [DATA / each for each in folders]):
        pass
    every = tuple(row.trace for row in trace_rows(store))
    request = SuggestRequest(query="logs", traces=every, model="claude-test")
    return plan_suggestions(store, request, ModelPool(store))


@needs_shared
@pytest.mark.data
@pytest.mark.parametrize("folder", ["claude_code_runs", "clients/claude_code", "clients/codex"])
def test_of_an_agents_own_log_edits_are_written_and_none_can_be_tested(folder: str) -> None:
    with open_ledger(":memory:") as store:
        plan = logs(store, folder)
    assert plan.origins
    assert plan.runs == 0
    whys = {each.why for each in plan.not_applicable}
    tools = "tools were called, but tool definitions not recorded (`arc attach` adds them)"
    assert whys <= {tools, "no messages recorded"}
    assert tools in whys
    assert {each.made.targets for each in plan.origins} == {("system prompt",)}


@needs_shared
@pytest.mark.data
def test_with_what_its_log_lacks_attached_an_edit_goes_into_the_instruction_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "system.md").write_text(CLAUDE_MD)
    given = supplement(tmp_path / "system.md", None)
    with open_ledger(":memory:") as store:
        (left,) = logs(store, "clients/claude_code").not_applicable
        assert list(attach_to(store, left.trace, given, inferred=True))
        plan = logs(store, "clients/claude_code")
        assert plan.runs == 1
        (first, *_) = plan.origins
        assert first.made.targets == ("CLAUDE.md",)
        (change,) = first.made.edit.changes
    assert isinstance(change, ReplaceText)
    assert change.text.startswith("Orders are in orders.json.\n\n")


# --- edits that a model proposes


def writes(body: Body) -> Body:
    """A reflecting model that adds one sentence to whatever it is shown."""
    prompt = body["messages"][-1]["content"]
    said = prompt if isinstance(prompt, str) else "".join(each["text"] for each in prompt)
    shown = quoted(said)[0].text.rstrip("\n")
    return message(text(f"```\n{shown}\nBe careful.\n```"))


REFLECT = ("--reflect", MODEL, "--proposals", "2", "-k", "4", "--healthy-steps", "0")


@pytest.mark.slow
def test_proposals_are_compared_beside_the_rules_edits_under_one_budget(
    db: Path, api: MessagesApi
) -> None:
    api.policy = writes
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        demo(db, "loop", *REFLECT, "--live")
    estimate = try_case.as_json(demo(db, "loop", *REFLECT, "--estimate", "--json"))
    view = try_case.as_json(demo(db, "loop", *REFLECT, "--live", "--max-calls", "2", "--json"))
    assert (api.asked, view["proposed"]) == (2, 2)
    assert view["spent"]["calls"] <= estimate["calls"]
    assert [each["by"] for each in view["edits"]][:2] == ["by rule"] * 2
    again = try_case.as_json(demo(db, "loop", *REFLECT, "--json"))
    assert again == view
    assert api.asked == 2


def test_a_proposal_that_may_not_be_asked_for_is_said(db: Path, api: MessagesApi) -> None:
    command = ["--db", str(db), "loop", "--model", "demo", *REFLECT]
    result = CliRunner().invoke(suggest, command, standalone_mode=False)
    assert isinstance(result.exception, OfflineMiss)
    assert "suggested, not tested" in result.stdout
    assert api.asked == 0


# --- planted in the demo's prompts and tools


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_in_the_demo_is_found_repaired(planted: str) -> None:
    """Conformance of the demo model: over all tasks of the shop, on tasks that the edit was not
    chosen by. The edits are those of any class, the reflecting model gives general advice."""
    view = of_demo(*PLANTED[planted])
    assert view.fix is not None
    looked = view.fix.looked
    assert looked is not None
    assert view.held_back_tasks >= 2
    assert looked.edited.hits == 0
    assert looked.control.hits >= 10
    assert view.proposed
