"""What each command prints of the bundled runs, word for word, and the code it leaves with.

`ARC_UPDATE_GOLDENS=1 pytest tests/arc_tui/test_command_goldens.py` writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from arc_tui.places import fixtures
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import FEW, TOUR, put_bundled
from tests.screen import GOLDENS
from tests.spoken import command_at, every_command, spoken

PROMPTS = fixtures() / "demo/prompts"
V4, V5 = (str(PROMPTS / f"{name}.md") for name in ("v4", "v5"))
ASK = ("--expect", "tool=get_order")

ON_RUNS = {
    "ls": ("ls",),
    "ls_json": ("ls", "outcome:failed", "--json"),
    "ls_none": ("ls", "outcome:failed", "cost>100"),
    "ls_matrix": ("ls", "--matrix"),
    "ls_matrix_json": ("ls", "variant:v5", "--matrix", "--json"),
    "search": ("search", "order"),
    "search_json": ("search", "order", "--json", "--limit", "2"),
    "show": ("show", TOUR),
    "show_json": ("show", TOUR, "--json"),
    "show_step": ("show", TOUR, "1"),
    "show_step_json": ("show", TOUR, "1", "--json"),
    "brief": ("brief", TOUR),
    "brief_md": ("brief", TOUR, "--md"),
    "diagnose": ("diagnose", TOUR),
    "diagnose_json": ("diagnose", TOUR, "--json"),
    "diagnose_passed": ("diagnose", FEW[1]),
    "compare": ("compare", FEW[0], FEW[1]),
    "compare_json": ("compare", FEW[0], FEW[1], "--json"),
    "cost": ("cost", TOUR),
    "cost_json": ("cost", TOUR, "--json"),
    "tag_add": ("tag", "add", TOUR, "1", "wrong_tool"),
    "tag_list": ("tag", "list"),
    "tag_list_json": ("tag", "list", "--json"),
    "audit": ("audit",),
    "audit_json": ("audit", "--probe", "faithfulness", "--json"),
    "failures": ("failures",),
    "failures_json": ("failures", "--json"),
    "stats": ("stats",),
    "stats_json": ("stats", "--json"),
    "drift": ("drift", "variant=v8", "variant=v5"),
    "gate_nothing": ("gate", "--baseline", "variant=v8", "--candidate", "variant=v5"),
    "edit_list": ("edit", "list"),
    "replay": ("replay", TOUR, "--system", V4, "-k", "3"),
    "replay_json": ("replay", TOUR, "--system", V4, "-k", "3", "--json"),
    "replay_estimate": ("replay", TOUR, "--system", V4, "--model", "claude-opus-4-8", "--estimate"),
    "replay_free": ("replay", TOUR, "--free", "--system", V4),
    "replay_free_json": ("replay", TOUR, "--free", "--system", V4, "--json"),
    "bisect": ("bisect", "versions", TOUR, V4, V5, *ASK),
    "bisect_json": ("bisect", "versions", TOUR, V4, V5, *ASK, "--json"),
    "bisect_steps": ("bisect", "steps", TOUR),
    "bisect_steps_json": ("bisect", "steps", TOUR, "--json"),
    "bisect_steps_confirm": ("bisect", "steps", TOUR, "--confirm"),
    "try": ("try", V4, "--on", "variant:v5", "-k", "2", "--healthy-steps", "2"),
    "try_json": ("try", V4, "--on", "variant:v5", "-k", "2", "--healthy-steps", "2", "--json"),
    "suggest": ("suggest", TOUR, "-k", "2", "--healthy-steps", "2"),
    "suggest_json": ("suggest", TOUR, "-k", "2", "--healthy-steps", "2", "--edits", "1", "--json"),
    "probe": ("experiment", "probe", TOUR, "--probe", "constraint"),
    "probe_json": ("experiment", "probe", TOUR, "--probe", "constraint", "--json"),
    "inject": ("experiment", "inject-error", TOUR, "-k", "4"),
    "inject_json": ("experiment", "inject-error", TOUR, "-k", "4", "--json"),
    "calibrate": ("calibrate",),
    "verify": ("db", "verify"),
    "verify_json": ("db", "verify", "--json"),
    "db_prune": ("db", "prune", "--older", "0d"),
    "formats": ("import", "--list-formats"),
    "help_query": ("help", "query"),
    "no_such_run": ("show", "nosuch"),
    "no_such_step": ("show", TOUR, "99"),
    "no_such_command": ("bisct",),
    "no_such_field": ("ls", "colour:red"),
    "no_key": ("replay", TOUR, "--system", V4, "--live", "--model", "claude-opus-4-8",
               "--max-calls", "3"),
}  # fmt: skip
"""Each on a copy of its own."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands") / "arc.db"
    put_bundled(path, *FEW)
    return path


@pytest.mark.parametrize("name", ON_RUNS)
@pytest.mark.slow
def test_a_command_prints_what_it_printed(name: str, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "arc.db").write_bytes(runs.read_bytes())
    same_as_before(name, *ON_RUNS[name], folder=tmp_path)


@pytest.mark.parametrize("command", [*map(" ".join, every_command())])
def test_the_help_of_a_command_is_what_it_was(command: str, tmp_path: Path) -> None:
    command_at(command.split())  # as if no test had called it
    same_as_before(f"help_{command.replace(' ', '_')}", *command.split(), "--help", folder=tmp_path)


def test_no_golden_is_left_of_a_command_that_is_gone() -> None:
    helps = {f"help_{'_'.join(words)}" for words in every_command()}
    assert {path.stem for path in (GOLDENS / "commands").iterdir()} == {*ON_RUNS, *helps, "schema"}


def test_the_schema_is_what_it_was(tmp_path: Path) -> None:
    """Every table, index, view and trigger of a new database."""
    with open_ledger(tmp_path / "arc.db") as store:
        made = store.db.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
        ).fetchall()
    check("schema", "\n\n".join(sql for (sql,) in made) + "\n")


def same_as_before(name: str, *words: str, folder: Path) -> None:
    said = spoken(
        *words, cwd=folder, ARC_DB="arc.db", ARC_CONFIG_DIR=str(folder), COLUMNS="100",
        ANTHROPIC_API_KEY="",
    )  # fmt: skip
    parts = (f"exit code {said.code}\n", said.out, f"--- stderr\n{said.err}" if said.err else "")
    check(name, _anywhere("".join(parts), folder))


def _anywhere(text: str, folder: Path) -> str:
    """Without what differs from one machine, or one day, to another."""
    for place, name in ((fixtures(), "FIXTURES"), (folder, "FOLDER"), (Path.home(), "HOME")):
        text = text.replace(str(place), name)
    text = re.sub(r"(?m)^20\d\d-\d\d-\d\d (?=\|)", "TODAY ", text)  # of the log of probes
    return re.sub(r'("\w+_ns": )1[78]\d{17}', r"\1NOW", text)


def check(name: str, text: str) -> None:
    path = GOLDENS / "commands" / f"{name}.txt"
    if os.environ.get("ARC_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
