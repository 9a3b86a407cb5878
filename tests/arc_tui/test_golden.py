"""`arc golden`: what a person types, and what is written for other tools."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arc_tui.features.golden import export
from arc_tui.features.golden.export import export_set
from taxonomy.golden.sets import BadGolden, golden_of, read_set
from tests import golden_exports
from tests.arc_tui.free_case import put_bundled
from tests.spoken import Spoken, spoken

FAILED, PASSED = "shop-many-wishes-v5-0", "shop-many-wishes-v8-0"
LOOP = "shop-warranty-v3-0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden") / "arc.db"
    put_bundled(path, FAILED, PASSED, LOOP)
    return path


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    (tmp_path / "arc.db").write_bytes(runs.read_bytes())
    return tmp_path


def said(folder: Path, *words: str) -> Spoken:
    return spoken("--db", "arc.db", "golden", *words, cwd=folder)


def refused(folder: Path, *words: str) -> str:
    done = said(folder, *words)
    assert (done.code, done.out) == (2, ""), done
    return done.err


def test_from_a_failed_run_to_a_set_that_is_checked(folder: Path) -> None:
    done = said(folder, "add", FAILED, LOOP)
    assert done.code == 0, done.err
    assert "added: task many-wishes · golden/many-wishes.toml" in done.out
    assert "check: rule absent: loop [finding at step 2]" in done.out
    assert "its own run does not meet the checks; outcome failed" in done.out
    listed = said(folder, "list")
    assert listed.out.splitlines()[0].split("\t")[:2] == ["task", "class"]
    assert [line.split("\t")[0] for line in listed.out.splitlines()[1:]] == [
        "many-wishes", "warranty",
    ]  # fmt: skip
    checked = said(folder, "check")
    assert "advice: size: 2 tasks, under 30" in checked.out
    assert "many-wishes · stale prompt: prompt of run" in checked.out  # v8 came after v5
    assert checked.code == 1


def test_json_says_the_same(folder: Path) -> None:
    added = json.loads(said(folder, "add", LOOP, "--json").out)
    assert added["added"][0]["task"]["check"] == [{"kind": "rule", "absent": "loop"}]
    assert added["added"][0]["met"] is False
    listed = json.loads(said(folder, "list", "--json").out)
    assert listed[0]["row"]["id"] == listed[0]["task"]["id"] == "warranty"
    checked = json.loads(said(folder, "check", "--json").out)
    assert checked["golden"] == added["golden"]
    removed = json.loads(said(folder, "rm", "warranty", "--because", "x", "--json").out)
    assert removed["removed"] == "warranty"
    assert removed["golden"].startswith("2 ")


def test_a_hand_edit_is_a_problem_until_it_is_accepted(folder: Path) -> None:
    said(folder, "add", LOOP)
    file = folder / "golden" / "warranty.toml"
    file.write_text(file.read_text().replace("k = 4", "k = 8"))
    done = said(folder, "check")
    assert done.code == 1
    assert "warranty · edited: edited by hand since version 1" in done.out
    assert "is not as it was frozen" in refused(folder, "add", FAILED)
    assert "is not as it was frozen" in refused(folder, "export", "--pytest", "-o", "out")
    assert "--because" in refused(folder, "check", "--accept", "warranty")
    done = said(folder, "check", "--accept", "warranty", "--because", "more trials")
    assert done.code == 0, done.out
    assert done.out.startswith("golden set version 2")


def test_removing_needs_a_reason_which_stays(folder: Path) -> None:
    said(folder, "add", LOOP)
    assert "--because" in refused(folder, "rm", "warranty")
    assert "did you mean warranty?" in refused(folder, "rm", "guarantee", "--because", "x")
    assert said(folder, "rm", "warranty", "--because", "sold the shop").code == 0
    assert 'because = "sold the shop"' in (folder / "golden" / "manifest.toml").read_text()
    assert said(folder, "list").err == "No golden tasks yet. Try: arc golden add RUN\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "nosuch"), "no trace 'nosuch'"),
        (("add", LOOP, LOOP), "task 'warranty' is in the set since version 1"),
        (("add", FAILED, PASSED), "no check can be prefilled"),
        (("add", LOOP, FAILED, "--id", "x"), "--id, --text and --step are of one run"),
        (("add", LOOP, "--check", "vibes:good"), "kind unknown"),
        (("add", LOOP, "--check", "regex:("), "is not a regular expression"),
        (("add", LOOP, "--check", "predicate:colour=red"), "unknown field 'colour'"),
        (("add", LOOP, "-k", "0"), "0 is not in the range"),
        (("add", LOOP, "--dir", "arc.db"), "is a file"),
        (("check",), "golden: no golden set there"),
        (("list", "--dir", "elsewhere"), "elsewhere: no golden set there"),
        (("export", "-o", "x"), "one of --inspect, --promptfoo, --pytest"),
        (("export", "--pytest", "-o", "x"), "no golden set there"),
        (("rm", "x", "--because", "y"), "no golden set there"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    folder: Path, words: tuple[str, ...], why: str
) -> None:
    assert why in refused(folder, *words)
    assert not (folder / "golden").exists()


def test_a_broken_set_is_named_by_every_command(folder: Path) -> None:
    said(folder, "add", LOOP)
    (folder / "golden" / "warranty.toml").write_text("<<<<<<< ours\nk = 1\n")
    for words in (
        ("check",), ("list",), ("add", FAILED), ("rm", "warranty", "--because", "x"),
        ("export", "--pytest", "-o", "out"),
    ):  # fmt: skip
        assert "warranty.toml: line 1: has the marks of a merge conflict" in refused(folder, *words)


# --- exports


PROGRAMS = sorted((Path(export.__file__).parent / "programs").iterdir())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_exported_programs_are_python_without_arc(program: Path) -> None:
    tree = ast.parse(program.read_text())
    named = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert not named & {"arc_tui", "taxonomy", "replay", "msgspec"}


@pytest.mark.parametrize("tool", ["inspect", "promptfoo", "pytest"])
def test_an_export_is_whole_and_replaces_only_its_own(folder: Path, tool: str) -> None:
    said(folder, "add", LOOP, "--check", "contains:warranty", "--check", "judge:Is it {{x}}?")
    done = said(folder, "export", f"--{tool}", "-o", "out")
    assert done.code == 0, done.err
    for file in (folder / "out").glob("*.py"):
        compile(file.read_text(), file.name, "exec")
    kept = json.loads((folder / "out" / "tasks.json").read_text())
    assert golden_of({"arc.golden": kept["golden"]}) is not None
    (task,) = kept["tasks"]
    assert (task["k"], len(task["checks"]), len(task["tools"])) == (4, 2, 10)
    assert ("judge item: pytest has no model-graded scorer" in done.err) is (tool == "pytest")
    assert said(folder, "export", f"--{tool}", "-o", "out").code == 0
    for file in (folder / "out").iterdir():
        file.unlink()
    (folder / "out" / "golden_grader.py").write_text("mine = True\n")
    assert "is there, and of no export" in refused(folder, "export", f"--{tool}", "-o", "out")
    assert (folder / "out" / "golden_grader.py").read_text() == "mine = True\n"


def test_a_promptfoo_test_a_trial_whose_texts_are_no_templates(folder: Path) -> None:
    said(folder, "add", LOOP, "-k", "3", "--id", "{{ 7*7 }}", "--check", "judge:Is {{x}} so?",
         "--check", "contains:a")  # fmt: skip
    said(folder, "export", "--promptfoo", "-o", "out")
    config = json.loads((folder / "out" / "promptfooconfig.json").read_text())
    assert [each["vars"]["trial"] for each in config["tests"]] == [1, 2, 3]
    kinds = [each["type"] for each in config["tests"][0]["assert"]]
    assert kinds == ["python", "llm-rubric"]
    assert config["tests"][0]["assert"][1]["value"] == "Is {{'{'}}{{'{'}}x}} so?"
    assert "{{ 7" not in json.dumps(config)


def test_what_promptfoo_cannot_grade_is_left_out_and_said(folder: Path) -> None:
    said(folder, "add", LOOP)
    assert "promptfoo can grade no task of the set" in refused(
        folder, "export", "--promptfoo", "-o", "out"
    )
    said(folder, "add", FAILED, "--check", "contains:refund")
    done = said(folder, "export", "--promptfoo", "-o", "out")
    assert "task warranty: rule 'loop' absent: only arc runs its rules; the task is left out" in (
        done.err
    )
    assert len(json.loads((folder / "out" / "promptfooconfig.json").read_text())["tests"]) == 4


def test_inspect_has_a_task_for_each_number_of_trials(folder: Path) -> None:
    said(folder, "add", LOOP, "-k", "1")
    said(folder, "add", FAILED, "-k", "8", "--check", "contains:x")
    said(folder, "export", "--inspect", "-o", "out")
    tree = ast.parse((folder / "out" / "golden_tasks.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [name for name in names if name.startswith("golden_") and name[-1].isdigit()] == [
        "golden_1", "golden_8",
    ]  # fmt: skip


@pytest.mark.process
def test_pytest_runs_an_export_and_its_runs_come_back(tmp_path: Path) -> None:
    golden_exports.by_pytest(golden_exports.make_set(tmp_path), tmp_path)


OWN_AGENT = """
def run(task):
    assert task["text"] and task["tools"] and "system" in task
    calls = [{"tool": "get_product", "arguments": {}, "failed": False}]
    return {"calls": calls, "answer": "The warranty is two years."}
"""


@pytest.mark.process
def test_an_export_runs_an_agent_of_one_s_own(folder: Path) -> None:
    said(folder, "add", LOOP, "-k", "2", "--check", "predicate:tool=get_product",
         "--check", "contains:two years")  # fmt: skip
    said(folder, "add", FAILED, "-k", "1", "--check", "contains:refunded")
    said(folder, "export", "--pytest", "-o", "out")
    (folder / "shop.py").write_text(OWN_AGENT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "out"]
    environment = {**os.environ, "GOLDEN_AGENT": "shop:run"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "contains not met: refunded" in done.stdout
    assert not (folder / "out" / "runs").exists()


def test_a_set_of_no_tasks_is_not_exported(folder: Path) -> None:
    said(folder, "add", LOOP)
    said(folder, "rm", "warranty", "--because", "x")
    assert "has no tasks" in refused(folder, "export", "--pytest", "-o", "out")
    with pytest.raises(BadGolden):
        export_set(read_set(folder / "golden"), "promptfoo", folder / "out")
