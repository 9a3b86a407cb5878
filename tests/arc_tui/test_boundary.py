"""A bug that one file or one run brings to light: it ends nothing else, and can be reported."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_tui import import_tasks
from arc_tui.app import ArcApp
from arc_tui.features.imports.following import follow
from replay.formats import chat
from replay.formats.source import Source, Tally
from replay.redact.redactor import Redactor
from replay.store.handle import Store
from replay.trace import Batch
from taxonomy.judgements.diagnoses import Kept, undiagnosed
from taxonomy.judgements.schema import open_ledger
from tests.replay.test_formats import CHAT
from tests.screen import settle, text
from tests.spoken import Spoken, spoken

SECRET = "hunter22-hunter22"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs; the reader of the second is made to fail after it has read the run."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("a", "b", "c"):
        asked = [{"role": "user", "content": f"run {name}"}, *CHAT[1:]]
        (runs / f"{name}.json").write_text(json.dumps(asked))
    read = chat.read

    def failing(source: Source, tally: Tally) -> Iterator[Batch]:
        yield from read(source, tally)
        if source.name == "b.json":
            raise OverflowError(f"password={SECRET}")

    monkeypatch.setattr(chat, "read", failing)
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    return runs


def arc(tmp_path: Path, *words: str) -> Spoken:
    return spoken("--db", "arc.db", *words, cwd=tmp_path)


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "data" / "bugs").iterdir())


def test_the_other_files_come_in_and_the_traceback_is_kept(folder: Path, tmp_path: Path) -> None:
    done = arc(tmp_path, "import", str(folder))
    assert done.code == 3
    assert "2 traces from 3 files" in done.out
    (report,) = kept(tmp_path)
    assert (
        "b.json: cannot be read: a bug in arc (OverflowError); please report it with the tra"
        in (done.err)
    )
    assert str(report) in done.err
    assert "Traceback" not in done.err
    held = report.read_text()
    assert "OverflowError" in held
    assert "test_boundary.py" in held
    assert SECRET not in held + done.err
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert len(json.loads(arc(tmp_path, "ls", "--json").out)) == 2
    arc(tmp_path, "import", str(folder))
    assert kept(tmp_path) == [report]  # the same bug is kept once


def test_json_names_the_file_that_arc_failed_on(folder: Path, tmp_path: Path) -> None:
    done = arc(tmp_path, "import", str(folder), "--json")
    assert done.code == 3
    assert [each["bug"] for each in json.loads(done.out)["files"]] == [False, True, False]


def test_where_the_traceback_cannot_be_kept_the_sentence_says_so(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("no folder")
    done = arc(tmp_path, "import", str(folder))
    assert done.code == 3
    assert "its traceback cannot be saved in" in done.err


@pytest.mark.pilot
async def test_the_app_shows_the_same_and_lists_the_others(folder: Path, tmp_path: Path) -> None:
    app = ArcApp(tmp_path / "arc.db", imports=(folder,))
    async with app.run_test(size=(160, 48), notifications=True) as pilot:
        await settle(pilot)
        shown = " ".join(text(app).split())
        assert "Imported 2 traces" in shown
        assert "(OverflowError)" in shown


def test_following_goes_on(folder: Path, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        reports = list(follow(store, [folder], lambda _: False))
    assert [each.bug for each in reports] == [False, True, False]


def test_a_run_the_rules_fail_on_is_named_and_the_others_are_diagnosed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = import_tasks.diagnosis_of
    seen = list[str]()

    def failing(store: Store, key: str, redactor: Redactor) -> Kept:
        seen.append(key)
        if len(seen) == 1:
            raise ZeroDivisionError
        return one(store, key, redactor)

    monkeypatch.setattr(import_tasks, "diagnosis_of", failing)
    done = arc(tmp_path, "import", str(folder / "a.json"), str(folder / "c.json"))
    assert done.code == 3
    assert f"run {seen[0][:8]}: cannot be diagnosed: a bug in arc (ZeroDivisionError)" in done.err
    with open_ledger(tmp_path / "arc.db") as store:
        assert undiagnosed(store) == seen[:1]
    assert arc(tmp_path, "ls").code == 0  # the rules look again, and succeed
    with open_ledger(tmp_path / "arc.db") as store:
        assert undiagnosed(store) == []
