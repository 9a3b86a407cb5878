"""One key, one meaning: what each key means on every screen where it works.

A screen names the key as it is written; its keys by name and its words come from here.
"""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding


class Meaning(NamedTuple):
    """The keys that Textual knows, the one that is shown first, and what they mean."""

    keys: str
    words: str
    display: str | None = None


MEANINGS: dict[str, Meaning] = {
    # everywhere
    "j": Meaning("j,down", "next row"),
    "k": Meaning("k,up", "previous row"),
    "g": Meaning("g,home", "first row"),
    "G": Meaning("G,end", "last row"),
    "^d": Meaning("ctrl+d,pagedown", "page down"),
    "^u": Meaning("ctrl+u,pageup", "page up"),
    "h": Meaning("h,left", "fold or go left"),
    "l": Meaning("l,right", "unfold or go right"),
    "enter": Meaning("enter", "open"),
    "esc": Meaning("escape,q", "back"),
    "^q": Meaning("ctrl+q", "quit"),
    "^p": Meaning("ctrl+p", "palette"),
    ":": Meaning("colon", "palette", ":"),
    "?": Meaning("question_mark", "help", "?"),
    "f1": Meaning("f1", "help"),
    ",": Meaning("comma", "settings", ","),
    "^r": Meaning("ctrl+r", "refresh"),
    "^t": Meaning("ctrl+t", "dark or light"),
    "^z": Meaning("ctrl+z", "suspend"),
    "^g": Meaning("ctrl+g", "guided tour"),
    "tab": Meaning("tab", "next pane"),
    "shift+tab": Meaning("shift+tab", "previous pane"),
    "v": Meaning("v", "view"),
    "/": Meaning("slash", "filter or find", "/"),
    "y": Meaning("y", "copy"),
    "o": Meaning("o,f7", "open other"),
    # runs, a run, what compares them
    "n": Meaning("n", "next match"),
    "N": Meaning("N", "previous match"),
    "&": Meaning("ampersand", "filter tree", "&"),
    "I": Meaning("I", "find in all runs"),
    "Y": Meaning("Y", "copy part"),
    "=": Meaning("equals_sign", "compare", "="),
    "f": Meaning("f", "problems only"),
    "S": Meaning("S", "sort"),
    "space": Meaning("space", "select or bookmark"),
    "'": Meaning("apostrophe", "go to the selection", "'"),
    "J": Meaning("J", "next step"),
    "K": Meaning("K", "previous step"),
    ">": Meaning("greater_than_sign", "next problem or difference", ">"),
    "<": Meaning("less_than_sign", "previous problem or difference", "<"),
    "X": Meaning("X", "divergence"),
    "c": Meaning("c", "next candidate"),
    "C": Meaning("C", "previous candidate"),
    "*": Meaning("asterisk", "same tool", "*"),
    "_": Meaning("underscore", "previous with the same tool", "_"),
    ")": Meaning("right_parenthesis", "next sibling", ")"),
    "(": Meaning("left_parenthesis", "previous sibling", "("),
    "^o": Meaning("ctrl+o,backspace", "return"),
    "t": Meaning("t", "tag"),
    "u": Meaning("u", "undo tag"),
    ".": Meaning("full_stop", "repeat tag", "."),
    "T": Meaning("T", "review queue"),
    "Q": Meaning("Q", "blind review"),
    "-": Meaning("minus", "clean run", "-"),
    "W": Meaning("W", "attribution"),
    "A": Meaning("A", "failures"),
    "L": Meaning("L", "list runs"),
    "^x": Meaning("ctrl+x", "matrix"),
    "^a": Meaning("ctrl+a", "audit"),
    "^y": Meaning("ctrl+y", "gate"),
    "^v": Meaning("ctrl+v", "environments"),
    "^k": Meaning("ctrl+k", "stop recording"),
    "^f": Meaning("ctrl+f", "source"),
    "%": Meaning("percent_sign", "calibration", "%"),
    "+": Meaning("plus", "approve scores", "+"),
    "$": Meaning("dollar_sign", "cost", "$"),
    "z": Meaning("z", "zoom in"),
    "Z": Meaning("Z", "zoom out"),
    # what calls a model
    "e": Meaning("e", "edit"),
    "E": Meaning("E,f4", "$EDITOR"),
    "r": Meaning("r,ctrl+s,f5", "run"),
    "F": Meaning("F,f12", "free replay"),
    "b": Meaning("b,f10", "bisect edit"),
    "B": Meaning("B", "first contradiction"),
    "P": Meaning("P", "probe"),
    "p": Meaning("p", "origins"),
    "x": Meaning("x", "stop"),
    "m": Meaning("m,f3", "model"),
    "s": Meaning("s,f6", "samples"),
    "i": Meaning("i,f9", "insert"),
    "d": Meaning("d,f2", "diff"),
    "w": Meaning("w", "expectation"),
    ";": Meaning("semicolon,f11", "arms"),
    "a": Meaning("a,f8", "attach"),
    "D": Meaning("D", "detector"),
    "V": Meaning("V", "confirm"),
    "!": Meaning("exclamation_mark", "allow stale", "!"),
    "H": Meaning("H", "healthy steps"),
    "M": Meaning("M", "at step"),
    "R": Meaning("R", "from here"),
    "U": Meaning("U", "judge"),
    "^e": Meaning("ctrl+e", "suggest edits"),
    "^n": Meaning("ctrl+n", "golden task"),
    "O": Meaning("O", "summary by"),
    '"': Meaning("quotation_mark", "fact", '"'),
    "delete": Meaning("delete", "remove stub"),
}
"""By the key as it is written. None needs AltGr on a common keyboard."""


MOVES = frozenset({"row.next", "row.before"})
"""The ids of what everyone tries first: the bar and the palette name them last."""


def bind(
    key: str,
    action: str,
    *,
    id: str,
    tooltip: str,
    label: str = "",
    group: Binding.Group | None = None,
    show: bool = True,
    priority: bool = False,
    only: str = "",
) -> Binding:
    """The binding of a key to what a screen does for its meaning.

    `label` is what the key bar says on this screen, the meaning itself otherwise; `only` are those
    of its keys that work here, all otherwise.
    """
    meaning = MEANINGS[key]
    return Binding(
        only or meaning.keys,
        action,
        meaning.words,
        id=id,
        tooltip=tooltip,
        key_display=meaning.display,
        group=Binding.Group(label) if label else group,
        show=show,
        priority=priority,
    )


def label_of(binding: Binding) -> str:
    """What a binding is called on its screen."""
    group = binding.group
    return binding.description if group is None or group.compact else group.description


def choice(
    place: int,
    action: str,
    name: str,
    *,
    id: str,
    tooltip: str,
    group: Binding.Group | None = None,
    show: bool = False,
) -> Binding:
    """The digit that chooses an entry of a list, a page or a text."""
    return Binding(str(place), action, name, id=id, group=group, show=show, tooltip=tooltip)


def pane_keys(
    name: str, tooltip: str, action: str = "pane", *, label: str = "other pane"
) -> list[Binding]:
    """Between two panes: either key goes to the other one; `name` is that of the screen."""
    return [
        bind("tab", action, id=f"{name}.pane", tooltip=tooltip, label=label),
        bind("shift+tab", action, id=f"{name}.pane_before", tooltip=tooltip, show=False),
    ]
