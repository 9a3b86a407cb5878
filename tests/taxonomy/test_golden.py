"""The golden set: what freezes it, what is noticed, how its checks are graded and prefilled."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay import predicate
from replay.action import Act
from replay.action import Action as WholeAction
from replay.errors import ArcError, NotFound
from replay.trace import GOLDEN, Header
from taxonomy.evidence.final_answer import contains
from taxonomy.golden import grader
from taxonomy.golden.changes import Pinned, accept_edit, add_tasks, file_name, remove_task
from taxonomy.golden.checks import (
    check_value,
    predicate_rows,
    read_check,
)
from taxonomy.golden.sets import (
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
    assert grader.grade([check], run)[0]["passed"] is wanted


WORDS = st.lists(st.sampled_from(["Refund", "1,200", "1200", "USD", "\n", "a-b", "ß"]), max_size=5)


@given(answer=WORDS, text=WORDS.filter(lambda words: "".join(words).strip()))
def test_an_export_finds_an_answer_as_arc_does(answer: list[str], text: list[str]) -> None:
    said, wanted = " ".join(answer), " ".join(text)
    check = check_value(AnswerCheck(texts=(wanted,)))
    run = {"calls": [], "answer": said, "said": [said]}
    assert grader.grade([check], run)[0]["passed"] is contains(said, wanted)


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
    assert grader.grade([check], run)[0]["passed"] is possible


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
    found = grader.grade([check_value(check)], {"calls": calls, "answer": "", "said": []})
    assert (found[0]["passed"], found[0]["why"]) == (passed, why)


def test_what_no_grader_decides_leaves_a_run_undecided_unless_another_check_fails() -> None:
    judge = check_value(JudgeCheck(item="Is it polite?"))
    said = check_value(AnswerCheck(texts=("done",)))
    for answer, passed in (("Done.", None), ("No.", False)):
        run = {"calls": [], "answer": answer, "said": [answer]}
        assert grader.overall(grader.grade([judge, said], run)) is passed


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
