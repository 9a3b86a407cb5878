"""The real traces beside the checkout, each step that may be a break as `arc show` shows it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import islice
from typing import NamedTuple

import click
import msgspec
import pytest

from arc_tui.cli import PIPED_WIDTH, PlainConsole
from arc_tui.commands import cli
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import offered
from arc_tui.features.trace.command import print_step, print_trace, step_in_full
from arc_tui.ui.document import NAMED
from arc_tui.views.brief import brief_text
from arc_tui.views.evidence import candidate_kind
from arc_tui.views.step import StepView
from arc_tui.views.trace import TraceView, build_diagnose, build_trace
from replay.store.handle import Store
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.shared import DATA, FOLDERS, LABELLED, LARGE, OTHERS, Imported, needs_shared

pytestmark = needs_shared


WIDE = "whowhen"
"""A third of the candidates, all of one kind: no request was recorded whole."""


class Part(NamedTuple):
    """Folders of a database of real traces, by the name of its fixture."""

    database: str
    folders: tuple[str, ...]


MOST = tuple(name for name in FOLDERS + LABELLED if name != WIDE)
PARTS = {
    "most": Part("real", MOST),
    "others": Part("others", OTHERS),
    "wide": Part("real", (WIDE,)),
    "large": Part("large", LARGE),
}


@pytest.fixture(
    params=["most", "others", *(pytest.param(name, marks=pytest.mark.slow)
                                for name in ("wide", "large"))]
)  # fmt: skip
def part(request: pytest.FixtureRequest) -> Part:
    return PARTS[request.param]


@pytest.fixture
def store(part: Part, request: pytest.FixtureRequest) -> Iterator[Store]:
    found: Imported = request.getfixturevalue(part.database)
    with open_ledger(found.path) as opened:
        yield opened


def views(store: Store, part: Part) -> Iterator[TraceView]:
    """Every run that has a step which may be the break."""
    folders = tuple(f"{DATA / name}/" for name in part.folders)
    for row in trace_rows(store, every=True):
        view = build_trace(store, row.trace)
        if view.marked and (row.path or "").startswith(folders):
            yield view


@pytest.mark.data
def test_every_candidate_is_shown_and_each_probe_has_its_price_or_why_it_cannot_be_run(
    store: Store, part: Part
) -> None:
    """The first candidate of a run, and a step that is none, as text too: without a key, and with
    commands that there are."""
    tried: Counter[str] = Counter()
    for view in views(store, part):
        for step in view.marked:
            detail = step_in_full(store, view, step)
            assert msgspec.json.encode(detail)
            if step == view.marked[0]:
                tried.update(suggested(view, detail))
            listed = offered(store, ProbeRequest(trace=view.run.trace, step=step, model="a-model"))
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
    assert tried["show"] > 10
    assert tried["probe"] > 10 or part is PARTS["wide"]


@pytest.mark.data
def test_candidates_stand_in_one_order_everywhere_and_the_likeliest_is_opened(
    store: Store, part: Part
) -> None:
    ordered: Counter[str] = Counter()
    for view in views(store, part):
        assert view.diagnosis is not None
        found = view.diagnosis.candidates
        guessed = [each for each in found if candidate_kind(each) in ("rule", "guess")]
        assert found[len(found) - len(guessed) :] == tuple(guessed), "what is known stands first"
        weights = [each.weight for each in guessed]
        assert weights == sorted(weights, reverse=True), view.run.path
        assert view.opens_at == view.run.why_step == view.marked[0], view.run.path
        broke = build_diagnose(store, view.run.trace)
        told = {
            "diagnose --json": tuple(candidate.step for candidate in broke.candidates),
            "diagnose": steps(r"\d\. step (\d+) · ", "\n".join(broke.lines())),
            "brief": steps(
                r"- step (\d+) · .*\((?:correct in|accuracy) ", brief_text(store, view.run.trace)
            ),
            "show": steps(r"candidate: step (\d+) · ", printed(print_trace, view)),
        }
        assert set(told.values()) == {view.marked}, (view.run.path, told)
        ordered[view.run.outcome] += view.marked != tuple(sorted(view.marked))
    assert ordered.total() > 10, "or their order is that of their places anyway"


def steps(line: str, said: str) -> tuple[int, ...]:
    """The steps that lines of this kind begin with."""
    return tuple(map(int, re.findall(f"^{line}", said, re.MULTILINE)))


TRY = re.compile(r"\bTry: (?P<command>arc .+)$", re.MULTILINE)


def suggested(view: TraceView, detail: StepView) -> Iterator[str]:
    """The commands that a printed step names; it names no key."""
    said = printed(print_step, view, detail)
    assert not NAMED.search(said), (view.run.path, detail.row.step)
    yield from (parsed(found["command"]) for found in TRY.finditer(said))


def printed(print_view: Callable[..., None], *shown: TraceView | StepView) -> str:
    out = PlainConsole(file=StringIO(), width=PIPED_WIDTH, highlight=False, markup=False)
    with click.Context(cli):
        print_view(out, *shown)
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()


def parsed(line: str) -> str:
    """The command of the line, all of its words understood."""
    context, words, name = click.Context(cli, info_name="arc"), shlex.split(line)[1:], None
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
    assert name is not None
    assert command is not None
    command.make_context(name, words, parent=context)
    return name
