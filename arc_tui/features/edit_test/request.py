"""What a person wants tried: which edit on which runs, how often, and of whom it is asked."""

from __future__ import annotations

from arc_tui.experiments.request import ExperimentRequest
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.locked.row import Sampling, Schedule

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
