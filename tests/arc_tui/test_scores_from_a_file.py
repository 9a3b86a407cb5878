"""`arc label --from`: scores that others gave are brought in, and are used as they are."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from replay.errors import ArcError
from replay.formats import load
from replay.formats.arc import write
from replay.formats.source import Source, Tally
from replay.steps import build
from replay.store.handle import Store, now_ns
from replay.store.rows import trace_row, trace_rows
from replay.trace import SourceScore
from taxonomy.calibration.labels import keep_file_scores, place, read_labels
from taxonomy.findings import FAILURE
from taxonomy.judgements.diagnoses import diagnosis, undiagnosed
from taxonomy.judgements.schema import open_ledger
from tests.shared import DATA, needs_shared


def arc(db: Path, *words: object) -> Result:
    result = CliRunner().invoke(cli, ["--db", str(db), *map(str, words)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def chat(path: Path, answers: int) -> Path:
    """A chat of so many answers, its messages 1, 3, 5 …, that nothing speaks against."""
    said = [
        message
        for at in range(answers)
        for message in (
            {"role": "user", "content": f"Question {at} of {path.stem}?"},
            {"role": "assistant", "content": f"Answer {at}."},
        )
    ]
    path.write_text(json.dumps(said))
    return path


def rows(path: Path, *scores: tuple[str, dict[str, Any] | None, float | None, str | None]) -> Path:
    lines = (
        json.dumps({"trace": trace, "at": at, "score": score, "by": by})
        for trace, at, score, by in scores
    )
    path.write_text("\n".join(lines))
    return path


def candidates(db: Path, trace: str) -> list[tuple[int, str]]:
    said = json.loads(arc(db, "diagnose", trace, "--json").stdout)
    return [(each["step"], each["why"]) for each in said["candidates"]]


def ids(db: Path) -> dict[str, str]:
    with open_ledger(db) as store:
        return {Path(row.path or "").name: row.trace for row in trace_rows(store)}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with two chats of four answers each."""
    path = tmp_path / "arc.db"
    arc(path, "import", chat(tmp_path / "a.json", 4), chat(tmp_path / "b.json", 4))
    return path


SCORES: tuple[tuple[str, dict[str, Any] | None, float | None, str | None], ...] = (
    ("a.json", {"message": 1}, 1.0, "strict"),
    ("a.json", {"message": 3}, 0.5, "strict"),
    ("a.json", {"message": 5}, 0.0, "strict"),
    ("a.json", {"step": 3}, 0.0, "strict"),
    ("b.json", {"step": 0}, 1.0, "strict"),
    ("b.json", {"step": 1}, 0.5, "strict"),
    ("b.json", {"step": 2}, 1.0, "strict"),
    ("b.json", {"step": 3}, 1.0, "strict"),
    ("a.json", None, 0.0, "strict"),
    ("a.json", {"step": 0}, None, "strict"),
)


def test_the_first_clear_failure_is_the_first_candidate_and_its_cause_is_named(
    db: Path, tmp_path: Path
) -> None:
    said = arc(db, "label", "--from", rows(tmp_path / "scores.jsonl", *SCORES))
    assert (said.stdout, said.stderr) == ("strict: 8 steps of 2 runs scored\n", "")
    known = ids(db)
    assert candidates(db, known["a.json"]) == [
        (2, "the first clear failure: score 0.00 by strict"),
        (3, "a later clear failure: score 0.00 by strict"),
    ]
    assert candidates(db, known["b.json"]) == []
    brief = arc(db, "brief", known["b.json"]).stdout
    assert "No break candidates: no clear failure in the scores by strict" in brief
    shown = json.loads(arc(db, "show", known["a.json"], "2", "--json").stdout)
    assert (shown["score"]["value"], shown["score"]["source"]) == (0.0, "file")


def test_a_file_takes_the_place_of_what_it_brought_before_and_can_be_taken_back(
    db: Path, tmp_path: Path
) -> None:
    path = rows(tmp_path / "scores.jsonl", *SCORES)
    trace = ids(db)["a.json"]
    unscored = candidates(db, trace)
    arc(db, "label", "--from", path)
    rows(path, ("a.json", {"step": 1}, 0.0, "strict"))
    arc(db, "label", "--from", path)
    assert [step for step, _ in candidates(db, trace)] == [1], "steps 2 and 3 have no score now"
    said = arc(db, "label", "--from", path, "--remove")
    assert said.stdout == "strict: 1 step of 1 run removed\n"
    assert candidates(db, trace) == unscored


def test_scores_stay_when_a_trace_is_imported_again_and_looked_at_again(
    db: Path, tmp_path: Path
) -> None:
    arc(db, "label", "--from", rows(tmp_path / "scores.jsonl", *SCORES))
    trace, before = ids(db)["a.json"], candidates(db, ids(db)["a.json"])
    arc(db, "import", tmp_path / "a.json", "--replace")
    with open_ledger(db) as store, store.writing() as writing:
        writing.execute("UPDATE diagnosis SET engine = 'another'")
    arc(db, "import", tmp_path / "a.json")
    assert candidates(db, trace) == before != []


def test_after_a_kill_between_scores_and_rules_the_rules_look_again(
    db: Path, tmp_path: Path
) -> None:
    labels, _ = read_labels(rows(tmp_path / "scores.jsonl", *SCORES))
    with open_ledger(db) as store:
        placed, _ = place(store, labels)
        keep_file_scores(store, placed, unnamed="scores.jsonl")
        assert set(undiagnosed(store, now_ns())) == set(ids(db).values())
    arc(db, "import", tmp_path / "b.json")
    assert [step for step, _ in candidates(db, ids(db)["a.json"])] == [2, 3]


def test_one_name_of_several_is_chosen_and_several_are_said_to_be(db: Path, tmp_path: Path) -> None:
    path = rows(
        tmp_path / "scores.jsonl",
        ("a.json", {"step": 1}, 0.0, "x"),
        ("a.json", {"step": 1}, 1.0, "y"),
        ("a.json", {"step": 1}, 1.0, None),
        ("a.json", {"step": 2}, 0.25, "y"),
    )
    trace = ids(db)["a.json"]
    said = arc(db, "label", "--from", path, "--by", "x")
    assert (said.stdout, said.stderr) == ("x: 1 step of 1 run scored\n", "")
    assert [step for step, _ in candidates(db, trace)] == [1]
    said = arc(db, "label", "--from", path)
    assert said.stdout.splitlines()[-1] == "scores.jsonl: 1 step of 1 run scored"
    assert "the median counts; --by NAME" in said.stderr
    assert [step for step, _ in candidates(db, trace)] == [2]
    with pytest.raises(ArcError, match=r"no score by 'z': the scores are by x, y, scores\.jsonl"):
        arc(db, "label", "--from", path, "--by", "z")


@pytest.mark.parametrize(
    ("scale", "scores"),
    [("-1..1", (1, 0, -1)), ("1..5", (5, 3, 2)), ("5..1", (1, 3, 4)), ("0..100", (90, 50, 49.9))],
)
def test_another_scale_is_said_and_never_guessed(
    db: Path, tmp_path: Path, scale: str, scores: tuple[float, ...]
) -> None:
    found = [("a.json", {"step": at}, score, "j") for at, score in enumerate(scores)]
    path = rows(tmp_path / "scores.jsonl", *found)
    unscored = candidates(db, ids(db)["a.json"])
    with pytest.raises(ArcError, match="not between 0 and 1") as refused:
        arc(db, "label", "--from", path)
    assert "--scale WORST..BEST" in str(refused.value.hint)
    assert candidates(db, ids(db)["a.json"]) == unscored, "nothing of the file was taken"
    arc(db, "label", "--from", path, "--scale", scale)
    assert [step for step, _ in candidates(db, ids(db)["a.json"])] == [2]


def test_scores_of_runs_that_are_not_here_are_left_out_with_the_reason(
    db: Path, tmp_path: Path
) -> None:
    lost = ("absent.json", {"step": 0}, 0.0, "strict")
    said = arc(db, "label", "--from", rows(tmp_path / "scores.jsonl", lost, *SCORES))
    assert said.stdout == "strict: 8 steps of 2 runs scored\n"
    assert said.stderr == "1 label left out: line 1 matches no run of this database\n"
    reason = "no score matches a step of this database: line 1 matches no run of this database"
    with pytest.raises(ArcError, match=reason):
        arc(db, "label", "--from", rows(tmp_path / "scores.jsonl", lost))


@pytest.mark.parametrize(
    "words",
    [
        ("last", "0", "--from", "x"),
        ("--from", "x", "--undo"),
        ("--from", "x", "--scale", "1-5"),
        ("--from", "x", "--scale", "1..1"),
        ("--from", "x", "--scale", "0..inf"),
        ("--by", "x"),
        ("last", "0", "1", "--scale", "0..1"),
    ],
)
def test_what_cannot_be_meant_is_refused(db: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        arc(db, "label", *words)


def test_scores_that_the_trace_brings_along_decide_likewise(tmp_path: Path) -> None:
    (batch,) = load(Source(chat(tmp_path / "a.json", 4)), Tally())
    steps, _, _ = build(batch.spans)
    scores = tuple(
        SourceScore(name="correct", by="LLM", span=step.ask.id, value=value)
        for step, value in zip(steps, (1.0, 0.5, 0.0, 1.0), strict=True)
    )
    path = tmp_path / "scored.jsonl"
    path.write_bytes(b"".join(write([structs.replace(batch, scores=scores)])))
    db = tmp_path / "arc.db"
    arc(db, "import", path)
    assert candidates(db, "last") == [(2, "the first clear failure: score 0.00 by LLM · correct")]


# --- end to end, beside the plainest rule


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the 121 labelled runs of a search agent."""
    path = tmp_path_factory.mktemp("apb") / "arc.db"
    arc(path, "import", DATA / "apb_hotpotqa")
    return path


def decisive(store: Store) -> dict[str, set[int]]:
    """The steps that people call decisive, by trace; none for a run that did not go wrong."""
    placed, lost = place(store, read_labels(DATA / "labels" / "apb_hotpotqa.jsonl")[0])
    assert lost == ()
    found: dict[str, set[int]] = {row.trace: set() for row in trace_rows(store)}
    for each in placed:
        if each.label.decisive and each.step is not None:
            found[each.trace].add(each.step)
    return found


JUDGES = DATA / "labels" / "apb_hotpotqa_synthetic_judges.jsonl"


@pytest.mark.data
@needs_shared
@pytest.mark.parametrize("share", [1.0, 0.6], ids=["every step", "some steps"])
@pytest.mark.parametrize("judge", ["strict", "middling", "lenient"])
def test_with_a_judge_s_scores_arc_is_at_or_above_the_first_clear_failure(
    searched: Path, tmp_path: Path, judge: str, share: float
) -> None:
    db = tmp_path / "arc.db"
    db.write_bytes(searched.read_bytes())
    name = f"synthetic-{judge}"
    some = [
        line
        for place, line in enumerate(JUDGES.read_text().splitlines())
        if f'"{name}"' in line and place * 7919 % 100 < share * 100
    ]
    (tmp_path / "scores.jsonl").write_text("\n".join(some))
    arc(db, "label", "--from", tmp_path / "scores.jsonl")
    with open_ledger(db) as store:
        labels, _ = read_labels(tmp_path / "scores.jsonl")
        scored: dict[str, dict[int, float]] = defaultdict(dict)
        for each in place(store, labels)[0]:
            assert each.label.score is not None
            assert each.step is not None
            scored[each.trace][each.step] = each.label.score
        ours = plain = 0
        for trace, right in decisive(store).items():
            own = scored[trace]
            failed = sorted(step for step, score in own.items() if score < FAILURE)
            said = diagnosis(store, trace)
            assert said is not None
            found = [candidate.step for candidate in said.candidates]
            ours += found[:1] != [] and found[0] in right
            plain += failed[:1] != [] and failed[0] in right
            if failed:
                assert found[0] == failed[0]
            elif len(own) == trace_row(store, trace).steps:
                assert found == [], "a run that all scores call good has no candidate"
            assert not any(own.get(step, 0.0) >= FAILURE for step in found)
        assert ours >= plain > 0
        if share == 1.0:
            assert ours == plain
