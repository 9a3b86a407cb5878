"""What is summed over many traces is right whichever way they come and go, in old databases too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.store import rows
from replay.store.handle import Store
from replay.store.rows import latencies, percentile, spans_named, standing, two_digits
from replay.store.search import runs_saying, steps_saying
from replay.store.write import Writer
from replay.trace import (
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
    ToolCall,
    extend,
)
from tests.tries import often


class Import(NamedTuple):
    """A recording of a run is imported: how long it is, and how long its calls take."""

    run: int
    format: str
    steps: int
    latency_ns: int | None
    words: str = "fine"
    replace: bool = False
    broken_off: bool = False
    level: Level = Level.EXACT


imports = st.builds(
    Import,
    run=st.integers(0, 1),
    format=st.sampled_from(["atif", "chat"]),
    steps=st.integers(0, 3),
    latency_ns=st.sampled_from([None, 5, 17, 1234, 98_765_432_100]),
    words=st.sampled_from(["fine", "other"]),
    replace=st.booleans(),
    broken_off=st.booleans(),
    level=st.sampled_from(Level),
)


def take_in(store: Store, given: Import) -> None:
    writer = Writer(store, replace=given.replace)
    key = writer.write(batch(given))
    if given.broken_off:
        writer.drop(key)
        return
    try:
        writer.finish(key)
    except BadTrace:
        assert not given.replace


def batch(given: Import) -> Batch:
    spans: list[AnySpan] = []
    for number in range(given.steps):
        asked = Message(dialect="openai", body={"role": "user", "content": f"ask {number}"})
        body = {"role": "assistant", "content": f"{given.words} {number}"}
        seen = {"role": "tool", "tool_call_id": f"c{number}", "content": "got it"}
        end = None if given.latency_ns is None else number + given.latency_ns
        spans += [
            ModelCall(
                id=f"m{number}",
                name="chat",
                start_ns=number,
                end_ns=end,
                request=Request(model="gpt-4o", context=extend(None, [asked])),
                response=Response(message=Message(dialect="openai", body=body), stop="tool"),
                fidelity=Fidelity(level=given.level),
            ),
            ToolCall(
                id=f"t{number}",
                name=f"look_{given.words}",
                start_ns=number,
                end_ns=end,
                asked_by=f"m{number}",
                call_id=f"c{number}",
                arguments={"q": given.words},
                observation=Observation(message=Message(dialect="openai", body=seen)),
            ),
        ]
    head = Header(
        format=given.format,
        source_id=f"run-{given.run}",
        run=f"run-{given.run}",
        outcome=Outcome(status="failed"),
    )
    return Batch(header=head, spans=tuple(spans), last=True)


_LEVELS = " ".join(f"WHEN '{each}' THEN '{each.rank}'" for each in Level)
_COMPUTED = f"""
WITH known AS (
  SELECT t.id, t.key, t.run, t.steps, t.fidelity, t.start_ns,
    count(m.span) FILTER (WHERE m.fidelity <> 'none') AS requests,
    count(m.stop) + count(m.input_tokens) AS known
  FROM trace t LEFT JOIN step s ON s.trace = t.id LEFT JOIN model_call m ON m.span = s.ask
  WHERE t.complete GROUP BY t.id),
ranked AS (
  SELECT key, run, printf('%09d%09d', 999999999 - requests, 999999999 - steps)
    || CASE fidelity {_LEVELS} ELSE '9' END || (start_ns IS NULL)
    || printf('%09d', 999999999 - known) || key
    AS place FROM known)
SELECT key FROM ranked GROUP BY run HAVING place = min(place)
"""


def preferred(store: Store) -> set[str]:
    return {row[0] for row in store.db.execute("SELECT key FROM trace WHERE preferred")}


def histogram(store: Store) -> Counter[tuple[str, str, int]]:
    """The latencies of the preferred recordings, counted in Python."""
    found = store.db.execute(
        "SELECT s.kind, s.name, m.model, s.end_ns - s.start_ns FROM span s"
        " JOIN trace t ON t.id = s.trace LEFT JOIN model_call m ON m.span = s.id WHERE t.key IN ("
        f"{_COMPUTED})"
    )
    return Counter(
        (kind, model if kind == "model" else name, int(str(took)[:2].ljust(len(str(took)), "0")))
        for kind, name, model, took in found
        if took is not None and took > 0
    )


def check(store: Store) -> None:
    assert preferred(store) == {row[0] for row in store.db.execute(_COMPUTED)}
    stored = store.db.execute("SELECT kind, name, latency_ns, spans FROM latency").fetchall()
    assert {row[:3]: row[3] for row in stored} == histogram(store)
    shown = {row.trace for row in rows.trace_rows(store)}
    assert latencies(store) == latencies(store, shown)
    for words in ("fine", "other"):
        naive = {row.trace for row in rows.trace_rows(store) if holds(store, row.trace, words)}
        assert {found.trace for found in runs_saying(store, words)} == naive
        assert {key for key in shown if steps_saying(store, key, f"look_{words}")} == naive


def holds(store: Store, trace: str, words: str) -> bool:
    found = store.db.execute(
        "SELECT 1 FROM span s JOIN trace t ON t.id = s.trace WHERE t.key = ? AND s.name = ?",
        (trace, f"look_{words}"),
    )
    return found.fetchone() is not None


@settings(max_examples=often(60), deadline=None)
@given(st.lists(imports, max_size=7))
def test_sums_are_right_after_every_import_extension_replacement_and_drop(
    given: list[Import],
) -> None:
    with Store.open(":memory:") as store:
        for each in given:
            take_in(store, each)
            check(store)
        for (row,) in store.db.execute("SELECT id FROM trace WHERE complete").fetchall():
            store.db.execute("DELETE FROM trace WHERE id = ?", (row,))
            assert preferred(store) == {found[0] for found in store.db.execute(_COMPUTED)}
        assert store.db.execute("SELECT count(*) FROM latency").fetchone() == (0,)


@settings(max_examples=often(30), deadline=None)
@given(st.data(), st.lists(imports, max_size=5, unique_by=lambda each: (each.run, each.format)))
def test_which_recording_is_preferred_hangs_on_no_order_of_imports(
    data: st.DataObject, given: list[Import]
) -> None:
    whole = [each._replace(broken_off=False) for each in given]
    with Store.open(":memory:") as once, Store.open(":memory:") as again:
        for each in whole:
            take_in(once, each)
        broken = [each._replace(broken_off=True) for each in given]
        earlier = [each._replace(steps=each.steps // 2) for each in whole]
        for each in data.draw(st.permutations([*broken, *earlier])):
            take_in(again, each)
        for each in data.draw(st.permutations(whole)):
            take_in(again, each._replace(replace=True))
        assert preferred(again) == preferred(once)
        check(again)


def test_the_next_best_recording_is_preferred_when_the_best_one_goes() -> None:
    with Store.open(":memory:") as store:
        take_in(store, Import(0, "atif", 1, 5))
        take_in(store, Import(0, "chat", 2, 5))
        assert [row.format for row in rows.trace_rows(store)] == ["chat"]
        store.db.execute("DELETE FROM trace WHERE format = 'chat'")
        assert [row.format for row in rows.trace_rows(store)] == ["atif"]


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_are_not_above(
    values: list[int], percent: int
) -> None:
    counts = sorted(Counter(values).items())
    ranked = sorted(values)
    assert percentile(counts, percent) == ranked[-(-len(values) * percent // 100) - 1]


@pytest.mark.parametrize(("took", "cut"), [(5, 5), (17, 17), (1299, 1200), (98_765, 98_000)])
def test_a_latency_is_kept_to_two_digits(took: int, cut: int) -> None:
    with Store.open(":memory:") as store:
        take_in(store, Import(0, "chat", 1, took))
        assert {each.p50_ns for each in latencies(store)} == {cut}
        assert [(each.kind, each.name) for each in latencies(store)] == [
            ("model", "gpt-4o"),
            ("tool", "look_fine"),
        ]


def test_a_call_stands_above_those_that_took_less_to_two_digits() -> None:
    others = [5, 17, 17, 1234, 1299, 98_765]
    with Store.open(":memory:") as store:
        for run, other in enumerate(others):
            take_in(store, Import(run, "chat", 1, other))
        for took in (1, 5, 6, 17, 1200, 1299, 1300, 98_000, 99_000):
            found = standing(store, "look_fine", took)
            faster = sum(two_digits(other) < two_digits(took) for other in others)
            assert (found.tool, found.spans, found.faster) == ("look_fine", len(others), faster)
            assert found.percent == 100 * faster // len(others)
        assert standing(store, "look_up", 5).spans == 0


def test_spans_are_counted_by_name_whether_they_have_a_time_or_not() -> None:
    with Store.open(":memory:") as store:
        take_in(store, Import(0, "chat", 2, 5))
        take_in(store, Import(1, "chat", 1, None))
        shown = [row.trace for row in rows.trace_rows(store)]
        assert spans_named(store, shown) == {("model", "gpt-4o"): 3, ("tool", "look_fine"): 3}
        assert [each.spans for each in latencies(store, shown)] == [2, 2]
        assert spans_named(store, []) == {}


def test_the_sums_of_a_closed_file_are_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        take_in(store, Import(0, "chat", 2, 5))
    with Store.open(tmp_path / "arc.db") as store:
        check(store)
