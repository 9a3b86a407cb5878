"""Parts of the replay screen: dialogs for model, samples and edits, the limit, and the work behind
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from textual.app import App
from textual.message import Message

from arc_tui.experiments.dialogs import SamplesBox, allowed
from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.experiments.estimate import asking_price, estimate_replay
from arc_tui.experiments.request import ReplayRequest, Wish, asked_models, is_local
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.screen import ArcScreen
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
from replay.locked.estimate import Estimate
from replay.models.choose import DEMO
from replay.store.edits import KeptEdit, find, listed
from taxonomy.judgements.schema import open_ledger

NONE = "as recorded"
"""Answers the question for an edit where none is wanted."""


class Choosing(ArcScreen):
    """Turns answers to questions into a wish and a draft."""

    class EditsListed(Message):
        """The kept edits were read."""

        def __init__(self, kept: tuple[KeptEdit, ...]) -> None:
            super().__init__()
            self.kept = kept

    class EditFound(Message):
        """The edit that was named."""

        def __init__(self, edit: Edit) -> None:
            super().__init__()
            self.edit = edit

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.wish = Wish()

    @property
    def draft(self) -> Draft:
        raise NotImplementedError

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts that were written anew, by the label of their target."""
        raise NotImplementedError

    @property
    def step_here(self) -> int:
        """The step under the cursor."""
        raise NotImplementedError

    def wished(self) -> None:
        """To be called when something else is to be asked than was."""
        raise NotImplementedError

    def load(self, edit: Edit | None, folded: Mapping[str, str] | None = None) -> None:
        """Read the draft anew under an edit that texts were `folded` into, or are given up for."""
        raise NotImplementedError

    # --- the model, and how often

    def action_model(self) -> None:
        own = self.draft.model
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        if own is not None and own != DEMO:
            choices.insert(0, Option(own, "the trace's own"))

        def chosen(model: str | None) -> None:
            if model is not None:
                sampling = structs.replace(self.wish.sampling, schedule="cheap")
                self.wish = structs.replace(self.wish, model=model, sampling=sampling)
                self.wished()

        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, chosen)

    def action_samples(self) -> None:
        def chosen(wish: Wish | None) -> None:
            if wish is not None:
                self.wish = wish
                self.wished()

        models = asked_models(self.wish.model or self.draft.model, self.draft.edit)
        self.app.push_screen(SamplesBox(self.wish, live=not is_local(models)), chosen)

    # --- a kept edit

    def action_stored(self) -> None:
        listing = self.ask(lambda store: tuple(listed(store)), self.EditsListed, group="edits")
        self.hold_keys(listing)

    def on_choosing_edits_listed(self, event: EditsListed) -> None:
        if not event.kept:
            self.say("no edit is kept yet: every edit that is asked about is")
            return
        choices = [Option(NONE, "no edit at all"), *map(_option, event.kept)]
        hint = "or the beginning of an edit's name or id"
        box = AskBox("which edit?", hint=hint, choices=choices)
        self.app.push_screen(box, self._take_edit)

    def _take_edit(self, name: str | None) -> None:
        if name == NONE:
            self.load(None, self.texts)
        elif name is not None:
            self.ask(lambda store: find(store, name), self.EditFound, group="edits")

    def on_choosing_edit_found(self, event: EditFound) -> None:
        self.load(event.edit, self.texts)

    # --- one change more

    def action_change(self) -> None:
        self.run_worker(self._change(), group="change", exclusive=True, exit_on_error=False)

    async def _change(self) -> None:
        draft, texts = self.draft, self.texts
        edit = edit_of(draft, texts, "")
        changes = edit.changes if edit is not None else ()
        other = await changed(self.app, changes, draft.also, self.step_here)
        if other is not None:
            edit = Edit(name="", changes=other, thread=draft.thread) if other else None
            self.load(edit, texts)


def _option(kept: KeptEdit) -> Option:
    """A kept edit by its digest, which no other has, shown by its name."""
    tried = format.count(kept.replays, "replay")
    words = f"{'; '.join(map(describe, kept.changes))} · {tried} · {kept.short}"
    return Option(kept.digest, format.one_line(words), format.cut(format.one_line(kept.name), 40))


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
    wrong = edit_problem(made)
    if wrong is not None:
        raise BadEdit(wrong.sentence, wrong.hint)
    return made


def _beside(changes: tuple[Change, ...], made: Change) -> tuple[Change, ...]:
    """The changes that stay: one model and one effort are enough."""
    if not isinstance(made, (SetModel, SetEffort)):
        return changes
    return tuple(change for change in changes if type(change) is not type(made))


class Submission:
    """Asks a person what is still open, in a worker of the screen. Names once given are kept.

    `missed` tells that stored answers did not do the last time, though those of the first samples
    are all there.
    """

    def __init__(self, screen: ArcScreen) -> None:
        self._screen = screen
        self.missed = False
        self._names: dict[str, str] = {}

    def edit(self, draft: Draft, texts: Mapping[str, str]) -> Edit | None:
        """The edit as it stands, under the name it has or the next free one."""
        edit = edit_of(draft, texts, "")
        if edit is None:
            return None
        known = self._known(draft)
        return structs.replace(edit, name=known.names.get(edit.digest, known.free_name))

    async def request(
        self, draft: Draft, texts: Mapping[str, str], wish: Wish
    ) -> ReplayRequest | None:
        """What to replay; None where a person thought better of it."""
        edit = self.edit(draft, texts)
        if edit is not None and edit.digest not in self._known(draft).names:
            name = await self._asked(AskBox("a name for the edit", answer=edit.name))
            if name is None:
                return None
            self._names[edit.digest] = name
            edit = structs.replace(edit, name=name)
        request = wish.of(draft.trace, edit)
        models = asked_models(wish.model or draft.model, edit)
        if is_local(models):
            return request
        estimate = await asyncio.to_thread(self._estimated, request)
        if not estimate.calls and not self.missed:
            return request
        self.missed = False
        limits = await allowed(self._screen.app, asking_price(models, estimate))
        return request if limits is None else structs.replace(request, live=True, limits=limits)

    def _known(self, draft: Draft) -> Draft:
        """The draft with the names that were given since it was read."""
        return structs.replace(draft, names={**draft.names, **self._names})

    def _estimated(self, request: ReplayRequest) -> Estimate:
        with open_ledger(self._screen.path) as store:
            return estimate_replay(store, request)

    async def _asked(self, box: AskBox) -> str | None:
        return await self._screen.app.push_screen_wait(box)
