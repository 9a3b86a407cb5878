"""Dialogs of the replay screen: one change more with the edit, and the edit's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import structs
from textual.app import App

from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from replay.edit.changes import (
    EFFORTS,
    Change,
    Edit,
    InjectConstraint,
    SetEffort,
    SetModel,
    describe,
)
from replay.edit.places import edit_problem
from replay.errors import BadEdit


class Kind(NamedTuple):
    """A kind of change: what it does, the question for its text, and how it is made of it."""

    does: str
    question: str
    make: Callable[[str], Change]
    known: Sequence[str] = ()


def kinds(step: int) -> dict[str, Kind]:
    """The kinds to choose from at a step, by their name."""
    keep = "what must it keep to?"
    here = partial(InjectConstraint, step=step)
    return {
        "constraint": Kind("said at the end of the system prompt", keep, InjectConstraint),
        f"constraint at step {step}": Kind("said there and in every later step", keep, here),
        "model": Kind("another one is asked with the edit", "which model?", SetModel),
        "effort": Kind("how hard the model tries", "how hard?", SetEffort, EFFORTS),
    }


async def ask_change(
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
    return None if made is None else (*_without_other(changes, made), made)


async def _made(app: App[None], kind: Kind) -> Change | None:
    """The change of that kind with the text a person gives it."""
    options = [Option(word, "") for word in kind.known]
    text = await app.push_screen_wait(AskBox(kind.question, choices=options))
    if text is None:
        return None
    made = kind.make(text)
    wrong = edit_problem(made)
    if wrong is not None:
        raise BadEdit(wrong.sentence, wrong.hint)
    return made


def _without_other(changes: tuple[Change, ...], made: Change) -> tuple[Change, ...]:
    """The changes that stay: one model and one effort are enough."""
    if not isinstance(made, (SetModel, SetEffort)):
        return changes
    return tuple(change for change in changes if type(change) is not type(made))


class EditNames:
    """The names of edits: those that are kept, and those a person gave since."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def edit(self, draft: Draft, texts: Mapping[str, str]) -> Edit | None:
        """The edit as it stands, under the name it has or the next free one."""
        edit = edit_of(draft, texts, "")
        if edit is None:
            return None
        known = self._known(draft)
        return structs.replace(edit, name=known.names.get(edit.digest, known.free_name))

    def is_named(self, draft: Draft, edit: Edit) -> bool:
        return edit.digest in self._known(draft).names

    async def ask(self, app: App[None], edit: Edit) -> Edit | None:
        """The edit under the name a person gives it, None where they leave. From a worker."""
        name = await app.push_screen_wait(AskBox("a name for the edit", answer=edit.name))
        if name is None:
            return None
        self._given[edit.digest] = name
        return structs.replace(edit, name=name)

    def _known(self, draft: Draft) -> Draft:
        """The draft with the names that were given since it was read."""
        return structs.replace(draft, names={**draft.names, **self._given})
