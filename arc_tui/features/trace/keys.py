"""The keys of the trace screen, in the order in which the bar and the help show them."""

from __future__ import annotations

from collections.abc import Collection

from textual.binding import Binding, BindingType

from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.lanes import has_times
from arc_tui.features.trace.search import Finder
from arc_tui.features.trace.span_tree import Jumps
from arc_tui.features.trace.tagging import Tagging
from arc_tui.views.trace import TraceView

STEP = Binding.Group("step", compact=True)
CANDIDATE = Binding.Group("candidate", compact=True)
ERROR = Binding.Group("error", compact=True)
AGAIN = Binding.Group("again", compact=True)

JUMPS = [
    Binding("J", "step(1)", "next step", id="trace.step_next", group=STEP,
            tooltip="Go to the next step"),
    Binding("K", "step(-1)", "step before", id="trace.step_before", group=STEP,
            tooltip="Go to the step before"),
    Binding("c", "candidate(1)", "next candidate", id="trace.candidate_next", group=CANDIDATE,
            tooltip="Go to the likeliest candidate, then to the next likeliest"),
    Binding("C", "candidate(-1)", "candidate before", id="trace.candidate_before",
            group=CANDIDATE, tooltip="Go to the candidate before"),
    Binding("x", "error(1)", "next error", id="trace.error_next", group=ERROR,
            tooltip="Go to the next step with an error"),
    Binding("X", "error(-1)", "error before", id="trace.error_before", group=ERROR,
            tooltip="Go to the error before"),
    Binding("w", "peer(1)", "same tool", id="trace.peer_next", show=False,
            tooltip="Go to the next step with the same tool as this one"),
    Binding("W", "peer(-1)", "same tool before", id="trace.peer_before", show=False,
            tooltip="Go to the step before with the same tool"),
    Binding("greater_than_sign", "sibling(1)", "next sibling", id="trace.sibling_next",
            show=False, key_display=">", tooltip="Go to the next row of the same parent"),
    Binding("less_than_sign", "sibling(-1)", "sibling before", id="trace.sibling_before",
            show=False, key_display="<", tooltip="Go to the row before of the same parent"),
    Binding("colon", "number", "step number", id="trace.number", show=False, key_display=":",
            tooltip="Go to a step by its number, or by how many steps: 12, +5, -5"),
    Binding("m", "mark", "mark", id="trace.mark", show=False,
            tooltip="Mark the step, until you leave the run; or take the mark away"),
    Binding("apostrophe", "marked", "to the mark", id="trace.marked", show=False, key_display="'",
            tooltip="Go to the next step that you marked"),
    Binding("ctrl+o,backspace", "return", "where you were", id="trace.return", show=False,
            tooltip="Back to the step where you were before the last jump"),
]  # fmt: skip

WAYS = [
    Binding("t", "tag", "tag", id="trace.tag",
            tooltip="Say what kind of failure this step is: one more letter"),
    Binding("e", "edit", "edit", id="trace.edit",
            tooltip="Edit what the agent was told, and ask the model again"),
    Binding("r", "replay", "replay", id="trace.replay",
            tooltip="Ask the model again at every step"),
    Binding("b", "bisect", "bisect", id="trace.bisect",
            tooltip="Find the prompt version, or the part of an edit, that makes it go wrong"),
]  # fmt: skip

FINDS = [
    Binding("slash", "find", "find", id="trace.find", key_display="/",
            tooltip="Find a text in labels and in everything said in this run"),
    Binding("f", "filter", "filter", id="trace.filter",
            tooltip='Show only some steps of the tree: tool:bash is:error "no such file"'),
    Binding("n", "found(1)", "find again", id="trace.found_next", group=AGAIN,
            tooltip="Go to the next step that says it, or in the detail to the next line"),
    Binding("N", "found(-1)", "find back", id="trace.found_before", group=AGAIN,
            tooltip="Go to the step before that says it, or to the line before"),
    Binding("A", "everywhere", "in all runs", id="trace.everywhere",
            tooltip="List all runs in which somebody says what was found"),
]  # fmt: skip

ASKS = [
    Binding("v", "compare", "compare", id="trace.compare",
            tooltip="Compare with the marked run, else with another trial or a replay"),
    Binding("B", "bisect_steps", "which step", id="trace.bisect_steps",
            tooltip="Find the step at which belief left the world, and test a fix there"),
    Binding("P", "probes", "probe", id="trace.probes",
            tooltip="Tell two causes of the failure apart by one change, asked again"),
    Binding("p", "origins", "where from", id="trace.origins",
            tooltip="Where the values of this step's calls came from"),
]  # fmt: skip

LOOKS = [
    Binding("z", "zoom(1)", "zoom", id="trace.zoom",
            tooltip="Show fewer steps beside this one in the lanes, in the end all again"),
    Binding("Z", "zoom(-1)", "zoom out", id="trace.zoom_out", show=False,
            tooltip="Show more steps beside this one in the lanes"),
    Binding("a", "axis", "time axis", id="trace.axis",
            tooltip="Draw the lanes over time, as far as times are known, or over steps"),
    Binding("S", "whose(1)", "whose score", id="trace.whose",
            tooltip="Show the scores of each source alone, or the best of all again"),
    Binding("M", "money", "money", id="trace.money",
            tooltip="Where the money of this run went, and what of it brought nothing"),
    Binding("y", "copy", "copy", id="trace.copy",
            tooltip="Copy the step as Markdown"),
    Binding("Y", "copy_part", "copy a part", id="trace.copy_part", show=False,
            tooltip="Copy the value under the cursor, a call as JSON, a command, a result"),
    Binding("O", "open", "in a pager", id="trace.open", show=False,
            tooltip="Open the step or a part of it in $PAGER"),
    Binding("E", "view", "in an editor", id="trace.view", show=False,
            tooltip="Look at what is under the cursor, or the step, in $EDITOR; nothing is kept"),
    Binding("F", "free", "free replay", id="trace.free",
            tooltip="Let the agent run on by itself from this step; the tape answers"),
    Binding("u", "undo", "undo tag", id="trace.undo", show=False,
            tooltip="Take back the tag given last"),
    Binding("full_stop", "repeat", "repeat tag", id="trace.repeat", show=False,
            key_display=".", tooltip="Give this step the tag given last"),
]  # fmt: skip

TABS = [
    *(
        Binding(str(place), f"tab({place - 1})", name.lower(), id=f"trace.tab_{place}",
                show=False, tooltip=f"Show {name} of the step")
        for place, name in enumerate(NAMES, 1)
    ),
    Binding("tab", "turn(1)", "next tab", id="trace.tab_next", show=False,
            tooltip="Show the next page of the step"),
    Binding("shift+tab", "turn(-1)", "tab before", id="trace.tab_before", show=False,
            tooltip="Show the page of the step before"),
    Binding("escape", "back", "back", id="trace.back",
            tooltip="Back to the tree, to all of it, then to the list of runs"),
]  # fmt: skip

QUEUE_KEYS = [
    Binding("T", "walk", "queue", id="queue.walk", show=False,
            tooltip="Walk the runs that want a tag of yours; in the queue, the next run"),
    Binding("h", "turn_blind", "blind", id="queue.blind", show=False,
            tooltip="Walk runs that others tagged, their tags hidden; in there, back"),
    Binding("s", "skip", "skip", id="queue.skip", show=False,
            tooltip="Go on to the next run of the queue without a word on this one"),
    Binding("o", "clear", "nothing wrong", id="queue.clear", show=False,
            tooltip="Say that nothing is wrong with this run of the queue"),
]  # fmt: skip
"""Those of the review queue; in any other run the first two open it."""

KEYS: list[BindingType] = [*JUMPS, *WAYS, *FINDS, *ASKS, *LOOKS, *TABS]
"""Those of every run."""

QUEUE_ONLY = frozenset({"skip", "clear"})
"""Actions on a run of the review queue."""

REVEALING = frozenset(
    {"edit", "replay", "free", "bisect", "bisect_steps", "probes", "money", "origins", "compare"}
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
        case "whose":
            return len(view.scorers) > 1
        case "axis":
            return has_times(view.steps)
        case _:
            return True
