"""Rows that wait know each other before they are written, and come out in an order that holds."""

from __future__ import annotations

import pytest

from replay.errors import BadTrace
from replay.store import read
from replay.store.content import ORDER, Pending
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, Message, ModelCall, Request, extend


def message(digest: str) -> dict[str, object]:
    return {"digest": digest, "dialect": "openai", "role": "user", "body": digest, "masked": 0}


def test_equal_digests_are_one_row_whether_they_wait_or_stand_in_the_file() -> None:
    with Store.open(":memory:") as store:
        with store.writing() as db:
            rows = Pending(db)
            assert rows.once("message", message("a")) == (1, True)
            assert rows.once("message", message("b")) == (2, True)
            assert rows.once("message", message("a")) == (1, False)
            rows.write()
        with store.writing() as db:
            rows = Pending(db)
            assert rows.once("message", message("b")) == (2, False)
            assert rows.once("message", message("c")) == (3, True)
            assert not rows.holds("message", 2)
            assert rows.holds("message", 3)
            rows.write()
        found = store.db.execute("SELECT id, digest FROM message ORDER BY id").fetchall()
        assert found == [(1, "a"), (2, "b"), (3, "c")]


def test_rows_are_written_after_those_they_refer_to_whatever_was_added_first() -> None:
    with Store.open(":memory:") as store:
        with store.writing() as db:
            rows = Pending(db)
            first, _ = rows.once("message", message("a"))
            node = {"digest": "x", "parent": None, "message": first, "depth": 1, "masked": 0}
            above, _ = rows.once("context", node)
            second, _ = rows.once("message", message("b"))
            below = {**node, "digest": "y", "parent": above, "message": second}
            rows.once("context", below, new=True)
            rows.write()
        assert store.db.execute("SELECT parent, message FROM context").fetchall() == [
            (None, 1),
            (1, 2),
        ]
        assert not store.db.execute("PRAGMA foreign_key_check").fetchall()


def test_a_context_is_known_by_its_message_and_its_parent_also_where_it_has_none() -> None:
    with Store.open(":memory:") as store:
        for _ in range(2):  # what waits, then what stands in the file
            with store.writing() as db:
                rows = Pending(db)
                said, _ = rows.once("message", message("a"))
                node = {"digest": "x", "parent": None, "message": said, "depth": 1, "masked": 0}
                above, _ = rows.once("context", node)
                assert rows.once("context", {**node, "digest": "other"}) == (above, False)
                below, _ = rows.once("context", {**node, "digest": "y", "parent": above})
                assert rows.once("context", {**node, "digest": "z", "parent": above})[0] == below
                rows.write()
        assert store.db.execute("SELECT id, parent FROM context").fetchall() == [(1, None), (2, 1)]


def test_every_table_that_waits_has_its_place() -> None:
    with Store.open(":memory:") as store, store.writing() as db:
        rows = Pending(db)
        rows.add("step", {"trace": 1})
        assert "step" not in ORDER
        with pytest.raises(AssertionError):
            rows.write()


def test_what_a_refused_batch_held_is_not_taken_for_stored() -> None:
    asked = extend(None, [Message(dialect="openai", body={"role": "user", "content": "hello"})])
    call = ModelCall(id="m", name="chat", request=Request(context=asked))
    with Store.open(":memory:") as store:
        writer = Writer(store)
        with pytest.raises(BadTrace, match="occurs twice"):
            writer.write(Batch(header=Header(format="arc", source_id="1"), spans=(call, call)))
        good = Batch(header=Header(format="arc", source_id="2"), spans=(call,), last=True)
        key = writer.finish(writer.write(good)).id
        (kept,) = read.load(store, key).spans
        assert isinstance(kept, ModelCall)
        assert kept.request.context is not None
        assert kept.request.context.message.body["content"] == "hello"
