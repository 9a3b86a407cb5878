"""A database of very many runs: some written as an import writes them, the rest copied row by row.

Copies have rows of their own for runs, spans, calls, steps and what is said of them; they share
the messages of the run they were copied from. Writing all of them would take ten minutes.
"""

from __future__ import annotations

import random

from replay.store.handle import Store
from replay.store.write import Writer
from taxonomy.classes import Attribution, FailureClass, Shape
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.judgements import diagnoses
from tests.bench.corpus import STEPS, WORDS, batches

WRITTEN = 300


def fill(store: Store, traces: int, *, steps: int = STEPS) -> int:
    """Write the corpus; returns how many spans."""
    writer = Writer(store)
    written = batches(traces, steps=steps)
    return sum(writer.finish(writer.write(batch)).spans for batch in written)


def fill_many(store: Store, traces: int, *, steps: int = STEPS) -> int:
    """At least `traces` runs with diagnoses; returns how many spans they have."""
    fill(store, WRITTEN, steps=steps)
    keys = [row[0] for row in store.db.execute("SELECT key FROM trace ORDER BY id")]
    for number, key in enumerate(keys):
        diagnoses.keep(store, _said(random.Random(number), key, steps), {})
    copies = -(-traces // WRITTEN) - 1
    with store.writing() as db:
        most, spans = db.execute("SELECT max(trace), max(id) FROM span").fetchone()
        for copy in range(1, copies + 1):
            given = {"n": copy, "trace": copy * most, "span": copy * spans, "last": most}
            for table, changed in _COPIED.items():
                names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                taken = ", ".join(changed.get(name, name) for name in names)
                which = _WHICH.get(table, "trace <= :last")
                db.execute(f"INSERT INTO {table} SELECT {taken} FROM {table} WHERE {which}", given)
            for table in ("suggestion", "diagnosis"):
                names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")][1:]
                db.execute(
                    f"INSERT INTO {table} SELECT trace || '-' || :n, {', '.join(names)}"
                    f" FROM {table} WHERE trace NOT LIKE '%-%'",
                    given,
                )
            db.execute(
                "UPDATE trace SET complete = 1 WHERE id BETWEEN :trace + 1 AND :trace + :last",
                given,
            )
        db.execute(
            "INSERT INTO span_words (rowid, words)"
            " SELECT s.id, s.name || ' ' || coalesce(t.arguments, '') FROM span s"
            " JOIN tool_call t ON t.span = s.id WHERE s.id > ?",
            (spans,),
        )
    (total,) = store.db.execute("SELECT count(*) FROM span").fetchone()
    return int(total)


_COPIED = {
    "trace": {
        "id": "id + :trace", "key": "key || '-' || :n", "run": "run || '-' || :n",
        "complete": "0", "preferred": "0", "imported_ns": "imported_ns + :n * 1000000000",
        "cost_usd": "cost_usd + :n / 1000.0", "steps": "steps + :n % 7",
    },
    "span": {"id": "id + :span", "trace": "trace + :trace"},
    "model_call": {"span": "span + :span"},
    "tool_call": {"span": "span + :span"},
    "step": {"trace": "trace + :trace", "ask": "ask + :span"},
    "message_step": {"trace": "trace + :trace"},
}  # fmt: skip
"""What is another in a copy, by table and column; all else is taken over."""

_WHICH = {
    "trace": "id <= :last",
    "model_call": "span IN (SELECT id FROM span WHERE trace <= :last)",
    "tool_call": "span IN (SELECT id FROM span WHERE trace <= :last)",
}


def _said(chance: random.Random, trace: str, steps: int) -> Diagnosis:
    """What rules might say: of most runs something, of some that the harness did it."""
    why = " ".join(chance.choices(WORDS, k=6))
    found = [
        Finding(
            failure=chance.choice(list(FailureClass)),
            step=chance.randrange(steps),
            why=why,
            rule="bench",
            attribution=chance.choice([None, None, None, Attribution.ENVIRONMENT]),
        )
        for _ in range(chance.randrange(3))
    ]
    return Diagnosis(
        trace=trace,
        shape=chance.choice(list(Shape)),
        scores=(),
        findings=tuple(found),
        candidates=(Candidate(step=chance.randrange(steps), weight=1.0, why=why, signals=()),),
        warnings=("used an id never observed",) if chance.random() < 0.1 else (),
    )
