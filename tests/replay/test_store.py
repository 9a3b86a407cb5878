"""The store: what goes in comes out, equal content is one row, damage is found."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from replay.care import check
from replay.errors import ArcError, BadTrace, NotFound, StoreUnusable
from replay.store import backup, read, rows
from replay.store.edits import SKETCHED, Supplement, attach
from replay.store.gaps import infer_tools
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Level,
    Message,
    ModelCall,
    Observation,
    Outcome,
    Request,
    Response,
    SourceScore,
    ToolCall,
    Usage,
    extend,
)
from tests.planned import ways


def said(role: str, content: object) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": content})


SYSTEM = said("system", "Be brief.")
USER = said("user", "Where is order 7?")
ASKS = said(
    "assistant", [{"type": "tool_use", "id": "c1", "name": "get_order", "input": {"id": 7}}]
)
RESULT = said("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "shipped"}])
ENDS = said("assistant", [{"type": "text", "text": "It is shipped."}])
REBUILT = Fidelity(level=Level.REBUILT)
BARE = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))


def spans(
    *, end: bool = True, answered: bool = True, fidelity: Fidelity = REBUILT
) -> list[AnySpan]:
    first = extend(None, [USER])
    system = None if fidelity is BARE else SYSTEM
    found: list[AnySpan] = [
        AgentSpan(id="a", name="shop"),
        ModelCall(
            id="m1",
            name="chat",
            parent="a",
            start_ns=10,
            end_ns=20,
            request=Request(model="claude-sonnet-4-5", system=system, context=first),
            response=Response(message=ASKS, stop="tool"),
            usage=Usage(input_tokens=1000, output_tokens=100),
            fidelity=fidelity,
        ),
        ToolCall(
            id="t1",
            name="get_order",
            parent="a",
            start_ns=20,
            end_ns=30 if answered else None,
            call_id="c1",
            asked_by="m1",
            arguments={"id": 7},
            observation=Observation(message=RESULT, block=0) if answered else None,
            effect="read",
        ),
    ]
    if end:
        found.append(
            ModelCall(
                id="m2",
                name="chat",
                parent="a",
                start_ns=30,
                end_ns=40,
                request=Request(system=system, context=extend(first, [ASKS, RESULT])),
                response=Response(message=ENDS, stop="end"),
                fidelity=fidelity,
            )
        )
    return found


def batch(*given: AnySpan, source_id: str = "run-1", **header: object) -> Batch:
    head = structs.replace(Header(format="chat", source_id=source_id), **header)
    return Batch(header=head, spans=tuple(given), last=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "arc.db")


def add(store: Store, given: Batch, *, replace: bool = False) -> str:
    writer = Writer(store, replace=replace)
    return writer.finish(writer.write(given)).verdict


def only(store: Store) -> rows.TraceRow:
    (row,) = rows.trace_rows(store, every=True)
    return row


def test_the_file_is_private_and_the_database_is_in_wal_mode(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "deep" / "arc.db")
    assert stat.S_IMODE((tmp_path / "deep" / "arc.db").stat().st_mode) == 0o600
    assert store.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_a_trace_comes_back_as_it_went_in(store: Store) -> None:
    assert add(store, batch(*spans(), task="orders", outcome=Outcome(status="passed"))) == "new"
    trace = read.load(store, only(store).trace)
    assert [step.index for step in trace.steps] == [0, 1]
    first, last = trace.steps
    assert first.thread == "a"
    assert first.ask.request.system == SYSTEM
    assert [act.arguments for act in first.acts] == [{"id": 7}]
    assert last.ask.request.context is not None
    assert last.ask.request.context.messages() == [USER, ASKS, RESULT]
    assert first.acts[0].observation is not None
    assert first.acts[0].observation.message == RESULT
    assert trace.header.task == "orders"
    assert read.part(store, trace.id, [1])[1].ask.response.message == ENDS


def test_some_steps_are_read_without_looking_at_the_other_spans(store: Store) -> None:
    add(store, batch(*spans()))
    key = only(store).trace
    plans = ways(store, lambda: read.part(store, key, [1]))
    assert any("INDEX span_step (trace=? AND step=?)" in plan for plan in plans)
    assert not any("span_order" in plan or plan.startswith("SCAN span") for plan in plans)


def test_unknown_sums_say_so_and_known_ones_are_priced(store: Store) -> None:
    add(store, batch(*spans()))
    row = only(store)
    assert (row.input_tokens, row.tokens_complete) == (1000, False)
    assert row.cost_usd == pytest.approx(1000 * 3e-6 + 100 * 15e-6)
    assert not row.cost_complete
    first, last = rows.step_rows(store, row.trace)
    assert first.cost_source == "priced"
    assert last.cost_usd is None
    prices = store.db.execute("SELECT prices FROM model_call WHERE cost_usd > 0").fetchone()[0]
    assert prices.startswith("genai-prices ")


def test_importing_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    add(store, batch(*spans()))
    before = list(sqlite3.connect(tmp_path / "arc.db").iterdump())
    assert add(store, batch(*spans())) == "duplicate"
    assert list(sqlite3.connect(tmp_path / "arc.db").iterdump()) == before


def test_a_sidecar_written_later_fills_what_was_unknown(store: Store) -> None:
    add(store, batch(*spans()))
    failed = Outcome(status="failed", value=0.0, by="verifier")
    assert add(store, batch(*spans(), outcome=failed, task="late")) == "duplicate"
    assert (only(store).outcome, only(store).task) == ("failed", "late")


def test_a_judgement_written_later_fills_labels_and_scores(store: Store) -> None:
    key = "SELECT key, labels FROM trace"
    add(store, batch(*spans(), labels={"judge": "first"}))
    late = structs.replace(
        batch(*spans(), labels={"judge": "second", "behavior": "flattery"}),
        scores=(SourceScore(name="presence", by="judge", value=8.0),),
    )
    assert add(store, late) == "duplicate"
    trace, labels = store.db.execute(key).fetchone()
    assert msgspec.json.decode(labels) == {"judge": "first", "behavior": "flattery"}
    assert [score.value for score in read.scores(store, trace)] == [8.0]
    other = structs.replace(late, scores=(SourceScore(name="presence", by="judge", value=3.0),))
    assert add(store, other) == "duplicate"
    assert [score.value for score in read.scores(store, trace)] == [8.0]


def test_a_session_that_grew_is_extended_in_place(store: Store) -> None:
    add(store, batch(*spans(end=False, answered=False)))
    assert add(store, batch(*spans())) == "grown"
    assert only(store).steps == 2


def test_a_recording_that_says_otherwise_is_refused_unless_asked_for(store: Store) -> None:
    add(store, batch(*spans()))
    other = [
        structs.replace(s, arguments={"id": 8}) if isinstance(s, ToolCall) else s for s in spans()
    ]
    with pytest.raises(BadTrace, match="differs from the stored recording"):
        add(store, batch(*other))
    assert only(store).steps == 2
    assert add(store, batch(*other), replace=True) == "replaced"


def test_two_recordings_of_a_run_are_linked_and_counted_once(store: Store) -> None:
    add(store, batch(*spans(end=False)))
    add(store, batch(*spans(), format="atif"))
    assert [row.format for row in rows.trace_rows(store)] == ["atif"]
    both = rows.trace_rows(store, every=True)
    assert len({row.run for row in both}) == 1
    assert [row.preferred for row in both] == [False, True]


def test_an_unfinished_trace_is_invisible_and_makes_room(store: Store) -> None:
    Writer(store).write(batch(*spans(end=False)))
    assert rows.trace_rows(store) == []
    assert add(store, batch(*spans())) == "new"
    assert only(store).steps == 2


def test_a_span_id_that_stands_twice_is_refused(store: Store) -> None:
    with pytest.raises(BadTrace, match="occurs twice"):
        add(store, batch(AgentSpan(id="a", name="x"), AgentSpan(id="a", name="y")))


def test_equal_content_is_stored_once(store: Store) -> None:
    add(store, batch(*spans()))
    add(store, batch(*spans(), source_id="run-2"))
    found = backup.counts(store.db)
    assert (found["message"], found["context"]) == (5, 3)


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    secret = "ghp_" + "a1" * 18
    store = Store.open(tmp_path / "arc.db")
    leaky = [
        structs.replace(s, arguments={"token": secret}, error=f"bad {secret}")
        if isinstance(s, ToolCall)
        else s
        for s in spans()
    ]
    add(store, batch(*leaky, title=f"use {secret}", labels={"x": secret}))
    store.close()
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes()


def test_verify_finds_nothing_in_a_sound_database_and_every_forged_row(store: Store) -> None:
    add(store, batch(*spans()))
    key = only(store).trace
    assert not [*check.content(store), *check.trace_digests(store, key)]
    assert not [*check.coherence(read.load(store, key))]
    store.db.execute("UPDATE message SET body = replace(body, 'shipped', 'lost')")
    store.db.execute("UPDATE tool_call SET arguments = '{\"id\": 9}'")
    damaged = {each.where.split(" row")[0] for each in check.content(store)}
    assert damaged == {"message"}
    assert next(each.where for each in check.trace_digests(store, key)).startswith("trace ")


def test_verify_notes_a_result_that_was_not_recorded(store: Store) -> None:
    add(store, batch(*spans(end=False, answered=False)))
    (note,) = check.coherence(read.load(store, only(store).trace))
    assert (note.severity, note.what) == ("note", "result not recorded")


def test_a_name_finds_one_trace_or_says_what_is_near(store: Store) -> None:
    add(store, batch(*spans(), task="orders", trial="3"))
    key = only(store).trace
    for name in (key, key[:5], "last", "orders/3", "run-1"):
        assert rows.trace_row(store, name).trace == key
    with pytest.raises(NotFound, match=key[:8]):
        rows.trace_row(store, "nothing")


def test_the_task_or_title_of_one_run_alone_names_it(store: Store) -> None:
    add(store, batch(*spans(), task="fix-git", trial="3", title="Mend the branch"))
    key = only(store).trace
    assert rows.trace_row(store, "fix-git").trace == key
    assert rows.trace_row(store, "Mend the branch").trace == key
    for near in ("fix-gti", "fix", "Mend the"):
        with pytest.raises(
            NotFound, match=rf"no trace '{near}'; did you mean {key[:8]} \(fix-git\)"
        ):
            rows.trace_row(store, near)


def test_a_task_with_several_runs_lists_them_to_choose_from(store: Store) -> None:
    for trial in range(7):
        add(store, batch(*spans(), source_id=f"run-{trial}", task="fix-git", trial=str(trial)))
    with pytest.raises(ArcError, match="'fix-git' matches 7 runs") as raised:
        rows.trace_row(store, "fix-git")
    ids = [row.trace[:8] for row in rows.trace_rows(store)]
    assert (
        f"Try: one of {ids[0]} (trial 0, outcome unknown), {ids[1]} (trial 1" in raised.value.hint
    )
    assert raised.value.hint.endswith(", and 2 more")


def test_a_supplement_completes_a_request_and_says_so(store: Store) -> None:
    add(store, batch(*spans(fidelity=BARE)))
    key = only(store).trace
    attach(store, key, Supplement(name="prompt.md", system="Be kind."))
    call = read.load(store, key).steps[0].ask
    assert call.request.system is not None
    assert call.fidelity.level is Level.PARTIAL
    attach(
        store,
        key,
        Supplement(
            name="both", system="Be kind.", tools=infer_tools(store, key).tools, sketched=True
        ),
    )
    call = read.load(store, key).steps[0].ask
    assert call.request.tools is not None
    assert [tool.name for tool in call.request.tools] == ["get_order"]
    assert SKETCHED in call.fidelity.reasons


def test_a_file_that_is_no_database_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database, but long enough to be looked at" * 30)
    with pytest.raises(StoreUnusable, match="is not a database"):
        Store.open(tmp_path / "x.db")


def test_a_newer_database_is_refused_in_words(store: Store, tmp_path: Path) -> None:
    store.db.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
        " VALUES ('replay', '0999_future', 'now')"
    )
    with pytest.raises(StoreUnusable, match="newer arc"):
        Store.open(tmp_path / "arc.db")


def test_two_that_open_a_new_database_at_once_both_get_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: opened_rows(tmp_path / "new.db"), range(16)))
    assert counts == [0] * 16


@pytest.mark.slow
def test_three_threads_open_a_new_database_at_once_again_and_again(tmp_path: Path) -> None:
    """One of eight times SQLite tells one of them at once that the file is locked."""
    with ThreadPoolExecutor(3) as pool:
        for at in range(60):
            path = tmp_path / f"{at}.db"
            assert list(pool.map(lambda _, path=path: opened_rows(path), range(3))) == [0, 0, 0]


def opened_rows(path: Path) -> int:
    with Store.open(path) as store:
        return len(rows.trace_rows(store))


@pytest.mark.process
@pytest.mark.parametrize("library", ["pandas", "numpy"])
def test_a_new_database_is_made_without_the_libraries_of_tables(
    tmp_path: Path, library: str
) -> None:
    (tmp_path / f"{library}.py").write_text("loaded = True\n")
    code = (
        "import sys, pathlib\n"
        "from replay.store.handle import Store\n"
        f"Store.open(pathlib.Path({str(tmp_path / 'arc.db')!r})).close()\n"
        f"assert {library!r} not in sys.modules\n"
        f"import {library}\n"
        f"assert {library}.loaded\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])
    found = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], env=found, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
