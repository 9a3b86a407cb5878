"""Where a replay stands, as one value, and what the screen says of it in words."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from arc_tui.experiments import edits as drafts
from arc_tui.experiments import locked_view as replays
from arc_tui.experiments.edits import Draft
from arc_tui.experiments.estimate import Prospect
from arc_tui.experiments.locked_view import ReplayRow, ReplayView
from arc_tui.ui.format import count
from replay.budget import Limits
from replay.errors import ArcError

CHANGED = "the edit was changed since: this is of the one asked before; ‹replay.run› asks again"


class ReplayState(Struct, frozen=True, eq=False, kw_only=True):
    """A draft, what asking would come to, what was asked so far, and how that ended.

    `limits` are those it is asked under. `changed` tells that the edit is another one since.
    `trouble` is why it goes no further, None where nothing is wrong.
    """

    at: Literal["loading", "ready", "asking", "stopping", "stopped", "failed", "done"] = "loading"
    draft: Draft = drafts.EMPTY
    prospect: Prospect | None = None
    view: ReplayView = replays.EMPTY
    limits: Limits = Limits()
    changed: bool = False
    trouble: ArcError | None = None

    @property
    def running(self) -> bool:
        return self.at in ("asking", "stopping")

    @property
    def rows(self) -> tuple[ReplayRow, ...]:
        """Every step: as it was asked again, else as recorded."""
        asked = {row.step: row for row in self.view.rows}
        return tuple(asked.get(row.step, row) for row in self.draft.rows)

    @property
    def sentence(self) -> str:
        """What is to be said first."""
        said = self.view.verdict.sentence
        match self.at:
            case "asking" | "stopping":
                return f"So far: {said}" if self.view.done else "Asking the first step."
            case _ if self.trouble is not None:
                return f"{_ended(self.trouble.message)} {self._kept}".rstrip()
            case "stopped":
                return f"{self._stopped} {said if self._asked else ''}".rstrip()
            case "done":
                return said
            case _:
                return self.prospect.sentence if self.prospect is not None else ""

    @property
    def basis(self) -> tuple[str, ...]:
        """What the verdict rests on, where it is what is said."""
        ended = self.at in ("done", "stopped") and self.trouble is None
        return self.view.verdict.basis if ended else ()

    @property
    def _asked(self) -> int:
        """Steps with an answer."""
        return self.view.verdict.control.of

    @property
    def _stopped(self) -> str:
        return f"Stopped at {self._asked} of {count(len(self.draft.rows), 'step')}. {self._kept}"

    @property
    def _kept(self) -> str:
        return "What was answered is kept." if self.view.asked + self.view.kept else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it: a refusal, a failure no prompt can answer, what is missing."""
        said = list(self.view.verdict.notices)
        if self.at == "ready" and self.prospect is not None:
            said = list(self.prospect.notices)
        if self.changed and self.view.done and self.at != "ready":
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


def _ended(sentence: str) -> str:
    """A message of an error as a sentence."""
    return f"{sentence[:1].upper()}{sentence[1:]}".rstrip(".") + "."
