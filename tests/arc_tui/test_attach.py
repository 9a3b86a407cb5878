"""`arc attach`: what is offered for a run, what is accepted and why, what is refused in a sentence;
the same box on screen, and in the refusal of a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_tui.attachment import record_command
from arc_tui.experiments.dialogs import AttachBox
from arc_tui.features.replay.screen import ReplayScreen
from replay.store import read
from replay.store.handle import Store
from replay.trace import Level
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import opening
from tests.arc_tui.test_every_screen import by_key
from tests.build import call, step
from tests.replay.test_offers import PARTS, SYSTEM, TOOLS, VERSION, put
from tests.screen import settle
from tests.screen import text as drawn
from tests.spoken import spoken


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


@pytest.fixture
def runs(db: Path) -> tuple[str, str, str]:
    """A run that has all, one of its client and version that has nothing, and a stranger."""
    with open_ledger(db) as store:
        whole = put(store, "whole", system=SYSTEM, tools=TOOLS, title="Hello", **VERSION)
        bare = put(store, "bare", title="Refund 1049", **VERSION)
        stranger = put(store, "stranger", format="chat", title="List files",
                       parts=[step(call("ls", "a.py", path="."))])  # fmt: skip
    return whole, bare, stranger


def attached(db: Path, *words: str) -> tuple[int, str, str]:
    """The exit code, output and error of the command."""
    said = spoken("--db", str(db), "attach", *words, cwd=db.parent)
    return said.code, said.out, said.err


def in_json(db: Path, *words: str) -> Any:
    return json.loads(attached(db, *words, "--json")[1])


def level(db: Path, trace: str) -> Level:
    with Store.open(db) as store:
        return read.load(store, trace).steps[0].ask.fidelity.level


def test_without_options_the_offers_are_listed_with_the_command_for_each(
    db: Path, runs: tuple[str, str, str]
) -> None:
    whole, bare, _ = runs
    code, out, _ = attached(db, bare)
    assert (code, out.splitlines()) == (0, [
        f"{bare[:8]}  Refund 1049: system prompt not recorded and tool definitions not recorded"
        " (3 of 3 steps)",
        f"1. a system prompt of {len(SYSTEM)} characters, 2 tools of run {whole[:8]} (Hello)",
        "     same client and version: claude-code 2.0.14",
        "     tools it calls: 2 of 2 are there",
        "     arguments it gives: 3 of 3 are in the schemas",
        f"   Try: arc attach {bare[:8]} --from {whole[:8]}",
        "2. 2 tools (inferred)",
        "     inferred from 4 calls of 2 runs of claude-code 2.0.14",
        "     names of tools and arguments only, no descriptions",
        f"   Try: arc attach {bare[:8]} --infer-tools",
        "The next run, recorded whole: arc record -- claude",
    ])  # fmt: skip
    (found,) = in_json(db, bare)
    assert [each["match"] for each in found["offers"]] == ["client", "inferred"]
    accepted = found["offers"][0]["command"].split()[2:]
    assert attached(db, *accepted)[0] == 0
    assert level(db, bare) is Level.SUPPLIED
    assert attached(db, bare)[1] == f"{bare[:8]}  Refund 1049: nothing is missing\n"


def test_the_best_offer_of_each_run_is_accepted_in_one_go_and_why_is_said(
    db: Path, runs: tuple[str, str, str]
) -> None:
    whole, bare, stranger = runs
    code, out, _ = attached(db, "steps>0", "--best")
    assert code == 0
    assert (
        f"{bare[:8]}  Refund 1049: a system prompt, 2 tools of run {whole[:8]}"
        " · same client and version: claude-code 2.0.14" in out
    )
    assert f"{whole[:8]}  Hello: nothing is missing" in out
    assert f"{stranger[:8]}  List files: only inferred tools: add --infer-tools" in out
    assert (level(db, bare), level(db, stranger)) == (Level.SUPPLIED, Level.PARTIAL)
    done = {each["trace"]: each for each in in_json(db, "steps>0", "--best", "--infer-tools")}
    assert done[stranger]["what"] == "1 tool (inferred)"
    assert done[stranger]["evidence"][0] == "inferred from 1 call of this run"
    assert attached(db, "steps>0", "--best")[0] == 1, "nothing is left to attach"


def test_an_offer_that_something_speaks_against_is_left_to_a_person(
    db: Path, runs: tuple[str, str, str]
) -> None:
    with open_ledger(db) as store:
        more = (*PARTS, step(call("get_user", "Ann", user_id="7")))
        doubtful = put(store, "doubtful", parts=more, title="Doubt", **VERSION)
    code, out, _ = attached(db, doubtful, "--best")
    assert code == 1
    assert "Doubt: not accepted: a system prompt" in out
    assert "but not there, but called: get_user. Try: arc attach" in out
    assert level(db, doubtful) is Level.PARTIAL


def test_several_runs_are_a_list_of_the_best_offers(db: Path, runs: tuple[str, str, str]) -> None:
    code, out, err = attached(db, "steps>0")
    assert code == 0
    assert "same client and version: claude-code 2.0.14" in out
    assert err == "2 of 3 runs with offers. Try: arc attach 'steps>0' --best\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch",), "no trace 'nosuch'"),
        (("{bare}", "--from", "nosuch"), "no trace 'nosuch'"),
        (("{bare}", "--from", "{stranger}"), "no system prompt or tools in trace"),
        (("{bare}", "--best", "--from", "{whole}"), "--best chooses itself"),
        (("{bare}", "--tools", "{other}"), "has none of the tools that the run calls"),
        (("{bare}", "--tools", "{broken}"), "is not JSON"),
        (("{bare}", "--tools", "{object}"), "is not a JSON list of tools"),
        (("{bare}", "--system", "{nowhere}"), "does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_attaches_nothing(
    db: Path, runs: tuple[str, str, str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    whole, bare, stranger = runs
    named = {"whole": whole, "bare": bare, "stranger": stranger}
    for name, body in (("other", '[{"name": "ls"}]'), ("broken", "["), ("object", "{}")):
        (tmp_path / f"{name}.json").write_text(body)
        named[name] = str(tmp_path / f"{name}.json")
    named["nowhere"] = str(tmp_path / "nowhere.md")
    code, out, err = attached(db, *(word.format(**named) for word in words))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) <= 4
    assert level(db, bare) is Level.PARTIAL


def test_tools_that_lack_one_that_is_called_are_attached_and_that_is_said(
    db: Path, runs: tuple[str, str, str], tmp_path: Path
) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "get_order"}]')
    code, out, _ = attached(db, runs[1], "--tools", str(tmp_path / "tools.json"))
    assert (code, "1 tool · but not there, but called: refund_order" in out) == (0, True)


def test_what_a_run_has_is_no_help_where_it_lacks_the_other_half(
    db: Path, runs: tuple[str, str, str]
) -> None:
    with open_ledger(db) as store:
        half = put(store, "half", system=SYSTEM, format="chat", title="Half")
        prompt = put(store, "prompt", system=SYSTEM, format="chat", title="Prompt only")
    code, out, _ = attached(db, half, "--from", prompt)
    assert (code, out) == (1, f"{half[:8]}  Half: nothing of what it lacks is given\n")


def test_a_refusal_names_the_best_offer_and_how_to_record_the_next_run(
    db: Path, runs: tuple[str, str, str], tmp_path: Path
) -> None:
    whole, bare, _ = runs
    result = spoken("--db", str(db), "replay", bare, "--model", "demo", cwd=tmp_path)
    said = result.err
    assert result.code == 2
    assert f"Try: arc attach {bare[:8]} --from {whole[:8]} (a system prompt of" in said
    assert "same client and version: claude-code 2.0.14), for this run" in said
    assert "arc record -- claude, for the next one" in said


@pytest.mark.parametrize(
    ("agent", "format", "command"),
    [
        ("claude-code", "claude-code", "arc record -- claude"),
        ("codex", "codex", 'arc record -- codex exec "…"'),
        (None, "openai-agents", "arc record -- python agent.py"),
        ("shop", "chat", "arc record -- COMMAND"),
        ("gemini-cli", "gemini-cli", None),
    ],
)
def test_the_next_run_is_recorded_by_the_command_of_its_client(
    agent: str | None, format: str, command: str | None
) -> None:
    assert record_command(agent, format) == command


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_one_key_accepts_an_offer(
    db: Path, runs: tuple[str, str, str], size: tuple[int, int]
) -> None:
    _, bare, _ = runs
    async with opening.opened(ReplayScreen(db, bare, 0), size=size) as pilot:
        await settle(pilot)
        assert isinstance(pilot.app.screen, AttachBox)
        assert "2 tools  run" in drawn(pilot.app)
        assert "same client and version: claude-code 2.0.14" in drawn(pilot.app)
        assert "esc cancel" in drawn(pilot.app)
        await by_key(pilot, "ask.choose")
        await settle(pilot)
        assert not isinstance(pilot.app.screen, AttachBox)
    assert level(db, bare) is Level.SUPPLIED
