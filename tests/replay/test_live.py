"""A trace that is still going on: seen as far as it is known, until it is whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.errors import BadTrace
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow, keep_live, next_end_ns, trace_rows
from replay.store.write import Finished, Writer
from replay.trace import AgentSpan, Batch, Header, ModelCall

SECOND_NS = 10**9


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as found:
        yield found


def write(store: Store, *spans: ModelCall | AgentSpan, live_for_s: int | None = None) -> Finished:
    until_ns = None if live_for_s is None else now_ns() + live_for_s * SECOND_NS
    writer = Writer(store, live_until_ns=until_ns)
    header = Header(format="arc", source_id="run-1")
    return writer.finish(writer.write(Batch(header=header, spans=spans, last=True)))


def row(store: Store) -> TraceRow:
    (found,) = trace_rows(store, every=True)
    return found


def test_it_is_live_until_it_is_written_for_the_last_time(store: Store) -> None:
    write(store, ModelCall(id="1", name="chat"), live_for_s=60)
    assert row(store).live
    write(store, ModelCall(id="1", name="chat"), ModelCall(id="2", name="chat"))
    assert (row(store).live, row(store).steps) == (False, 2)


@pytest.mark.slow
def test_who_reads_it_while_it_grows_sees_it_as_it_was_or_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    spans = [ModelCall(id=str(each), name="chat") for each in range(12)]
    over = threading.Event()

    def grow() -> None:
        with Store.open(path) as own:
            for each in range(150):
                write(own, *spans[: each % 10 + 2], live_for_s=60)
        over.set()

    with Store.open(path) as store:
        write(store, *spans, live_for_s=60)
        key = row(store).trace
        writer = threading.Thread(target=grow)
        writer.start()
        while not over.is_set():
            steps = read.part(store, key, range(12))
            assert [*steps] == [*range(len(steps))]
            whole = read.load(store, key)
            assert len(whole.steps) == len(whole.spans) >= 2
            assert len(read.recorded(store, key).spans) >= 2
        writer.join()


def test_the_same_again_for_the_last_time_ends_it_too(store: Store) -> None:
    write(store, ModelCall(id="1", name="chat"), live_for_s=60)
    assert write(store, ModelCall(id="1", name="chat")).verdict == "duplicate"
    assert not row(store).live


def test_what_was_said_of_it_while_it_was_live_may_turn_out_otherwise(store: Store) -> None:
    write(store, AgentSpan(id="1", name="agent"), live_for_s=60)
    assert write(store, ModelCall(id="1", name="chat"), live_for_s=60).verdict == "grown"
    write(store, ModelCall(id="1", name="chat"))
    with pytest.raises(BadTrace, match="differs from the stored recording"):
        write(store, AgentSpan(id="1", name="agent"), live_for_s=60)
    assert (row(store).live, row(store).steps) == (False, 1)


def test_a_finished_run_that_goes_on_is_live_again(store: Store) -> None:
    write(store, ModelCall(id="1", name="chat"))
    write(store, ModelCall(id="1", name="chat"), ModelCall(id="2", name="chat"), live_for_s=60)
    assert (row(store).live, row(store).steps) == (True, 2)


def test_it_stays_at_its_place_in_the_order_of_import(store: Store) -> None:
    write(store, ModelCall(id="1", name="chat"), live_for_s=60)
    first_seen_ns = row(store).imported_ns
    write(store, ModelCall(id="1", name="chat"), ModelCall(id="2", name="chat"), live_for_s=60)
    assert row(store).imported_ns == first_seen_ns


def test_the_word_of_its_writer_holds_for_a_while_only(store: Store) -> None:
    key = write(store, ModelCall(id="1", name="chat"), live_for_s=-5).id
    assert not row(store).live
    keep_live(store, [key], now_ns() + 60 * SECOND_NS)
    assert row(store).live
    keep_live(store, [key], None)
    assert not row(store).live
    keep_live(store, [key], now_ns() + 60 * SECOND_NS)
    assert not row(store).live  # what is over is not made live by a late word


def test_it_is_known_when_the_next_one_ceases_to_be_live(store: Store) -> None:
    now = now_ns()
    assert next_end_ns(store, now) is None
    write(store, ModelCall(id="1", name="chat"), live_for_s=60)
    end_ns = next_end_ns(store, now)
    assert end_ns is not None
    assert end_ns > now
    assert next_end_ns(store, end_ns) is None
