"""`arc failures`: the bars, the runs behind them, weeks, before and after, and who agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import structs

from arc_tui.config import BadConfig
from arc_tui.settings import read_settings
from arc_tui.views.failures import (
    EMPTY,
    FailuresRequest,
    FailuresView,
    agreement,
    build_failures,
    card,
    rows_named,
    sentence,
)
from replay.errors import NotFound
from taxonomy.judgements.schema import open_ledger
from taxonomy.owners import owners_from
from taxonomy.playbook import BadPlaybook
from tests.arc_tui import failures_case, sample
from tests.arc_tui.test_commands import as_json, run


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "arc.db"
    failures_case.put(path)
    return path


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", failures_case.configured(tmp_path / "settings"))


def view(db: Path, **asked: Any) -> FailuresView:
    with open_ledger(db) as store:
        return build_failures(store, FailuresRequest(**asked), owners_from({"loop": "runtime"}))


def test_each_bar_stands_with_its_owner_and_others_doing_apart(db: Path) -> None:
    lines = [line.split() for line in run(db, "failures").stdout.splitlines()]
    assert lines[0][:2] + lines[0][3:] == ["hallucinated", "state", "2", "grounding"]
    assert set(lines[0][2]) == {"█", "▒"}
    assert ["not", "attributed", "to", "the", "agent"] in lines
    assert next(line for line in lines if "(user)" in line)[-1] == "simulator"
    assert (
        lines[-1]
        == "5 failed runs, 1 run of unknown outcome left out".replace("1 run of", "1 of").split()
    )


def test_json_has_owner_and_runs_of_each_bar(db: Path) -> None:
    counted = as_json(db, "failures")
    first = counted["bars"][0]
    assert (first["class"], first["owner"], first["tagged"]) == (
        "hallucinated state", "grounding", 1,
    )  # fmt: skip
    assert [(each["task"], each["trial"], each["step"]) for each in first["runs"]] == [
        ("26", "1", 3),
        ("26", "2", 3),
    ]
    assert as_json(db, "failures", "--runs", "h") == first["runs"]


def test_the_runs_behind_a_class_are_listed_below_what_it_is(db: Path) -> None:
    text = run(db, "failures", "--runs", "hallucinated_state").stdout
    assert "first fix       force a read before each write" in text
    assert "2/5 .40" in text
    assert "ann looked" in text
    assert "26 · 2" in text


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("w", ["wrong tool"]),
        ("Wrong Tool", ["wrong tool"]),
        ("other", ["other / premise not checked (user)"]),
        ("halluc", ["hallucinated state"]),
        ("untagged", ["not yet tagged"]),
        ("loop", []),
    ],
)
def test_a_bar_is_named_by_letter_class_label_or_beginning(
    name: str, labels: list[str], db: Path
) -> None:
    assert [row.label for row in rows_named(view(db), name)] == labels
    assert run(db, "failures", "--runs", name).return_value == (0 if labels else 1)


def test_a_class_that_is_split_is_all_of_its_bars(db: Path) -> None:
    labels = [row.label for row in rows_named(view(db, by="tool"), "h")]
    assert labels == ["hallucinated state · no call"]


def test_a_name_that_is_no_bar_says_which_there_are(db: Path) -> None:
    with pytest.raises(NotFound, match="there are hallucinated state, wrong tool"):
        run(db, "failures", "--runs", "nonsense")


def test_weeks_are_a_table_with_the_same_figures_as_json(db: Path) -> None:
    text = run(db, "failures", "--by", "week").stdout
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["2026-W01", "2026-W22"]
    weeks = as_json(db, "failures", "--by", "week")["weeks"]
    assert [(week["week"], week["runs"], week["failed"]["n"]) for week in weeks] == [
        ("2026-W01", 6, 6),
        ("2026-W22", 1, 1),
    ]


def test_before_and_after_a_day_says_when_it_is_too_little_to_tell(db: Path) -> None:
    result = run(db, "failures", "--since", "2026-05-01")
    assert result.return_value == 0
    assert "too few to tell" in result.stdout
    assert "4/6 .67" in result.stdout
    failed = as_json(db, "failures", "--since", "2026-05-01")["failed"]
    assert (failed["before"]["n"], failed["since"]["n"]) == (6, 1)
    assert run(db, "failures", "--since", "2030-01-01").return_value == 1


def test_agreement_names_the_classes_that_are_mixed_up(db: Path) -> None:
    text = run(db, "failures", "--agreement").stdout
    assert "person, rule    same class 1/2 .50" in text
    assert "differ in 1 run: person wrong tool, rule bad args" in text
    pair = next(each for each in as_json(db, "failures", "--agreement") if each["second"] == "rule")
    assert pair["confusion"]["rows"] == ["wrong tool", "hallucinated state"]


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "2026-01-01", "--by", "tool"),
        ("--agreement", "--runs", "g"),
        ("--by", "week", "--every"),
    ],
)
def test_two_questions_at_once_are_refused(words: tuple[str, ...], db: Path) -> None:
    with pytest.raises(click.UsageError):
        run(db, "failures", *words)


def test_a_bad_setting_is_one_sentence_with_its_file(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = failures_case.configured(tmp_path / "wrong", "[ownrs]\nloop = 'Ann'")
    monkeypatch.setenv("ARC_CONFIG_DIR", folder)
    with pytest.raises(BadConfig, match=r"config\.toml: unknown key 'ownrs'"):
        run(db, "failures")


# --- words


def test_the_sentence_says_what_to_know_first(db: Path) -> None:
    assert sentence(view(db)) == (
        "hallucinated state: 2 of 5 failed runs · 1 not yet tagged · 1 of unknown outcome left out"
    )
    assert sentence(EMPTY) == "no failed runs"


def test_what_was_not_the_agents_doing_gets_no_advice_on_prompts(db: Path) -> None:
    shown = view(db)
    apart = next(row for row in shown.rows if row.of == "apart")
    labels = dict(card(shown, apart))
    assert labels["cause"] == "attribution: user; a prompt edit cannot fix it"
    assert "first fix" not in labels


def test_a_run_nobody_names_has_its_candidate_as_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    spans = sample.failed_run().spans
    hint = structs.replace(sample.SAID, findings=())
    sample.put(path, sample.header(None, None, sample.FAILED, title="Hinted\nat"), spans, hint)
    shown = view(path)
    (row,) = shown.rows
    (behind,) = row.runs
    assert (row.of, behind.step, behind.source, shown.name(behind)) == (
        "untagged", 3, None, "Hinted ⏎ at",
    )  # fmt: skip
    assert "owner" not in dict(card(shown, row))


def test_agreement_over_nothing_is_one_line() -> None:
    assert agreement(()) == (
        ("", "No run yet with a failure class from two of person, judge and rule."),
    )


PLAYBOOK = """
["hallucinated state"]
owner = "retrieval team"
rollback = "Deploy prompt v7."
guard = "Read before each write."
"""


def test_a_playbook_says_what_is_done_about_each_bar(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text(PLAYBOOK)
    text = run(db, "failures", "--playbook", str(file)).stdout
    assert text.splitlines()[0].endswith("retrieval team")
    assert "hallucinated state  Deploy prompt v7.  Read before each write." in text
    lacking = "other / premise not checked (user), wrong tool"
    assert f"no rollback or guard in the playbook: {lacking}" in text
    counted = as_json(db, "failures", "--playbook", str(file))
    first = counted["bars"][0]
    assert (first["rollback"], first["guard"]) == ("Deploy prompt v7.", "Read before each write.")
    assert counted["without_playbook"] == lacking.split(", ")
    behind = run(db, "failures", "--playbook", str(file), "--runs", "h").stdout
    assert "rollback        Deploy prompt v7." in behind
    assert "guard           Read before each write." in behind


def test_a_playbook_is_found_here_else_beside_the_settings(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_json(db, "failures")["without_playbook"] is None
    (tmp_path / "settings" / "playbook.toml").write_text(PLAYBOOK)
    assert as_json(db, "failures")["bars"][0]["owner"] == "retrieval team"
    (tmp_path / "playbook.toml").write_text(PLAYBOOK.replace("retrieval team", "repository"))
    assert as_json(db, "failures")["bars"][0]["owner"] == "repository"
    assert len(as_json(db, "ls", "owner:repository")) == 2


@pytest.mark.parametrize("words", [("failures",), ("failures", "--runs", "loop")])
def test_a_playbook_that_cannot_be_read_is_refused(
    db: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with pytest.raises(BadPlaybook, match="cannot be read: No such file"):
        run(db, *words, "--playbook", str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("[lop]\nguard = 'x'")
    with pytest.raises(BadPlaybook, match="did you mean 'loop'"):
        run(db, *words, "--playbook", str(tmp_path / "bad.toml"))


@pytest.mark.parametrize("words", [("--agreement",), ("--by", "week"), ("--since", "2026-01-01")])
def test_a_playbook_has_no_place_in_other_tables(
    db: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "playbook.toml"
    file.write_text(PLAYBOOK)
    with pytest.raises(click.UsageError, match="--playbook is shown with the bars"):
        run(db, "failures", "--playbook", str(file), *words)


def test_a_bad_playbook_is_in_the_way_of_nothing_else(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbook.toml").write_text("plays = [1, 2]")
    assert run(db, "ls", "--json").exit_code == 0
    assert read_settings().theme == "auto"
    with pytest.raises(BadPlaybook, match="'plays': unknown failure class"):
        run(db, "failures")
