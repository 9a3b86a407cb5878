"""Rows of a batch are given their ids, and refer to what the database has already."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from replay.errors import BadTrace
from replay.redact.redactor import Redactor
from replay.store import prepare, read
from replay.store.content import Masks, Rows
from replay.store.handle import Store
from replay.store.insert import NextIds, TraceIds, insert
from replay.store.prepare import SPANS_A_PIECE, Prepared, Preparer, Refused
from replay.store.write import Finished, Writer
from replay.trace import (
    AnySpan,
    Batch,
    Context,
    Header,
    Message,
    ModelCall,
    OtherSpan,
    Request,
    SourceScore,
    extend,
)
from tests.database_rows import rows_of


def message(digest: str) -> dict[str, object]:
    said = {"digest": digest, "dialect": "openai", "role": "user", "body": digest, "masked": 0}
    return {**said, "words": digest}


def added(store: Store, rows: Rows) -> TraceIds:
    ids = TraceIds(trace=1)
    with store.writing() as db:
        insert(db, rows.take(), ids, NextIds())
    return ids


def test_equal_digests_are_one_row_whether_they_wait_or_stand_in_the_file() -> None:
    with Store.open(":memory:") as store:
        rows = Rows()
        assert [rows.once("message", message(each), each) for each in "aba"] == [0, 1, 0]
        assert added(store, rows).content["message"] == [1, 2]
        rows = Rows()
        assert [rows.once("message", message(each), each) for each in "bc"] == [0, 1]
        assert added(store, rows).content["message"] == [2, 3]
        found = store.db.execute("SELECT id, digest FROM message ORDER BY id").fetchall()
        assert found == [(1, "a"), (2, "b"), (3, "c")]


def test_a_context_is_known_by_its_message_and_its_parent_also_where_it_has_none() -> None:
    with Store.open(":memory:") as store:
        for digest in "xz":  # what is new, then what stands in the file
            rows = Rows()
            said = rows.once("message", message("a"), "a")
            node = {"digest": digest, "parent": None, "message": said, "depth": 1, "masked": 0}
            above = rows.once("context", node, (said, None))
            assert rows.once("context", {**node, "digest": "other"}, (said, None)) == above
            below = {**node, "parent": above, "depth": 2}
            rows.once("context", below, (said, above))
            assert added(store, rows).content["context"] == [1, 2]
        found = store.db.execute("SELECT id, parent, digest FROM context").fetchall()
        assert found == [(1, None, "x"), (2, 1, "x")]
        assert not store.db.execute("PRAGMA foreign_key_check").fetchall()


def test_a_table_that_is_not_written_is_not_forgotten() -> None:
    with Store.open(":memory:") as store:
        rows = Rows()
        rows.add("step", {"trace": 1})
        with pytest.raises(AssertionError):
            added(store, rows)


def asking(name: str, *texts: str) -> ModelCall:
    said = [Message(dialect="openai", body={"role": "user", "content": text}) for text in texts]
    return ModelCall(id=name, name="chat", request=Request(context=extend(None, said)))


def failing(name: str, words: str) -> OtherSpan:
    return OtherSpan(id=name, name="part", operation="span", status="error", error=words)


def batch(name: str, *spans: AnySpan, last: bool = True) -> Batch:
    return Batch(header=Header(format="arc", source_id=name), spans=spans, last=last)


def test_of_a_refused_trace_nothing_else_is_prepared_and_the_next_of_its_name_is() -> None:
    preparer = Preparer(Masks(Redactor(b"key")))
    call = asking("m", "hello")
    given = [
        batch("1", call, call, last=False), batch("1", asking("n")), batch("2", call),
        batch("1", call),
    ]  # fmt: skip
    refused, *good = preparer.prepare(given)
    assert isinstance(refused, Refused)
    assert refused.error.why == "occurs twice"
    assert [each.begin["source_id"] for each in good if isinstance(each, Prepared)] == ["2", "1"]


def long_batch(calls: int) -> Batch:
    """Calls of which each is shown what the one before was, and one thing more."""
    context: Context | None = None
    spans: list[ModelCall] = []
    for at in range(calls):
        said = Message(dialect="openai", body={"role": "user", "content": f"say {at % 7}"})
        context = extend(context, [said])
        spans.append(ModelCall(id=f"m{at}", name="chat", request=Request(context=context)))
    score = SourceScore(name="good", by="person", span="m1", value=1.0)
    return structs.replace(batch("long", *spans), scores=(score,))


def test_a_long_trace_is_prepared_in_pieces_and_kept_as_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: dict[int, list[int]] = {}
    for most in (2 * SPANS_A_PIECE, 7, 10, 30, 31):
        monkeypatch.setattr(prepare, "SPANS_A_PIECE", most)
        with Store.open(tmp_path / f"{most}.db") as store:
            writer = Writer(store)
            made = list(writer.prepare([long_batch(30), batch("2", asking("m", "say 3"))]))
            pieces[most] = [each.spans for each in made if isinstance(each, Prepared)]
            assert [type(each) for each in writer.keep(made)] == [Finished, Finished]
    whole, *others = pieces
    assert pieces == {whole: [30, 1], 7: [7, 7, 7, 7, 2, 1], 10: [10, 10, 10, 1], 30: [30, 1],
                      31: [30, 1]}  # fmt: skip
    for most in others:
        assert rows_of(tmp_path / f"{most}.db") == rows_of(tmp_path / f"{whole}.db")


def test_of_a_long_trace_with_an_id_that_stands_twice_nothing_is_written() -> None:
    spans = (*long_batch(SPANS_A_PIECE + 5).spans, asking("m1", "again"))
    with Store.open(":memory:") as store:
        (refused,) = Writer(store).take([batch("long", *spans)])
        assert isinstance(refused, BadTrace)
        for table in ("trace", "message", "context", "span"):
            assert store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_later_batches_of_a_trace_refer_to_what_its_first_one_said() -> None:
    with Store.open(":memory:") as store:
        writer = Writer(store)
        first = asking("m", "hello")
        writer.write(batch("1", first, last=False))
        again = extend(first.request.context, [Message(dialect="openai", body={"role": "user"})])
        more = ModelCall(id="n", name="chat", request=Request(context=again))
        key = writer.finish(writer.write(batch("1", more))).id
        contexts = [
            span.request.context.messages()
            for span in read.load(store, key).spans
            if isinstance(span, ModelCall) and span.request.context is not None
        ]
        assert [len(each) for each in contexts] == [1, 2]
        assert contexts[1][0].body["content"] == "hello"
        assert store.db.execute("SELECT count(1) FROM context").fetchone() == (2,)


def test_what_a_refused_batch_held_is_not_taken_for_stored() -> None:
    call = asking("m", "hello")
    with Store.open(":memory:") as store:
        writer = Writer(store)
        with pytest.raises(BadTrace, match="occurs twice"):
            writer.write(batch("1", call, call))
        key = writer.finish(writer.write(batch("2", call))).id
        (kept,) = read.load(store, key).spans
        assert isinstance(kept, ModelCall)
        assert kept.request.context is not None
        assert kept.request.context.message.body["content"] == "hello"


def test_words_are_put_into_their_index_once_all_else_of_a_transaction_is_written() -> None:
    """A statement that can be taken back makes an index write out what it was given before."""
    ran: list[str] = []
    with Store.open(":memory:") as store:
        store.db.set_trace_callback(ran.append)
        Writer(store).take([batch(f"trace {n}", asking("a", f"word {n}")) for n in range(3)])
        store.db.set_trace_callback(None)
    shown = [at for at, said in enumerate(ran) if said.startswith("UPDATE trace SET complete")]
    words = [at for at, said in enumerate(ran) if said.startswith("INSERT INTO message_words")]
    assert len(words) == 3
    assert max(shown) < min(words)


def test_words_of_a_trace_that_grows_within_a_transaction_are_those_of_what_it_is() -> None:
    first = batch("one", failing("a", "early"))
    grown = batch("one", failing("a", "early"), failing("b", "later"))
    with Store.open(":memory:") as store:
        found = Writer(store).take([first, grown])
        assert [each.verdict for each in found if isinstance(each, Finished)] == ["new", "grown"]
        asked = "SELECT count(*) FROM span_words WHERE span_words MATCH ?"
        said = [store.db.execute(asked, (word,)).fetchone()[0] for word in ("early", "later")]
        assert said == [1, 1]


def test_of_what_is_taken_back_no_word_is_put_into_an_index() -> None:
    with Store.open(":memory:") as store:
        writer = Writer(store)
        with pytest.raises(BadTrace):
            writer.write(batch("twice", asking("a", "lost"), asking("a", "lost")))
        writer.take([batch("good", asking("a", "kept"))])
        asked = "SELECT count(*) FROM message_words WHERE message_words MATCH ?"
        said = [store.db.execute(asked, (word,)).fetchone()[0] for word in ("lost", "kept")]
        assert said == [0, 1]


@pytest.mark.parametrize(
    "name", ["'password': 'abc,def;123", "`api_key`: `1234-5678-9012", '{"password": "hunter2x']
)
def test_a_secret_cut_off_at_the_end_of_a_name_is_seen_among_other_names(name: str) -> None:
    masks = Masks(Redactor(b"key"))
    assert masks.text(name) != name
    assert not masks.harmless(["a span", name, "a model"])
    assert masks.harmless(["a span", "agent", "a model"])
