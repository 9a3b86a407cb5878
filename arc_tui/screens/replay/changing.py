"""One change more to an edit, asked of a person: what no text of a request shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from textual.app import App

from arc_tui import format
from arc_tui.widgets.ask_box import AskBox, Option
from replay.edit import Change, InjectConstraint, SetEffort, SetModel, describe, flaw
from replay.edit.changes import EFFORTS
from replay.errors import BadEdit


class Kind(NamedTuple):
    """A kind of change: what it does, the question for its text, and how it is made of it."""

    does: str
    question: str
    make: Callable[[str], Change]
    known: Sequence[str] = ()


def kinds(step: int) -> dict[str, Kind]:
    """The kinds to choose from at a step, by their name."""
    said = "what must it keep to?"
    here = partial(InjectConstraint, step=step)
    return {
        "constraint": Kind("said at the end of the system prompt", said, InjectConstraint),
        f"constraint at step {step}": Kind("said there and in every later step", said, here),
        "model": Kind("another one is asked with the edit", "which model?", SetModel),
        "effort": Kind("how hard the model tries", "how hard?", SetEffort, EFFORTS),
    }


async def changed(
    app: App[None], changes: tuple[Change, ...], also: tuple[Change, ...], step: int
) -> tuple[Change, ...] | None:
    """The changes with one more, or without one of `also`; None where nothing was chosen.

    Raises BadEdit for a change that means nothing.
    """
    known = kinds(step)
    leave = {f"without {at}": change for at, change in enumerate(also, 1)}
    options = [Option(name, kind.does) for name, kind in known.items()]
    for name, change in leave.items():
        options.append(Option(name, format.one_line(describe(change)), "leave out"))
    chosen = await app.push_screen_wait(AskBox("another change with the edit", choices=options))
    if chosen is None:
        return None
    if chosen in leave:
        return tuple(change for change in changes if change is not leave[chosen])
    made = await _made(app, known[chosen])
    return None if made is None else (*_beside(changes, made), made)


async def _made(app: App[None], kind: Kind) -> Change | None:
    """The change of that kind with the text a person gives it."""
    options = [Option(word, "") for word in kind.known]
    text = await app.push_screen_wait(AskBox(kind.question, choices=options))
    if text is None:
        return None
    made = kind.make(text)
    wrong = flaw(made)
    if wrong is not None:
        raise BadEdit(wrong.sentence, wrong.hint)
    return made


def _beside(changes: tuple[Change, ...], made: Change) -> tuple[Change, ...]:
    """The changes that stay: one model and one effort are enough."""
    if not isinstance(made, (SetModel, SetEffort)):
        return changes
    return tuple(change for change in changes if type(change) is not type(made))
