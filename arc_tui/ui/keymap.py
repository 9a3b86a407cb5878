"""Which key does what, anywhere in the app, and may a person's own keys stand beside the others?

Every binding of a screen or a widget is found by looking through their modules, so this costs
the import of all of them: it is asked where keys were set or are to be listed. What belongs to
one feature may be on the screen together; so may what belongs to none. Two things that never
meet may have the same key.

The palette finds what can be done here and now by its words, from the live bindings alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple, TypeGuard

from msgspec import Struct
from textual.binding import ActiveBinding, Binding, InvalidBinding
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, KEY_TO_UNICODE_NAME, Keys
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from arc_tui.ui.bindings import MOVES, label_of
from arc_tui.ui.screen import ArcScreen, ViewSwitch
from replay.errors import ArcError

PALETTE = "command_palette"
"""The action that opens the palette, which does not list itself."""

MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")

NAMED = frozenset(
    {key.value for key in Keys if not key.value.startswith("<")}
    | KEY_TO_UNICODE_NAME.keys()
    | set(KEY_NAME_REPLACEMENTS.values())
    | {"comma", "colon", "semicolon", "apostrophe", "ampersand", "asterisk", "tilde", "space"}
)
"""What keys are called that are no letter and no digit."""


class BadKeys(ArcError):
    """Keys that cannot be used; the message names the id."""


class Bound(Struct, frozen=True, kw_only=True):
    """What can be bound to a key, with the keys it has: `where` it works, and what it `does`."""

    id: str
    keys: tuple[str, ...]
    where: str
    does: str


class Place(NamedTuple):
    """A screen, a widget or the app, with the bindings that work where it is."""

    cls: type[DOMNode]
    bindings: tuple[Binding, ...]

    @property
    def subject(self) -> str | None:
        """The part of the app it belongs to; None where it may be anywhere."""
        package, *rest = self.cls.__module__.removeprefix("arc_tui.").split(".")
        return rest[0] if package == "features" else None

    @property
    def is_app(self) -> bool:
        return self.cls.__module__ == "arc_tui.app"

    @property
    def is_screen(self) -> bool:
        return issubclass(self.cls, Screen)

    @property
    def is_modal(self) -> bool:
        return issubclass(self.cls, ModalScreen)


ROOMS = ("arc_tui.ui", "arc_tui.experiments", "arc_tui.features")
"""Where screens and widgets stand; named, not imported, because they know this module."""


@cache
def places() -> tuple[Place, ...]:
    """Everything that has keys."""
    import pkgutil  # loaded where keys are listed, not before the app is drawn

    found: dict[type[DOMNode], None] = {import_module("arc_tui.app").ArcApp: None}
    for room in ROOMS:
        for below in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            for each in vars(import_module(below.name)).values():
                if isinstance(each, type) and issubclass(each, DOMNode):
                    found[each] = None
    return tuple(
        Place(cls, bindings)
        for cls in found
        if cls.__module__.startswith("arc_tui.") and (bindings := tuple(_bindings(cls)))
    )


def _bindings(cls: type[DOMNode]) -> Iterator[Binding]:
    """The bindings of a class, those of ours that it inherits among them."""
    for base in cls.__mro__:
        if base.__module__.startswith("arc_tui."):
            for binding in vars(base).get("BINDINGS", ()):
                assert isinstance(binding, Binding)
                if binding.id:
                    yield binding


@cache
def bound() -> Mapping[str, Bound]:
    """Everything that can be bound, by its id, in the order of the places."""
    found: dict[str, Bound] = {}
    for place in places():
        for binding in place.bindings:
            assert binding.id is not None
            owner = _owner(place.cls, binding)
            where = "everywhere" if place.is_app else owner.HELP or place.cls.HELP or ""
            made = Bound(
                id=binding.id,
                keys=parse_keys(binding.key),
                where=where,
                does=binding.tooltip or binding.description,
            )
            if binding.id not in found or not found[binding.id].where:
                found[binding.id] = made
    return found


def by_place(every: Iterable[Bound]) -> list[Bound]:
    """Those that hold everywhere first, then by the first words of their ids."""
    return sorted(every, key=lambda each: (each.where != "everywhere", each.id.partition(".")[0]))


def _owner(cls: type[DOMNode], binding: Binding) -> type[DOMNode]:
    """The class that says so, of those it is made of."""
    for base in cls.__mro__:
        if issubclass(base, DOMNode) and any(
            each is binding for each in vars(base).get("BINDINGS", ())
        ):
            return base
    return cls


def parse_keys(keys: str) -> tuple[str, ...]:
    """The keys of a list with commas between them, each by its whole name: `?` is
    `question_mark`. Raises BadKeys."""
    try:
        found = tuple(each.key for each in Binding.make_bindings([Binding(keys, "")]))
    except InvalidBinding as error:
        raise BadKeys(f"{keys!r} is not a key", "The comma key is called comma") from error
    for key in found:
        *modifiers, last = key.split("+")
        if not set(modifiers) <= set(MODIFIERS) or not (_is_letter(last) or last in NAMED):
            near = get_close_matches(key.lower(), [*NAMED, *(f"ctrl+{c}" for c in _LETTERS)], n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise BadKeys(f"there is no key {key!r}{meant}")
    return found


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _is_letter(key: str) -> bool:
    return len(key) == 1 and key.isprintable()


def check_keymap(keymap: Mapping[str, str]) -> dict[str, str]:
    """The keys that were set, if the app can use them. Raises BadKeys: an id that is none, a key
    that is none, or one that does something else where this works."""
    known = bound()
    wanted: dict[str, tuple[str, ...]] = {}
    for name, keys in keymap.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise BadKeys(f"{name!r} is not the id of a key{meant}", "Try: arc config keys")
        try:
            wanted[name] = parse_keys(keys)
        except BadKeys as error:
            raise BadKeys(f"{name}: {error.message}", error.hint) from error
    for name, other, key in _clashes(wanted):
        raise BadKeys(
            f"{name} = {key!r}: that key is {other} there ({known[other].does})",
            f"give {other} another one too, or choose another for {name}",
        )
    return {name: ",".join(keys) for name, keys in wanted.items()}


def _clashes(wanted: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    """An id that was given a key, another id that has it where the two may meet, and the key."""
    known = bound()
    for one, two in combinations_with_replacement(places(), 2):
        if not (_has_any(one, wanted) or _has_any(two, wanted)) or not _meet(one, two):
            continue
        for first, second in product(_ids(one, two), _ids(two, one)):
            if first == second or not (first in wanted or second in wanted):
                continue
            meant = set(known[first].keys) & set(known[second].keys)
            both = set(wanted.get(first, known[first].keys)) & set(
                wanted.get(second, known[second].keys)
            )
            for key in sorted(both - meant):
                yield (first, second, key) if first in wanted else (second, first, key)


def _has_any(place: Place, wanted: Mapping[str, object]) -> bool:
    return any(binding.id in wanted for binding in place.bindings)


def _ids(place: Place, other: Place) -> list[str]:
    """The ids that work in a place while the other is there: of the app's, behind a dialog, only
    those that work anywhere."""
    return [
        binding.id
        for binding in place.bindings
        if binding.id and (binding.priority or not (place.is_app and other.is_modal))
    ]


def _meet(one: Place, two: Place) -> bool:
    """May both be there at a time?"""
    if one.cls is two.cls or one.is_app or two.is_app:
        return True
    if one.is_screen and two.is_screen:
        return False
    if one.is_modal or two.is_modal:
        box, widget = (one, two) if one.is_modal else (two, one)
        return box.cls.__module__ == widget.cls.__module__ or widget.subject is None
    return one.subject is None or two.subject is None or one.subject == two.subject


STEP_NUMBER = re.compile(r"[+-]?\d+")


class Palette(CommandPalette):
    """The palette; a number that is typed goes to that step of the run behind it."""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        screen, typed = self.app.screen_stack[-2], event.value.strip()
        if not _means_step(screen, typed):
            return
        event.stop()
        event.prevent_default()
        step = screen.find_step(typed)
        if step is None:
            self.notify(screen.step_hint())
        else:
            self.dismiss()
            screen.show_step(step)


def _means_step(screen: Screen[Any], typed: str) -> TypeGuard[ArcScreen]:
    """Is a number typed for a screen that has steps?"""
    has_steps = isinstance(screen, ArcScreen) and screen.step_hint() != ""
    return has_steps and STEP_NUMBER.fullmatch(typed) is not None


class KeyCommands(Provider):
    """The palette: everything the keys can do here and now, by its words, with its key."""

    async def discover(self) -> Hits:
        for active in self._active():
            words = Content(label_of(active.binding))
            yield DiscoveryHit(
                self._with_key(words, active),
                self._run(active),
                text=words.plain,
                help=active.binding.tooltip,
            )
        for switch in self._switches():
            words = Content(switch.name)
            yield DiscoveryHit(words, self._switch(switch), text=words.plain, help=switch.words)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for active in self._active():
            words, more = label_of(active.binding), active.binding.tooltip
            meaning = matcher.match(active.binding.description)
            score = max(matcher.match(words), meaning, matcher.match(more) / 2)
            if score > 0:
                shown = self._with_key(matcher.highlight(words), active)
                yield Hit(score, shown, self._run(active), text=words, help=more)
        for switch in self._switches():
            score = max(matcher.match(switch.name), matcher.match(switch.words) / 2)
            if score > 0:
                shown = matcher.highlight(switch.name)
                switched = self._switch(switch)
                yield Hit(score, shown, switched, text=switch.name, help=switch.words)
        typed = query.strip()
        if _means_step(self.screen, typed):
            yield self._step_hit(self.screen, typed)

    def _step_hit(self, screen: ArcScreen, typed: str) -> Hit:
        """What a number that is typed means on a screen that has steps."""
        step = screen.find_step(typed)
        if step is None:
            return Hit(1, screen.step_hint(), lambda: None, text=typed)
        return Hit(1, f"Go to step {step}", partial(screen.show_step, step), text=typed)

    def _switches(self) -> list[ViewSwitch]:
        """What the screen can show otherwise, which its menu lists too."""
        return self.screen.switches_here if isinstance(self.screen, ArcScreen) else []

    def _switch(self, switch: ViewSwitch) -> Callable[[], Awaitable[bool]]:
        return partial(self.app.run_action, switch.action, self.screen)

    def _with_key(self, words: Content, active: ActiveBinding) -> Content:
        key = self.app.get_key_display(active.binding)
        return Content.assemble(words, "  ", (key, "dim"))

    def _active(self) -> list[ActiveBinding]:
        """One binding an action that does something here, those of the footer first. Two nodes may
        call different actions by one name."""
        by_action = {
            (active.node, active.binding.action): active
            for active in reversed(self.screen.active_bindings.values())
            if active.enabled and active.binding.id and active.binding.action != PALETTE
        }
        found = reversed(by_action.values())
        return sorted(
            found, key=lambda active: not active.binding.show or active.binding.id in MOVES
        )

    def _run(self, active: ActiveBinding) -> Callable[[], Awaitable[bool]]:
        return partial(self.app.run_action, active.binding.action, active.node)
