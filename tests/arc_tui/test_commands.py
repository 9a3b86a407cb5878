"""The commands as a user types them, on the bundled runs and on files of every kind."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.cli import drain_import
from arc_tui.commands import cli
from arc_tui.places import fixtures
from arc_tui.ui.tables import csv_cell
from replay.errors import ModelRefused
from replay.models.demo import Demo
from taxonomy.judgements.schema import open_ledger
from tests.messages_api import MessagesApi
from tests.replay.test_formats import CHAT
from tests.spoken import command_at, every_command, installed, on_a_terminal, spoken

TOUR = "shop-many-wishes-v5-0"
RUNS = (TOUR, "shop-many-wishes-v8-0", "shop-warranty-v3-0", "shop-stock-v4-0", "shop-compare-v8-0")


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with some of the bundled runs, made once."""
    path = tmp_path_factory.mktemp("db") / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in RUNS]
        for _ in importing.import_paths(store, files):
            pass
    return path


@pytest.fixture
def db(bundled: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy


def run(path: Path, *arguments: str, given: str | None = None) -> Result:
    result = CliRunner().invoke(
        cli, ["--db", str(path), *arguments], input=given, standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result


def as_json(path: Path, *arguments: str) -> Any:
    return json.loads(run(path, *arguments, "--json").stdout)


def test_ls_lists_runs_with_what_looks_wrong(db: Path) -> None:
    rows = {row["source_id"]: row for row in as_json(db, "ls")}
    assert set(rows) == set(RUNS)
    assert rows[TOUR]["outcome"] == "failed"
    assert rows[TOUR]["why_step"] == 4
    head, *lines = (
        line.split("\t") for line in run(db, "ls", "outcome:failed").stdout.splitlines()
    )
    assert head[0] == "id"
    assert {line[head.index("outcome")] for line in lines} == {"failed"}


def test_an_id_is_whole_in_a_narrow_terminal(db: Path, tmp_path: Path) -> None:
    words = ("--db", str(db), "ls")
    said = on_a_terminal(*words, cwd=tmp_path, COLUMNS="40", TERM="xterm", NO_COLOR="1")
    ids = {row["trace"][:8] for row in as_json(db, "ls")}
    assert all(each in said.out for each in ids)
    assert "…" in said.out


def test_show_prints_the_tree_and_a_step_in_full(db: Path) -> None:
    text = run(db, "show", TOUR).stdout
    assert "   4 refund_order 1039" in text
    assert "candidate: step 4" in text
    step = as_json(db, "show", TOUR, "4")
    assert step["observations"][0]["call"]["name"] == "refund_order"
    assert step["fidelity"] == "exact"
    assert "refund_order" in run(db, "show", TOUR, "4").stdout


def test_a_printed_step_has_commands_where_the_app_has_keys(db: Path) -> None:
    key = as_json(db, "ls", TOUR)[0]["trace"]
    at_break, elsewhere = run(db, "show", TOUR, "4").stdout, run(db, "show", TOUR, "0").stdout
    assert f"  probes   Try: arc --db {db} experiment probe {key[:8]} --step 4\n" in at_break
    one = f"Try: arc --db {db} experiment probe {key} --probe summary --step 4\n"
    assert f"capability gap?   22 calls, free. {one}" in at_break
    here = f"No findings.   Try: arc --db {db} show {key[:8]} 4\n"
    assert here in elsewhere
    assert "‹" not in at_break + elsewhere


def test_a_sub_agent_nests_below_the_call_that_asked_for_it(db: Path) -> None:
    lines = run(db, "show", "shop-compare-v8-0").stdout.splitlines()
    asked = next(n for n, line in enumerate(lines) if "ask_researcher" in line)
    inside = lines[asked + 1]
    assert len(inside) - len(inside.lstrip()) > len(lines[asked]) - len(lines[asked].lstrip())


def test_break_says_where_and_shows_the_published_rule_beside(db: Path) -> None:
    view = as_json(db, "diagnose", TOUR)
    assert view["candidates"][0]["step"] == 4
    assert view["published"] == 4
    assert run(db, "diagnose", TOUR).return_value == 0
    heuristic = run(db, "diagnose", TOUR, "--rule", "arc").stdout
    assert heuristic.startswith("baseline heuristic: step 4")
    assert "No break candidates." in run(db, "diagnose", "shop-compare-v8-0").stdout


def test_brief_fits_and_ends_with_the_next_commands(db: Path) -> None:
    text = run(db, "brief", TOUR).stdout
    assert text == run(db, "brief", TOUR).stdout
    assert len(text) / 3.5 <= 1500
    assert f"arc replay {as_json(db, 'ls', TOUR)[0]['trace'][:8]}" in text


def test_a_tag_is_kept_counted_and_taken_back(db: Path) -> None:
    run(db, "tag", "add", TOUR, "4", "h", "--note", "the sum was never read")
    (row,) = [row for row in as_json(db, "tag", "list", "many-wishes") if row["accepted"]]
    assert (row["class"], row["step"], row["place"]) == ("hallucinated state", 4, 1)
    counted = as_json(db, "failures")
    assert {"label": "hallucinated state", "tagged": 1} in [
        {"label": bar["label"], "tagged": bar["tagged"]} for bar in counted["bars"]
    ]
    assert "█" in run(db, "failures").stdout
    assert run(db, "tag", "rm", TOUR, "4", "h").return_value == 0
    assert not [row for row in as_json(db, "tag", "list") if row["accepted"]]


PROMPT = str(fixtures() / "demo" / "prompts" / "v4.md")


@pytest.mark.slow
def test_replay_tries_a_prompt_and_the_second_time_asks_nothing(db: Path) -> None:
    first = as_json(db, "replay", TOUR, "--system", PROMPT)
    again = as_json(db, "replay", TOUR, "--system", PROMPT)
    verdict = first["verdict"]
    assert verdict["edited_diverges"] == 4
    assert "first diverges at step 4: refund_order → get_order" in verdict["sentence"]
    assert (
        "failure (hallucinated state, by rule) in 0/8 edited, 8/8 control (p < .001)"
        in verdict["sentence"]
    )
    assert verdict["at_break_test"] == {
        "detector": "hallucinated state, by rule",
        "control": 8,
        "control_n": 8,
        "edited": 0,
        "edited_n": 8,
    }
    assert first["calls"] >= 8 * 2 * 3
    assert (again["calls"], again["cached"]) == (0, first["calls"] + first["cached"])
    assert first["digest"] == again["digest"]
    assert run(db, "replay", TOUR, "--system", PROMPT).return_value == 0
    assert run(db, "replay", TOUR, "--system", PROMPT, "--exit-code").return_value == 1


def test_one_sample_is_a_look_and_says_so(db: Path) -> None:
    result = run(db, "replay", TOUR, "--system", PROMPT, "-k", "1")
    assert "1 sample: not conclusive." in result.stdout
    assert "16 calls · 0 cached" in result.stdout


@pytest.mark.slow
def test_replay_takes_several_edits_beside_one_control(db: Path) -> None:
    other = str(Path(PROMPT).with_name("v6.md"))
    words = ("replay", TOUR, "--arm", PROMPT, "--arm", other, "-k", "1")
    view = as_json(db, *words)
    arms = [view, *view["others"]]
    assert [arm["edit"] for arm in arms] == ["v4", "v6"]
    assert len({arm["digest"] for arm in arms}) == 2
    alone = as_json(db, "replay", TOUR, "--system", other, "-k", "1")
    assert alone["digest"] == arms[1]["digest"]
    assert alone["calls"] == 0
    said = run(db, *words).stdout
    assert "control" in said
    assert "v4" in said
    assert "digest of v6" in said
    table = list(csv.DictReader(io.StringIO(run(db, *words, "--csv").stdout)))
    steps = len(view["rows"])
    assert [row["arm"] for row in table] == ["control", "v4", "v6"] * steps
    assert {row["samples"] for row in table} == {"1"}


def test_a_recorded_text_is_no_formula_in_csv(db: Path) -> None:
    assert csv_cell("=1+1") == "'=1+1"
    assert csv_cell("get_order()") == "get_order()"
    assert csv_cell(None) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arm", "nope.md"), "no file and no saved edit 'nope.md'"),
        (("--arm", PROMPT, "--arm", PROMPT), "two arms are the same edit: 'v4' and 'v4'"),
        (("--arm", PROMPT, "--model", "gpt-5", "--model", "demo"), "arm gpt-5, step 0: no cached"),
        (("--arm", PROMPT, "--arm", PROMPT, "--free"), "two arms are the same edit"),
        (("--csv", "--free"), "leave --expect and --free out"),
        (("--csv", "--json"), "--csv or --json, not both"),
    ],
)
def test_arms_that_cannot_be_are_one_sentence(db: Path, words: tuple[str, ...], said: str) -> None:
    found = spoken("--db", str(db), "replay", TOUR, "-k", "1", *words, cwd=db.parent)
    assert said in found.err
    assert found.code == 2


def test_replay_without_an_edit_is_the_control_arm_alone(db: Path) -> None:
    result = run(db, "replay", TOUR, "-k", "1")
    assert result.return_value == 0
    assert "Control matches 8 of 8 steps" in result.stdout


def test_sampling_afresh_asks_again_and_keeps_both(db: Path) -> None:
    words = ("replay", TOUR, "-k", "1")
    first = as_json(db, *words)
    fresh = as_json(db, *words, "--no-cache")
    assert (first["range"], fresh["range"]) == (0, 1)
    assert fresh["calls"] == 8
    assert as_json(db, *words)["digest"] == first["digest"] != fresh["digest"]


def test_a_rule_of_comparing_is_the_users_and_stands_with_the_verdict(db: Path) -> None:
    words = ("replay", TOUR, "--system", PROMPT, "-k", "1")
    rule = ("--compare", "refund_order.amount=ignore")
    assert as_json(db, *words)["digest"] != as_json(db, *words, *rule)["digest"]
    assert "refund_order.amount" in run(db, *words, *rule).stdout
    wrong = ("--compare", "refund_order.amount=ignor")
    said = spoken("--db", str(db), *words, *wrong, cwd=db.parent)
    assert (said.code, "'ignore'" in said.err) == (2, True)


def test_a_kept_edit_is_listed_printed_and_used_again_by_its_name(db: Path) -> None:
    first = as_json(db, "replay", TOUR, "--system", PROMPT, "-k", "1")
    assert [(edit["name"], edit["replays"]) for edit in as_json(db, "edit", "list")] == [("v4", 1)]
    again = as_json(db, "replay", TOUR, "--edit", "v4", "-k", "1")
    assert (again["calls"], again["digest"]) == (0, first["digest"])
    assert "set_system" in run(db, "edit", "show", "v4").stdout
    said = spoken("--db", str(db), "replay", TOUR, "--edit", "v5", cwd=db.parent)
    assert (said.code, "no edit 'v5'" in said.err) == (2, True)


@pytest.mark.slow
def test_a_bundle_is_the_same_elsewhere(db: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "case.zip")
    first = as_json(db, "replay", TOUR, "--system", PROMPT, "--bundle", file)
    elsewhere = tmp_path / "elsewhere.db"
    verified = as_json(elsewhere, "bundle", "verify", file)
    assert (verified["same"], verified["digest"]) == (True, first["digest"])
    assert not elsewhere.exists()


@pytest.mark.slow
def test_an_edit_file_changes_a_tool_description(db: Path) -> None:
    edit = str(fixtures() / "demo" / "edits" / "sharper-stock.toml")
    view = as_json(db, "replay", "shop-stock-v4-0", "--edit", edit)
    assert view["verdict"]["edited_diverges"] == 1
    assert view["rows"][1]["edited"]["answers"][0]["phrase"].startswith("check_stock")


def test_verify_is_clean_on_what_was_imported(db: Path) -> None:
    assert as_json(db, "db", "verify") == {"traces": len(RUNS), "findings": []}


def test_attach_completes_what_a_source_did_not_record(db: Path, tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT[1:]))
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Be kind.")
    run(db, "import", str(chat))
    assert as_json(db, "show", "last", "0")["fidelity"] == "partial"
    out = run(db, "attach", "last", "--system", str(prompt), "--infer-tools").stdout
    assert "a system prompt, 1 tool (inferred)" in out
    step = as_json(db, "show", "last", "0")
    assert step["system"] == "Be kind."
    assert step["tools"] == ["get"]
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "get"}, {"name": "put"}]))
    run(db, "attach", "last", "--tools", str(tmp_path / "tools.json"))
    step = as_json(db, "show", "last", "0")
    assert (step["system"], step["tools"]) == ("Be kind.", ["get", "put"])


def test_what_was_recorded_is_not_attached_over_and_that_is_said(db: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Be kind.")
    result = run(db, "attach", TOUR, "--system", str(tmp_path / "prompt.md"))
    assert (result.return_value, "nothing to add" in result.stdout) == (1, True)
    assert as_json(db, "show", TOUR, "0")["fidelity"] == "exact"


def test_a_prompt_that_is_no_text_is_a_sentence(db: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_bytes(b"\xff\xfe")
    said = spoken("--db", str(db), "attach", TOUR, "--system", "prompt.md", cwd=tmp_path)
    assert (said.code, "byte 1 is not UTF-8" in said.err) == (2, True)


def test_import_reports_bad_files_and_still_imports_the_good(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.json").write_text(json.dumps(CHAT))
    (folder / "broken.json").write_text(json.dumps(CHAT)[:-30])
    (folder / "notes.md").write_text("# nothing to import")
    result = run(tmp_path / "arc.db", "import", str(folder))
    assert result.return_value == 2
    assert "1 trace from 2 files (chat) · 1 file skipped" in result.stdout
    assert result.stderr.count("broken.json") == 1
    assert "it is truncated" in result.stderr


def test_import_sums_up_and_lists_files_where_asked(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(CHAT))
    bundled = str(fixtures() / "traces" / f"{TOUR}.jsonl")
    told = run(tmp_path / "arc.db", "import", str(folder), bundled).stdout
    assert told == "2 traces from 2 files (1 arc, 1 chat) · 1 problem (-v lists them)\n"
    told = run(tmp_path / "arc.db", "import", str(folder), "-v").stdout
    first, *problems, last = told.splitlines()
    assert first == f"{folder / 'a.json'}  chat: 1 trace, 2 steps, 6 spans, 1 already imported"
    assert last == "1 trace from 1 file (chat) · 1 already imported · 1 problem (-v lists them)"
    assert len(problems) == 1


def test_a_run_is_found_by_the_end_of_its_path_wherever_it_was_imported_from(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_text(json.dumps(CHAT))
    assert (
        spoken("import", "a.json", cwd=tmp_path / "logs", ARC_DB=str(tmp_path / "x.db")).code == 0
    )
    (row,) = as_json(tmp_path / "x.db", "ls", "path:logs/a.json")
    assert row["path"] == str(tmp_path / "logs" / "a.json")


def test_what_is_said_of_a_bad_file_tells_no_secret_of_it(tmp_path: Path) -> None:
    key = "sk-ant-" + "k9" * 12
    header = {"format": "arc", "source_id": "x", "outcome": {"status": key}}
    said = {"kind": "trace", "format": "arc/1", "header": header}
    (tmp_path / "bad.jsonl").write_text(json.dumps(said))
    result = run(tmp_path / "arc.db", "import", str(tmp_path / "bad.jsonl"))
    assert result.return_value == 2
    assert "[[SECRET:anthropic_key:" in result.stderr
    assert key not in result.stderr


BAD: dict[str, bytes] = {
    "empty": b"",
    "binary": b"\x00\x01" * 500,
    "wrong": b"just some text",
    "truncated": json.dumps(CHAT).encode()[:-40],
}


@pytest.mark.parametrize("kind", BAD)
def test_a_named_file_that_is_bad_is_one_line_and_exit_2(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"{kind}.json").write_bytes(BAD[kind])
    result = run(tmp_path / "arc.db", "import", str(tmp_path / f"{kind}.json"))
    assert result.return_value == 2
    assert result.stderr.count("\n") == 1
    assert f"{kind}.json" in result.stderr


def test_importing_again_changes_nothing(db: Path) -> None:
    before = as_json(db, "ls")
    file = fixtures() / "traces" / f"{TOUR}.jsonl"
    assert "1 already imported" in run(db, "import", str(file)).stdout
    assert as_json(db, "ls") == before


def test_a_word_that_is_nothing_gets_a_hint(tmp_path: Path) -> None:
    said = installed("replya", cwd=tmp_path)
    assert said.code == 2
    assert said.out == ""
    assert "Did you mean `arc replay`?" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nothing"], "No runs yet. Try: arc import PATH"),
        (["import", "absent.json"], "absent.json: cannot be read: no such file"),
        (["import", "--format", "xml", "x"], "unknown format 'xml'"),
        (["tag", "add", "last", "0", "sloop"], "no trace 'last'"),
        (["open", "x"], "the app needs a terminal"),
        (["ls", "--nope"], "No such option"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_2(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    said = spoken(*arguments, cwd=tmp_path)
    assert (said.code, words in said.err) == (2, True), said.err
    assert "Traceback" not in said.err


def test_a_trace_of_another_model_is_refused_by_the_demo_and_missing_offline(
    db: Path, tmp_path: Path
) -> None:
    (tmp_path / "chat.json").write_text(
        json.dumps({"messages": CHAT, "model": "gpt-4o", "tools": [{"name": "get"}]})
    )
    run(db, "import", str(tmp_path / "chat.json"))
    said = spoken("--db", str(db), "replay", "last", cwd=tmp_path)
    assert said.code == 2
    assert "Try: --live --budget" in said.err
    demo = spoken("--db", str(db), "replay", "last", "--model", "demo", cwd=tmp_path)
    assert demo.code == 2
    assert "the demo model answers only with a shop's tools" in demo.err


@pytest.mark.process
def test_the_demo_runs_without_a_terminal_key_or_network(tmp_path: Path) -> None:
    said = installed("demo", "--headless", cwd=tmp_path)
    assert said.code == 0, said.err
    assert "first diverges at step 4" in said.out
    assert "demo, rule-based" in said.out


@pytest.mark.process
def test_the_demo_leaves_a_database_of_other_runs_alone(tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps({"messages": CHAT}))
    assert installed("--db", str(own), "import", str(chat), cwd=tmp_path).code == 0
    before = own.read_bytes()
    reset = installed("demo", "--reset", "--headless", cwd=tmp_path, ARC_DB=str(own))
    assert (reset.code, own.read_bytes() == before) == (0, True)
    named = installed("demo", "--reset", "--headless", "--db", str(own), cwd=tmp_path)
    assert named.code == 2
    assert "it contains 1 run that is not the demo's" in named.err
    assert own.read_bytes() == before


@pytest.mark.process
def test_an_empty_database_is_filled_with_the_demo(tmp_path: Path) -> None:
    db = str(tmp_path / "empty.db")
    assert installed("ls", "--db", db, cwd=tmp_path).code in (0, 1)
    said = installed("demo", "--headless", "--db", db, cwd=tmp_path)
    assert (said.code, "first diverges at step 4" in said.out) == (0, True)
    again = installed("demo", "--reset", "--headless", "--db", db, cwd=tmp_path)
    assert (again.code, again.out) == (0, said.out)


def test_an_import_on_a_terminal_says_how_many_runs_have_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    reading = importing.Progress(done=0, total=1, path="/logs/\x1bairline.jsonl", traces=1140)
    ruling = importing.Progress(done=7, total=1140, path=importing.DIAGNOSIS, traces=7)
    drain_import(iter([reading]))
    assert "␛airline.jsonl · 1 140 traces" in capsys.readouterr().err
    drain_import(iter([ruling]))
    said = capsys.readouterr().err
    assert "diagnosis" in said
    assert "7/1140" in said
    assert "traces" not in said


OBEYED = set("\x1b\x07\u202e")
HOSTILE = "\x1b[31mred\x1b]8;;http://x\x07link\x1b]52;c;aGk=\x07\u202egnp.exe [bold]x[/bold]"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    chat = [
        {"role": "user", "content": HOSTILE},
        {
            "role": "assistant",
            "content": HOSTILE,
            "tool_calls": [
                {
                    "id": HOSTILE,
                    "function": {"name": HOSTILE, "arguments": json.dumps({HOSTILE: HOSTILE})},
                }
            ],
        },
        {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE},
        {"role": "assistant", "content": HOSTILE},
    ]
    whole = {"messages": chat, "model": HOSTILE, "tools": [{"name": HOSTILE}]}
    (tmp_path / "h.json").write_text(json.dumps(whole))
    imported = run(tmp_path / "arc.db", "import", str(tmp_path / "h.json")).stdout
    assert not OBEYED & set(imported)
    with open_ledger(tmp_path / "arc.db") as store:
        store.db.execute("UPDATE trace SET outcome = 'failed'")
    run(tmp_path / "arc.db", "tag", "add", "last", "0", "o", "--sub", HOSTILE, "--note", HOSTILE)
    return tmp_path / "arc.db"


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls"],
        ["show", "last"],
        ["show", "last", "0"],
        ["brief", "last"],
        ["tag", "list"],
        ["diagnose", "last"],
        ["failures", "--by", "model"],
        ["failures", "--by", "tool"],
        ["replay", "last", "--model", "demo"],
        ["attach", "last", "--infer-tools"],
        ["db", "verify"],
    ],
)
def test_escape_sequences_in_a_trace_never_reach_the_terminal(
    arguments: list[str], hostile: Path
) -> None:
    result = CliRunner().invoke(cli, ["--db", str(hostile), *arguments], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, ModelRefused)
    assert not OBEYED & set(result.stdout + result.stderr)


def test_json_output_is_plain_json_whatever_the_trace_says(hostile: Path) -> None:
    assert as_json(hostile, "ls")[0]["title"].endswith("[bold]x[/bold]")


def test_every_command_has_help_that_says_something() -> None:
    for words in every_command():
        assert command_at(words).help, words


def seeds() -> Iterator[str]:
    yield from ("0", "1", "random")


@pytest.mark.parametrize("seed", list(seeds()))
@pytest.mark.slow
def test_json_is_the_same_whatever_the_hash_seed(seed: str, db: Path, tmp_path: Path) -> None:
    said = installed("--db", str(db), "brief", TOUR, cwd=tmp_path, PYTHONHASHSEED=seed)
    assert said.out == run(db, "brief", TOUR).stdout


@pytest.mark.slow
def test_live_calls_go_to_the_server_named_under_a_limit_and_are_asked_once(
    db: Path, tmp_path: Path
) -> None:
    demo = Demo()

    def policy(body: dict[str, Any]) -> dict[str, Any]:
        return {**demo.complete({**body, "model": "demo"}, 0), "model": body["model"]}

    words = ["--db", str(db), "replay", TOUR, "--model", "claude-sonnet-4-5", "-k", "1"]
    with MessagesApi(policy) as api:
        server = {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "none"}
        refused = spoken(*words, "--live", cwd=tmp_path, **server)
        assert (refused.code, api.asked) == (2, 0)
        assert "--live needs a limit" in refused.err
        first = spoken(*words, "--live", "--budget", "1", cwd=tmp_path, **server)
        assert "8 live calls at first, 0 answered already" in first.err
        assert "Control matches 8 of 8 steps" in first.out
        assert api.asked == 8
        again = spoken(*words, cwd=tmp_path, **server)
        assert api.asked == 8
        missed = spoken(*words, cwd=tmp_path)
        said = f"a cached response of {api.base_url} exists"
        assert (missed.code, said in missed.err) == (2, True)
    assert "0 calls · 8 cached" in again.out


@pytest.mark.process
def test_several_models_are_arms_under_one_estimate_and_one_limit(db: Path, tmp_path: Path) -> None:
    demo = Demo()

    def policy(body: dict[str, Any]) -> dict[str, Any]:
        return {**demo.complete({**body, "model": "demo"}, 0), "model": body["model"]}

    models = ("--model", "claude-sonnet-4-5", "--model", "claude-opus-4-5")
    words = ["--db", str(db), "replay", TOUR, *models, "-k", "1"]
    with MessagesApi(policy) as api:
        server = {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "none"}
        cut = spoken(*words, "--live", "--max-calls", "5", cwd=tmp_path, **server)
        assert "24 live calls at first, 0 answered already" in cut.err  # control's are the demo's
        assert cut.code == 2
        assert api.asked == 5
        assert "limit of 5 calls" in cut.err
        assert "not finished: no digest" in cut.out
        whole = spoken(*words, "--live", "--max-calls", "40", cwd=tmp_path, **server)
        assert whole.code == 0
        assert api.asked == 16
        assert {each.body["model"] for each in api.received} == set(models[1::2])
    assert "Control runs on demo, rule-based, the edit on claude-sonnet-4-5." in whole.out
    assert "Control runs on demo, rule-based, the edit on claude-opus-4-5." in whole.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay", TOUR, "--live", "--budget", "-1"), "'--budget'"),
        (("replay", TOUR, "--live", "--budget", "nan"), "'--budget'"),
        (("replay", TOUR, "--live", "--budget", "inf"), "'--budget'"),
        (("replay", TOUR, "--live", "--max-minutes", "nan"), "'--max-minutes'"),
        (("replay", TOUR, "--live", "--max-calls", "0"), "'--max-calls'"),
        (("replay", TOUR, "--free", "--step", "99"), "Steps: 0 to 7"),
        (("show", TOUR, "99"), "Steps: 0 to 7"),
        (("label", TOUR, "99", "0.5"), "Steps: 0 to 7"),
        (("replay", TOUR, "--edit", "v99"), "Try: arc edit list"),
        (("replay", TOUR, "--model", "gpt-4o"), "or another --model"),
    ],
)
def test_what_a_user_gets_wrong_is_told_with_what_would_be_right(
    words: tuple[str, ...], said: str, db: Path
) -> None:
    found = spoken("--db", str(db), *words, cwd=db.parent)
    assert (found.code, said in found.err) == (2, True), found.err
