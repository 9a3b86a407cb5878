"""The keys of the trace screen, in the order in which the bar and the help show them."""

from __future__ import annotations

from collections.abc import Collection

from textual.binding import Binding, BindingType

from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.lanes import has_times
from arc_tui.features.trace.search import Finder
from arc_tui.features.trace.span_tree import Jumps
from arc_tui.features.trace.tagging import Tagging
from arc_tui.ui.bindings import bind, choice
from arc_tui.views.trace import TraceView

STEP = Binding.Group("step", compact=True)
CANDIDATE = Binding.Group("candidate", compact=True)
ERROR = Binding.Group("error", compact=True)
AGAIN = Binding.Group("match", compact=True)

JUMPS = [
    bind("J", "step(1)", id="trace.step_next", group=STEP, tooltip="Go to the next step"),
    bind("K", "step(-1)", id="trace.step_before", group=STEP, tooltip="Go to the previous step"),
    bind("c", "candidate(1)", id="trace.candidate_next", group=CANDIDATE,
         tooltip="Go to the likeliest break candidate, then to the next likeliest"),
    bind("C", "candidate(-1)", id="trace.candidate_before", group=CANDIDATE,
         tooltip="Go to the previous break candidate"),
    bind("*", "peer(1)", id="trace.peer_next", show=False,
         tooltip="Go to the next step with the same tool as this one"),
    bind("_", "peer(-1)", id="trace.peer_before", show=False,
         tooltip="Go to the previous step with the same tool"),
    bind(")", "sibling(1)", id="trace.sibling_next", show=False,
         tooltip="Go to the next row of the same parent"),
    bind("(", "sibling(-1)", id="trace.sibling_before", show=False,
         tooltip="Go to the previous row of the same parent"),
    bind("space", "mark", id="trace.mark", show=False,
         tooltip="Bookmark the step until you leave the run, or remove the bookmark"),
    bind("'", "marked", id="trace.marked", show=False, tooltip="Go to the next bookmark"),
    bind("^o", "return", id="trace.return", show=False,
         tooltip="Back to the step where you were before the last jump"),
]  # fmt: skip

WAYS = [
    bind("t", "tag", id="trace.tag",
         tooltip="Tag this step with a failure class: one more letter"),
    bind("e", "edit", id="trace.edit",
         tooltip="Edit the context of the agent, and replay with it"),
    bind("r", "replay", id="trace.replay", label="replay", only="r",
         tooltip="Replay the run: call the model at every step"),
    bind("b", "bisect", id="trace.bisect", label="bisect", only="b",
         tooltip="Find the prompt version, or the change of an edit, that makes it fail"),
]  # fmt: skip

FINDS = [
    bind(">", "error(1)", id="trace.error_next", group=ERROR,
         tooltip="Go to the next step with an error"),
    bind("<", "error(-1)", id="trace.error_before", group=ERROR,
         tooltip="Go to the previous step with an error"),
    bind("/", "find", id="trace.find", label="find",
         tooltip="Find a text in the labels, messages, calls and results of this run"),
    bind("&", "filter", id="trace.filter",
         tooltip='Show only some steps of the tree: tool:bash is:error "no such file"'),
    bind("n", "found(1)", id="trace.found_next", group=AGAIN,
         tooltip="Go to the next step that contains it, or in the detail to the next line"),
    bind("N", "found(-1)", id="trace.found_before", group=AGAIN,
         tooltip="Go to the previous step that contains it, or to the previous line"),
    bind("I", "everywhere", id="trace.everywhere", label="in all runs",
         tooltip="List all runs that contain the text"),
]  # fmt: skip

ASKS = [
    bind("=", "compare", id="trace.compare",
         tooltip="Compare with the selected run, else with another trial or a replay"),
    bind("B", "bisect_steps", id="trace.bisect_steps",
         tooltip="Find the first step that contradicts its context, and test a fix there"),
    bind("P", "probes", id="trace.probes",
         tooltip="Tell two causes of the failure apart: change one thing and call the model"),
    bind("^e", "app.suggest", id="trace.suggest", show=False,
         tooltip="Suggest edits for this run, and test them"),
    bind("^n", "app.golden", id="trace.golden", show=False,
         tooltip="Make a golden task of this run, by the tag of this step where it has one"),
    bind("U", "classify", id="trace.classify", show=False,
         tooltip="Let a judge suggest a class for this run"),
    bind("p", "origins", id="trace.origins",
         tooltip="Show the origin of the values of this step's calls"),
    bind("F", "free", id="trace.free", only="F",
         tooltip="Let the agent continue from this step; tools are mocked"),
]  # fmt: skip

LOOKS = [
    bind("z", "zoom(1)", id="trace.zoom", label="zoom",
         tooltip="Show fewer steps beside this one in the lanes, in the end all again"),
    bind("Z", "zoom(-1)", id="trace.zoom_out", show=False,
         tooltip="Show more steps beside this one in the lanes"),
    bind("v", "view_menu", id="trace.view_menu",
         tooltip="Change the view of the lanes: time axis, score source"),
    bind("$", "money", id="trace.money",
         tooltip="Show what this run cost, and what of it is likely waste"),
    bind("A", "failures", id="trace.failures", show=False,
         tooltip="Count the failures of all runs by class and attribution"),
    bind("%", "calibration", id="trace.calibration", show=False,
         tooltip="Measure rules, judge and localiser against labels"),
    bind("y", "copy", id="trace.copy", tooltip="Copy the step as Markdown"),
    bind("Y", "copy_part", id="trace.copy_part", show=False,
         tooltip="Copy the value under the cursor, a call as JSON, a command, a result"),
    bind("o", "open", id="trace.open", label="in a pager", show=False, only="o",
         tooltip="Open the step or a part of it in $PAGER"),
    bind("E", "view", id="trace.view", show=False, only="E",
         tooltip="Open what is under the cursor, or the step, in $EDITOR; nothing is saved"),
    bind("u", "undo", id="trace.undo", show=False, tooltip="Remove the tag given last"),
    bind(".", "repeat", id="trace.repeat", show=False,
         tooltip="Give this step the tag given last"),
]  # fmt: skip

TABS = [
    *(
        choice(place, f"tab({place - 1})", name.lower(), id=f"trace.tab_{place}",
               tooltip=f"Show {name} of the step")
        for place, name in enumerate(NAMES, 1)
    ),
    bind("tab", "turn(1)", id="trace.tab_next", show=False,
         tooltip="Show the next page of the step"),
    bind("shift+tab", "turn(-1)", id="trace.tab_before", show=False,
         tooltip="Show the previous page of the step"),
    bind("esc", "back", id="trace.back",
         tooltip="Back to the tree, to all of it, then to the list of runs"),
]  # fmt: skip

QUEUE_KEYS = [
    bind("T", "walk", id="queue.walk", show=False,
         tooltip="Go through the runs that need a tag of yours; in the queue, the next run"),
    bind("Q", "turn_blind", id="queue.blind", show=False,
         tooltip="Go through runs that others tagged, their tags hidden; in there, back"),
    bind("-", "clear", id="queue.clear", show=False,
         tooltip="Mark this run of the queue as clean"),
]  # fmt: skip
"""Those of the review queue; in any other run the first two open it."""

KEYS: list[BindingType] = [*JUMPS, *WAYS, *FINDS, *ASKS, *LOOKS, *TABS]
"""Those of every run."""

QUEUE_ONLY = frozenset({"clear"})
"""Actions on a run of the review queue."""

REVEALING = frozenset(
    {
        "edit",
        "replay",
        "free",
        "bisect",
        "bisect_steps",
        "probes",
        "money",
        "origins",
        "compare",
        "failures",
        "calibration",
    }
)
"""Actions that show what the rules think of a run."""


def has_use(
    action: str,
    view: TraceView,
    bookmarks: Collection[int],
    *,
    jumps: Jumps,
    finder: Finder,
    tagging: Tagging,
) -> bool:
    """Is there something to do for an action now?"""
    match action:
        case "candidate":
            return bool(view.marked)
        case "error":
            return bool(view.errors)
        case "marked":
            return bool(bookmarks)
        case "return":
            return jumps.can_return
        case "everywhere":
            return bool(finder.text)
        case "undo":
            return tagging.can_undo
        case "repeat":
            return tagging.can_repeat
        case "view_menu":
            return len(view.scorers) > 1 or has_times(view.steps)
        case "whose":
            return len(view.scorers) > 1
        case "axis":
            return has_times(view.steps)
        case _:
            return True
