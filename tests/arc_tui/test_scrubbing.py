"""`arc db scrub`: rules that come late reach what is stored, and everything stays on its place."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from replay.care import check, rewriting
from replay.care.scrub.content import PLAIN, STORE
from replay.care.scrub.run import Scrubbed, scrub
from replay.edit.changes import Edit, SetSystem
from replay.errors import BadEdit, NotFound, OfflineMiss, StoreUnusable
from replay.models.cached import Cached
from replay.redact import rules
from replay.redact.placeholders import PLACEHOLDER
from replay.redact.redactor import Redactor
from replay.redact.rules import Policy
from replay.store import encryption, read
from replay.store.handle import Store
from replay.store.trouble import StoreBusy, StoreDamaged
from replay.store.write import Writer
from replay.trace import Batch, Header, ToolCall, Trace
from taxonomy.classes import FailureClass
from taxonomy.judgements.care import JUDGEMENTS
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, human_tags, put_tag
from tests.build import call, step, trace
from tests.faults.holdings import damage
from tests.faults.planted import found_in, indexed
from tests.faults.scrubbed import asked_again, planted, unmasked
from tests.replay.locked_case import DIALOGUE, Tiny, run, spans, stored, tiny

BADGE = "E-20417"
RULES = Policy(rules=rules.rules({"badge": "E-[0-9]{5}"}))
CONFIG = "[redact]\npatterns = { badge = 'E-[0-9]{5}' }\n"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_REDACT_KEY", "trial")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_ledger(path) as opened:
        yield opened


def badged(store: Store, id: str = "case") -> Trace:
    """A run whose user says a badge: a name no rule had when it was stored."""
    said = [
        (role, what.replace("Refund order 1042", f"I am {BADGE}. Refund order 1042"))
        if isinstance(what, str)
        else (role, what)
        for role, what in DIALOGUE
    ]
    return stored(store, spans(said), id)


def late(store: Store, **more: object) -> Scrubbed:
    """Scrub with the rule that came late."""
    store._redactor = Redactor(b"trial", RULES)
    return scrub(store, JUDGEMENTS, **more)  # type: ignore[arg-type]


def rowed(found: Scrubbed) -> dict[tuple[str, str], int]:
    return {(each.table, each.rule): each.places for each in found.masked}


# --- every place


def test_every_column_with_text_is_masked_or_said_to_be_ours(store: Store) -> None:
    known = {**STORE, **JUDGEMENTS}
    tables = store.db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    missing = []
    for (table,) in tables.fetchall():
        columns = store.db.execute(f"PRAGMA table_info({table})").fetchall()
        texts = {each[1] for each in columns if each[2] in {"TEXT", ""}}
        places = known.get(table)
        if places is None:
            missing.append(table)
        elif not table.endswith(("_data", "_docsize")):
            said = {*places.text, *places.json, *places.ours}
            missing += [f"{table}.{each}" for each in sorted(texts ^ said)]
    assert not missing
    assert all(why for places in known.values() for why in places.ours.values())


@pytest.mark.parametrize(
    "table", [*PLAIN, *(name for name, each in JUDGEMENTS.items() if each.text or each.json)]
)
def test_a_text_in_a_plain_table_is_masked_in_each_of_its_columns(
    table: str, store: Store, path: Path
) -> None:
    """Where a digest speaks for a row, a planted run shows it: see `tests.faults.scrubbed`."""
    places = {**PLAIN, **JUDGEMENTS}[table]
    columns = store.db.execute(f"PRAGMA table_info({table})").fetchall()
    row = {each[1]: "word" if each[2] == "TEXT" else 0 for each in columns}
    if "trace" in row and row["trace"] == 0:
        badged(store)
        row["trace"] = 1
    row |= {name: f"{BADGE}-{name}" for name in places.text}
    row |= {name: f'{{"said":"{BADGE}-{name}"}}' for name in places.json}
    names = ", ".join(row)
    store.db.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )
    assert found_in(path, [BADGE])
    found = rowed(late(store))
    assert found[table, "badge"] == len(places.text) + len(places.json)
    assert not found_in(path, [BADGE])


def test_what_is_found_by_a_rule_is_gone_from_the_search(store: Store) -> None:
    badged(store)
    assert indexed(store, ["20417"]) == ["20417"]
    late(store)
    assert not indexed(store, ["20417"])
    assert indexed(store, ["refund"]) == ["refund"]


# --- what refers to what


def test_two_messages_that_become_the_same_are_stored_once(store: Store) -> None:
    badged(store, "before")
    late(store)
    unmasked(store)
    badged(store, "after")  # by a process that does not know the rule yet
    counts = store.db.execute("SELECT count(*) FROM message").fetchone()[0]
    found = late(store)
    assert found.merged == 1
    assert store.db.execute("SELECT count(*) FROM message").fetchone()[0] == counts - 1
    first, second = (
        read.load(store, row[0]) for row in store.db.execute("SELECT key FROM trace ORDER BY id")
    )
    assert _said(first) == _said(second)
    assert _contexts(store, first.id) == _contexts(store, second.id)
    assert not list(check.content(store))
    assert not [each for t in (first, second) for each in check.trace_digests(store, t.id)]


def test_what_was_stored_masked_first_gives_way_to_what_came_before_it(store: Store) -> None:
    """A parent must stand before its children, whichever of two rows stays."""
    unmasked(store)
    badged(store, "before")
    store._redactor = Redactor(b"trial", RULES)
    badged(store, "after")
    late(store)
    assert not list(check.content(store))
    orders = store.db.execute("SELECT id, parent FROM context WHERE parent IS NOT NULL").fetchall()
    assert all(parent < row for row, parent in orders)


def _said(trace: Trace) -> list[object]:
    return [
        [node.message.body for node in step.ask.request.context.nodes()]
        for step in trace.steps
        if step.ask.request.context is not None
    ]


def _contexts(store: Store, key: str) -> list[tuple[int]]:
    return store.db.execute(
        "SELECT m.context FROM model_call m JOIN span s ON s.id = m.span JOIN trace t"
        " ON t.id = s.trace WHERE t.key = ? ORDER BY s.seq",
        (key,),
    ).fetchall()


def test_a_tag_stays_on_its_step_though_the_id_of_its_span_is_masked(store: Store) -> None:
    recorded = trace([step("one", call("look_up", "found")), step("two")])
    named = {span.id: f"{BADGE}/{span.id}" for span in recorded.spans}
    renamed = [
        structs.replace(span, id=named[span.id], parent=span.parent and named[span.parent])
        for span in recorded.spans
    ]
    renamed = [
        structs.replace(span, asked_by=span.asked_by and named[span.asked_by])
        if isinstance(span, ToolCall)
        else span
        for span in renamed
    ]
    key = stored(store, renamed).id
    span = read.load(store, key).steps[1].ask.id
    given = Tag(
        trace=key, span=span, step=1, failure=FailureClass.LOOP, by="ada", note=f"saw {BADGE}"
    )
    put_tag(store, given)
    late(store)
    (kept,) = human_tags(store)
    after = read.load(store, key)
    assert kept.span == after.steps[1].ask.id
    assert BADGE not in kept.span
    assert kept.note is not None
    assert PLACEHOLDER.search(kept.note)
    assert [len(each.acts) for each in after.steps] == [1, 0]
    assert not list(check.trace_digests(store, key))


def test_the_same_source_imported_again_is_a_duplicate(store: Store) -> None:
    badged(store)
    late(store)
    said = [
        (role, what.replace("Refund order 1042", f"I am {BADGE}. Refund order 1042"))
        if isinstance(what, str)
        else (role, what)
        for role, what in DIALOGUE
    ]
    writer = Writer(store)
    header = Header(format="test", source_id="case")
    batch = Batch(header=header, spans=tuple(spans(said)), last=True)
    assert writer.finish(writer.write(batch)).verdict == "duplicate"


# --- what was paid for


def test_a_step_that_was_asked_under_a_prompt_that_is_given_is_not_asked_again(
    store: Store,
) -> None:
    recorded = badged(store)
    edits = [Edit(name=f"v{at}", changes=(SetSystem(f"Prompt {at}."),)) for at in range(3)]
    for each in edits:
        run(recorded, each, tiny(store))
    found = late(store, prompts=edits[:2])
    after = read.load(store, recorded.id)
    for each in edits[:2]:
        model = Cached(store, "tiny")
        run(after, each, model)
        assert model.hits
    with pytest.raises(OfflineMiss):
        run(after, edits[2], Cached(store, "tiny"))
    assert found.untold == len(after.steps)  # those under the prompt that was not given


def test_an_answer_whose_request_reads_as_before_keeps_its_key(store: Store) -> None:
    recorded = stored(store)
    run(recorded, None, tiny(store))
    badged(store, "other")
    late(store)
    model = tiny(store, inner := Tiny())
    run(read.load(store, recorded.id), None, model)
    assert inner.asked == 0


@pytest.mark.slow
def test_kept_replays_come_to_the_same_again(path: Path) -> None:
    planted(path, 3, 5)
    with open_ledger(path) as store:
        scrub(store, JUDGEMENTS)
    kept, again = asked_again(path)
    assert kept == again > 0


def test_a_pattern_that_matches_in_digests_and_ids_of_ours_leaves_them(store: Store) -> None:
    recorded = badged(store)
    run(recorded, None, tiny(store))
    store.db.execute(
        "INSERT INTO setting VALUES (?, ?)",
        (f"bisect/{recorded.id}/x", msgspec.json.encode({"trace": recorded.id}).decode()),
    )
    store._redactor = Redactor(b"trial", Policy(rules=rules.rules({"hex": "[0-9a-f]{4}"})))
    scrub(store, JUDGEMENTS)
    name, value = store.db.execute(
        "SELECT name, value FROM setting WHERE name LIKE 'b%'"
    ).fetchone()
    assert recorded.id in name
    assert msgspec.json.decode(value) == {"trace": recorded.id}


# --- all or nothing


def test_a_dry_run_counts_the_same_and_changes_nothing(store: Store, path: Path) -> None:
    badged(store)
    before = "\n".join(store.db.iterdump())
    foreseen = late(store, dry=True)
    assert "\n".join(store.db.iterdump()) == before
    done = late(store)
    assert (foreseen.done, done.done) == (False, True)
    assert foreseen.masked == done.masked
    assert done.places
    again = late(store)
    assert not again.masked
    assert not again.erased


def test_damage_is_not_given_a_new_digest(store: Store, path: Path) -> None:
    badged(store)
    store.db.execute("UPDATE message SET body = replace(body, 'it broke', 'it brake')")
    with pytest.raises(StoreDamaged, match="message row"):
        late(store)
    assert found_in(path, [BADGE])


def test_an_import_that_never_ended_goes(store: Store, path: Path) -> None:
    writer = Writer(store)
    header = Header(format="test", source_id="half", title=f"about {BADGE}")
    writer.write(Batch(header=header, spans=tuple(spans(DIALOGUE)[:3]), last=False))
    assert late(store).unfinished == 1
    assert store.db.execute("SELECT count(*) FROM span").fetchone()[0] == 0


def test_another_writer_is_waited_for_and_said(store: Store, path: Path) -> None:
    badged(store)
    store.db.execute("PRAGMA busy_timeout = 10")
    _ = store.redactor
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="locked by another process"):
            late(store)
        other.execute("ROLLBACK")
    assert late(store).done


def test_a_database_that_may_only_be_read_is_said_so(store: Store) -> None:
    badged(store)
    store.db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnusable, match="is read-only"):
        late(store)


@pytest.mark.skipif(find_spec("sqlcipher3") is None, reason="the extra `crypt` is not installed")
@pytest.mark.slow
def test_an_encrypted_database_is_scrubbed_too(path: Path) -> None:
    with open_ledger(path) as store:
        badged(store)
    rewriting.encrypt(path, "a key of some words")
    try:
        with open_ledger(path) as store:
            assert late(store).erased
        assert not damage(path)
        rewriting.decrypt(path)
        assert not found_in(path, [BADGE])
    finally:
        encryption.forget()


# --- the command


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text(CONFIG)


def arc(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(path), "db", "scrub", *words])


@pytest.mark.usefixtures("config")
def test_the_command_masks_by_the_rules_of_the_config_and_tells_no_secret(path: Path) -> None:
    with open_ledger(path) as store:
        unmasked(store)
        badged(store)
    copy = Path(shutil.copy(path, path.with_name("arc.db.bak")))
    dry = arc(path, "--dry-run")
    assert dry.exit_code == 0
    assert "to be masked: " in dry.stdout
    assert "Nothing was changed" in dry.stderr
    done = arc(path)
    assert done.exit_code == 0
    assert "badge  message" in done.stdout
    assert "the old bytes were erased from the file and its log" in done.stdout
    assert copy.name in done.stderr
    assert not [each for each in (dry, done) if "20417" in each.output]
    copy.unlink()
    assert not found_in(path, [BADGE])
    again = arc(path, "--json")
    assert msgspec.json.decode(again.stdout)["masked"] == []


def test_a_database_that_is_not_there_is_not_made(path: Path) -> None:
    assert isinstance(arc(path).exception, NotFound)
    assert not path.exists()


def test_a_prompt_that_cannot_be_read_is_said(path: Path, tmp_path: Path) -> None:
    open_ledger(path).close()
    (tmp_path / "v1.md").write_bytes(b"\xff\xfe")
    done = arc(path, "--bisected", str(tmp_path / "v1.md"))
    assert isinstance(done.exception, BadEdit)
    assert "cannot be read" in done.exception.message
