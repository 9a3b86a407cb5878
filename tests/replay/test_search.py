"""Find a text in a run and over all runs: it counts for the step a reader would look for it in.

The index must never change what is found: both ways are held against reading everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from replay.messages import calls, text, thinking
from replay.store import read, search, text_index
from replay.store.handle import Store
from replay.store.search import runs_saying, steps_saying, traces_saying
from replay.store.write import Writer
from replay.trace import Batch, Json, Message, ToolCall, Trace
from tests.build import Part, call, error, heard, step, trace
from tests.planned import ways
from tests.tries import often

RUN = trace(
    [
        step("Which order?"),
        heard("Order 1099, 100% sure."),
        step("I look.", call("get_order", error('no "1099" here'), order_id="1099")),
        step("It is lost."),
    ],
    task="Where is my parcel?",
    system="Be brief.",
)


@pytest.fixture
def found(tmp_path: Path) -> tuple[Store, str]:
    store = Store.open(tmp_path / "arc.db")
    writer = Writer(store)
    key = writer.finish(writer.write(Batch(header=RUN.header, spans=RUN.spans, last=True))).id
    return store, key


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("which order", {0}),
        ("ORDER", {0, 1}),
        ("parcel", {0}),
        ("be brief", {0}),
        ("100% sure", {1}),
        ("100_ sure", set()),
        ('no "1099"', {1}),
        ("get_order", {1}),
        ("lost", {2}),
        ("role", set()),
        ("nowhere", set()),
        ("", set()),
        ("ost", set()),
        ("  which   ORDER ", {0}),
        ("order_id 1099", {1}),
    ],
)
def test_a_text_counts_for_the_step_that_said_it_or_was_first_shown_it(
    found: tuple[Store, str], words: str, steps: set[int]
) -> None:
    store, key = found
    assert steps_saying(store, key, words) == steps


# --- against reading everything

PIECES = ["order", "Order", "refund", "straße", "größe", "İzmir", "Kelvin", "ΣΑΣ", "e\u0301t\u00e9",
          "日本", "_", "-", "“", "”", "\u00a0", "\n", "100%", '"', "\\", "''", "\x00", "3.5", "or",
          " ", " ", "\ue000", "🙂", "\u2460"]  # fmt: skip

said = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
arguments = st.dictionaries(said, said | st.integers() | st.lists(said, max_size=2), max_size=2)


@st.composite
def spoken(draw: st.DrawFn) -> Part:
    """A step that speaks, thinks and calls, or something the user says."""
    if draw(st.booleans()):
        return heard(draw(said))
    made = call("look_up", error(draw(said)) if draw(st.booleans()) else draw(said))
    given = draw(arguments)
    return step(draw(said), structs.replace(made, arguments=given), thought=draw(said))


runs = st.lists(st.lists(spoken(), max_size=4), min_size=1, max_size=3)


def looked_for(wanted: str) -> re.Pattern[str]:
    """The text from the beginning of a word on, gaps of any width."""
    folded = " ".join(wanted.lower().split())
    free = r"(?<![^\W_])" if folded[:1].isalnum() else ""
    return re.compile(free + re.escape(folded))


def naive(run: Trace, wanted: str) -> set[int]:
    """The steps that say it, by reading the whole run."""
    pattern = looked_for(wanted)

    def says(*texts: str) -> bool:
        return any(pattern.search(" ".join(each.lower().split())) for each in texts)

    own = [message for one in run.steps for message in _own(one.ask.response.message, one.acts)]
    found: set[int] = set()
    shown: set[int] = set()
    told: list[Message] = []
    for one in run.steps:
        if any(says(_read(m)) for m in _own(one.ask.response.message, one.acts)):
            found.add(one.index)
        if any(says("\n".join(_of_call(act))) for act in one.acts):
            found.add(one.index)
        system, node = one.ask.request.system, one.ask.request.context
        if system is not None and system not in told:
            told.append(system)
            found |= {one.index} if says(_read(system)) else set()
        while node is not None and id(node) not in shown:
            shown.add(id(node))
            if node.message not in own and says(_read(node.message)):
                found.add(one.index)
            node = node.parent
    return found


def _own(answer: Message | None, acts: tuple[ToolCall, ...]) -> list[Message]:
    seen = [act.observation.message for act in acts if act.observation is not None]
    return [message for message in (answer, *seen) if message is not None]


def _read(message: Message) -> str:
    called = [f"{each.name} {each.raw or ' '.join(_flat(each.arguments))}"
              for each in calls(message)]  # fmt: skip
    return "\n".join((text(message), thinking(message), *called))


def _of_call(act: ToolCall) -> Iterator[str]:
    yield act.name
    yield act.arguments_raw or " ".join(_flat(act.arguments))
    yield act.error or ""


def _flat(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _flat(each)
    elif isinstance(value, list):
        for each in value:
            yield from _flat(each)
    elif value is not None:
        yield str(value)


def written(store: Store, parts: list[Part], number: int) -> str:
    run = trace(parts, task=None)
    header = structs.replace(run.header, source_id=f"run-{number}")
    writer = Writer(store)
    return writer.finish(writer.write(Batch(header=header, spans=run.spans, last=True))).id


@pytest.mark.slow
@settings(max_examples=often(150), deadline=None)
@given(runs, said, st.sampled_from([0, 1000]))
@example([[step("groß"), heard("x Kelvin")]], "kelvin", 0)
def test_the_index_finds_what_reading_everything_finds(
    given: list[list[Part]], wanted: str, read_whole: int
) -> None:
    with Store.open(":memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "READ_WHOLE", read_whole)
        keys = [written(store, parts, number) for number, parts in enumerate(given)]
        asked = bool(text_index.folded(wanted))
        expected = {
            key: naive(read.load(store, key), wanted) if asked else set() for key in {*keys}
        }
        assert {key: steps_saying(store, key, wanted) for key in {*keys}} == expected
        says = {key for key, steps in expected.items() if steps}
        assert traces_saying(store, wanted) == says
        found = runs_saying(store, wanted)
        assert {each.trace for each in found} == says
        for each in found:
            assert each.step in expected[each.trace]
            assert looked_for(wanted).search(each.excerpt.lower())


def test_runs_that_say_a_text_come_with_a_step_and_the_words_around_it() -> None:
    with Store.open(":memory:") as store:
        old = written(store, [step("I refund it.")], 1)
        new = written(store, [step("x " * 100 + "Refund of order 7" + " y" * 100)], 2)
        first, second = runs_saying(store, "refund")
        assert (first.trace, second.trace) == (new, old)
        assert second.excerpt == "I refund it."
        assert first.excerpt.startswith("…x x")
        assert first.excerpt.endswith("y y…")
        assert "Refund of order 7" in first.excerpt
        assert [each.trace for each in runs_saying(store, "refund", 1)] == [new]
        assert runs_saying(store, "refund", 0) == []


def test_only_masked_text_is_in_the_index() -> None:
    with Store.open(":memory:") as store:
        secret = "sk-ant-api03-" + "Zq9" * 30
        written(store, [step(f"the key is {secret}", call("look_up", k=secret))], 1)
        assert runs_saying(store, secret) == []
        for table in ("message_words", "span_words"):
            store.db.execute(f"CREATE VIRTUAL TABLE seen_{table} USING fts5vocab({table}, row)")
            terms = {row[0] for row in store.db.execute(f"SELECT term FROM seen_{table}")}
            assert "secret" in terms
            assert not any("zq9zq9" in term for term in terms)


def test_what_was_replaced_is_forgotten_by_the_index() -> None:
    with Store.open(":memory:") as store:
        for name in ("look_up", "find_out"):
            run = trace([step("I look.", call(name))], task=None)
            writer = Writer(store, replace=True)
            writer.finish(writer.write(Batch(header=run.header, spans=run.spans, last=True)))
        store.db.execute("CREATE VIRTUAL TABLE seen USING fts5vocab(span_words, row)")
        terms = {row[0] for row in store.db.execute("SELECT term FROM seen")}
        assert {"find", "out"} <= terms
        assert not {"look", "up"} & terms


def test_a_search_over_all_runs_is_answered_by_the_indices() -> None:
    """Neither the messages nor the spans of other runs are read."""
    with Store.open(":memory:") as store:
        written(store, [step("I refund it.", call("look_up"))], 1)
        plans = ways(store, lambda: runs_saying(store, "refund it"))
        scanned = {plan for plan in plans if plan.startswith("SCAN")}
        assert all("VIRTUAL TABLE INDEX" in plan for plan in scanned)
        assert any("message_step_message" in plan for plan in plans)
        assert not any("TEMP B-TREE" in plan for plan in plans)  # of a prompt all runs share


def test_of_a_run_that_is_known_to_say_it_no_more_messages_are_read() -> None:
    """A long run that says a common word in thousands hides neither what it shares with others nor
    those before it, and what it says alone is passed over at once."""
    with Store.open(":memory:") as store:
        shared = step("Refund, all of it.")
        old = written(store, [step("I refund it."), shared], 1)
        long = written(store, [shared, *(step(f"Refund {number}.") for number in range(50))], 2)
        other = written(store, [shared, step("Bye.")], 3)
        said: list[str] = []
        store.db.set_trace_callback(said.append)
        found = [each.trace for each in runs_saying(store, "refund")]
        store.db.set_trace_callback(None)
        assert found == [long, other, old]
        assert sum("FROM message g WHERE g.id" in each for each in said) <= 4
