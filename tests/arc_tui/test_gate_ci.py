"""The CI action and the hook of docs/guide/gate.md, run as a runner and pre-commit run them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from arc_tui.places import fixtures
from tests.arc_tui.test_gate_command import checked_junit

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "gate.md"
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.process


def block(name: str) -> list[str]:
    """The lines of the YAML block that begins with `# NAME`."""
    found = re.search(rf"^```yaml\n# {re.escape(name)}\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    assert found is not None, name
    return found[1].splitlines()


class Step(NamedTuple):
    """A step of an action: its variables, as they are written, and what its shell runs."""

    name: str
    env: dict[str, str]
    run: str


def steps(lines: list[str]) -> Iterator[Step]:
    """The steps of the action; of YAML only what the page uses is read, the rest is refused."""
    start = next(at for at, line in enumerate(lines) if line == "  steps:") + 1
    starts = [at for at in range(start, len(lines)) if lines[at].startswith("    - ")]
    for first, last in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, env, run = lines[first].removeprefix("    - name: "), dict[str, str](), ""
        at = first + 1
        while at < last:
            line = lines[at]
            inside = list(_deeper(lines[at + 1 : last], 8))
            match line.strip():
                case "shell: bash":
                    pass
                case "env:":
                    env = dict(each.strip().split(": ", 1) for each in inside)
                    at += len(inside)
                case "run: |":
                    run = "\n".join(each[8:] for each in inside) + "\n"
                    at += len(inside)
                case one if one.startswith("run: "):
                    run = one.removeprefix("run: ") + "\n"
                case other:
                    raise AssertionError(f"not read: {other}")
            at += 1
        yield Step(name, env, run)


def _deeper(lines: list[str], indent: int) -> Iterator[str]:
    for line in lines:
        if not line.startswith(" " * indent):
            return
        yield line


def run_action(folder: Path, inputs: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The steps as a runner calls them, until one fails; arc is installed already."""
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    values["runner.temp"] = str(folder)
    done = subprocess.CompletedProcess[str]([], 0, "", "")
    for step in steps(block(".github/actions/arc-gate/action.yml")):
        assert "${{" not in step.run, "an input would become text of the script"
        if step.run == "pip install arc-tui\n":
            continue
        env = {
            name: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values[found[1]], value)
            for name, value in step.env.items()
        }
        script = folder / "step.sh"
        script.write_text(step.run)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=folder, capture_output=True, text=True, timeout=120,
            env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), **env,
                 "GITHUB_STEP_SUMMARY": str(folder / "summary.md")},
        )  # fmt: skip
        if done.returncode:
            break
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with the runs of two versions of the prompt."""
    for version in ("v6", "v8"):
        (tmp_path / "runs" / version).mkdir(parents=True)
        for each in (fixtures() / "traces").glob(f"*-{version}-*.jsonl"):
            shutil.copy(each, tmp_path / "runs" / version)
    return tmp_path


def inputs(**more: str) -> dict[str, str]:
    return {
        "runs": "runs/v8\nruns/v6\n", "baseline": "variant=v8", "candidate": "variant=v6",
        "options": "",
    } | more  # fmt: skip


def test_the_action_fails_the_job_and_writes_the_summary(folder: Path) -> None:
    done = run_action(folder, inputs())
    assert done.returncode == 1, done.stderr
    assert (folder / "summary.md").read_text().startswith("### arc gate: regression\n")
    checked_junit((folder / "arc-gate.xml").read_bytes())


def test_the_action_passes_a_change_that_shows_no_regression(folder: Path) -> None:
    done = run_action(folder, inputs(baseline="variant=v6", candidate="variant=v8"))
    assert done.returncode == 0, done.stderr
    assert "### arc gate: no regression shown" in (folder / "summary.md").read_text()


def test_options_reach_the_gate_and_too_little_power_fails_the_job(folder: Path) -> None:
    swapped = inputs(baseline="variant=v6", candidate="variant=v8")
    done = run_action(folder, {**swapped, "options": "--require-power .10 --strict"})
    assert done.returncode == 2, done.stderr
    assert "too little power" in (folder / "summary.md").read_text()


def test_a_query_is_no_part_of_the_script(folder: Path) -> None:
    hostile = inputs(candidate='variant=v6"; touch "$HOME/owned"; echo "$(touch owned2)')
    done = run_action(folder, hostile)
    assert done.returncode == 2
    assert not [*folder.glob("owned*")]


def test_a_gate_that_cannot_be_answered_fails_the_job_with_one_sentence(folder: Path) -> None:
    done = run_action(folder, inputs(candidate="variant=none"))
    assert done.returncode == 2
    assert "no run matches 'variant=none'" in done.stderr
    assert not (folder / "summary.md").exists()


# --- the hook


def hook() -> dict[str, str]:
    """The keys of the only hook."""
    lines = block(".pre-commit-config.yaml")
    return dict(line.strip().removeprefix("- ").split(": ", 1) for line in lines if ": " in line)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a prompt, its runs in the database, and the hook."""
    (tmp_path / "prompts").mkdir()
    shutil.copy(fixtures() / "demo/prompts/v8.md", tmp_path / "prompts/support.md")
    (tmp_path / ".pre-commit-config.yaml").write_text(
        "\n".join(block(".pre-commit-config.yaml")) + "\n"
    )
    traces = [str(each) for each in (fixtures() / "traces").glob("*-v8-*.jsonl")]
    assert call(tmp_path, "arc", "import", *traces).returncode == 0
    return tmp_path


def call(folder: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{BIN}:{path}{os.environ['PATH']}", "HOME": str(folder),
           "ARC_DB": str(folder / "arc.db"), "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
           "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}  # fmt: skip
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_the_hook_blocks_a_prompt_that_acts_otherwise_and_lets_one_pass(repository: Path) -> None:
    known = hook()
    assert known["language"] == "system"
    assert known["pass_filenames"] == "false"
    assert re.fullmatch(known["files"], "prompts/support.md")
    shutil.copy(fixtures() / "demo/prompts/v5.md", repository / "prompts/support.md")
    blocked = call(repository, *shlex.split(known["entry"]))
    assert blocked.returncode == 1, blocked.stderr
    assert blocked.stdout.startswith("Acts otherwise at healthy steps")
    shutil.copy(fixtures() / "demo/prompts/v7.md", repository / "prompts/support.md")
    assert call(repository, *shlex.split(known["entry"])).returncode == 0


@pytest.mark.skipif(not os.environ.get("FULL"), reason="FULL=1 installs pre-commit")
def test_pre_commit_itself_runs_the_hook(repository: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    pip = [str(tools / "bin/pip"), "install", "-q", "pre-commit>=4"]
    subprocess.run(pip, check=True, timeout=300)
    path = f"{tools / 'bin'}:"
    for words in (("init", "-q"), ("add", "prompts", ".pre-commit-config.yaml"),
                  ("commit", "-qm", "before")):  # fmt: skip
        assert call(repository, "git", *words).returncode == 0
    assert call(repository, "pre-commit", "install", path=path).returncode == 0
    shutil.copy(fixtures() / "demo/prompts/v5.md", repository / "prompts/support.md")
    refused = call(repository, "git", "commit", "-qam", "a prompt that refuses", path=path)
    assert refused.returncode == 1, refused.stderr
    assert "Acts otherwise at healthy steps" in refused.stderr + refused.stdout
    shutil.copy(fixtures() / "demo/prompts/v7.md", repository / "prompts/support.md")
    assert call(repository, "git", "commit", "-qam", "another", path=path).returncode == 0
