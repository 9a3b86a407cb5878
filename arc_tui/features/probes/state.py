"""Where a probe stands, as one value, and what the screen says of it first."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.experiments.progress import ExperimentState
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.view import ProbeView
from arc_tui.ui import format
from arc_tui.views.probe_offers import LOCAL, NO_PROBES, ProbeOffer, ProbesView
from replay.models.choose import DEMO


class ProbeState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """The probes of a step, the one that is looked at (`chosen`, by name), and how far one is."""

    request: ProbeRequest
    listed: ProbesView = NO_PROBES
    chosen: str = ""
    view: ProbeView | None = None

    @property
    def is_free(self) -> bool:
        """Is all of it asked on this machine?"""
        return self.listed.model == LOCAL

    def cost_of(self, offer: ProbeOffer) -> CostEstimate | None:
        """What a probe would ask, None where that is not known."""
        if offer.estimate is None:
            return None
        model = DEMO if self.is_free else str(self.listed.model)
        return CostEstimate(models=(model,), calls=offer.estimate)

    @property
    def offer(self) -> ProbeOffer | None:
        """The probe that is looked at."""
        return self.offered(self.chosen)

    @property
    def place(self) -> int:
        """Which of the probes is looked at."""
        names = [each.name for each in self.listed.offers]
        return names.index(self.chosen) if self.chosen in names else 0

    def offered(self, name: str) -> ProbeOffer | None:
        """The probe of that name."""
        return next((each for each in self.listed.offers if each.name == name), None)

    def can(self, name: str) -> bool:
        """Can the probe be run now?"""
        found = self.offered(name)
        waits = self.running or self.phase == "estimating"
        return found is not None and found.why_not is None and not waits

    @property
    def border_title(self) -> str:
        """Which step of which run."""
        task = f" of {format.one_line(self.listed.task)}" if self.listed.task else ""
        return f"probe step {self.request.step}{task}"

    @property
    def lines(self) -> tuple[str, ...]:
        """How it stands, or how the failure shows."""
        return (self._first,)

    @property
    def _first(self) -> str:
        if self.trouble is not None:
            return f"{self.trouble.message[:1].upper()}{self.trouble.message[1:]}."
        if self.phase == "stopped" and (self.view is None or self.view.ended is None):
            return "Stopped: no cause is named. What was answered is kept."
        if self.running and self.view is None:
            return "Asking."
        if self.view is not None:
            return self.view.sentence
        if self.phase == "estimating":
            return "Looking what this step allows."
        return self._symptom

    @property
    def _symptom(self) -> str:
        said = self.listed.symptoms
        if said:
            return f"Symptom: {'; '.join(f'{each.symptom} ({each.why})' for each in said)}."
        why = self.listed.unfit or "no symptom is known"
        return f"{why[:1].upper()}{why[1:]}."

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield self.trouble.hint
        broke = self.listed.broke
        if self.view is not None:
            yield from self.view.notices
        elif broke is not None and broke != self.request.step:
            yield f"the run is taken to have broken at step {broke}, not here"
        if self.view is None and self.listed.notice is not None:
            yield self.listed.notice


EMPTY_PROBE = ProbeState(request=ProbeRequest(trace=""))
