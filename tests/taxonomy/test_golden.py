"""The golden set: what freezes it, what is noticed, how its checks are graded and prefilled."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from arc_tui import importing
from replay import predicate
from replay.action import Act
from replay.action import Action as WholeAction
from replay.errors import ArcError, NotFound
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row, trace_rows
from replay.store.write import Writer
from replay.trace import GOLDEN, Batch, Header, Outcome, Tool
from taxonomy import golden_grader
from taxonomy.classes import FailureClass
from taxonomy.evidence.final_answer import contains
from taxonomy.golden import (
    Action,
    ActionsCheck,
    AnswerCheck,
    BadGolden,
    Check,
    GoldenSet,
    GoldenTask,
    GoldenVersion,
    JudgeCheck,
    PredicateCheck,
    RuleCheck,
    golden_of,
    read_or_new,
    read_set,
)
from taxonomy.golden_audit import Audit, audit
from taxonomy.golden_changes import Pinned, accept_edit, add_tasks, file_name, remove_task
from taxonomy.golden_checks import (
    Draft,
    NothingToCheck,
    check_value,
    draft_task,
    grade_run,
    predicate_rows,
    read_check,
)
from taxonomy.judgements.golds import GoldAction, TaskGold, keep_gold
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.build import START_NS, call, error, heard, step, tool, trace
from tests.shared import DATA, needs_shared

DAY = date(2026, 11, 28)
LONG = "Please refund the order number one thousand and forty nine because the lamp broke today."


def golden(id: str = "refunds", *checks: Check, **more: Any) -> GoldenTask:
    given = checks or (AnswerCheck(texts=("done",)),)
    fields = {"task": id, "text": LONG, "k": 4, "reason": "incident 12", **more}
    return GoldenTask(id=id, check=given, **fields)


def frozen(folder: Path, *tasks: GoldenTask) -> GoldenSet:
    return add_tasks(read_or_new(folder), [(task, Pinned()) for task in tasks], DAY)


# --- the stamp of a run


@pytest.mark.parametrize(
    ("stamp", "found"),
    [
        ("3 0123456789abcdef", GoldenVersion(version=3, digest="0123456789abcdef")),
        ("0 0123456789abcdef", None),
        ("3", None),
        ("three 0123456789abcdef", None),
        ("", None),
    ],
)
def test_a_run_is_of_the_set_that_its_label_names(stamp: str, found: object) -> None:
    assert golden_of({GOLDEN: stamp}) == found
    assert golden_of(Header(format="x", source_id="y", labels={GOLDEN: stamp})) == found


def test_a_run_without_label_is_of_no_set() -> None:
    assert golden_of({}) is None


# --- the grader, beside what arc itself says


EXPRESSIONS = (
    "tool=get_order",
    "tool=none",
    "not tool=refund_order",
    "tool!=refund_order",
    "tool=get_order and args.id=1",
    "tool=get_order and args.id!=1",
    "args.id=1",
    'args.id="1"',
    "args.id~^1",
    "args.n<=2 or tool=refund_order",
    "tool=get_order and args.id=1 and tool=refund_order and args.n>1",
    "args.items[*].sku=A",
    "args.**.sku~A",
    "args.*=1",
    "args.items[0].sku=A",
    "calls<=1",
    "calls>1 and not text~sorry",
    "text~sorry",
    "not text~sorry",
    "args={}",
    "args.on=true",
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([0, 1, 1.0, 2, 2.5, "1", "A", "xA", "", True, None]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "n", "sku", "items", "on"]), inner, max_size=3)
    ),
    max_leaves=5,
)
ACTS = st.builds(
    Act,
    tool=st.sampled_from(["get_order", "refund_order"]),
    arguments=st.dictionaries(st.sampled_from(["id", "n", "items", "on"]), VALUES, max_size=3),
)


@given(
    expression=st.sampled_from(EXPRESSIONS),
    acts=st.lists(ACTS, max_size=3),
    text=st.sampled_from(["", "I am sorry.", "Done."]),
)
def test_an_export_reads_a_predicate_as_arc_does(
    expression: str, acts: list[Act], text: str
) -> None:
    wanted = predicate.predicate(expression).met(WholeAction(calls=tuple(acts), text=text))
    run = {
        "calls": [{"tool": act.tool, "arguments": act.arguments} for act in acts],
        "answer": text,
        "said": [text],
    }
    check = {"kind": "predicate", "expect": expression, "rows": predicate_rows(expression)}
    assert golden_grader.grade([check], run)[0]["passed"] is wanted


WORDS = st.lists(st.sampled_from(["Refund", "1,200", "1200", "USD", "\n", "a-b", "ß"]), max_size=5)


@given(answer=WORDS, text=WORDS.filter(lambda words: "".join(words).strip()))
def test_an_export_finds_an_answer_as_arc_does(answer: list[str], text: list[str]) -> None:
    said, wanted = " ".join(answer), " ".join(text)
    check = check_value(AnswerCheck(texts=(wanted,)))
    run = {"calls": [], "answer": said, "said": [said]}
    assert golden_grader.grade([check], run)[0]["passed"] is contains(said, wanted)


A, B, C = ({"tool": name, "arguments": {"n": 1}} for name in "abc")


@given(
    made=st.lists(st.sampled_from("abc"), max_size=5),
    gold=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    order=st.sampled_from(["any", "sequence", "graph"]),
    data=st.data(),
)
def test_gold_actions_are_met_where_some_calls_can_be_given_to_them(
    made: list[str], gold: list[str], order: str, data: st.DataObject
) -> None:
    after = []
    if order == "graph":
        pairs = list(combinations(range(len(gold)), 2))
        after = data.draw(st.lists(st.sampled_from(pairs), max_size=3)) if pairs else []
    check = {
        "kind": "actions", "order": order, "after": after, "only": [],
        "actions": [{"tool": name} for name in gold],
    }  # fmt: skip
    run = {"calls": [{"tool": each, "arguments": {}} for each in made], "answer": "", "said": []}
    before = {
        "any": [], "sequence": [(at, at + 1) for at in range(len(gold) - 1)], "graph": after
    }[order]  # fmt: skip
    possible = any(
        all(made[row] == gold[place] for place, row in enumerate(rows))
        and all(rows[earlier] < rows[later] for earlier, later in before)
        for rows in permutations(range(len(made)), len(gold))
    )
    assert golden_grader.grade([check], run)[0]["passed"] is possible


@pytest.mark.parametrize(
    ("calls", "passed", "why"),
    [
        ([A, B], True, ""),
        ([B, A], True, ""),
        ([A], False, 'not made: b({"n": 1})'),
        ([A, {**B, "failed": True}], False, 'not made: b({"n": 1})'),
        ([A, B, C], False, 'not asked for: c({"n": 1})'),
        ([A, B, {**C, "failed": True}], True, ""),
        ([{"tool": "a", "arguments": {"n": True}}, B], False, 'not made: a({"n": 1})'),
        ([{"tool": "a", "arguments": {"n": 1.0}}, B], True, ""),
    ],
)
def test_gold_actions(calls: list[dict[str, Any]], passed: bool, why: str) -> None:
    check = ActionsCheck(
        actions=(Action(tool="a", arguments={"n": 1}), Action(tool="b", arguments='{"n": 1}')),
        only=("b", "c"),
    )
    found = golden_grader.grade([check_value(check)], {"calls": calls, "answer": "", "said": []})
    assert (found[0]["passed"], found[0]["why"]) == (passed, why)


def test_what_no_grader_decides_leaves_a_run_undecided_unless_another_check_fails() -> None:
    judge = check_value(JudgeCheck(item="Is it polite?"))
    said = check_value(AnswerCheck(texts=("done",)))
    for answer, passed in (("Done.", None), ("No.", False)):
        run = {"calls": [], "answer": answer, "said": [answer]}
        assert golden_grader.overall(golden_grader.grade([judge, said], run)) is passed


# --- the set


def test_a_set_is_frozen_and_every_change_counts(tmp_path: Path) -> None:
    first = frozen(tmp_path / "golden", golden("a"), golden("b"))
    assert (first.manifest.version, [each.id for each in first.tasks]) == (1, ["a", "b"])
    second = frozen(tmp_path / "golden", golden("c"))
    assert second.manifest.version == 2
    assert second.golden.digest != first.golden.digest
    assert [each.since for each in second.manifest.task] == [1, 1, 2]
    assert second.intact
    third = remove_task(second, "b", "no such shop any more", DAY)
    assert (third.manifest.version, [each.id for each in third.tasks]) == (3, ["a", "c"])
    (change,) = third.manifest.change
    assert (change.id, change.how, change.because) == ("b", "removed", "no such shop any more")
    assert change.digest == golden("b").digest
    assert not (tmp_path / "golden" / "b.toml").exists()
    assert golden_of({GOLDEN: third.golden.stamp}) == third.golden


def test_the_same_tasks_have_the_same_digest_whenever_they_came(tmp_path: Path) -> None:
    together = frozen(tmp_path / "one", golden("a"), golden("b"))
    frozen(tmp_path / "two", golden("b"))
    apart = frozen(tmp_path / "two", golden("a"))
    assert together.golden.digest == apart.golden.digest
    assert together.golden != apart.golden


def test_an_edit_by_hand_is_noticed_and_a_new_layout_is_none(tmp_path: Path) -> None:
    found = frozen(tmp_path, golden("a"))
    file = tmp_path / "a.toml"
    file.write_text("# why it is here\n" + file.read_text().replace("k = 4", "k   =   4"))
    assert read_set(tmp_path).intact
    file.write_text(file.read_text().replace("k   =   4", "k = 1"))
    edited = read_set(tmp_path)
    assert edited.edited == ("a",)
    with pytest.raises(BadGolden, match="not as it was frozen"):
        frozen(tmp_path, golden("b"))
    done = accept_edit(edited, "a", "one run is enough", DAY)
    assert done.intact
    assert done.manifest.version == 2
    assert (done.manifest.change[0].how, done.manifest.change[0].digest) == (
        "edited", found.manifest.task[0].digest,
    )  # fmt: skip
    with pytest.raises(BadGolden, match="nothing to accept"):
        accept_edit(done, "a", "again", DAY)


def test_tasks_of_another_branch_are_accepted_after_a_merge(tmp_path: Path) -> None:
    mine = frozen(tmp_path, golden("a"), golden("mine"))
    manifest = tmp_path / "manifest.toml"
    theirs = frozen(tmp_path / "theirs", golden("a"), golden("theirs"))
    (tmp_path / "theirs" / "theirs.toml").rename(tmp_path / "theirs.toml")
    manifest.write_text((tmp_path / "theirs" / "manifest.toml").read_text())
    merged = read_set(tmp_path)
    assert (merged.golden, merged.unlisted) == (theirs.golden, ("mine.toml",))
    done = accept_edit(merged, "mine", "merged", DAY)
    assert {each.id for each in done.tasks} == {"a", "mine", "theirs"}
    assert done.intact
    assert done.golden.digest != mine.golden.digest
    with pytest.raises(NotFound):
        accept_edit(done, "nobody", "merged", DAY)


def test_arguments_with_null_come_back_as_they_were(tmp_path: Path) -> None:
    action = Action(tool="book", arguments={"seat": None, "bags": [1, None], "a b": {"c": "\n"}})
    task = golden("a", ActionsCheck(actions=(action,)))
    found = frozen(tmp_path, task)
    assert found.intact
    assert check_value(found.tasks[0].check[0])["actions"] == [
        {"tool": "book", "arguments": action.arguments}
    ]


def test_every_kind_of_check_comes_back_as_it_was(tmp_path: Path) -> None:
    checks = (
        ActionsCheck(
            actions=(Action(tool="a"), Action(tool="b", arguments={"x": 1})),
            order="graph", after=((0, 1),), only=("b",),
        ),
        PredicateCheck(expect="tool=a and args.x=1"),
        RuleCheck(absent="loop"),
        JudgeCheck(item="Is it polite?"),
        AnswerCheck(texts=("[0-9]+ USD",), how="regex", where="run"),
    )  # fmt: skip
    task = golden("a", *checks, then=("And now?",))
    assert frozen(tmp_path, task).tasks == (task,)


@pytest.mark.parametrize(
    "id",
    ["../../etc/passwd", "a/b", "manifest", "MANIFEST", ".", "con\0", "ä", "x" * 200, "a b", "-rf"],
)
def test_a_name_is_never_a_path(tmp_path: Path, id: str) -> None:
    folder = tmp_path / "golden"
    found = frozen(folder, golden(id))
    (entry,) = found.manifest.task
    assert entry.id == id
    assert {file.name for file in folder.iterdir()} == {"manifest.toml", entry.file}
    assert [each.name for each in tmp_path.iterdir()] == ["golden"]


def test_names_that_differ_by_case_have_files_of_their_own(tmp_path: Path) -> None:
    found = frozen(tmp_path, golden("Task"), golden("task"))
    names = [entry.file.lower() for entry in found.manifest.task]
    assert len(set(names)) == 2
    assert file_name("task") == "task.toml"


def _break(text: str) -> Callable[[str], str]:
    return lambda old: text + old


BROKEN: dict[str, tuple[str, Callable[[str], str], str]] = {
    "no TOML": ("a.toml", _break("= 3\n"), "invalid TOML"),
    "conflict": ("a.toml", _break("<<<<<<< ours\n"), "line 1: has the marks of a merge conflict"),
    "conflict below": (
        "manifest.toml", lambda old: old + "\n=======\n", "has the marks of a merge conflict",
    ),
    "wrong type": ("a.toml", lambda old: old.replace("k = 4", 'k = "four"'), "Expected `int`"),
    "unknown key": ("a.toml", _break('surprise = "x"\n'), "unknown field `surprise`"),
    "no check": ("a.toml", lambda old: old[: old.index("[[check]]")] + "check = []\n", "no check"),
    "other kind": ("a.toml", lambda old: old.replace('"answer"', '"vibes"'), "Invalid value"),
    "k of none": ("a.toml", lambda old: old.replace("k = 4", "k = 0"), "k is 0"),
    "another id": ("a.toml", lambda old: old.replace('id = "a"', 'id = "z"'), "is of task 'z'"),
    "digest": ("manifest.toml", lambda old: old.replace("added", "added", 1).replace(
        'digest = "', 'digest = "0', 1), "was edited by hand"),
    "path": ("manifest.toml", lambda old: old.replace('"a.toml"', '"../a.toml"'), "is no name of"),
    "version": ("manifest.toml", lambda old: old.replace("version = 1", "version = 0"), "edited"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    frozen(tmp_path, golden("a"))
    file, change, words = BROKEN[name]
    old = (tmp_path / file).read_text()
    (tmp_path / file).write_text(change(old))
    assert (tmp_path / file).read_text() != old
    with pytest.raises(BadGolden, match=words) as said:
        read_set(tmp_path)
    assert str(tmp_path / file) in said.value.message


def test_a_task_twice_in_the_manifest_is_refused(tmp_path: Path) -> None:
    frozen(tmp_path, golden("a"))
    file = tmp_path / "manifest.toml"
    text = file.read_text()
    file.write_text(text + text[text.index("[[task]]") :])
    with pytest.raises(BadGolden, match="task 'a' is there twice"):
        read_set(tmp_path)


def test_files_that_are_gone_or_of_nobody_are_named(tmp_path: Path) -> None:
    frozen(tmp_path, golden("a"), golden("b"))
    (tmp_path / "a.toml").unlink()
    (tmp_path / "mine.toml").write_text("x = 1\n")
    found = read_set(tmp_path)
    assert (found.absent, found.unlisted) == (("a",), ("mine.toml",))
    (tmp_path / "manifest.toml").unlink()
    with pytest.raises(BadGolden, match=r"has b\.toml and no manifest\.toml"):
        read_or_new(tmp_path)
    with pytest.raises(BadGolden, match="no golden set there"):
        read_set(tmp_path)


def test_a_pinned_file_is_what_its_name_says(tmp_path: Path) -> None:
    pinned = Pinned(prompt="Be brief.\n", tools="[]", results='[{"a": 1}]')
    task = structs.replace(golden("a"), pin=pinned.pins)
    found = add_tasks(read_or_new(tmp_path), [(task, pinned)], DAY)
    assert found.intact
    assert found.pinned_text(task.pin.prompt, ".txt") == "Be brief.\n"
    (file,) = (tmp_path / "pinned").glob("*.txt")
    file.write_text("Be long.")
    assert read_set(tmp_path).spoilt == (file.name,)
    file.unlink()
    assert read_set(tmp_path).spoilt == (file.name,)


def test_a_task_twice_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    frozen(tmp_path, golden("a"))
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(BadGolden, match="task 'a' is in the set since version 1"):
        frozen(tmp_path, golden("b"), golden("a"))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BadGolden, match="cannot be written: permission denied"):
        frozen(tmp_path / "golden", golden("a"))


def test_a_folder_in_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadGolden, match="cannot be written: "):
        frozen(tmp_path / "file" / "golden", golden("a"))


def test_what_is_not_there_is_not_removed(tmp_path: Path) -> None:
    found = frozen(tmp_path, golden("a"))
    with pytest.raises(NotFound, match="no golden task 'b'"):
        remove_task(found, "b", "x", DAY)
    with pytest.raises(BadGolden, match="the reason is empty"):
        remove_task(found, "a", "  ", DAY)


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("contains: 5 USD", AnswerCheck(texts=("5 USD",))),
        ("regex:^5", AnswerCheck(texts=("^5",), how="regex")),
        ("equals:yes", AnswerCheck(texts=("yes",), how="equals")),
        ("rule:loop", RuleCheck(absent="loop")),
        ("judge:Is it so: yes?", JudgeCheck(item="Is it so: yes?")),
        ("predicate:tool=a", PredicateCheck(expect="tool=a")),
    ],
)
def test_checks_on_the_command_line(text: str, check: Check) -> None:
    assert read_check(text) == check


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vibes:good", "kind unknown"),
        ("contains:", "says nothing"),
        ("contains", "says nothing"),
        ("rule:nosuch", "no rule 'nosuch'"),
        ("predicate:colour=red", "unknown field"),
    ],
)
def test_checks_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(ArcError, match=words):
        read_check(text)


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
        agree[golden_grader.overall(verdicts) is (row.outcome == "passed")] += 1
    assert (len(tasks), agree) == (50, {True: 197, False: 3})
