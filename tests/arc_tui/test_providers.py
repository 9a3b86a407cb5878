"""Every command that asks a model, with models behind OpenAI's two APIs; their keys, their package,
their sections of the settings."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from arc_tui.config import BadConfig, read_config
from arc_tui.experiments.models import configured_words
from arc_tui.features.replay.screen import ReplayScreen
from replay.doctor.assumptions import OPENAI_ASSUMPTIONS
from replay.store.handle import Store
from replay.trace import Message, Outcome, Request
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.test_judging_pairs import put_trial
from tests.arc_tui.test_unfinished import COMMANDS, ended
from tests.messages_api import Body
from tests.messages_api.batches import Fate
from tests.openai_servers import Call, Fault, OpenaiApi, Said, said
from tests.replay.live_case import MODEL, clean_environment
from tests.replay.locked_case import TOOLS, spans, stored
from tests.screen import press, rows, settle

CHAT, RESPONSES = "openai:gpt-4o", "openai-responses:gpt-5"
LIMIT = ("--live", "--max-calls", "200")
NOWHERE = "http://arc.invalid:9/v1"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path / "settings"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def openai_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenaiApi]:
    with OpenaiApi(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.base_url}/v1")
        yield running


def answer(body: Body) -> Said:
    """A score where a form is asked for, else a call of the first tool, else a text."""
    form = body.get("response_format") or (body.get("text") or {}).get("format")
    if form is not None:
        return said('{"score": 1, "cites": [], "rationale": "ok"}')
    tools = body.get("tools") or []
    if not tools or len(body.get("messages") or body["input"]) > 6:
        return said("Done.")
    name = tools[0].get("function", tools[0])["name"]
    return said("", Call(name=name, arguments="{}"))


@pytest.mark.pilot
@pytest.mark.parametrize("model", [CHAT, RESPONSES], ids=["chat", "responses"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_asks_models_of_openais_apis(
    db: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str], command: str, model: str
) -> None:
    words = [model if each == MODEL else each for each in COMMANDS[command]]
    ended(db, *words, "--model", model, *LIMIT)
    shown = "".join(capsys.readouterr())
    assert openai_api.answered, shown
    assert openai_api.asked == len(openai_api.answered), "nothing was refused"
    before = openai_api.asked
    ended(db, *words, "--model", model, "--json")
    assert openai_api.asked == before


def recorded_run(db: Path, model: str = "gpt-4o") -> str:
    head = Message(dialect="openai", body={"role": "system", "content": "You help."})
    with open_ledger(db) as store:
        return stored(store, spans(asking=Request(model=model, system=head, tools=TOOLS),
                                   model=model)).id  # fmt: skip


@pytest.mark.pilot
def test_the_model_that_made_the_run_is_asked_unless_another_is_named(
    tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "arc.db"
    recorded_run(db)
    assert ended(db, "replay", "last", *LIMIT, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert openai_api.answered
    assert shown["model"] in {"gpt-4o", CHAT}


def test_a_missing_key_is_one_sentence_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", NOWHERE)
    db = tmp_path / "arc.db"
    recorded_run(db)
    assert ended(db, "replay", "last", *LIMIT) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.strip() for line in err.splitlines()] == [
        "arc: no key for the Chat Completions API",
        "Try: set OPENAI_API_KEY, or OPENAI_BASE_URL to a local server",
    ]


def test_a_missing_package_is_one_sentence_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "replay.models.openai.find_spec", lambda name: None if name == "openai" else real(name)
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    db = tmp_path / "arc.db"
    recorded_run(db)
    assert ended(db, "replay", "last", *LIMIT) == 2
    assert [line.strip() for line in capsys.readouterr().err.splitlines()] == [
        "arc: OpenAI's APIs need the package openai, which is not installed",
        "Try: pip install 'arc-tui[openai]'",
    ]


def test_the_provider_names_platforms_whose_settings_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    db = tmp_path / "arc.db"
    recorded_run(db)
    for model, lacks in (
        ("bedrock:anthropic.claude-x", "AWS_REGION or AWS_DEFAULT_REGION is not set"),
        ("vertex:claude-x", "CLOUD_ML_REGION is not set"),
        ("azure:gpt-4o", "AZURE_OPENAI_ENDPOINT is not set"),
    ):
        assert ended(db, "replay", "last", "--model", model, *LIMIT) == 2
        assert lacks in capsys.readouterr().err.splitlines()[0]


def test_a_batch_is_refused_in_a_sentence(
    tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "arc.db"
    recorded_run(db)
    ended(db, "replay", "last", "--schedule", "batch", *LIMIT)
    shown = "".join(capsys.readouterr())
    assert "openai:gpt-4o does not accept batches" in shown
    assert "`batches = true`" in shown
    assert not openai_api.received


BATCHED = ("replay", "try", "probe", "judge")


@pytest.mark.pilot
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("command", BATCHED)
def test_commands_send_batches_where_the_server_takes_them(
    db: Path, tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str],
    command: str, api: str,
) -> None:  # fmt: skip
    openai_api.batches.fate = Fate(polls=0)
    settings(
        tmp_path,
        f'[models.mine]\nmodel = "gpt-4o"\nbase_url = "{openai_api.base_url}/v1"\n'
        f'api = "{api}"\nbatches = true\n',
    )
    words = (*COMMANDS[command], "--schedule", "batch", "--model", "mine")
    ended(db, *words, *LIMIT)
    shown = "".join(capsys.readouterr())
    assert openai_api.answered, shown
    assert all(each.batch for each in openai_api.answered), "half the price"
    assert openai_api.asked == 0
    before = len(openai_api.received)
    ended(db, *words, "--json")
    assert len(openai_api.received) == before, "cached"


JUDGED = {"steps": (), "samples": ("-k", "2"), "classes": ("--classify",), "pairs": ("--pair",)}


@pytest.mark.pilot
@pytest.mark.parametrize("question", JUDGED)
def test_a_judge_asks_about_all_runs_in_one_batch_and_anew_in_another(
    tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    openai_api.batches.fate = Fate(polls=0)
    db = tmp_path / "arc.db"
    runs = [put_trial(db, "shop", trial, 7, Outcome(status="failed")) for trial in (0, 1)]
    settings(
        tmp_path,
        f'[models.mine]\nmodel = "gpt-4o"\nbase_url = "{openai_api.base_url}/v1"\n'
        "batches = true\nprices = {input = 1.0, output = 2.0}\n",
    )
    words = ("judge", *runs, *JUDGED[question], "--schedule", "batch", "--model", "mine", "--json")
    ended(db, *words, "--estimate")
    half = json.loads(capsys.readouterr().out)["usd"]
    ended(db, *words[:-1], "--schedule", "fast", "--json", "--estimate")
    assert json.loads(capsys.readouterr().out)["usd"] == pytest.approx(half * 2)
    for times in (1, 2):
        ended(db, *words, *LIMIT, "--no-cache")
        shown = json.loads(capsys.readouterr().out)
        views = shown if isinstance(shown, list) else [shown]
        sent = [each for each in openai_api.received if each.method == "POST"]
        assert sum(each.path == "/v1/batches" for each in sent) == times
        assert len(openai_api.answered) == times * sum(each["calls"] for each in views)
    assert openai_api.asked == 0


# --- the settings


def settings(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "settings"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)


@pytest.mark.slow
def test_a_model_of_the_settings_is_asked_by_its_name(
    tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings(
        tmp_path,
        f'[models.mine]\nmodel = "qwen3:8b"\nbase_url = "{openai_api.base_url}/v1"\n'
        'key_env = "MY_KEY"\nprices = {input = 1.0, output = 2.0}\n',
    )
    monkeypatch.delenv("OPENAI_BASE_URL")
    db = tmp_path / "arc.db"
    recorded_run(db)
    assert ended(db, "replay", "last", "--model", "mine", "--live", "--budget", "1") == 0
    assert {each.model for each in openai_api.answered} == {"qwen3:8b"}
    shown = "".join(capsys.readouterr())
    assert "price unknown" not in shown
    assert ended(db, "config") == 0
    assert f"openai:qwen3:8b at {openai_api.base_url}/v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        (
            '[models.x]\nprovider = "opnai"',
            "[models.x] provider: 'opnai' is none of anthropic, openai",
        ),
        (
            '[models.x]\nbase_ur = "http://localhost"',
            "unknown key 'models.x.base_ur', did you mean",
        ),
        ('[models.x]\nbase_url = "localhost:80"', "[models.x] base_url: not a server address"),
        (
            '[models.x]\nprovider = "vertex"\napi = "chat"',
            "[models.x] api: only the providers openai and azure have several",
        ),
        (
            '[models.x]\napi_version = "2024-10-21"',
            "[models.x] api_version: only the provider azure has versions",
        ),
        (
            '[models.x]\nprovider = "anthropic"\nbatches = true',
            "[models.x] batches: only a server of the provider openai",
        ),
        (
            "[models.x.prices]\ninput = -1.0\noutput = 1.0",
            "[models.x.prices]: a price is USD of a",
        ),
        ("[models.x.prices]\ninput = 1.0", "missing required field `output`"),
        ('[models]\nx = "gpt-4o"', "Expected `object`, got `str`"),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(tmp_path: Path, text: str, said_: str) -> None:
    settings(tmp_path, text)
    with pytest.raises(BadConfig) as error:
        read_config()
    assert said_ in error.value.message


# --- the app


@pytest.mark.pilot
async def test_the_app_says_whose_key_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", NOWHERE)
    db = tmp_path / "arc.db"
    key = recorded_run(db)
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        app.push_screen(ReplayScreen(db, key, 0))
        await settle(pilot)
        assert any("no key for the Chat Completions API" in line for line in rows(app)[:4])


@pytest.mark.pilot
async def test_the_app_offers_the_models_of_the_settings(tmp_path: Path) -> None:
    settings(
        tmp_path,
        '[models.local]\nmodel = "qwen3:8b"\nbase_url = "http://localhost:9/v1"\n'
        '[models.work]\nprovider = "azure"\nmodel = "gpt-4o-eu"\n'
        'base_url = "https://work.openai.azure.com"\n',
    )
    db = tmp_path / "arc.db"
    key = recorded_run(db)
    app = ArcApp(db)
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ReplayScreen(db, key, 0))
        await settle(pilot)
        await press(pilot, "f3")
        shown = "\n".join(rows(app))
        assert "local  openai:qwen3:8b at http://localhost:9/v1" in shown
        assert "work  azure:gpt-4o-eu at https://work.openai.azure.com" in shown
        await press(pilot, "3")
        assert "calls to work, at" in " ".join(rows(app)[:3])
        assert "no version of its API given. Try: set OPENAI_API_VERSION" in " ".join(
            line.strip() for line in rows(app)[:6]
        )
    settings(tmp_path, "[models.local")
    assert configured_words() == []


@pytest.mark.slow
def test_stored_answers_of_one_server_are_not_those_of_another(
    tmp_path: Path, openai_api: OpenaiApi, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    db = tmp_path / "arc.db"
    recorded_run(db)
    assert ended(db, "replay", "last", *LIMIT) == 0
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    capsys.readouterr()
    assert ended(db, "replay", "last") == 2
    said_ = capsys.readouterr().err
    assert f"a cached response of {openai_api.base_url}/v1 exists" in said_
    assert "Try: set OPENAI_BASE_URL to it" in said_
    with Store.open(db) as store:
        places = store.db.execute("SELECT DISTINCT server FROM answer").fetchall()
    assert places == [(f"{openai_api.base_url}/v1",)]


# --- the check-up


def checked(body: Body) -> Said:
    """A model that does what a check-up takes for granted."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        return said("", Call(name="read_gauge", arguments='{"gauge": "A"}'), reasoning="I look.")
    form = body.get("response_format") or (body.get("text") or {}).get("format")
    return said('{"well": true}' if form is not None else "All is well.")


@pytest.mark.parametrize(
    ("model", "back"),
    [
        (CHAT, "unclear"),
        ("openai:gpt-5", "unclear"),
        ("openai-responses:gpt-4.1", "unclear"),
        ("openai-responses:gpt-5", "holds"),
    ],
)
def test_a_check_up_tries_what_replay_assumes_of_openais_apis(
    db: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str], model: str, back: str
) -> None:
    openai_api.policy = checked
    assert ended(db, "doctor", "--live", "--model", model, "--max-calls", "30", "--json") == 0
    report = json.loads(capsys.readouterr().out)["report"]
    outcomes = {each["id"]: each["outcome"] for each in report["results"]}
    untried = {each.id for each in OPENAI_ASSUMPTIONS if each.untried is not None}
    assert {name for name, outcome in outcomes.items() if outcome is None} == untried
    assert (outcomes.pop("reasoning_back"), outcomes.pop("batch")) == (back, "unclear")
    assert {outcome for name, outcome in outcomes.items() if name not in untried} == {"holds"}
    assert (report["model"], report["server"]) == (model, f"{openai_api.base_url}/v1")
    assert ended(db, "doctor", "--markdown", "--model", model) == 0
    assert "openai 3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_check_up_tries_a_batch_where_a_server_is_said_to_take_them(
    db: Path, tmp_path: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_api.policy = checked
    settings(
        tmp_path,
        f'[models.mine]\nmodel = "gpt-4o"\nbase_url = "{openai_api.base_url}/v1"\nbatches = true\n',
    )
    words = ("doctor", "--live", "--model", "mine", "--max-calls", "30", "--json")
    for fault, code, said_ in (
        (None, 0, "accepted, `in_progress` when retrieved, then cancelling"),
        (Fault(status=404, path="/v1/files"), 1, "does not accept batches"),
        (Fault(status=404, path="/v1/batches/.*"), 1, "accepted, but not retrieved by its id"),
    ):
        openai_api.fault(*[fault] if fault is not None else [])
        assert ended(db, *words) == code
        results = json.loads(capsys.readouterr().out)["report"]["results"]
        (found,) = [each for each in results if each["id"] == "batch"]
        assert said_ in found["finding"]


@pytest.mark.parametrize("model", ["azure:gpt-4o", "azure-responses:gpt-4o"])
def test_a_check_up_tries_azure(
    db: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, model: str,
) -> None:  # fmt: skip
    openai_api.policy = checked
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", openai_api.base_url)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert ended(db, "doctor", "--live", "--model", model, "--max-calls", "30", "--json") == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert {each["outcome"] for each in report["results"]} == {None, "unclear", "holds"}
    assert (report["model"], report["server"]) == (model, openai_api.base_url)
    assert {each.path.split("/")[1] for each in openai_api.received} == {"openai"}
    assert ended(db, "config") == 0
    assert "OPENAI_API_VERSION" in capsys.readouterr().out


def test_a_check_up_says_what_does_not_hold(
    db: Path, openai_api: OpenaiApi, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_api.policy = lambda _: said("Whatever.")
    assert ended(db, "doctor", "--live", "--model", CHAT, "--max-calls", "30", "--json") == 1
    results = json.loads(capsys.readouterr().out)["report"]["results"]
    failed = {each["id"]: each["finding"] for each in results if each["outcome"] == "fails"}
    assert failed == {
        "forced_choice": "accepted, but the tool was not called",
        "answer_form": "accepted, but the answer does not follow it",
    }
