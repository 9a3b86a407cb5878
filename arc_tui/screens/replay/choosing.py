"""What is to be asked, chosen in dialogs: the model, how often, a kept edit, one change more.

Actions of the replay screen. A choice that makes another edit is folded into the draft, which is
read anew: the texts it touches then show in the editor.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import structs
from textual.message import Message

from arc_tui import format
from arc_tui.screens.base import ArcScreen
from arc_tui.screens.replay.changing import changed
from arc_tui.views.replay.draft import Draft, edit_of
from arc_tui.views.wish import Wish, asked_models, is_local
from arc_tui.widgets.ask_box import AskBox, Option
from arc_tui.widgets.replay.samples_box import SamplesBox
from replay.edit import Edit, describe
from replay.models.choose import DEMO
from replay.store.edits import KeptEdit, find, listed

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
