"""Files of other tools made odd: anything put anywhere, and what became of it in a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import Format, load
from replay.formats.source import Source, Tally
from replay.store import read
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Trace
from tests.tries import often

SOME = settings(
    max_examples=often(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""For tests that open a store for every example."""

NAMES = (
    "action", "args", "content", "cost", "data", "error", "id", "info", "input", "message",
    "name", "output", "parts", "payload", "result", "role", "state", "summary", "text", "time",
    "tokens", "type", "usage",
)  # fmt: skip
WORDS = ("", "x", "user", "assistant", "message", "text", "tool", "completed", "error", "gemini")

ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside of this one."""
    names = value if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    found: list[tuple[Any, ...]] = []
    for name in names:
        each = value[name]
        found.append((*above, name))
        found += places(each, (*above, name))
    return found


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """The value with something else in one to three places."""
    changed = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(changed)))
        target = changed
        for name in path:
            target = target[name]
        target[last] = draw(ODD)
    return changed


def lines(records: list[Any]) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


def stored(path: Path, format: Format | None = None) -> list[Trace]:
    """What a file gives once it is in a store; nothing where it is refused with a sentence."""
    found: list[Trace] = []
    with Store.open(":memory:") as store:
        try:
            for batch in load(Source(path), Tally(), format=format):
                found += _kept(store, batch)
        except BadTrace:
            return found
    return found


def _kept(store: Store, batch: Batch) -> list[Trace]:
    writer = Writer(store, replace=True)
    key = writer.write(batch)
    return [read.load(store, writer.finish(key).id)] if batch.last else []
