"""A golden set as files that Inspect, promptfoo and pytest run, without `arc`.

Each export carries the tasks as JSON and a copy of the grader. Where no agent of the user's is
named, the pinned prompt and tools are used, and recorded results answer the calls: no tool of an
agent is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from replay import written
from replay.trace import Json
from taxonomy.golden import grader
from taxonomy.golden.changes import write_files
from taxonomy.golden.checks import check_value
from taxonomy.golden.sets import BadGolden, GoldenSet, GoldenTask, JudgeCheck, RuleCheck

INSPECT_TASK = '''

@task
def golden_{k}():
    """The tasks that are run {times}."""
    return _golden({k})
'''


def _program(name: str) -> str:
    """A program as it is exported. It is a text here: it runs without `arc`, beside other tools."""
    return written.from_file(Path(__file__).parent / "programs" / f"{name}.txt")


class Exported(Struct, frozen=True, kw_only=True):
    """What was written: for how many tasks, in which files, what the tool cannot express, and the
    commands that come next."""

    golden: str
    tasks: int
    files: tuple[str, ...]
    unexpressed: tuple[str, ...]
    next: tuple[str, ...]


def export_set(found: GoldenSet, tool: str, output: Path) -> Exported:
    """Write a set for a tool. Raises BadGolden where files that are not an export's are there."""
    unexpressed = tuple(_limits_of(found, tool))
    tasks = [task for task in found.tasks if tool != "promptfoo" or not _has_rule(task)]
    if not tasks:
        why = f": {unexpressed[0]}" if unexpressed else " of none"
        raise BadGolden(f"{tool} can grade no task of the set{why}")
    values = [_task_value(found, task) for task in tasks]
    texts = {
        "tasks.json": json.dumps(
            {"golden": found.golden.stamp, "tasks": values}, indent=1, ensure_ascii=False
        ),
        "golden_grader.py": written.from_file(Path(grader.__file__)),
        **_files(found, tool, values),
    }
    _refuse_others(output, texts)
    write_files(output, texts)
    return Exported(
        golden=found.golden.stamp,
        tasks=len(tasks),
        files=tuple(texts),
        unexpressed=unexpressed,
        next=_next(tool, output),
    )


def _files(found: GoldenSet, tool: str, values: list[dict[str, Json]]) -> dict[str, str]:
    if tool == "inspect":
        counts = sorted({value["k"] for value in values})
        made = [INSPECT_TASK.format(k=k, times="once" if k == 1 else f"{k} times") for k in counts]
        return {"golden_tasks.py": _program("golden_tasks") + "".join(made)}
    if tool == "pytest":
        return {
            "golden_agent.py": _program("golden_agent"),
            "test_golden.py": _program("test_golden"),
        }
    return {
        "golden_agent.py": _program("golden_agent"),
        "golden_provider.py": _program("golden_provider"),
        "golden_assert.py": _program("golden_assert"),
        "promptfooconfig.json": json.dumps(_promptfoo(found, values), indent=1, ensure_ascii=False),
    }


def _next(tool: str, output: Path) -> tuple[str, ...]:
    match tool:
        case "inspect":
            return (
                f"cd {output} && inspect eval golden_tasks.py --model MODEL --log-dir logs",
                f"arc import {output}/logs",
            )
        case "promptfoo":
            run = f"promptfoo eval --no-cache -c {output / 'promptfooconfig.json'}"
        case _:
            run = f"pytest {output}"
    return f"GOLDEN_MODEL=MODEL {run}", f"arc import {output}/runs"


def _task_value(found: GoldenSet, task: GoldenTask) -> dict[str, Json]:
    pinned = [
        found.pinned_text(digest, suffix)
        for digest, suffix in (
            (task.pin.prompt, ".txt"),
            (task.pin.tools, ".tools.json"),
            (task.pin.results, ".results.json"),
        )
    ]
    system, tools, results = pinned
    return {
        "id": task.id,
        "task": task.task,
        "unique": sum(each.task == task.task for each in found.tasks) == 1,
        "text": task.text,
        "then": list(task.then),
        "k": task.k,
        "checks": [check_value(check) for check in task.check],
        "system": system,
        "tools": None if tools is None else json.loads(tools),
        "results": [] if results is None else json.loads(results),
    }


def _promptfoo(found: GoldenSet, values: list[dict[str, Json]]) -> dict[str, Json]:
    tests = []
    for number, value in enumerate(values):
        grades = any(check["kind"] != "judge" for check in value["checks"])
        asserts = [{"type": "python", "value": "file://golden_assert.py"}] if grades else []
        asserts += [
            {"type": "llm-rubric", "value": _literal(check["item"])}
            for check in value["checks"]
            if check["kind"] == "judge"
        ]
        tests += [
            {
                "description": _literal(f"{value['id']} · trial {trial}"),
                "vars": {"number": number, "trial": trial},
                "metadata": {"arc.golden": found.golden.stamp, "task": _literal(value["id"])},
                "assert": asserts,
            }
            for trial in range(1, value["k"] + 1)
        ]
    return {
        "description": f"golden set {found.golden.stamp}",
        "prompts": ["task {{number}}, trial {{trial}}"],
        "providers": [{"id": "file://golden_provider.py", "label": "golden agent"}],
        "tests": tests,
    }


def _literal(text: str) -> str:
    """A text that promptfoo's templates leave as it is."""
    return text.replace("{", "{{'{'}}")


def _has_rule(task: GoldenTask) -> bool:
    return any(isinstance(check, RuleCheck) for check in task.check)


def _limits_of(found: GoldenSet, tool: str) -> Iterator[str]:
    for task in found.tasks:
        for check in task.check:
            if isinstance(check, RuleCheck):
                done = "left out" if tool == "promptfoo" else "run, and not graded"
                yield (
                    f"task {task.id}: rule '{check.absent}' absent: only arc runs its rules;"
                    f" the task is {done}. Try: arc golden list, once its runs are imported"
                )
            elif isinstance(check, JudgeCheck) and tool == "pytest":
                yield (
                    f"task {task.id}: judge item: pytest has no model-graded scorer; the test is"
                    " skipped where the other checks are met"
                )
        if task.pin.tools is None:
            yield (
                f"task {task.id}: its tools were not recorded; name an agent of yours"
                f" ({'--solver' if tool == 'inspect' else 'GOLDEN_AGENT'})"
            )


def _refuse_others(output: Path, texts: dict[str, str]) -> None:
    """Files of an earlier export are replaced, files of others are not."""
    try:
        marked = '"golden": "' in (output / "tasks.json").read_text("utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        marked = False
    for name in texts:
        if not marked and (output / name).exists():
            raise BadGolden(
                f"{output / name}: is there, and of no export", "Try: another -o folder"
            )
