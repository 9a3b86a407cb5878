"""`arc db prune`: which runs go, what goes with them, what stays, and that their bytes are gone."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.features.database.prune import PruneRequest, preview, remove_runs
from replay import digests
from replay import kept as replays
from replay.care import prune
from replay.errors import ArcError
from replay.kept import of_trace
from replay.store import answers, edits, read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.search import traces_saying
from replay.store.trouble import StoreBusy
from replay.store.write import Writer
from replay.trace import Batch, Header
from taxonomy import held_out
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give, opinions
from taxonomy.judgements.tags import human_tags, human_words
from taxonomy.query.language import BadQuery
from tests.build import START_NS, step, trace
from tests.faults.planted import COMMON, DAY_NS, found_in
from tests.faults.pruned import planted
from tests.messages_api import message, text
from tests.replay.locked_case import Fixed, core_of, stored, tiny
from tests.replay.locked_case import run as run_replay

RUNS = 6
EVERYTHING = PruneRequest(before_ns=START_NS + 1000 * DAY_NS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, str]]]:
    path = tmp_path_factory.mktemp("planted") / "arc.db"
    return path, planted(path, RUNS, 3)


@pytest.fixture
def path(made: tuple[Path, list[dict[str, str]]], tmp_path: Path) -> Path:
    return Path(shutil.copy(made[0], tmp_path / "arc.db"))


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_ledger(path) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with open_ledger(tmp_path / "empty.db") as opened:
        yield opened


def ids(store: Store) -> list[str]:
    return [row.source_id for row in trace_rows(store, every=True)]


def put(
    store: Store,
    name: str,
    *,
    live_until_ns: int | None = None,
    at_ns: int | None = START_NS,
    **header: object,
) -> str:
    """A run of one step that says its name, all of it at one moment."""
    made = trace([step(f"I am {name}.")], task="Who are you?")
    spans = [structs.replace(span, start_ns=at_ns, end_ns=at_ns) for span in made.spans]
    head = Header(**{"format": "built", "source_id": name, **header})  # type: ignore[arg-type]
    writer = Writer(store, live_until_ns=live_until_ns)
    key = writer.write(Batch(header=head, spans=tuple(spans), last=True))
    writer.finish(key)
    return key


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


# --- which runs go


def test_what_is_foreseen_is_what_is_removed_and_foreseeing_changes_nothing(
    store: Store, path: Path
) -> None:
    before = contents(path)
    foreseen = preview(store, PruneRequest(before_ns=START_NS + 2 * DAY_NS))
    assert contents(path) == before
    done = remove_runs(store, PruneRequest(before_ns=START_NS + 2 * DAY_NS))
    assert (done.weight, done.going, done.judgements) == (
        foreseen.weight,
        foreseen.going,
        foreseen.judgements,
    )
    assert ids(store) == ["run-2", "run-3", "run-4", "run-5"]
    assert done.file_bytes is not None
    assert done.file_bytes_after is not None
    assert done.file_bytes_after < done.file_bytes


@pytest.mark.parametrize(
    ("keep", "stays"),
    [
        (("failed",), ["run-0", "run-3"]),
        (("passed",), ["run-1", "run-2", "run-4", "run-5"]),
        (("tagged",), [f"run-{run}" for run in range(RUNS)]),
        (("replayed",), [f"run-{run}" for run in range(RUNS)]),
        (("outcome:failed steps>9",), []),
        (("says:it", "failed"), [f"run-{run}" for run in range(RUNS)]),
    ],
)
def test_what_is_to_be_kept_is_said_in_words_or_in_the_query_language(
    store: Store, keep: tuple[str, ...], stays: list[str]
) -> None:
    view = preview(store, PruneRequest(before_ns=EVERYTHING.before_ns, keep=keep))
    assert view.runs == RUNS - len(stays)
    assert sum(each.runs for each in view.staying) == len(stays)


def test_a_query_alone_says_which_runs_go(store: Store) -> None:
    remove_runs(store, PruneRequest(query="outcome:failed"))
    assert ids(store) == ["run-1", "run-2", "run-4", "run-5"]


def test_a_query_that_cannot_be_read_removes_nothing(store: Store) -> None:
    with pytest.raises(BadQuery):
        remove_runs(store, PruneRequest(query="outcome:failed", keep=("stepz>3",)))
    assert len(ids(store)) == RUNS


@pytest.mark.slow
def test_the_sample_is_the_same_one_the_next_time_and_grows_with_its_share(empty: Store) -> None:
    for number in range(60):
        put(empty, f"run-{number}")
    third = PruneRequest(before_ns=EVERYTHING.before_ns, sample=30)
    remove_runs(empty, third)
    left = ids(empty)
    assert 5 < len(left) < 35
    assert remove_runs(empty, third).runs == 0
    tenth = PruneRequest(before_ns=EVERYTHING.before_ns, sample=10)
    remove_runs(empty, tenth)
    assert set(ids(empty)) <= set(left)
    assert preview(empty, PruneRequest(before_ns=EVERYTHING.before_ns, sample=100)).runs == 0


def test_a_live_run_and_one_held_out_stay(empty: Store) -> None:
    put(empty, "live", live_until_ns=2**62)
    put(empty, "over", live_until_ns=1)
    for number in range(5):
        put(empty, f"task-{number}", task=f"task-{number}", trial="0")
    held_out.hold(empty, [row for row in trace_rows(empty) if row.task])
    (held,) = held_out.hidden(empty)
    view = remove_runs(empty, EVERYTHING)
    assert ids(empty) == ["live", held]
    assert {each.why: each.runs for each in view.staying} == {
        "live: still running": 1,
        "held out": 1,
    }
    meant = PruneRequest(before_ns=EVERYTHING.before_ns, with_held_out=True)
    remove_runs(empty, meant)
    assert ids(empty) == ["live"]


def test_the_recordings_of_a_run_go_together_or_stay_together(empty: Store) -> None:
    for name, days in (("old", 0), ("young", 5)):
        put(empty, f"{name}-a", format="a", run=name)
        put(empty, f"{name}-b", format="b", run=name, at_ns=START_NS + days * DAY_NS)
    view = remove_runs(empty, PruneRequest(before_ns=START_NS + DAY_NS))
    assert (view.runs, view.weight.traces) == (1, 2)
    assert ids(empty) == ["young-a", "young-b"]
    (preferred,) = trace_rows(empty)
    assert preferred.run == digests.run_id("young", None)


def test_a_run_of_unknown_start_is_as_old_as_its_import(empty: Store) -> None:
    put(empty, "dateless", at_ns=None)
    put(empty, "no clock", at_ns=0)
    imported = min(row.imported_ns for row in trace_rows(empty))
    assert preview(empty, PruneRequest(before_ns=imported)).runs == 0
    view = preview(empty, PruneRequest(before_ns=imported + 10**12))
    assert (view.runs, view.by_import) == (2, 2)


# --- what goes with them, and what does not


def test_a_message_goes_with_the_last_run_that_says_it(store: Store) -> None:
    remove_runs(store, PruneRequest(before_ns=START_NS + 5 * DAY_NS))
    assert len(traces_saying(store, COMMON)) == 1
    remove_runs(store, EVERYTHING)
    for table in ("trace", "span", "context", "message", "toolset", "answer", "replay", "edit",
                  "stub", "supplement", "source_score", "message_step", "step", "latency",
                  "suggestion", "diagnosis", "audit"):  # fmt: skip
        assert store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_what_people_said_stays_and_is_there_again_with_the_run(
    store: Store, made: tuple[Path, list[dict[str, str]]]
) -> None:
    key = trace_rows(store)[0].trace
    view = remove_runs(store, EVERYTHING)
    assert view.judgements.people == RUNS
    tags = {tag.trace: tag for tag in human_tags(store)}
    assert len(tags) == RUNS
    assert tags[key].note == made[1][0]["note of a person"]
    with open_ledger(made[0]) as whole:
        batch = read.recorded(whole, key)
    writer = Writer(store)
    assert writer.finish(writer.write(batch)).id == key
    assert [word.step for word in human_words(store)] == [0]


def test_what_people_said_goes_where_that_is_asked_for(store: Store, path: Path) -> None:
    key = trace_rows(store)[0].trace
    give(store, HumanScore(trace=key, span="step-0", step=0, by="bob", value=0.5))
    remove_runs(store, PruneRequest(before_ns=EVERYTHING.before_ns, even_people=True))
    assert not human_tags(store)
    assert not opinions(store)


def test_an_answer_and_an_edit_stay_while_a_kept_replay_rests_on_them(empty: Store) -> None:
    first, second = stored(empty, id="first"), stored(empty, id="second")
    model = tiny(empty, Fixed(message(text("Hello."), model="tiny")))
    for each in (first, second):
        replays.keep(empty, core_of(each, None, run_replay(each, None, model)))
    kept = empty.db.execute("SELECT count(*) FROM answer").fetchone()
    assert kept[0] > 0
    remove_runs(empty, PruneRequest(query=f"id:{first.id}"))
    assert [row.trace for row in trace_rows(empty)] == [second.id]
    assert empty.db.execute("SELECT count(*) FROM answer").fetchone() == kept
    asked = Fixed(message(text("Hello."), model="tiny"))
    run_replay(second, None, tiny(empty, asked))
    assert asked.asked == 0


def test_answers_that_no_replay_rests_on_go_only_where_that_is_asked_for(store: Store) -> None:
    answers.put(store, "key", model="judge", sample=0, body={"text": "a verdict"}, source="live")
    assert remove_runs(store, PruneRequest(query="outcome:failed")).weight.other_answers == 1
    assert answers.get(store, "key") is not None
    remove_runs(store, PruneRequest(query="outcome:failed", answers=True))
    assert answers.get(store, "key") is None
    assert of_trace(store, trace_rows(store)[0].trace)
    assert edits.listed(store)


def test_an_import_that_never_ended_goes_when_it_is_old_enough(empty: Store) -> None:
    begun = trace([step("I was cut short.")], task="What?")
    header = Header(format="built", source_id="cut")
    Writer(empty).write(Batch(header=header, spans=begun.spans, last=False))
    assert preview(empty, PruneRequest(query="outcome:failed")).weight.unfinished == 0
    assert preview(empty, PruneRequest(before_ns=1)).weight.unfinished == 0
    done = remove_runs(empty, PruneRequest(before_ns=2**62))
    assert (done.weight.unfinished, done.runs) == (1, 0)
    assert empty.db.execute("SELECT count(*) FROM message").fetchone() == (0,)


# --- the bytes


def test_a_reader_in_the_way_is_said_and_the_next_pruning_erases(
    store: Store, path: Path, made: tuple[Path, list[dict[str, str]]]
) -> None:
    gone = [made[1][0]["said"]]
    store.db.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchone()
        with pytest.raises(StoreBusy, match="another process"):
            remove_runs(store, PruneRequest(before_ns=START_NS + DAY_NS))
        assert len(ids(store)) == RUNS - 1
        assert prune.unerased(store)
    result = run(path, "--yes")
    assert "are erased now" in result.stderr
    assert not prune.unerased(store)
    store.close()
    assert not found_in(path, gone)


def test_files_beside_the_database_that_may_hold_what_goes_are_named(
    store: Store, path: Path
) -> None:
    copy = Path(shutil.copy(path, f"{path}.0005.bak"))
    (path.parent / "arc-2026-11-22.db").write_bytes(b"")
    (path.parent / "archive.txt").write_bytes(b"")
    named = [Path(each).name for each in preview(store, EVERYTHING).copies]
    assert named == ["arc-2026-11-22.db", copy.name]


# --- the command


def run(path: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(
        cli, ["--db", str(path), "db", "prune", *arguments], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result


def test_the_command_shows_what_would_go_and_does_it_with_yes(path: Path) -> None:
    shown = run(path, "--older", "1d", "--keep", "failed")
    assert "to delete: 4 runs, 4 recordings, 24 spans" in shown.stdout
    assert "kept: 2 --keep failed" in shown.stdout
    assert "4 human labels on these runs: kept" in shown.stdout
    assert "Nothing was changed" in shown.stderr
    done = run(path, "--older", "1d", "--keep", "failed", "--yes")
    assert "deleted: 4 runs" in done.stdout
    assert "the deleted bytes were erased" in done.stdout
    assert "to delete: 0 runs" in run(path, "--older", "1d", "--keep", "failed").stdout
    assert "to delete: 2 runs" in run(path, "outcome:failed").stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["--yes"], ["--older", "soon"], ["--older", "3"], ["--older", "1d", "--sample", "101%"]],
)
def test_what_is_not_understood_removes_nothing(path: Path, arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run(path, *arguments)
    with pytest.raises(ArcError):
        run(path, "outcome:soon", "--yes")
    with open_ledger(path) as store:
        assert len(ids(store)) == RUNS


def test_tags_of_a_run_that_went_hinder_no_other_command(path: Path) -> None:
    run(path, "--older", "1d", "--keep", "failed", "--yes")
    for words in (["tag", "list"], ["review"], ["failures"], ["ls"]):
        done = CliRunner().invoke(cli, ["--db", str(path), *words], standalone_mode=False)
        assert done.exception is None, words
    with open_ledger(path) as store:
        assert {tag.failure for tag in human_tags(store)} == {FailureClass.LOOP}
