"""What a question means on a real database: the same as read row by row, and by an index."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from operator import ge, gt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from replay.store.handle import Store
from replay.store.schema import SUMMARY
from replay.store.write import Writer
from replay.trace import AnySpan, Batch, Cost, Header, ModelCall, Outcome, Usage
from taxonomy.classes import Attribution, FailureClass, Shape
from taxonomy.failures import pareto, tally
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.held_out import hidden, hold
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import migrations
from taxonomy.judgements.tags import TagRow
from taxonomy.owners import Owners
from taxonomy.query import filter as filters
from taxonomy.query.compile import runs_meant, words_meant
from taxonomy.query.failures import tag_rows, tags_of
from taxonomy.query.fields import BY_NAME, FIELDS, described
from taxonomy.query.language import Asks, BadQuery, Node, Says, Word, parse
from taxonomy.query.listing import ORDERS, RunRow, run_order, run_rows, run_totals
from taxonomy.query.values import SPANS_NS, number
from tests.build import call, error, step, trace
from tests.planned import ways
from tests.taxonomy.pareto_case import MONDAY_NS, empty, put, put_again, tag
from tests.taxonomy.query_case import holds, trees, written
from tests.tries import often

TEXTS = [None, "", "refund", "Order 7", "50%", "a_b", "GRÖSSE", "größe", "2", "26", "un*ed"]
TOOLS = ["Bash", "bash_all", "get_order", "Größe"]
CLASSES = [FailureClass.LOOP, FailureClass.BAD_ARGS, FailureClass.GAVE_UP]
SAYINGS = ["the invoice is late", "I refund it", "nothing"]

Made = tuple[list[tuple[str, bool]], str]
"""The calls of a run with whether they failed, and what it says."""


def fill(store: Store, chance: random.Random, number: int) -> tuple[str, Made]:
    """A run of anything, with anything said of it."""
    tools = [(chance.choice(TOOLS), chance.random() < 0.4) for _ in range(chance.randrange(0, 3))]
    spoken = chance.choice(SAYINGS)
    usd = chance.choice([None, 0.0, 0.5, 2.0])
    fails = (error("no such order"), "Error: no such order", '{"error": "no such order"}')
    calls = [call(name, chance.choice(fails) if bad else "ok") for name, bad in tools]
    steps = [step(spoken, *calls, usd=usd)]
    steps += [step("Hello.", usd=chance.choice([None, 0.25])) for _ in range(chance.randrange(3))]
    made = trace(steps, task=None)
    took = chance.choice([None, 0, 10, 90 * 10**9])
    head = Header(
        format="built", source_id=f"run {number}", task=chance.choice(TEXTS),
        trial=chance.choice([None, "1"]), title=chance.choice(TEXTS),
        variant=chance.choice([None, "v3", "v30"]),
        outcome=Outcome(status=chance.choice(["failed", "passed", "unknown"])),
        start_ns=MONDAY_NS, end_ns=None if took is None else MONDAY_NS + took,
    )  # fmt: skip
    writer = Writer(store)
    key = writer.finish(writer.write(Batch(header=head, spans=made.spans, last=True))).id
    found = tuple(
        Finding(
            failure=chance.choice(CLASSES), step=0, why="", rule=f"rule {place}",
            attribution=chance.choice([None, *Attribution]),
            confidence=chance.choice([None, 0.2, 0.9]),
        )
        for place in range(chance.randrange(3))
    )  # fmt: skip
    why = chance.choice(TEXTS)
    said = Diagnosis(
        trace=key, shape=chance.choice([None, *Shape]), scores=(), findings=found,
        candidates=() if why is None else (Candidate(step=0, weight=1.0, why=why, signals=()),),
        warnings=("odd",) if chance.random() < 0.3 else (),
    )  # fmt: skip
    diagnoses.keep(store, said, {})
    if chance.random() < 0.3:
        tag(store, key, chance.choice(CLASSES), by="ann")
    return key, (tools, " ".join([spoken, *(name for name, _ in tools)]))


class Runs:
    """Sixty runs of every kind, and what is known of them without asking SQL."""

    def __init__(self) -> None:
        self.store = empty()
        chance = random.Random(7)
        self.made = dict(fill(self.store, chance, number) for number in range(60))
        self.rows = run_rows(self.store)
        self.said: dict[str, list[TagRow]] = {}
        for row in tag_rows(self.store):
            self.said.setdefault(row.trace, []).append(row)

    def holding(self, tree: Node) -> list[str]:
        return [row.trace for row in self.rows if self._holds(tree, row)]

    def _holds(self, tree: Node, row: RunRow) -> bool:
        tools, spoken = self.made[row.trace]
        return holds(tree, row, self.said.get(row.trace, ()), tools, spoken)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    made = Runs()
    with closing(made.store):
        yield made


def asks(fields: list[str], operators: list[str], values: list[str]) -> st.SearchStrategy[Node]:
    return st.builds(
        Asks, st.sampled_from(fields), st.sampled_from(operators), st.sampled_from(values)
    )


LIMITS = ["0", "0.5", "2", "50c", "unknown"]
terms: st.SearchStrategy[Node] = st.one_of(
    st.sampled_from(["refund", "ORDER", "50%", "a_b", "axb", "größe", "GRÖSSE", "r*d", "v3"]).map(
        Word
    ),
    st.sampled_from(["invoice", "refund it", "Bash", "nowhere"]).map(Says),
    asks(["task", "title", "why", "variant"], [":", "="],
         ["2", "Order", "o*7", "größe", "*", "v3"]),
    st.builds(Asks, st.sampled_from(["task", "title"]), st.just(":"),
              st.sampled_from(["", "un*ed", "%"]), st.just(True)),
    asks(["outcome"], [":", "="], ["f", "failed", "unknown"]),
    asks(["cost"], [">", ">=", "<", "<="], LIMITS[:-1]),
    asks(["cost"], [":", "="], LIMITS),
    asks(["steps"], [">", ">=", "<", "<=", "="], ["1", "2"]),
    asks(["duration"], [">", ">=", "<", "<=", "="], ["0", "1m", "90s"]),
    asks(["duration"], [":"], ["unknown"]),
    asks(["tool", "tool.error"], [":"], ["bash", "get_*", "*a*", "größe", "none"]),
    st.just(Asks("tool.error", "", "")),
    asks(["tag", "tagged", "class"], [":", "="], ["loop", "bad", "gave"]),
    asks(["class"], [":"], ["untagged"]),
    asks(["attribution"], [":"], [each.value for each in Attribution]),
    asks(["warned"], [":"], ["yes", "no"]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=often(300), deadline=None)
@given(tree=trees(terms))
def test_a_question_chooses_the_runs_that_answer_it_read_one_by_one(runs: Runs, tree: Node) -> None:
    query = written(tree)
    try:
        meant = runs_meant(runs.store, query)
    except BadQuery as refused:
        if "deep" not in str(refused):
            raise
        return
    expected = runs.holding(tree)
    assert run_order(runs.store, meant) == expected
    for few in (0, 2_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(filters, "FEW", few)
            page = runs_meant(runs.store, query, page=True)
            assert run_order(runs.store, page) == expected, few
            assert run_order(runs.store, page, limit=3) == expected[:3], few
            assert run_order(runs.store, page, limit=2, newest=True) == expected[:-3:-1], few
            assert run_order(runs.store, runs_meant(runs.store, query)) == expected, few
    assert run_totals(runs.store, meant).runs == len(expected)
    assert pareto(runs.store, chosen=meant).failed == tally(runs.store, chosen=meant).failed
    assert tally(runs.store, chosen=meant).failed == run_totals(runs.store, meant).failed


def test_the_sixty_runs_are_of_every_kind(runs: Runs) -> None:
    """Else the test above could not fail."""
    for query in ("outcome:failed", "cost:unknown", "cost>0.5", "duration:unknown", "tool:bash",
                  "tool.error", "tagged:loop", "tag:loop", "attribution:grader", "warned:yes",
                  "größe",
                  '"invoice"', 'task:""', "class:untagged", "v3*"):  # fmt: skip
        count = len(run_order(runs.store, runs_meant(runs.store, query)))
        assert 0 < count < 60, query


def test_what_is_unknown_is_neither_more_nor_less() -> None:
    with closing(empty()) as store:
        keys = {}
        for usd in (None, 0.5):
            made = trace([step("Hi.", usd=0.7), step("Ho.", usd=usd)], task=None)
            head = Header(format="built", source_id=str(usd))
            writer = Writer(store)
            keys[usd] = writer.finish(
                writer.write(Batch(header=head, spans=made.spans, last=True))
            ).id
        expected: dict[str, set[float | None]] = {
            "cost>0.6": {None, 0.5},  # a part is the least it can be
            "cost<2": {0.5},
            "cost=1.2": {0.5},
            "cost:unknown": {None},
            "not cost<2": {None},
            "start:unknown": set(),
            "outcome:unknown": {None, 0.5},
        }
        for query, wanted in expected.items():
            assert {*run_order(store, runs_meant(store, query))} == {keys[usd] for usd in wanted}


def test_a_day_is_a_whole_day_and_a_clock_of_its_own_is_of_no_day() -> None:
    with closing(empty()) as store:
        days = {day: put(store, str(day), day=day) for day in (-1, 0, 6, 7, None)}
        named = {key: day for day, key in days.items()}
        days_of = {
            "week:2026-W02": {0, 6},
            "start:2026-01-05": {0},
            "start>2026-01-05": {6, 7},
            "start>=2026-01-05": {0, 6, 7},
            "start<=2026-01-05": {-1, 0},
            "since:2026-W02": {0, 6, 7},
            "before:2026-01-05": {-1},
            "start:unknown": {None},
            "start<2000": set(),
            "not start:2026": {None},
        }
        for query, wanted in days_of.items():
            found = run_order(store, runs_meant(store, query))
            assert {named[key] for key in found} == wanted, query


def test_classes_go_by_name_letter_label_sub_label_and_how_these_begin() -> None:
    other = Finding(
        failure=FailureClass.OTHER,
        sub="cap hit",
        attribution=Attribution.ENVIRONMENT,
        step=0,
        why="",
        rule="r",
    )
    loop = Finding(failure=FailureClass.LOOP, step=0, why="", rule="r")
    hint = Finding(failure=FailureClass.GAVE_UP, step=0, why="", rule="r", confidence=0.1)
    with closing(empty()) as store:
        keys = {
            "both": put(store, "a", loop, other),
            "hint": put(store, "b", hint),
            "none": put(store, "c"),
        }
        lesser, whole = put_again(store, "d")
        tag(store, lesser, FailureClass.LOOP)
        keys["again"] = whole
        names = {key: name for name, key in keys.items()}
        expected = {
            "tag:loop": {"both", "again"},
            "tag:l": {"both", "again"},
            "tagged:LOOP": {"again"},
            "tag:other": {"both"},
            'tag:"other / cap"': {"both"},
            'tag:"other / cap hit (environment)"': {"both"},
            "tag:cap-hit": {"both"},
            "class:loop": {"both", "again"},
            "class:other": set(),
            "attribution:environment": {"both"},
            "tag:gave_up": set(),
            "tag:*": {"both", "again"},
            "tag:untagged": {"hint", "none"},
            "tagged:untagged": {"both", "hint", "none"},
            "class:untagged outcome:failed": {"hint", "none"},
        }
        for query, wanted in expected.items():
            found = run_order(store, runs_meant(store, query))
            assert {names[key] for key in found} == wanted, query
        every = run_rows(store, runs_meant(store, "tagged:loop"), every=True)
        assert {row.trace for row in every} == {lesser, whole}
        with pytest.raises(BadQuery, match=r"unknown class 'lop'.*did you mean 'loop'"):
            runs_meant(store, "task:1 tag:lop")


def test_a_question_on_what_was_said_chooses_among_the_words_of_a_run() -> None:
    loop, bad = (
        Finding(failure=each, step=at, why=f"{each} seen", rule="r", attribution=Attribution.AGENT)
        for at, each in enumerate((FailureClass.LOOP, FailureClass.BAD_ARGS))
    )
    with closing(empty()) as store:
        key = put(store, "a", loop, bad, variant="v3")
        tag(store, key, FailureClass.GAVE_UP, step=1)
        put(store, "b", bad)

        def said(query: str) -> list[tuple[str | None, str]]:
            meant = words_meant(store, query)
            found = tag_rows(store, meant.sql, meant.values)
            return [(row.task, row.failure) for row in found]

        assert said("tag:loop") == [("a", "loop")]
        assert said("tagged:*") == [("a", "gave up")]
        assert sorted(said("bad")) == [("a", "bad args"), ("b", "bad args")]
        assert said("variant:v3 not tagged:*") == [("a", "loop"), ("a", "bad args")]
        either = said("class:bad or class:gave task:a")
        assert sorted(either) == [("a", "gave up"), ("b", "bad args")]
        assert len(said("attribution:agent")) == 3
        assert len(said("")) == 4


def test_owners_labels_held_out_tasks_and_the_beginning_of_an_id() -> None:
    loop = Finding(failure=FailureClass.LOOP, step=0, why="", rule="r")
    with closing(empty()) as store:
        keys = [put(store, str(n), loop, labels={"difficulty": "hard" if n else "easy"})
                for n in range(6)]  # fmt: skip
        hold(store, run_rows(store))
        (held,) = hidden(store)

        def count(query: str) -> int:
            meant = runs_meant(store, query, lambda: Owners(by_label={"loop": "Ann Lee"}))
            return run_totals(store, meant).runs

        assert count("owner:ann") == count('owner="ann lee"') == 6
        assert count('owner:""') == count("owner:bob") == 0
        assert count("label:difficulty=hard") == count("label:hard") == 5
        assert count("label:difficulty=har") == count("label:task=hard") == 0
        assert count(f"id:{keys[2][:9]}") == count(keys[2][:9]) == 1
        assert count("held-out:yes") == count(f"task={held}") == 1
        assert count("held-out:no") == 5


def test_what_is_said_first_and_the_tags_of_a_run_are_found_by_index() -> None:
    """Of thirty thousand runs neither all that is said is read, nor all tags are placed."""
    with closing(empty()) as store:
        key = put(store, "a", Finding(failure=FailureClass.LOOP, step=0, why="", rule="r"))
        assert tags_of(store, key) == tags_of(store, "gone") == []
        plans = ways(
            store,
            lambda: run_order(store, runs_meant(store, "class:loop")),
            lambda: run_order(store, runs_meant(store, "class:loop", page=True)),
            lambda: tags_of(store, key),
        )
        assert any("SEARCH first_word USING COVERING INDEX" in plan for plan in plans)
        assert any("SEARCH tag USING INDEX" in plan for plan in plans)
        walked = "SCAN t USING COVERING INDEX trace_by_import"
        scans = {plan.split()[1] for plan in plans if plan.startswith("SCAN") and plan != walked}
        assert not scans & {"t", "r", "p", "o", "suggestion", "first_word", "tag"}


# --- what nobody should be able to do


HOSTILE = [
    "x' OR 1=1 --", '"); DROP TABLE trace; --', "%", "_", "\\", "?", ":a", "@x", "{}", "{0}", "\0",
]  # fmt: skip


@settings(max_examples=often(100), deadline=None)
@given(st.sampled_from(sorted(BY_NAME)), st.sampled_from(HOSTILE) | st.text(max_size=8))
def test_what_is_typed_is_bound_and_never_written_into_the_condition(
    runs: Runs, name: str, text: str
) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    try:
        meant = runs_meant(runs.store, f'{name}:"{escaped}"')
    except BadQuery:
        return
    assert meant.sql.count("?") == len(meant.values)
    assert not re.search(r"DROP|--|1=1|@x|\0", meant.sql)
    run_order(runs.store, meant)
    assert run_totals(runs.store).runs == 60


def test_a_sign_that_ends_a_text_for_sql_hides_nothing_that_comes_after_it() -> None:
    with closing(empty()) as store:
        found = Finding(failure=FailureClass.LOOP, step=0, why="", rule="r")
        for name in ("odd\0", "plain"):
            put(store, name, found, title="odd\0" if name == "plain" else None, variant="v3")

        def count(query: str) -> int:
            return run_totals(store, runs_meant(store, query)).runs

        assert count("odd") == count("v3") == 2
        assert count("plain") == 1


def test_the_longest_and_the_deepest_question_can_be_asked(runs: Runs) -> None:
    long = " ".join(f"w{number}*" for number in range(60))
    deep = "not (a or " * 4 + "tag:loop" + ")" * 4
    for query in (long, deep, "not " * 8 + "a"):
        meant = runs_meant(runs.store, query)
        run_order(runs.store, meant, order=ORDERS["cost"])
        said = words_meant(runs.store, query)
        tag_rows(runs.store, said.sql, said.values)
    with pytest.raises(BadQuery, match="more than 4 stars"):
        runs_meant(runs.store, "task:" + "*a" * 5)


# --- the table of fields


def test_every_field_is_asked_as_its_example_shows_it(runs: Runs) -> None:
    names = [name for field in FIELDS for name in (field.name, *field.aliases)]
    assert len(names) == len(set(names))
    for shown, example, means in described():
        tree = parse(example)
        assert isinstance(tree, Asks)
        assert tree.field in shown.split()
        assert means
        run_order(runs.store, runs_meant(runs.store, example))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("taks:2", "unknown field 'taks' (at character 1); did you mean 'task'?"),
        ("a outcome:bad", "unknown outcome 'bad' (at character 3)"),
        ("a shape:lat-drift", "did you mean 'late drift'?"),
        ("task>2", "task does not support > (at character 1); write task: or task="),
        ("cost>much", "write cost>0.5 (units: $ usd c), or cost:unknown"),
        ("since:yesterday", "not a day, week or month"),
        ("since>2026", "write since: or since="),
        ("warned:maybe", "warned is yes or no"),
        ("tool:''", "missing value after tool:"),
        ("http://x", "put the text in quotes"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_can(runs: Runs, query: str, says: str) -> None:
    with pytest.raises(BadQuery) as refused:
        runs_meant(runs.store, query)
    assert says in str(refused.value)


# --- how it is read


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("cost>0.5", "trace_by_cost (<expr><?)"),
        ("cost<0.5", "trace_by_cost (<expr>>?)"),
        ("steps>=20", "trace_by_steps (<expr><?)"),
        ("duration>2m", "trace_by_time (<expr><?)"),
        ("week:2026-W47", "trace_start (start_ns>? AND start_ns<?)"),
        ("since:2026", "trace_start (start_ns>? AND start_ns<?)"),
        ("task=26", "trace_task (task=?)"),
        ("id:4f", "trace_key (key>? AND key<?)"),
    ],
)
def test_the_common_fields_are_read_by_an_index(runs: Runs, query: str, index: str) -> None:
    meant = runs_meant(runs.store, query)
    plan = runs.store.db.execute(
        f"EXPLAIN QUERY PLAN SELECT trace FROM runs WHERE preferred AND ({meant.sql})",
        list(meant.values),
    ).fetchall()
    said = [row[3] for row in plan]
    assert any(step.startswith("SEARCH") and index in step for step in said), said
    assert not any(step.startswith("SCAN t") for step in said), said


def test_an_error_in_words_is_found_by_them() -> None:
    with closing(empty()) as store:
        spans = trace([step(call("book", "Error: payment does not add up")), "Sorry."]).spans
        writer = Writer(store)
        head = Header(format="built", source_id="a")
        writer.finish(writer.write(Batch(header=head, spans=spans, last=True)))
        for query in ('step.error:"not add up"', "tool.error:book", "tool.error", "errors>0"):
            assert len(run_rows(store, runs_meant(store, query))) == 1, query
        assert run_rows(store, runs_meant(store, "step.error:timeout")) == ()


# --- the largest step of a run

OF_STEPS = {"step.tokens": "input_tokens", "step.cost": "cost_usd", "step.duration": "latency_ns"}
LIMITS_OF_STEPS = {
    "step.tokens": ("0", "6", "7", "100000000000000", "100000000000001"),
    "step.cost": ("0", "0.05", "0.1", "2.5", "3"),
    "step.duration": ("0", "1ms", "2.9", "3", "4611686018", "9223372036", "9223372038"),
}
TOKENS = (None, 0, 7, 10**14 + 1)
COSTS = (None, 0.0, 0.1, 2.5)
TIMES = (None, 0, -1, 1, 3 * 10**9, 2**62, 2**63 + 2**40)
EARLY_NS = -(2**63) + 1
"""A clock so far off that the time from it does not fit into an INTEGER."""


def put_measured(store: Store, chance: random.Random, name: str, steps: int) -> str:
    """A run whose steps have any tokens, cost and time, each of them known or not."""
    spans: list[AnySpan] = []
    for each in trace([step(f"Step {n}.") for n in range(steps)], task=None).spans:
        if not isinstance(each, ModelCall):
            spans.append(each)
            continue
        tokens, usd, took = chance.choice(TOKENS), chance.choice(COSTS), chance.choice(TIMES)
        start_ns = chance.choice([None, 1, 10**18, EARLY_NS, EARLY_NS])
        end_ns = None
        if start_ns is not None and took is not None:
            end_ns = min(start_ns + took, 2**63 - 1)
        spans.append(
            structs.replace(
                each,
                usage=Usage(input_tokens=tokens),
                cost=None if usd is None else Cost(usd=usd, source="recorded"),
                start_ns=start_ns,
                end_ns=end_ns,
            )
        )
    writer = Writer(store)
    head = Header(format="built", source_id=name)
    return writer.finish(writer.write(Batch(header=head, spans=tuple(spans), last=True))).id


def read_plainly(store: Store, field: str, compared: str, said: str) -> set[str]:
    """The same read step by step."""
    fits = {">": gt, ">=": ge}[compared]
    limit = number(said, SPANS_NS if field == "step.duration" else {"": 1})
    assert limit is not None
    found = store.db.execute(f"SELECT trace, {OF_STEPS[field]} FROM steps").fetchall()
    return {key for key, value in found if value is not None and fits(value, limit)}


def test_the_largest_step_answers_as_all_steps_read_one_by_one() -> None:
    chance = random.Random(5)
    with closing(empty()) as store:
        for number in range(40):
            put_measured(store, chance, str(number), chance.randrange(4))
        put_measured(store, chance, "1", 6)  # another recording of a run that is there
        telling = 0
        kinds = {kind for (kind,) in store.db.execute("SELECT typeof(max_step_ns) FROM trace")}
        assert kinds == {"null", "integer", "real"}
        for field, limits in LIMITS_OF_STEPS.items():
            for limit, compared in product(limits, (">", ">=")):
                query = f"{field}{compared}{limit}"
                plain = read_plainly(store, field, compared, limit)
                assert set(run_order(store, runs_meant(store, query))) == plain, query
                others = set(run_order(store, runs_meant(store, f"not {query}")))
                assert others == set(run_order(store)) - plain, query
                assert run_totals(store, runs_meant(store, query)).runs == len(plain)
                telling += 0 < len(plain) < 40
        assert telling > 20


def test_the_largest_step_is_found_without_reading_steps(runs: Runs) -> None:
    for field in OF_STEPS:
        for compared in (">", ">="):
            meant = runs_meant(runs.store, f"{field}{compared}1")
            plan = runs.store.db.execute(
                f"EXPLAIN QUERY PLAN SELECT trace FROM runs WHERE preferred AND ({meant.sql})",
                list(meant.values),
            ).fetchall()
            tables = {row[3].split()[1] for row in plan if row[3].startswith(("SCAN", "SEARCH"))}
            assert tables <= {"t", "d"}, plan  # a run and its diagnosis


def test_an_older_database_gets_the_largest_steps_of_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    columns = "max_step_tokens, max_step_cost_usd, max_step_ns"
    kept = f"SELECT key, {columns} FROM trace ORDER BY key"
    with Store.open(path, migrations) as store:
        for number in range(8):
            put_measured(store, random.Random(number), str(number), 3)
        now = store.db.execute(kept).fetchall()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP VIEW trace_summary")
        db.execute(SUMMARY.format(more=""))
        for name in columns.split(", "):
            db.execute(f"ALTER TABLE trace DROP COLUMN {name}")
        db.execute("DELETE FROM _sqlite_migrations WHERE name = '0004_step_maxima'")
    with Store.open(path, migrations) as store:
        assert store.db.execute(kept).fetchall() == now
        assert len(run_order(store, runs_meant(store, "step.tokens>=0"))) > 1
