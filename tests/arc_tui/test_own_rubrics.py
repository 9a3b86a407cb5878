"""`arc judge --rubric FILE`: rubrics of users, read, asked, kept by version, labelled, approved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from arc_tui.features.calibration.label_command import label
from arc_tui.features.calibration.view import build_calibration, keep_verdicts
from arc_tui.features.judge.command import score
from replay.store.handle import now_ns
from replay.trace import Outcome
from taxonomy.calibration.approval import counts_by_item, standing_items, trust, trusted_scores
from taxonomy.diagnosis import diagnose
from taxonomy.judge.own_rubrics import BadRubric, kept_rubrics, read
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import header, put
from tests.build import call, step, trace
from tests.kept_scores import step_scores
from tests.messages_api import Body, MessagesApi, message, refusal, text
from tests.replay.live_case import MODEL

ITEMS = """
name = "refunds"
mode = "window"
about = "Refunds of the shop."

[[item]]
name = "amount agreed"
question = "Did the user agree to the amount before it was paid back?"

[[item]]
name = "polite"
question = "Is the user addressed politely?"
"""

BANDS = """
name = "care"
mode = "step"

[[band]]
from = 0.0
to = 0.4
means = "careless"

[[band]]
from = 0.5
to = 1.0
means = "careful"
"""


class Answers:
    """A judge that answers items with yes where the step calls nothing, and scores bands .8."""

    def __init__(self) -> None:
        self.seen: list[Body] = []

    def __call__(self, body: Body) -> Body:
        self.seen.append(body)
        wanted = body["output_config"]["format"]["schema"]["properties"]
        said = str(body["messages"][0]["content"])
        at = int(said.rpartition("Now judge step ")[2].split()[0])
        cited = {"rationale": "It is so.", "steps": [at]}
        if "score" in wanted:
            given: dict[str, Any] = {"score": 0.8, **cited}
        else:
            verdict = "no" if f"step {at}\\ncalls" in repr(said) else "yes"
            given = {key: {"verdict": verdict, **cited} for key in wanted}
        return message(text(json.dumps(given)), model=body["model"])


@pytest.fixture
def server() -> Answers:
    return Answers()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    parts = [
        part
        for at in range(6)
        for part in (step(call("refund_order", "done", amount=at)), f"Paid back {at}.")
    ]
    run = trace(parts, task="Refund all, please.")
    put(path, header("refund", "0", Outcome()), run.spans, diagnose(run))
    return path


def file_of(folder: Path, content: str, name: str = "rubric.toml") -> str:
    path = folder / name
    path.write_text(content)
    return str(path)


def run(db: Path, *arguments: str, command: Any = score) -> Result:
    result = CliRunner().invoke(command, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def live(db: Path, *arguments: str) -> Any:
    found = run(db, "last", "--model", MODEL, "--live", "--max-calls", "99", "--json", *arguments)
    (view,) = json.loads(found.stdout)
    return view


def test_its_questions_are_asked_and_its_answers_kept_under_name_and_digest(
    api: MessagesApi, server: Answers, db: Path, tmp_path: Path
) -> None:
    file = file_of(tmp_path, ITEMS)
    view = live(db, "--rubric", file)
    rubric = read(Path(file))
    assert view["by"] == f"judge:window:{MODEL}:{rubric.version}"
    assert rubric.version.startswith("refunds.items-")
    assert (view["mode"], view["scored"]) == ("window", 12)
    assert {item["name"] for row in view["rows"] for item in row["items"]} == {
        "refunds: amount agreed", "refunds: polite",
    }  # fmt: skip
    assert "Did the user agree to the amount" in server.seen[0]["system"]
    assert "Refunds of the shop." in server.seen[0]["system"]
    assert all(refusal(body) is None for body in server.seen)
    with open_ledger(db) as store:
        (kept,) = kept_rubrics(store)
        assert kept.items == ("refunds: amount agreed", "refunds: polite")
        assert {score.by for score in step_scores(store, view["trace"])} == {view["by"]}


@pytest.mark.slow
def test_scores_of_two_versions_never_mix(api: MessagesApi, db: Path, tmp_path: Path) -> None:
    one = live(db, "--rubric", file_of(tmp_path, BANDS))
    other = live(db, "--rubric", file_of(tmp_path, BANDS.replace("careful", "very careful")))
    assert one["by"] != other["by"]
    same = live(db, "--rubric", file_of(tmp_path, f"# a comment\n{BANDS}", "again.toml"))
    assert same["by"] == other["by"].replace(other["rubric"], one["rubric"]) == one["by"]
    with open_ledger(db) as store:
        assert {each.by for each in step_scores(store, one["trace"])} == {one["by"], other["by"]}
        assert len(kept_rubrics(store)) == 2


@pytest.mark.slow
def test_it_is_approved_by_itself_and_never_stands_for_the_score_of_a_step(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    view = live(db, "--rubric", file_of(tmp_path, ITEMS))
    for row in view["rows"]:
        held = "yes" if row["items"][0]["held"] else "no"
        run(db, "last", str(row["step"]), "--item", f"refunds: amount agreed={held}", command=label)
    with open_ledger(db) as store:
        now = now_ns()
        figures = build_calibration(store, None, now)
        gates = {each.item: each for part in figures.parts for each in part.item_gates}
        assert gates["refunds: amount agreed"].passed
        keep_verdicts(store, figures, now)
        assert counts_by_item(view["by"])
        assert standing_items(store, view["by"], now) == {"refunds: amount agreed"}
        assert trust(store, view["by"], now).state == "approved"
        assert not [each for each in trusted_scores(store, view["trace"], now)
                    if each.source == "judge"]  # fmt: skip


def test_an_item_that_no_rubric_has_is_refused_with_those_there_are(
    api: MessagesApi, db: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no item of a rubric used here; none was used yet"):
        run(db, "last", "0", "--item", "refunds: polite=yes", command=label)
    live(db, "--rubric", file_of(tmp_path, ITEMS))
    with pytest.raises(UsageError, match="refunds: amount agreed, refunds: polite"):
        run(db, "last", "0", "--item", "refunds: rude=yes", command=label)


def test_a_mode_beside_the_rubric_s_is_refused(db: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--mode step: the rubric is of mode window"):
        run(db, "last", "--model", "demo", "--mode", "step", "--rubric", file_of(tmp_path, ITEMS))


BAND = '[[band]]\nfrom = 0.0\nto = 0.4\nmeans = "x"\n'
ITEM = '[[item]]\nname = "a"\nquestion = "b?"\n'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("name = ", "rubric.toml: invalid TOML: "),
        ("\ufeffname", "rubric.toml: "),
        ('mode = "step"\n' + BAND, "`name`"),
        ('name = "a"\nmode = "feel"\n' + BAND, "Invalid enum value 'feel'"),
        ('name = "a"\nmode = "step"\nscale = 5\n' + BAND, "unknown field `scale`"),
        ('name = "1.x"\nmode = "step"\n' + BAND, "name '1.x' is not a letter"),
        ('name = "a:b"\nmode = "step"\n' + BAND, "name 'a:b' is not a letter"),
        ('name = "a"\nmode = "step"\n', "neither items nor bands"),
        ('name = "a"\nmode = "step"\n' + BAND + ITEM, "both items and bands"),
        ('name = "a"\nmode = "run"\n' + ITEM, "items need mode step or window"),
        ('name = "a"\nmode = "step"\n' + ITEM * 2, "item 2: 'a' is there twice"),
        ('name = "a"\nmode = "step"\n' + ITEM.replace("b?", " "), "item 1: its name or its"),
        ('name = "a"\nmode = "step"\n' + BAND.replace("0.4", "1.4"), "band 1: 0 to 1.4 is not"),
        ('name = "a"\nmode = "step"\n' + BAND.replace('"x"', '""'), "`means` is empty"),
        ('name = "a"\nmode = "step"\n' + BAND * 2, "band 2: 0 to 0.4 is not above"),
        (
            'name = "a"\nmode = "step"\n'
            + "".join(ITEM.replace('"a"', f'"a{at}"') for at in range(21)),
            "has 21 items; at most 20",
        ),
    ],
)
def test_a_file_that_is_no_rubric_is_said_so_with_its_place(
    tmp_path: Path, content: str, why: str
) -> None:
    with pytest.raises(BadRubric) as error:
        read(Path(file_of(tmp_path, content)))
    assert why in error.value.message
    assert "rubric.toml" in error.value.message


def test_a_file_that_is_no_text_or_not_there_is_said_so(tmp_path: Path) -> None:
    binary = tmp_path / "rubric.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRubric, match=r"rubric\.toml"):
        read(binary)
    with pytest.raises(BadRubric, match="cannot be read"):
        read(tmp_path)
