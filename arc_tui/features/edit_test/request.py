"""What a person wants tried: which edit on which runs, how often, and the steps that come of it."""

from __future__ import annotations

from msgspec import Struct

from arc_tui.experiments.request import ExperimentRequest
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.locked.row import Sampling, Schedule
from taxonomy.edit_test import Break, LeftOut, Spot
from taxonomy.query.listing import RunRow

SAMPLES = 5
CONTROLS = 40


class EditTestRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to try on what. `traces` are runs by their ids, which `query` then only names; None are
    those of the query. `edit` None only looks which runs that is.

    `model` None is each trace's own. `controls` healthy steps at most are asked beside the runs;
    `rules` say which arguments of their calls count. `resample` asks everything afresh, beside
    what is kept.
    """

    edit: Edit | None
    query: str = ""
    traces: tuple[str, ...] | None = None
    samples: int = SAMPLES
    controls: int = CONTROLS
    schedule: Schedule = "cheap"
    resample: bool = False
    rules: Rules = PLAIN
    with_held_out: bool = False

    def sampling(self, range: int) -> Sampling:
        """How often each request is asked, of which range of samples."""
        return Sampling(levels=(self.samples,), range=range, schedule=self.schedule)


class Case(Struct, frozen=True, eq=False, kw_only=True):
    """A run to try the edit on: where it broke, and what is asked there.

    `asks` are the requests of both arms in one word: runs that ask the same are one question.
    `group` is what its answers are alike in: its task, else that word.
    """

    row: RunRow
    broke: Break
    asks: str

    @property
    def group(self) -> str:
        return self.row.task or self.asks


class Control(Struct, frozen=True, eq=False, kw_only=True):
    """A step that went well, of a run that passed or has not broken yet."""

    row: RunRow
    spot: Spot

    @property
    def group(self) -> str:
        return self.row.task or self.spot.asks


class EditTestPlan(Struct, frozen=True, eq=False, kw_only=True):
    """What is asked, and of which runs nothing is: they were `left_out`, or the edit or the model
    is `not_applicable` to them."""

    cases: tuple[Case, ...]
    controls: tuple[Control, ...]
    left_out: tuple[LeftOut, ...]
    not_applicable: tuple[LeftOut, ...]
