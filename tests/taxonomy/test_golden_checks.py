"""Golden tasks and runs: what a run becomes, and what later runs say of a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from arc_tui import importing
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row, trace_rows
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome, Tool
from taxonomy.classes import FailureClass
from taxonomy.golden import grader
from taxonomy.golden.audit import Audit, audit
from taxonomy.golden.changes import add_tasks
from taxonomy.golden.checks import (
    Draft,
    NothingToCheck,
    draft_task,
    grade_run,
)
from taxonomy.golden.sets import (
    Action,
    ActionsCheck,
    AnswerCheck,
    BadGolden,
    GoldenTask,
    JudgeCheck,
    RuleCheck,
    read_or_new,
    read_set,
)
from taxonomy.judgements.golds import GoldAction, TaskGold, keep_gold
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.build import START_NS, call, error, heard, step, tool, trace
from tests.shared import DATA, needs_shared
from tests.taxonomy.test_golden import DAY, LONG, frozen, golden

# --- tasks made of runs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_ledger(tmp_path / "arc.db") as found:
        yield found


REFUND = call("refund_order", order_id="1", amount=7)
PARTS = (step(call("get_order", {"total": 5}, order_id="1")), step(REFUND), "Refunded.")
TOOLS = (tool("get_order", order_id={}), tool("refund_order"), tool("cancel_order"))


def put(
    store: Store,
    parts: Any = PARTS,
    *,
    task: str | None = "refunds",
    said: str = LONG,
    outcome: Any = "failed",
    system: str | None = "You are the shop.",
    tools: tuple[Tool, ...] | None = TOOLS,
    reference: dict[str, Any] | None = None,
    trial: int = 0,
    **more: Any,
) -> str:
    made = trace(parts, task=said, system=system, tools=tools)
    head = Header(
        format="built", source_id=f"{task}/{trial}", task=task, trial=str(trial),
        outcome=Outcome(status=outcome), reference=reference, start_ns=START_NS + trial, **more,
    )  # fmt: skip
    writer = Writer(store)
    return writer.finish(writer.write(Batch(header=head, spans=made.spans, last=True))).id


def drafted(store: Store, key: str, **more: Any) -> Draft:
    return draft_task(store, trace_row(store, key), **more)


def test_gold_of_one_s_own_becomes_the_check(store: Store) -> None:
    key = put(store)
    action = GoldAction(tool="refund_order", arguments={"order_id": "1", "amount": 5})
    keep_gold(store, [TaskGold(task="refunds", actions=(action,), answer="5 USD")], "gold.jsonl")
    draft = drafted(store, key)
    assert draft.task.check == (
        ActionsCheck(
            actions=(
                Action(tool="refund_order", arguments={"order_id": "1", "amount": 5}),
            ),
            only=("cancel_order", "refund_order"),
        ),
        AnswerCheck(texts=("5 USD",)),
    )  # fmt: skip
    assert draft.sources == ("your gold", "your gold")
    assert draft.met is False
    assert draft.task.text == LONG


def test_of_a_source_s_gold_reads_are_free(store: Store) -> None:
    actions = [
        {"name": "get_order", "kwargs": {"order_id": "1"}},
        {"name": "refund_order", "kwargs": {"order_id": "1", "amount": 7}},
    ]
    draft = drafted(store, put(store, reference={"actions": actions, "outputs": ["7"]}))
    first, second = draft.task.check
    assert isinstance(first, ActionsCheck)
    assert [each.tool for each in first.actions] == ["refund_order"]
    assert second == AnswerCheck(texts=("7",), where="run")
    assert draft.sources[0] == "gold of the source"


LOOP = (
    *(step(call("get_order", error("no such order"), order_id="9")) for _ in range(5)),
    "I cannot do that.",
)


def test_a_finding_becomes_the_absence_of_its_rule(store: Store) -> None:
    draft = drafted(store, put(store, LOOP))
    assert draft.task.check == (RuleCheck(absent="loop"),)
    assert draft.task.origin is not None
    assert (draft.task.origin.failure, draft.task.origin.by) == (FailureClass.LOOP, "rule loop")
    assert draft.met is False


def tagged(store: Store, key: str, failure: FailureClass, **more: Any) -> None:
    put_tag(store, Tag(trace=key, span="step-0", step=0, failure=failure, by="ann", **more))


def test_a_tag_that_no_rule_shares_becomes_a_judge_s_item(store: Store) -> None:
    key = put(store)
    tagged(store, key, FailureClass.WRONG_TOOL, note="should have asked")
    draft = drafted(store, key)
    assert draft.task.check == (
        JudgeCheck(
            item="Is the run free of this failure: wrong tool (a plausible call of the wrong tool)?"
        ),
    )
    assert draft.sources == ("the tag",)
    assert draft.met is None
    assert draft.task.origin is not None
    assert (draft.task.origin.by, draft.task.origin.why) == ("ann", "should have asked")


def test_a_tag_comes_before_what_other_rules_find(store: Store) -> None:
    key = put(store, LOOP)
    tagged(store, key, FailureClass.OTHER, sub="policy violation")
    item = "Is the run free of this failure: other / policy violation (policy violation)?"
    assert drafted(store, key).task.check == (JudgeCheck(item=item),)


def test_where_nothing_is_known_nothing_is_made_up(store: Store) -> None:
    key = put(store, ("Done.",), outcome="passed")
    with pytest.raises(NothingToCheck, match="no gold, no tag, and no rule") as said:
        drafted(store, key)
    assert "--check" in said.value.hint
    tagged(store, key, FailureClass.OTHER)
    with pytest.raises(NothingToCheck, match="without sub-label or note"):
        drafted(store, key)


def test_a_run_without_a_name_asks_for_one(store: Store) -> None:
    key = put(store, LOOP, task=None)
    with pytest.raises(BadGolden, match="has no task name"):
        drafted(store, key)
    assert drafted(store, key, id="loops").task.task == "loops"


def test_secrets_are_masked_in_what_is_written(store: Store, tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Zx9" * 30
    key = put(store, LOOP, said=f"My key is {secret}. {LONG}", system=f"Use {secret}.")
    draft = drafted(
        store, key, reason=f"leaked {secret}", checks=[AnswerCheck(texts=(f"not {secret}",))]
    )
    add_tasks(read_or_new(tmp_path / "golden"), [(draft.task, draft.pinned)], DAY)
    for file in (tmp_path / "golden").rglob("*"):
        assert file.is_dir() or secret not in file.read_text()


def test_masked_arguments_of_gold_are_not_compared(store: Store) -> None:
    secret = "sk-ant-api03-" + "Zx9" * 30
    key = put(store)
    action = GoldAction(tool="refund_order", arguments={"key": secret})
    keep_gold(store, [TaskGold(task="refunds", actions=(action,))], "gold.jsonl")
    draft = drafted(store, key)
    assert isinstance(draft.task.check[0], ActionsCheck)
    assert draft.task.check[0].actions == (Action(tool="refund_order"),)
    assert draft.notes[0] == "arguments of refund_order hold masked secrets: any will do"


def test_what_the_user_says_next_is_kept(store: Store) -> None:
    parts = (*LOOP[:-1], "I cannot do that.", heard("Then cancel it."), "Done.")
    draft = drafted(store, put(store, parts))
    assert draft.task.then == ("Then cancel it.",)


# --- a set against runs


def held(store: Store, folder: Path, *tasks: GoldenTask) -> Audit:
    frozen(folder, *tasks)
    return audit(store, read_set(folder))


def kinds(found: Audit) -> list[tuple[str | None, str]]:
    return [(each.task, each.kind) for each in found.findings if each.kind != "size"]


def test_a_task_in_a_system_prompt_is_find_overlaps(store: Store, tmp_path: Path) -> None:
    put(store, ("Done.",), task="other", said="Hello.", system=f"Example:\n{LONG.upper()}!")
    found = held(store, tmp_path / "g", golden("a"), golden("b", text="Where is my order?"))
    assert ("a", "contaminated") in kinds(found)
    assert ("b", "contaminated") not in kinds(found)
    assert "1 of 2 tasks under 13 words: overlap not looked for" in found.notes


def test_a_task_in_a_tool_definition_is_find_overlaps(store: Store, tmp_path: Path) -> None:
    put(store, ("Done.",), task="other", said="Hello.", tools=(tool("x", LONG),))
    assert ("a", "contaminated") in kinds(held(store, tmp_path / "g", golden("a")))


def _with_example(store: Store, example: str, task: str) -> None:
    """A run that begins with an example before its task."""
    made = trace(("Done.", heard(f"{task}: now the other thing"), "Done too."), task=example)
    second = structs.replace(made, spans=(made.spans[0], *made.spans[2:]))
    head = Header(format="built", source_id=task, task=task)
    writer = Writer(store)
    writer.finish(writer.write(Batch(header=head, spans=second.spans, last=True)))


def test_a_task_in_an_example_is_find_overlaps(store: Store, tmp_path: Path) -> None:
    _with_example(store, LONG, "another")
    assert ("a", "contaminated") in kinds(held(store, tmp_path / "g", golden("a")))


def test_a_task_is_no_example_of_itself(store: Store, tmp_path: Path) -> None:
    put(store, ("Done.",), task="a", said=LONG)
    _with_example(store, LONG, "a")
    assert kinds(held(store, tmp_path / "g", golden("a"))) == []


def test_twelve_words_in_common_are_no_contamination(store: Store, tmp_path: Path) -> None:
    words = LONG.split()
    put(store, ("Done.",), task="other", said="Hi.", system=" ".join(words[:12]))
    assert kinds(held(store, tmp_path / "g", golden("a"))) == []
    put(store, ("Done.",), task="other", said="Hi.", system=" ".join(words[:13]), trial=1)
    assert kinds(held(store, tmp_path / "h", golden("a"))) == [("a", "contaminated")]


def test_pins_that_the_newest_run_does_not_have_are_stale(store: Store, tmp_path: Path) -> None:
    key = put(store, LOOP)
    draft = drafted(store, key)
    add_tasks(read_or_new(tmp_path), [(draft.task, draft.pinned)], DAY)
    assert kinds(audit(store, read_set(tmp_path))) == []
    put(store, LOOP, trial=1, system="Another prompt.", tools=(TOOLS[0], tool("cancel_order", "x")))
    found = audit(store, read_set(tmp_path))
    assert kinds(found) == [("refunds", "stale prompt"), ("refunds", "stale tools")]
    assert found.findings[-1].text.endswith("-refund_order ~cancel_order")
    assert len(found.problems) == 2


def measured(store: Store, task: str, *passed: bool, day: int = 0) -> None:
    for at, each in enumerate(passed):
        put(store, ("Done.",), task=task, trial=100 * day + at,
            outcome="passed" if each else "failed", labels={"eval_id": f"e{day}"})  # fmt: skip


def test_three_measurements_above_92_percent_are_too_good(store: Store, tmp_path: Path) -> None:
    judged = JudgeCheck(item="ok?")
    tasks = [golden("a", judged), golden("b", judged)]
    for day in range(2):
        measured(store, "a", *[True] * 4, day=day)
        measured(store, "b", *[True] * 4, day=day)
    assert "saturated" not in [kind for _, kind in kinds(held(store, tmp_path / "1", *tasks))]
    measured(store, "a", True, True, True, True, day=2)
    measured(store, "b", True, True, True, False, day=2)
    found = held(store, tmp_path / "2", *tasks)
    assert [each.rate for each in found.measurements] == [1.0, 1.0, 0.875]
    assert "saturated" not in [kind for _, kind in kinds(found)]
    for day in (3, 4, 5):
        measured(store, "a", True, day=day)
        measured(store, "b", True, day=day)
    assert (None, "saturated") in kinds(held(store, tmp_path / "3", *tasks))


def test_a_few_tasks_alone_are_no_measurement_of_the_set(store: Store, tmp_path: Path) -> None:
    for day in range(3):
        measured(store, "a", True, day=day)
    found = held(store, tmp_path, *(golden(name, JudgeCheck(item="?")) for name in "abc"))
    assert (found.measurements, kinds(found)) == ((), [])


def test_a_check_that_contradicts_outcomes_is_told(store: Store, tmp_path: Path) -> None:
    put(store, ("It is done.",), task="a", outcome="failed")
    put(store, ("No.",), task="a", outcome="passed", trial=1)
    found = held(store, tmp_path, golden("a"))
    assert kinds(found) == [("a", "check disagrees")] * 2
    assert found.findings[-1].text == "not met by 1 run that passed, of 2 graded"


def test_a_run_may_fail_by_another_failure_than_the_one_a_rule_finds(
    store: Store, tmp_path: Path
) -> None:
    put(store, ("Done.",), task="a", outcome="failed")
    assert kinds(held(store, tmp_path, golden("a", RuleCheck(absent="loop")))) == []


def test_runs_without_an_outcome_are_graded_too(store: Store, tmp_path: Path) -> None:
    put(store, LOOP, task="a", outcome="unknown")
    put(store, PARTS, task="a", outcome="unknown", trial=1)
    found = held(store, tmp_path, golden("a", RuleCheck(absent="loop")))
    (row,) = found.rows
    assert (row.met.value, row.met.n, row.passed.n) == (0.5, 2, 0)
    assert kinds(found) == []


def test_a_class_that_no_task_came_from_is_told(store: Store, tmp_path: Path) -> None:
    key = put(store, ("Done.",))
    tagged(store, key, FailureClass.GAVE_UP)
    found = held(store, tmp_path, golden("a"))
    assert (None, "class without task") in kinds(found)
    assert found.problems == ()
    gave_up = next(each for each in found.coverage if each.failure is FailureClass.GAVE_UP)
    assert (gave_up.runs, gave_up.tasks) == (1, 0)


@pytest.mark.parametrize(("count", "words"), [(29, "under 30"), (30, ""), (201, "over 200")])
@pytest.mark.slow
def test_the_size_of_a_set(store: Store, tmp_path: Path, count: int, words: str) -> None:
    found = held(store, tmp_path, *(golden(f"t{at}") for at in range(count)))
    sizes = [each.text for each in found.findings if each.kind == "size"]
    assert bool(sizes) is bool(words)
    assert all(words in each for each in sizes)


def test_an_audit_is_plain_values(store: Store, tmp_path: Path) -> None:
    put(store, LOOP, task="a")
    found = msgspec.json.decode(msgspec.json.encode(held(store, tmp_path, golden("a"))))
    assert found["rows"][0]["runs"] == 1
    assert set(found) == {
        "folder", "golden", "rows", "findings", "coverage", "measurements", "notes",
    }  # fmt: skip


@needs_shared
@pytest.mark.data
def test_checks_prefilled_from_gold_agree_with_the_rewards_of_tau_bench(store: Store) -> None:
    for _ in importing.import_paths(store, [DATA / "tau_bench"]):
        pass
    tasks: dict[str | None, GoldenTask] = {}
    agree: Counter[bool] = Counter()
    for row in trace_rows(store):
        if row.task not in tasks:
            tasks[row.task] = draft_task(store, row).task
        verdicts = grade_run(tasks[row.task], read.load(store, row.trace))
        agree[grader.overall(verdicts) is (row.outcome == "passed")] += 1
    assert (len(tasks), agree) == (50, {True: 197, False: 3})
