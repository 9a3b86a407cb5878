"""What the keys are about: which of them stand together in the help. Pure.

A screen has thirty keys; a person looks for one by what they want. The table goes by what a key
does, which is the same word on every screen; what is not in it stands under `REST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

SUBJECTS: dict[str, frozenset[str]] = {
    "go": frozenset(
        "step candidate error found move page first last turn tab pane look jump peer sibling mark"
        " go_mark follow list walk skip back leave cancel open choose controls".split()
    ),
    "see": frozenset(
        "find filter failed sort columns panel held_out zoom whose fold unfold diff whole every"
        " split kind part source agreement signs noise refresh axis prefix origins".split()
    ),
    "other screens": frozenset(
        "failures calibration money compare here settings command_palette help tour".split()
    ),
    "judge": frozenset(
        "tag undo repeat clear queue turn_blind pick accept fault note keep labels".split()
    ),
    "try": frozenset(
        "edit replay bisect bisect_steps probes free try run run_chosen stop samples model stored"
        " change attach stub expect oracle judge fact validate stale forget from_here most words"
        " summary take controls".split()
    ),
    "take along": frozenset("copy copy_value copy_command pager editor export".split()),
}
"""Actions by what they are about, in the order of the help."""

REST = "more"

FEW = 7
"""A place with no more than so many keys needs no headings."""

T = TypeVar("T")


def subject(action: str) -> str:
    """What an action, as a binding names it, is about."""
    name = action.partition("(")[0].rpartition(".")[2]
    return next((words for words, actions in SUBJECTS.items() if name in actions), REST)


def grouped(actions: Sequence[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """What belongs to each action, under the heading of its subject; "" where few need none."""
    if len(actions) <= FEW:
        return [("", [each for _, each in actions])]
    found: dict[str, list[T]] = {words: [] for words in (*SUBJECTS, REST)}
    for action, each in actions:
        found[subject(action)].append(each)
    return [(words, of) for words, of in found.items() if of]
