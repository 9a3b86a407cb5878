"""Where a replay stands, as one value, and what the screen says of it in words."""

from __future__ import annotations

from arc_tui.experiments import edits as drafts
from arc_tui.experiments import locked_view as replays
from arc_tui.experiments.edits import Draft
from arc_tui.experiments.locked_view import ReplayRow, ReplayView
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.features.replay import text
from arc_tui.features.replay.plan import ReplayEstimate
from arc_tui.ui.format import count
from replay.budget import Limits

CHANGED = "the edit was changed since: this is of the one asked before; ‹replay.run› asks again"


class ReplayState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A draft, what asking would come to, what was asked so far, and how that ended.

    `limits` are those it is asked under. `changed` tells that the edit is another one since.
    """

    draft: Draft = drafts.EMPTY
    estimate: ReplayEstimate | None = None
    view: ReplayView = replays.EMPTY
    limits: Limits = Limits()
    changed: bool = False

    @property
    def rows(self) -> tuple[ReplayRow, ...]:
        """Every step: as it was asked again, else as recorded."""
        asked = {row.step: row for row in self.view.rows}
        return tuple(asked.get(row.step, row) for row in self.draft.rows)

    @property
    def lines(self) -> tuple[str, ...]:
        """How it stands, in one sentence."""
        return (self._sentence,)

    @property
    def _sentence(self) -> str:
        verdict = self.view.verdict.sentence
        match self.phase:
            case "running" | "stopping":
                return f"So far: {verdict}" if self.view.done else "Asking the first step."
            case _ if self.trouble is not None:
                return f"{as_sentence(self.trouble.message)} {self._kept}".rstrip()
            case "stopped":
                return f"{self._stopped} {verdict if self._answered else ''}".rstrip()
            case "done":
                return verdict
            case _:
                return text.sentence(self.estimate) if self.estimate is not None else ""

    @property
    def basis(self) -> tuple[str, ...]:
        """What the verdict rests on, where it is what is said."""
        over = self.phase in ("done", "stopped") and self.trouble is None
        return self.view.verdict.basis if over else ()

    @property
    def _answered(self) -> int:
        """Steps with an answer."""
        return self.view.verdict.control.of

    @property
    def _stopped(self) -> str:
        return f"Stopped at {self._answered} of {count(len(self.draft.rows), 'step')}. {self._kept}"

    @property
    def _kept(self) -> str:
        return "What was answered is kept." if self.view.asked + self.view.kept else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it: a refusal, a failure no prompt can answer, what is missing."""
        said = list(self.view.verdict.notices)
        if self.phase == "idle" and self.estimate is not None:
            said = list(text.notices(self.estimate))
        if self.changed and self.view.done and self.phase != "idle":
            said.insert(0, CHANGED)
        if self.draft.notice is not None and self.draft.notice not in said:
            said.append(self.draft.notice)
        if self.draft.missing:
            said.append(
                f"{' and '.join(self.draft.missing)}: ‹replay.attach› attaches what you have"
            )
        if self.trouble is not None and self.trouble.hint:
            said.insert(0, self.trouble.hint)
        return tuple(said)


EMPTY = ReplayState()
