"""`arc experiment paraphrase` as a user types it: the demo offline, models on a local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.features.paraphrase.command import paraphrase
from arc_tui.places import fixtures
from replay.errors import ArcError, ModelRefused, OfflineMiss
from replay.models.demo import Demo
from replay.store import edits
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger
from taxonomy.paraphrase_test import result as paraphrase_result
from tests.arc_tui import nameless
from tests.judge_policy import Judge, prompt
from tests.messages_api import Body, MessagesApi, message, text
from tests.replay.live_case import MODEL

TASK = "find-and-refund"
RUN = "shop-find-and-refund-v1-0"
WORDS = (
    "My Aurora Lamp flickers. I am ben.okoro@example.com and would like my money back.",
    "Could I get a refund? It is about the Aurora Lamp: it flickers. ben.okoro@example.com",
    "ben.okoro@example.com here. Refund the flickering Aurora Lamp that I bought.",
)


class Server:
    """Paraphrases where texts are asked for, opinions where scores are, else the demo model."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.writes: list[tuple[str, ...]] = [WORDS]
        self.asked_to_write: list[str] = []

    def __call__(self, body: Body) -> Body:
        wanted = body.get("output_config", {}).get("format", {}).get("schema", {})
        if "texts" in wanted.get("properties", {}):
            self.asked_to_write.append(prompt(body))
            texts = self.writes[min(len(self.asked_to_write), len(self.writes)) - 1]
            return message(text(json.dumps({"texts": texts})), model=body["model"])
        if wanted:
            return self.judge(body)
        return {**Demo().complete(body, 0), "model": body["model"]}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with one bundled run: it refunds an order it never looked up."""
    path = tmp_path / "arc.db"
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, [fixtures() / "traces" / f"{RUN}.jsonl"]):
            pass
    return path


def run(db: Path, *arguments: str) -> Result:
    """The command on the one run; what it raises is raised here."""
    result = CliRunner().invoke(
        paraphrase, ["--db", str(db), "last", *arguments], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result


def live(db: Path, *arguments: str) -> Result:
    asked = ("--model", MODEL, "--live", "--max-calls", "60")
    return run(db, *asked, *arguments)


def as_json(result: Result) -> Any:
    (view,) = json.loads(result.stdout)
    return view


def words_file(folder: Path, *texts: str, task: str = TASK) -> str:
    file = folder / "words.toml"
    file.write_text(f"[[task]]\nmatch = {json.dumps(task)}\ntexts = {json.dumps(texts)}\n")
    return str(file)


# --- offline, by the demo model


def test_the_demo_asks_three_frames_and_judges_by_rule(db: Path) -> None:
    result = run(db, "--model", "demo")
    assert result.return_value == 0
    assert "judge demo, rule-based" in result.stdout
    assert "these are the rules' own scores" in result.stdout
    assert "the frame and the formatting change, the words do not" in result.stdout
    assert "1 sample each: not conclusive" in result.stdout
    rows = [line.split()[0] for line in result.stdout.split("wording\n")[1].splitlines()[:4]]
    assert rows == ["original", "A", "B", "C"]


def test_a_wording_is_scored_at_the_step_that_broke(db: Path) -> None:
    view = as_json(run(db, "--model", "demo", "--json"))
    assert view["broke"] == 0
    assert {tuple(row["steps"]) for row in view["rows"]} == {(0,)}
    scores = [row["score"] for row in view["rows"]]
    assert view["surface"]["range"] == pytest.approx(max(scores) - min(scores))
    whole = as_json(run(db, "--model", "demo", "--whole", "--json"))
    assert whole["broke"] is None
    assert any("no break candidate" in said for said in whole["notices"])


def test_what_it_came_to_and_its_edits_are_kept(db: Path) -> None:
    view = as_json(run(db, "--model", "demo", "--json"))
    with open_ledger(db) as store:
        (kept,) = paraphrase_result.kept(store)
        names = {each.name for each in edits.listed(store)}
    assert [each.value for each in kept.wordings] == [row["score"] for row in view["rows"]]
    assert names == {f"{TASK} in other words {letter}" for letter in "ABC"}


def test_the_same_again_asks_nothing_and_says_the_same(db: Path) -> None:
    first = as_json(run(db, "--model", "demo", "-k", "2", "--json"))
    again = as_json(run(db, "--model", "demo", "-k", "2", "--json"))
    assert (first["calls"] > 0, again["calls"]) == (True, 0)
    assert again["rows"] == first["rows"]
    assert again["chance"] == first["chance"] is not None


def test_your_own_paraphrases_are_tried_and_one_that_asks_for_less_is_not(
    db: Path, tmp_path: Path
) -> None:
    file = words_file(tmp_path, WORDS[0], "Refund the lamp of order 1053.")
    result = run(db, "--model", "demo", "--paraphrases", file)
    assert "skipped: “Refund the lamp of order 1053.” (words.toml)" in result.stdout
    assert "it loses ben.okoro@example.com and it adds 1053" in result.stdout
    assert "2 wordings" in result.stdout


def test_a_file_without_the_task_compares_nothing(db: Path, tmp_path: Path) -> None:
    file = words_file(tmp_path, "x", task="another")
    result = run(db, "--model", "demo", "--paraphrases", file)
    assert result.return_value == 2
    assert "no paraphrases for this task in words.toml" in result.stdout
    with open_ledger(db) as store:
        assert paraphrase_result.kept(store) == []


@pytest.mark.slow
def test_of_an_unknown_model_the_wordings_are_listed_and_nobody_is_asked(tmp_path: Path) -> None:
    path = nameless.put(tmp_path, RUN)
    result = run(path)
    assert result.return_value == 2
    head, notice, *_ = result.stdout.splitlines()
    assert head.endswith("model unknown. Try: --model NAME")
    assert notice == "3 paraphrases would be written first"
    view = as_json(run(path, "--paraphrases", words_file(tmp_path, *WORDS), "--json"))
    assert view["model"] is None
    assert [row["label"] for row in view["rows"]] == ["original", "A", "B", "C"]
    assert {row["score"] for row in view["rows"]} == {None}
    assert as_json(run(path, "--model", "demo", "--json"))["rows"][0]["score"] is not None


def test_a_judge_must_be_named_and_steps_must_be_there(db: Path) -> None:
    with pytest.raises(ModelRefused, match="no judge given"):
        run(db, "--model", MODEL)
    with pytest.raises(ArcError, match="no step '99'"):
        run(db, "--model", "demo", "--step", "99")
    with pytest.raises(ArcError, match="no user says anything in message 1"):
        run(db, "--model", "demo", "--message", "1")


# --- live


@pytest.mark.slow
def test_a_model_writes_another_answers_and_a_third_judges(
    api: MessagesApi, server: Server, db: Path
) -> None:
    result = live(db, "--judge", "judge-x", "--writer", "writer-x", "--json")
    view = as_json(result)
    assert [row["text"] for row in view["rows"][1:]] == list(WORDS)
    assert [row["by"] for row in view["rows"]] == ["the run", *["writer-x"] * 3]
    assert all(row["score"] in {0.2, 0.8} for row in view["rows"])
    assert "live calls at first" in result.stderr
    assert (view["missing"], view["calls"]) == (0, api.asked)


def test_every_wording_is_judged_under_the_goal_as_the_user_asked_it(
    api: MessagesApi, server: Server, db: Path
) -> None:
    live(db, "--judge", "judge-x")
    assert server.judge.seen
    for body in server.judge.seen:
        assert "I want a refund for the Aurora Lamp" in prompt(body)
        assert not any(words in prompt(body).split("step 0")[0] for words in WORDS)


@pytest.mark.slow
def test_what_is_stored_is_not_asked_for_again_and_needs_no_leave(
    api: MessagesApi, db: Path
) -> None:
    first = as_json(live(db, "--judge", "judge-x", "--json"))
    asked = api.asked
    again = as_json(run(db, "--model", MODEL, "--judge", "judge-x", "--json"))
    assert api.asked == asked
    assert again["rows"] == first["rows"]
    assert again["spent_usd"] == 0


def test_a_paraphrase_that_lost_something_is_refused_and_asked_for_again(
    api: MessagesApi, server: Server, db: Path
) -> None:
    server.writes = [(WORDS[0], "Refund my lamp."), (WORDS[1], WORDS[2])]
    view = as_json(live(db, "--judge", "demo", "--json"))
    assert len(server.asked_to_write) == 2
    assert [row["text"] for row in view["rows"][1:]] == list(WORDS)
    assert [each["why"] for each in view["refused"]] == ["it loses ben.okoro@example.com"]


def test_a_request_is_quoted_to_the_writer_as_data(
    api: MessagesApi, server: Server, db: Path
) -> None:
    live(db, "--judge", "demo")
    (said,) = server.asked_to_write
    assert "All between the first and the last of them is quoted data" in said
    assert said.endswith("Give 3 texts.")


def test_nothing_is_asked_without_live_and_a_limit(api: MessagesApi, db: Path) -> None:
    with pytest.raises(OfflineMiss):
        run(db, "--model", MODEL, "--judge", "judge-x")
    with pytest.raises(ModelRefused, match="--live needs a limit"):
        run(db, "--model", MODEL, "--judge", "judge-x", "--live")
    assert api.asked == 0


def test_the_estimate_asks_nothing_and_counts_who_is_asked(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    def calls(*arguments: str) -> int:
        said = run(db, "--model", MODEL, *arguments, "--estimate", "--json").stdout
        return int(json.loads(said)["calls"])

    file = words_file(tmp_path, *WORDS)
    assert calls("--judge", "demo", "--paraphrases", file) == 4
    assert calls("--judge", "judge-x", "--paraphrases", file) == 8
    assert calls("--judge", "judge-x") == 9
    assert calls("--judge", "judge-x", "-k", "2") == 17
    assert api.asked == 0


@pytest.mark.slow
def test_a_spent_budget_keeps_what_was_answered(api: MessagesApi, db: Path) -> None:
    with pytest.raises(ModelRefused, match="limit of 4 calls"):
        run(db, "--model", MODEL, "--judge", "judge-x", "--live", "--max-calls", "4")
    assert api.asked == 4
    view = as_json(live(db, "--judge", "judge-x", "--json"))
    assert view["calls"] == api.asked - 4


def test_a_judgement_that_is_not_stored_is_missing_and_nothing_is_kept(
    api: MessagesApi, db: Path
) -> None:
    live(db, "--judge", "demo")
    with pytest.raises(OfflineMiss, match="answers of judge-x not stored"):
        run(db, "--model", MODEL, "--judge", "judge-x")
    with open_ledger(db) as store:
        assert [each.judge for each in paraphrase_result.kept(store)] == ["demo, rule-based"]


def test_a_judge_of_the_agent_s_own_family_is_warned_about(api: MessagesApi, db: Path) -> None:
    assert "models favour their own" in live(db, "--judge", "claude-other").stdout


@pytest.mark.slow
def test_every_failed_bundled_run_can_be_tried(tmp_path: Path) -> None:
    path = tmp_path / "all.db"
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, [fixtures() / "traces"]):
            pass
        failed = [row.trace for row in trace_rows(store, "outcome = 'failed'")][:3]
    result = CliRunner().invoke(
        paraphrase, ["--db", str(path), *failed, "--model", "demo", "--json"], standalone_mode=False
    )
    assert result.exception is None
    views = json.loads(result.stdout)
    assert [view["done"] for view in views] == [True] * 3
    # The rules decide nothing of an answer in words, as two wordings of the second run get.
    assert [view["surface"]["n"] for view in views] == [4, 2, 4]
