"""What any screen may ask of the app: to open another one. `routes` answers each of these.

Screens know nothing of each other. A screen, or a widget in it, posts one of these messages; it
bubbles up to the app, which pushes what shows it. They are made at each start: without what
nobody asks of a message, to be compared and printed, that takes half as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen

if TYPE_CHECKING:
    from arc_tui.views.queue import Visit
    from replay.edit.changes import Edit


@dataclass(eq=False, repr=False)
class OpenTrace(Message):
    """A run; `step` None is where it opens by itself."""

    trace: str
    step: int | None = None


@dataclass(eq=False, repr=False)
class ReturnToTrace(Message):
    """The run that the screen in front was opened from, at a step."""

    trace: str
    step: int


@dataclass(eq=False, repr=False)
class OpenRuns(Message):
    """The list of runs, of which it shows just these traces; `label` says what they are."""

    label: str
    traces: tuple[str, ...]


@dataclass(eq=False, repr=False)
class SearchRuns(Message):
    """The list of runs, of which it shows those in which somebody says a text."""

    text: str


@dataclass(eq=False, repr=False)
class FilterRuns(Message):
    """The list of runs, of which it shows those that a query means."""

    query: str
    with_held_out: bool


@dataclass(eq=False, repr=False)
class OpenMatrix(Message):
    """The runs that a query means, as tasks by variant and model."""

    query: str
    with_held_out: bool


@dataclass(eq=False, repr=False)
class OpenGate(Message):
    """Two groups of runs held against each other; without both queries a person names them."""

    baseline: str = ""
    candidate: str = ""


@dataclass(eq=False, repr=False)
class OpenDrift(Message):
    """The environments of two groups of runs; without both queries a person names them."""

    first: str = ""
    second: str = ""


@dataclass(eq=False, repr=False)
class OpenAudit(Message):
    """The agent of the runs that a query means: what it says and claims against what it does."""

    query: str
    with_held_out: bool


class ChooseSource(Message):
    """Whose runs are listed: those of the database, or those of a trace store."""


class OpenDemo(Message):
    """The bundled runs; they have a database of their own."""


class OpenFailures(Message):
    """Why runs fail, and how often."""


class OpenCalibration(Message):
    """How right rules, judge and localiser are."""


@dataclass(eq=False, repr=False)
class OpenCompare(Message):
    """A run beside the marked one, else beside one that a person chooses."""

    trace: str


@dataclass(eq=False, repr=False)
class OpenCost(Message):
    """What a run cost, step by step."""

    trace: str


@dataclass(eq=False, repr=False)
class OpenReplay(Message):
    """Locked replay of a run; with `edit`, after what the agent was told is edited, beginning with
    the edit `start` where one is given."""

    trace: str
    step: int
    edit: bool = False
    start: Edit | None = None


@dataclass(eq=False, repr=False)
class OpenFreeReplay(Message):
    """Free replay of a run from a step, with an edit or without; `model` None is the run's own."""

    trace: str
    step: int
    edit: Edit | None = None
    model: str | None = None


@dataclass(eq=False, repr=False)
class OpenBisect(Message):
    """The search for the version of a prompt, or the part of an edit, that breaks a step."""

    trace: str
    step: int
    edit: Edit | None = None


@dataclass(eq=False, repr=False)
class OpenBisectSteps(Message):
    """The search for the step of a run at which it first went wrong."""

    trace: str
    step: int


@dataclass(eq=False, repr=False)
class OpenProbes(Message):
    """Probes that tell two causes of the failure at a step apart."""

    trace: str
    step: int


@dataclass(eq=False, repr=False)
class OpenEditTest(Message):
    """An edit tried on these traces; `label` says what they are."""

    label: str
    traces: tuple[str, ...]


@dataclass(eq=False, repr=False)
class OpenSuggestions(Message):
    """Edits that may fix these traces; `label` says what they are."""

    label: str
    traces: tuple[str, ...]


@dataclass(eq=False, repr=False)
class OpenClassify(Message):
    """A judge's classes of these traces; `label` says what they are."""

    label: str
    traces: tuple[str, ...]


@dataclass(eq=False, repr=False)
class OpenQueue(Message):
    """A run of the review queue; `in_place` of the screen in front, which shows one already."""

    visit: Visit
    in_place: bool = False


def read_queue(screen: ArcScreen, *, blind: bool, in_place: bool = False) -> None:
    """Read which runs wait for a word of this person, then ask for the first of them."""
    from arc_tui.views.queue import Visit
    from taxonomy.queue import queue

    by = author()
    reading = screen.ask(
        lambda store: queue(store, by, blind=blind),
        lambda found: OpenQueue(Visit(queue=found), in_place),
        group="queue",
    )
    screen.hold_keys(reading)
