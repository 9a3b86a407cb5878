"""The post-mortem of a run: what is known stands in it, what is not is a blank, nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from arc_tui.commands import cli
from arc_tui.features.report.postmortem import BLANK, OPEN, GoldenLine, Tried, markdown
from replay.errors import NotFound
from replay.trace import Outcome
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from taxonomy.owners import NOBODY, owners_from
from taxonomy.playbook import Entry, Playbook
from tests.arc_tui import failures_case, sample
from tests.arc_tui.free_case import TOUR
from tests.arc_tui.test_brief import put_hostile
from tests.build import step, trace
from tests.markdown import HOSTILE, assert_neutral, shown

BOOK = Playbook(
    file="playbook.toml",
    by_label={
        "hallucinated state": Entry(owner="retrieval", rollback="a | b", guard="Read first.")
    },
)
TRIED = Tried(
    what="Locked replay",
    digest="arc1:0123",
    ran_ns=1_767_571_200 * 10**9,
    model="demo",
    edit="v4.md",
    lines=("Control matches 6 of 8 steps.", "fixed: failure in 0/8 edited, 8/8 control"),
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "arc.db"
    failures_case.put(path)
    return path


def test_what_is_known_is_filled_in(db: Path) -> None:
    with open_ledger(db) as store:
        text = markdown(
            store,
            "26/1",
            tried=(TRIED,),
            golden=(GoldenLine(id="refund-26", folder="golden"),),
            owners=BOOK.owners(NOBODY),
            playbook=BOOK,
        )
    assert_neutral(text)
    assert text.startswith("# Post-mortem: `26 / 1`\n")
    assert "tagged by person `" in text
    assert "| owner | `retrieval` |" in text
    assert "| rollback | <code>a &#124; b</code> |" in text
    assert "| guard | `Read first.` |" in text
    assert "**Locked replay**, 2026-01-05 00:00:00 UTC · edit `v4.md` · model `demo`" in text
    assert "fixed: failure in 0/8 edited, 8/8 control" in text
    assert "`refund-26` in `golden`" in text
    assert text.count(BLANK) == len(OPEN)


def test_what_is_not_known_is_a_blank(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    spans = trace([step("Done.")]).spans
    key = sample.put(path, sample.header("26", "1", Outcome(status="failed")), spans)
    with open_ledger(path) as store:
        text = markdown(store, key)
    assert_neutral(text)
    assert "No break candidates." in text
    assert f"No person has tagged this run. Class: {BLANK}" in text
    for name in ("owner", "rollback", "guard"):
        assert f"| {name} | {BLANK} |" in text
    assert "No replay or edit test of this run is saved." in text
    assert f"None in `golden` was made from this run. Try: `arc golden add {key[:8]}`" in text
    assert "| model | – |" in text
    assert "| cost | – |" in text


def test_a_suggestion_is_no_tag_and_says_so(db: Path) -> None:
    with open_ledger(db) as store:
        text = markdown(store, "26/2", owners=owners_from({"loop": "runtime"}))
    assert f"No person has tagged this run. Class: {BLANK}" in text
    assert "not confirmed by a person" in text
    assert "tagged by" not in text


def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    key = put_hostile(tmp_path / "arc.db")
    book = Playbook(file="x", by_label={"other": Entry(owner=HOSTILE, rollback=HOSTILE)})
    tried = Tried(
        what="Edit test", digest="arc1:0", ran_ns=0, model=HOSTILE, edit=HOSTILE, lines=(HOSTILE,)
    )
    golden = GoldenLine(id=HOSTILE, folder=HOSTILE)
    with open_ledger(tmp_path / "arc.db") as store:
        text = markdown(
            store, key, tried=(tried,), golden=(golden,), owners=book.owners(NOBODY), playbook=book
        )
    assert_neutral(text)
    assert "<script>alert(1)</script>" in shown(text)


def test_secrets_are_masked_by_the_rules_of_today(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    spans = trace([step("Done.")]).spans
    key = sample.put(path, sample.header("26", "1", Outcome(status="failed")), spans)
    secret = "sk-ant-api03-" + "a1B2c3D4e5F6g7H8" * 6
    with open_ledger(path) as store:
        put_tag(store, Tag(trace=key, span="", step=0, failure=FailureClass.LOOP, by="ann",
                           note=f"used {secret}"))  # fmt: skip
        text = markdown(store, key)
    assert secret not in text
    assert "SECRET" in text


def test_a_run_that_is_not_there(db: Path) -> None:
    with open_ledger(db) as store, pytest.raises(NotFound):
        markdown(store, "nosuch")


def arc(path: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, ["--db", str(path), *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.stdout


def test_the_command_names_the_golden_task_and_the_playbook_here(
    few_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    path = Path(shutil.copy(few_runs, tmp_path / "arc.db"))
    before = arc(path, "report", "--postmortem", TOUR)
    assert "None in `golden` was made from this run." in before
    assert f"| rollback | {BLANK} |" in before
    arc(path, "golden", "add", TOUR, "--id", "many", "--check", "contains:refund", "--reason", "x")
    (tmp_path / "playbook.toml").write_text('["hallucinated state"]\nrollback = "Deploy v7."')
    after = arc(path, "report", "--postmortem", TOUR)
    assert_neutral(after)
    assert "`many` in `golden`" in after
    assert "| rollback | `Deploy v7.` |" in after
    (tmp_path / "golden" / "manifest.toml").write_text("<<<<<<< ours")
    broken = arc(path, "report", "--postmortem", TOUR)
    assert "The golden set cannot be read" in broken
    assert "None in `golden` was made from this run." not in broken
