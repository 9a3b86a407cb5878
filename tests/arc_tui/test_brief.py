"""`arc brief --md`: Markdown that shows a run, and whose foreign text does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.ui import markdown
from arc_tui.ui.format import one_line, plain
from arc_tui.views.brief import brief_markdown
from replay.store.rows import trace_rows
from replay.trace import Outcome
from taxonomy.classes import FailureClass
from taxonomy.findings import Candidate, Evidence, Finding, Signal
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.arc_tui import sample
from tests.build import call, step, trace
from tests.markdown import HOSTILE, assert_neutral, parsed, shown
from tests.shared import Imported, needs_shared
from tests.tries import often


def put_hostile(path: Path) -> str:
    """A failed run whose every text is hostile, diagnosed and tagged; its trace."""
    spans = trace([step(HOSTILE, call("pay", HOSTILE, amount=HOSTILE)), HOSTILE]).spans
    quotes = (Evidence(role=HOSTILE, text=HOSTILE * 9, step=0, place=HOSTILE),) * 9
    finding = Finding(
        failure=FailureClass.OTHER, step=0, why=HOSTILE, rule=HOSTILE, sub=HOSTILE, evidence=quotes
    )
    signal = Signal(name="x", weight=1.0, phrase=HOSTILE)
    candidate = Candidate(step=0, weight=1.0, why=HOSTILE, signals=(signal,))
    said = structs.replace(sample.SILENT, findings=(finding,), candidates=(candidate,))
    head = sample.header(HOSTILE, "0", Outcome(status="failed", value=HOSTILE, by=HOSTILE))
    head = structs.replace(head, title=HOSTILE * 2, variant=HOSTILE)
    key = sample.put(path, head, spans, said)
    with open_ledger(path) as store:
        put_tag(store, tag(key, HOSTILE))
    return key


def tag(key: str, note: str) -> Tag:
    return Tag(
        trace=key, span="", step=0, failure=FailureClass.OTHER, sub=HOSTILE[:40], by=HOSTILE,
        note=note,
    )  # fmt: skip


def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    key = put_hostile(tmp_path / "arc.db")
    with open_ledger(tmp_path / "arc.db") as store:
        text = brief_markdown(store, key)
    assert_neutral(text)
    assert "<script>alert(1)</script>" in shown(text)
    assert "@torvalds" in shown(text)
    assert "3 more quotes not shown." in text


def inlines(text: str) -> str:
    """The text of all lines and cells."""
    return "".join(
        child.content
        for token in parsed(text)
        for child in token.children or []
        if child.type != "html_inline"
    )


@settings(max_examples=often(200), deadline=None)
@given(st.text(alphabet="`|\\<>@#a &;*_[]()\n\t~-é漢\x1b", max_size=40))
def test_any_text_reads_as_itself(text: str) -> None:
    line = one_line(text).strip() or "–"
    assert inlines(markdown.code(text)) == line
    assert inlines(markdown.table([[markdown.cell(text), "b"]], ("", ""))) == f"{line}b"
    (fence,) = [each for each in parsed(markdown.block(text)) if each.type == "fence"]
    assert _letters(fence.content) == _letters(plain(text))


def _letters(text: str) -> str:
    return "".join(text.split())


def test_long_text_is_wrapped_and_what_is_left_out_is_counted() -> None:
    made = markdown.block("word " * 1000)
    assert_neutral(made)
    assert "3 500 more characters not shown." in made
    assert_neutral(markdown.block("漢" * 500))


def test_an_issue_takes_all_of_it(tmp_path: Path) -> None:
    quotes = (Evidence(role="said", text="word " * 400, step=0),) * 6
    finding = Finding(failure=FailureClass.LOOP, step=0, why="x", rule="loop", evidence=quotes)
    candidate = Candidate(
        step=0, weight=1.0, why="x", signals=(Signal(name="x", weight=1.0, phrase="x"),)
    )
    said = structs.replace(sample.SILENT, findings=(finding,) * 9, candidates=(candidate,))
    spans = trace([step("Done.")]).spans
    head = sample.header("26", "1", Outcome(status="failed"))
    key = sample.put(tmp_path / "arc.db", head, spans, said)
    with open_ledger(tmp_path / "arc.db") as store:
        text = brief_markdown(store, key)
    assert len(text) < 61_000
    assert "3 parts left out: an issue has no room for more." in text
    assert text.rstrip().endswith("--system FILE\n```")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    sample.put(
        path,
        sample.header("26", "1", Outcome(status="failed")),
        trace([step("I am E-123456.", call("pay", "no", amount=1)), "Done."]).spans,
    )
    return path


def brief(path: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, ["--db", str(path), "brief", "last", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_it_as_text_and_in_json(db: Path) -> None:
    text = brief(db, "--md")
    assert text.startswith("### `26 / 1` failed\n")
    assert text.endswith("\n```\n")
    assert json.loads(brief(db, "--md", "--json")) == {"brief": text}
    assert brief(db).startswith("# 26 / 1\n")


def test_secrets_are_masked_by_the_rules_of_today(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = put_hostile(db)  # imported last
    with open_ledger(db) as store:
        put_tag(store, tag(key, "badge E-123456"))
    assert "E-123456" in brief(db, "--md")
    (tmp_path / "config.toml").write_text('[redact.patterns]\nbadge = "E-[0-9]{6}"\n')
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    assert "E-123456" not in brief(db, "--md")


@needs_shared
@pytest.mark.data
def test_real_runs_are_neutral_and_narrow(real: Imported) -> None:
    with open_ledger(real.path) as store:
        for row in trace_rows(store)[::9]:
            text = brief_markdown(store, row.trace)
            assert_neutral(text)
            assert len(text) < 60_000  # GitHub takes 65 536
