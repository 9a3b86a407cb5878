"""The first lines of the search for a step: where belief left the world, and what stands against
it."""

from __future__ import annotations

from functools import partial
from typing import get_args

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.jobs.bisect.step_plan import OracleName
from arc_tui.views.steps.stage import EMPTY, StepsStage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.cells import spread
from arc_tui.widgets.few_lines import FewLines, folded, noticed


class StepsHead(FewLines):
    """The run and the oracles, the sentence in bold, the test of it, the notices, what to do."""

    INKS = {
        "title": "$quiet",
        "oracle": "bold $primary",
        "sentence": "bold",
        "trouble": "bold $bad",
        "validated": "bold $good",
        "refuted": "bold $bad",
        "inconclusive": "bold",
        "notice": "$warning",
        "doing": "$primary",
    }

    stage: reactive[StepsStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage, said = self.stage, partial(keyed, self.screen)
        first, *more = map(said, stage.lines)
        trial = stage.view.trial
        parts = [
            ("sentence" if stage.trouble is None else "trouble", folded(first, width)),
            *((trial.status if trial is not None else "", folded(each, width)) for each in more),
            ("notice", noticed(map(said, stage.notices), width)),
            ("doing", folded(said(stage.doing), width) if stage.doing else []),
        ]
        return [self._title(width), *self.inked(parts)]

    def _title(self, width: int) -> Text:
        """The run, and the oracles with the one that is asked marked."""
        oracles = Text(" ").join(
            Text(f"[{name}]", self.ink("oracle"))
            if name == self.stage.wanted.oracle
            else Text(name, self.ink("title"))
            for name in get_args(OracleName)
        )
        title = Text(self.stage.title, self.ink("title"))
        title.truncate(max(width - oracles.cell_len - 2, 0), overflow="ellipsis")
        return spread(title, oracles, width)
