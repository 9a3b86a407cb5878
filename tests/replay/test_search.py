"""Find a text in a run: each text counts for the step that a reader would look for it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.store import Store
from replay.store.search import steps_saying
from replay.store.write import Writer
from replay.trace import Batch
from tests.build import call, error, heard, step, trace

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
    ],
)
def test_a_text_counts_for_the_step_that_said_it_or_was_first_shown_it(
    found: tuple[Store, str], words: str, steps: set[int]
) -> None:
    store, key = found
    assert steps_saying(store, key, words) == steps
