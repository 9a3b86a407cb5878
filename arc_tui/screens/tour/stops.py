"""Where the tour stops, what it says there, and what a person does to go on. Pure."""

from __future__ import annotations

from msgspec import Struct


class Move(Struct, frozen=True, kw_only=True):
    """One thing to do: on the screen of that name, the key of that id, the words after it, and
    what is said where the key does nothing.

    `kept`: it is done once a tag is kept, not when the key is pressed.
    """

    place: str
    key: str
    words: str
    otherwise: str = ""
    kept: bool = False


RUNS, RUN, REPLAY = "runs", "a run", "a replay"
"""What the screens call themselves (`HELP`)."""

START = "task:many-wishes variant:v5 trial:0"
"""The run the tour is about: its break is shown by what it had been told."""

SOUND = "nothing looks broken here: back, and open one with ✗"

STOPS: tuple[tuple[Move, ...], ...] = (
    (
        Move(place=RUNS, key="runs.failed", words="lists only the runs that failed"),
        Move(place=RUNS, key="runs.open", words="opens the run under the cursor"),
    ),
    (
        Move(place=RUN, key="trace.candidate_next", otherwise=SOUND,
             words="goes to another step that may be the break, marked ◆"),
        Move(place=RUN, key="trace.candidate_before", otherwise=SOUND,
             words="goes back to the first of them, the likeliest"),
    ),
    (
        Move(place=RUN, key="trace.tab_2", words="shows the request: all that it had been told"),
        Move(place=RUN, key="trace.tab_1", words="shows why: what it said against what it saw"),
    ),
    (
        Move(place=RUN, key="trace.edit", words="edits what the agent was told"),
        Move(place=REPLAY, key="replay.run",
             words="asks the demo model again; change a line before"),
    ),
    (
        Move(place=RUN, key="trace.tag", kept=True,
             words="and a letter say what kind of failure it is"),
    ),
    (
        Move(place=RUNS, key="runs.failures", words="counts the failures, the most frequent first"),
    ),
)  # fmt: skip
"""Six stops: runs, candidate, why, edit and replay, tag, Pareto. The moves of one stop follow each
other."""
