"""Models that act by a script, and runs of them: the ground of the tests of free replay."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replay import formats
from replay.edit.changes import Edit, SetSystem
from replay.formats.source import Source, Tally
from replay.free import run as free
from replay.free.recorded_results import BARE, Terms
from replay.free.result import FreeRun
from replay.models.cached import Cached
from replay.models.demo import Demo
from replay.store import read
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Trace
from tests.messages_api import Body, message, text

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TOUR = FIXTURES / "traces" / "shop-many-wishes-v5-0.jsonl"
V4 = Edit(name="v4", changes=(SetSystem((FIXTURES / "demo/prompts/v4.md").read_text()),))


def uses(*calls: tuple[str, dict[str, Any]]) -> Body:
    """A message that calls several tools at once."""
    blocks = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments}
        for at, (name, arguments) in enumerate(calls)
    ]
    return message(*blocks)


def says(words: str) -> Body:
    return message(text(words))


class Script:
    """A model that gives its answers in their order, by how often it has spoken already."""

    name = "script"

    def __init__(self, *answers: Body) -> None:
        self.bodies: list[Body] = []
        self._answers = answers

    @property
    def asked(self) -> int:
        return len(self.bodies)

    def complete(self, body: Body, sample: int) -> Body:
        self.bodies.append(body)
        spoken = [said["role"] for said in body["messages"]].count("assistant")
        return self._answers[spoken]


def run(
    trace: Trace,
    model: Any,
    edit: Edit | None = None,
    terms: Terms = BARE,
    store: Store | None = None,
    **beside: Any,
) -> FreeRun:
    """The whole run, its answers kept in `store`, else nowhere."""
    with Store.open(":memory:") as fresh:
        cached = Cached(store or fresh, model.name, model)
        return list(free.run(trace, edit, cached, terms, **beside))[-1]


def uses_of(made: FreeRun) -> list[tuple[str, str | None]]:
    """(rank, text) of everything the run was answered with, or not, in order."""
    return [(found.rank, found.text) for step in made.steps for found in step.found]


def recorded(store: Store, path: Path) -> Trace:
    """A trace of a file, through the database and back."""
    writer = Writer(store)
    [batch] = formats.load(Source(path), Tally())
    key = writer.write(batch)
    writer.finish(key)
    return read.load(store, key)


def _nothing_acts(event: str, _: tuple[Any, ...]) -> None:
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
        raise AssertionError(event)


def _main(path: str, kept: Sequence[str]) -> None:
    """`python -m tests.replay.free_case DB [offline]`: the tour in its own process; its digest."""
    sys.addaudithook(_nothing_acts)
    with Store.open(Path(path)) as store:
        trace = recorded(store, TOUR)
        model = Cached(store, "demo", None if kept else Demo())
        print(list(free.run(trace, V4, model))[-1].digest)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
