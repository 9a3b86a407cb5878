"""Databases that the app is opened on: one long trace, very many runs, one long message.

Each is built once and kept in the system's temporary folder for the next time.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from arc_tui.importing import diagnose_one
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.write import Writer
from replay.trace import Batch, Message, Observation, Outcome, ToolCall
from taxonomy.judgements.schema import open_ledger
from tests.bench import corpus
from tests.bench.corpus import WORDS
from tests.bench.many import fill_many

KEPT = Path(tempfile.gettempdir()) / "arc-bench-app"

A_WORD = 7
"""Characters that a word of the corpus takes with its gap, about."""

STEPS_OF_MANY = 3
"""Steps of each of very many runs: a list shows none of them."""


def long_trace(spans: int, context: int = 0) -> Path:
    """A database with one trace of so many spans; every request has `context` characters before
    the messages that are its own."""
    name = f"trace-{spans}-{context}" if context else f"trace-{spans}"
    return _kept(name, lambda store: _write(store, _passed((spans - 1) // 2, context)))


def only_trace(path: Path) -> str:
    """The key of the trace that such a database has."""
    with open_ledger(path) as store:
        return trace_rows(store)[0].trace


def many_runs(runs: int) -> Path:
    """A database with so many runs, and what is said of them."""
    return _kept(f"runs-{runs}", lambda store: fill_many(store, runs, steps=STEPS_OF_MANY))


def long_message(megabytes: int) -> Path:
    """A database with one trace, the result of whose only call is so long."""
    return _kept(f"message-{megabytes}", lambda store: _write(store, _talkative(megabytes)))


def _kept(name: str, fill: Callable[[Store], object]) -> Path:
    KEPT.mkdir(exist_ok=True)
    path, begun = KEPT / f"{name}.db", KEPT / f"{name}.begun"
    if not path.exists():
        begun.unlink(missing_ok=True)
        with open_ledger(begun) as store:
            fill(store)
        begun.rename(path)
    return path


def _write(store: Store, batch: Batch) -> None:
    """As an import leaves it: the app would have the rules look at it behind the screen."""
    writer = Writer(store)
    key = writer.write(batch)
    writer.finish(key)
    diagnose_one(store, key)


def _passed(steps: int, context: int = 0) -> Batch:
    """It opens at its first step."""
    batch = corpus.trace(random.Random(1), "long", steps, words=max(60, context // A_WORD))
    passed = Outcome(status="passed", value=1.0, by="corpus")
    return structs.replace(batch, header=structs.replace(batch.header, outcome=passed))


def _talkative(megabytes: int) -> Batch:
    batch = _passed(1)
    *others, call = batch.spans
    assert isinstance(call, ToolCall)
    chance, lines, size = random.Random(2), list[str](), 0
    while size < megabytes << 20:
        lines.append(" ".join(chance.choices(WORDS, k=chance.randrange(2, 40))))
        size += len(lines[-1]) + 1
    said = {"type": "tool_result", "tool_use_id": call.call_id, "content": "\n".join(lines)}
    message = Message(dialect="anthropic", body={"role": "user", "content": [said]})
    long = structs.replace(call, observation=Observation(message=message, block=0))
    return structs.replace(batch, spans=(*others, long))
