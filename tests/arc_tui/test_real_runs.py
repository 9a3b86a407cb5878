"""The real traces beside the checkout, each step that may be a break as `arc show` shows it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import islice

import click
import msgspec
import pytest

from arc_tui.cli import cli
from arc_tui.cli.common import PIPED_WIDTH, PlainConsole
from arc_tui.cli.reading import step_in_full
from arc_tui.cli.show import print_step
from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import offered
from arc_tui.views.trace.step import StepView
from arc_tui.views.trace.view import TraceView, build_trace
from arc_tui.widgets.document import NAMED
from replay.store import Store
from replay.store.rows import trace_rows
from taxonomy.ledger import open_ledger
from tests.shared import Imported, needs_shared

pytestmark = needs_shared


@pytest.fixture(params=["real", "others", pytest.param("large", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    found: Imported = request.getfixturevalue(request.param)
    with open_ledger(found.path) as opened:
        yield opened


def views(store: Store) -> Iterator[TraceView]:
    """Every run that has a step which may be the break."""
    for row in trace_rows(store, every=True):
        view = build_trace(store, row.trace)
        if view.marked:
            yield view


def test_every_candidate_is_shown_and_each_probe_has_its_price_or_why_it_cannot_be_run(
    store: Store,
) -> None:
    """The first candidate of a run, and a step that is none, as text too: without a key, and with
    commands that there are."""
    tried: Counter[str] = Counter()
    for view in views(store):
        for step in view.marked:
            detail = step_in_full(store, view, step)
            assert msgspec.json.encode(detail)
            if step == view.marked[0]:
                tried.update(suggested(view, detail))
            listed = offered(store, Wanted(trace=view.run.trace, step=step, model="a-model"))
            assert len(listed.offers) == 4
            for offer in listed.offers:
                can = offer.why_not is None
                where = view.run.path, step, offer.name
                assert (offer.estimate is not None) == can, where
                assert bool(offer.text) == bool(offer.command) == can, where
            tried["candidates"] += 1
        others = (row.step for row in view.steps if row.step not in view.marked)
        for step in islice(others, 1):
            tried.update(suggested(view, step_in_full(store, view, step)))
    assert tried["candidates"] > 100
    assert tried["show"] > 20
    assert tried["probe"] > 20


TRY = re.compile(r"\bTry: (?P<command>arc .+)$", re.MULTILINE)


def suggested(view: TraceView, detail: StepView) -> Iterator[str]:
    """The commands that a printed step names; it names no key."""
    out = PlainConsole(file=StringIO(), width=PIPED_WIDTH, highlight=False, markup=False)
    with click.Context(cli):
        print_step(out, view, detail)
    assert isinstance(out.file, StringIO)
    said = out.file.getvalue()
    assert not NAMED.search(said), (view.run.path, detail.row.step)
    yield from (parsed(found["command"]) for found in TRY.finditer(said))


def parsed(line: str) -> str:
    """The command of the line, all of its words understood."""
    context = click.Context(cli, info_name="arc")
    name, command, words = cli.resolve_command(context, shlex.split(line)[1:])
    assert name is not None
    assert command is not None
    command.make_context(name, words, parent=context)
    return name
