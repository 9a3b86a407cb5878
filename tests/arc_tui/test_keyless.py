"""Without a key one sentence comes first, in every command and in the app; what is stored needs
none."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from arc_tui.features.replay.screen import ReplayScreen
from replay.models import protocol
from replay.store.handle import Store
from replay.trace import NO_SYSTEM, NO_TOOLS, Fidelity, Level
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.test_unfinished import COMMANDS, LIVE, ended
from tests.messages_api import Body, MessagesApi, message, text, tool_use
from tests.replay.live_case import MODEL, clean_environment
from tests.replay.locked_case import request, spans, stored
from tests.screen import rows, settle

NOWHERE = "http://arc.invalid:9"
"""A server that is not on this machine, and that nobody could ever reach."""

SENTENCE = "arc: no key for the Messages API"
ALLOWED = (*LIVE, "--max-calls", "99")


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.delenv("ANTHROPIC_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv(protocol.SERVER_VARIABLE, NOWHERE)


@pytest.mark.usefixtures("keyless")
@pytest.mark.parametrize("command", [*COMMANDS, "free --expect", "doctor"])
def test_a_missing_key_is_the_first_thing_that_is_said(
    db: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = COMMANDS.get(command, ("doctor",))
    code = 2
    if command == "free --expect":
        words, code = (*COMMANDS["free replay"], "--expect", "tool=get_order"), 128
    assert ended(db, *words, *ALLOWED) == code
    out, err = capsys.readouterr()
    assert out == ""
    first, hint = err.splitlines()
    assert first.startswith(SENTENCE)
    assert "ANTHROPIC_API_KEY" in hint


@pytest.mark.slow
@pytest.mark.parametrize("command", ["replay", "free replay", "bisect", "bisect of steps", "judge"])
def test_what_is_stored_needs_no_key(
    db: Path, api: MessagesApi, request: pytest.FixtureRequest, command: str
) -> None:
    policy = api.policy

    def judged(body: Body) -> Body:
        scored = message(text('{"score": 1, "cites": [], "rationale": "ok"}'), model=body["model"])
        return scored if "output_config" in body else policy(body)

    api.policy = judged
    words = (*COMMANDS[command], *ALLOWED)
    code = ended(db, *words)
    with Store.open(db) as store:
        store.db.execute("UPDATE answer SET server = ?", (protocol.name(NOWHERE),))
    request.getfixturevalue("keyless")
    assert ended(db, *words) == code


@pytest.mark.usefixtures("keyless")
@pytest.mark.pilot
async def test_the_app_says_it_before_it_asks_what_a_replay_may_cost(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    with open_ledger(db) as store:
        key = stored(store, spans(asking=request(model=MODEL), model=MODEL)).id
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = ReplayScreen(db, key, 0)
        app.push_screen(screen)
        await settle(pilot)
        assert any("no key for the Messages API" in line for line in rows(app)[:4])
        await pilot.press("f5")
        await settle(pilot)
        assert app.screen is screen, "nothing is asked of the person"
        assert "No key for the Messages API." in rows(app)[0]
        assert screen.state.view.calls == 0


# --- what was not recorded


@pytest.mark.pilot
async def test_a_session_without_prompt_and_tools_says_what_is_missing_and_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "arc.db"
    lacks = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
    said = (
        ("user", "Refund my orders"),
        ("assistant", [tool_use("get_order", order_id=7)]),
        ("result", '{"status": "shipped"}'),
        ("assistant", "Done."),
    )
    with open_ledger(db) as store:
        stored(store, spans(said, asking=request(system=None, tools=None), fidelity=lacks))
    assert ended(db, "replay", "last") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "arc: Cannot replay: system prompt not recorded, tool definitions not recorded"
    )
    assert "arc attach" in lines[1]
    assert "arc record" in lines[1]
    assert ended(db, "replay", "last", "--estimate") == 0
    assert capsys.readouterr().out == "0 calls: no request can be made\n"
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("enter", "e"):
            await settle(pilot)
            await pilot.press(key)
        await settle(pilot)
        sentence, ways, *_ = rows(app)
    assert "Cannot replay: system prompt not recorded, tool definitions not recorded." in sentence
    assert "f8 attach 1 tool inferred from 1 call of this run" in ways
    assert "arc record" in ways
