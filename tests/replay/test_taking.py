"""Many traces in one transaction, and the file they are written into."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from msgspec import structs

from replay.care import check
from replay.store import read, rows
from replay.store.connection import PAGE_BYTES
from replay.store.handle import Store
from replay.store.schema import Migrations
from replay.store.write import Finished, Writer
from replay.trace import AgentSpan, Batch, Header, Message, ModelCall, Request, extend


def said(text: str) -> Message:
    return Message(dialect="openai", body={"role": "user", "content": text})


def call(name: str, *texts: str) -> ModelCall:
    return ModelCall(id=name, name="chat", request=Request(context=extend(None, map(said, texts))))


def whole(name: str, *spans: ModelCall | AgentSpan) -> Batch:
    return Batch(header=Header(format="arc", source_id=name), spans=spans, last=True)


def many(name: str, spans: int) -> Batch:
    return whole(name, *(AgentSpan(id=f"{name}-{n}", name="agent") for n in range(spans)))


def test_a_refused_trace_harms_no_other_of_its_group() -> None:
    with Store.open(":memory:") as store:
        writer = Writer(store)
        twice = whole("twice", call("m", "hello"), call("m", "hello"))
        other = whole("one", call("m", "hello", "again"))
        done = writer.take(
            [whole("one", call("m", "hello")), twice, other, whole("two", call("m"))]
        )
        assert [each.verdict if isinstance(each, Finished) else each.why for each in done] == [
            "new",
            "occurs twice",
            "differs from the stored recording of the same run",
            "new",
        ]
        assert not writer.unfinished
        kept = {row.source_id for row in rows.trace_rows(store)}
        assert kept == {"one", "two"}
        assert store.db.execute("SELECT count(*) FROM trace").fetchone() == (2,)


def test_a_refused_trace_harms_none_that_is_still_coming() -> None:
    going, bad = whole("going", call("m", "hello")), whole("bad", call("m"), call("m"))
    parts = [
        structs.replace(going, last=False),
        structs.replace(bad, last=False),
        structs.replace(bad, spans=(call("n"),)),
        structs.replace(going, spans=(call("n"),)),
        whole("bad", call("m")),
    ]
    with Store.open(":memory:") as store:
        writer = Writer(store)
        done = [each for part in parts for each in writer.take([part])]
        assert [each.verdict if isinstance(each, Finished) else each.why for each in done] == [
            "occurs twice", "new", "new",
        ]  # fmt: skip
        kept = {row.source_id: row.spans for row in rows.trace_rows(store)}
        assert kept == {"going": 2, "bad": 1}


def test_a_trace_may_grow_and_be_replaced_within_one_group() -> None:
    first, second = whole("x", call("m", "red")), whole("x", call("m", "blue"))
    with Store.open(":memory:") as store:
        done = Writer(store, replace=True).take([first, first, second])
        assert [each.verdict for each in done if isinstance(each, Finished)] == [
            "new", "duplicate", "replaced",
        ]  # fmt: skip
        (row,) = rows.trace_rows(store)
        (kept,) = read.load(store, row.trace).spans
        assert isinstance(kept, ModelCall)
        assert kept.request.context is not None
        assert kept.request.context.message == said("blue")


def test_a_group_whose_writing_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        store.db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON span WHEN new.span_id = 'bad'"
            " BEGIN SELECT raise(ABORT, 'no room'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="no room"):
            Writer(store).take([whole("good", call("m", "hello")), whole("x", call("bad"))])
        for table in ("trace", "span", "message", "context", "message_words"):
            assert store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


# --- the file


def test_a_new_file_has_large_pages_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with sqlite3.connect(old) as made:
        made.execute("PRAGMA page_size = 4096")
        made.execute("CREATE TABLE notes (text)")
    made.close()
    for path, size in ((tmp_path / "new.db", PAGE_BYTES), (old, 4096)):
        with Store.open(path) as store:
            assert store.db.execute("PRAGMA page_size").fetchone() == (size,)


def test_a_change_that_makes_a_table_anew_keeps_its_ids_and_what_refers_to_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path, _noted()) as store:
        Writer(store).take([whole("one", call("a", "hello"), call("b", "hello", "again"))])
        before = store.db.execute("SELECT * FROM context ORDER BY id").fetchall()
    with Store.open(path, _noted(anew=True)) as store:
        assert store.db.execute("SELECT * FROM context ORDER BY id").fetchall() == before
        assert not store.db.execute("PRAGMA foreign_key_check").fetchall()
        assert store.db.execute("PRAGMA foreign_keys").fetchone() == (1,)
        Writer(store).take([whole("two", call("c", "hello", "again", "more"))])
        assert store.db.execute("SELECT id, parent, depth FROM context ORDER BY id").fetchall() == [
            (1, None, 1), (2, 1, 2), (3, 2, 3),
        ]  # fmt: skip
        for row in rows.trace_rows(store):
            assert not [*check.content(store), *check.trace_digests(store, row.trace)]


def _noted(*, anew: bool = False) -> Migrations:
    """A set of migrations, the second of which makes the table of contexts anew."""
    made = Migrations("noted")

    @made("0001_nothing")
    def _(db: sqlite3.Connection) -> None:
        del db

    if anew:

        @made("0002_contexts")
        def _(db: sqlite3.Connection) -> None:
            (sql,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'context'").fetchone()
            db.execute(re.sub(r"\bcontext\b", "node", sql))
            db.execute("INSERT INTO node SELECT * FROM context")
            db.execute("DROP TABLE context")
            db.execute("ALTER TABLE node RENAME TO context")
            db.execute("CREATE UNIQUE INDEX context_place ON context(message, parent)")

    return made
