"""What is put in: an error as a value, shown in full so that anybody can judge if it was fair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.effects import words_of
from replay.injection import values
from replay.trace import Json

Kind: TypeAlias = Literal["observation", "tool-error", "step", "yours"]
"""A value of an observation changed; an error in its place; a call with an argument changed;
whatever the user's own edit says a tool returned."""


class Wrong(Struct, frozen=True, kw_only=True):
    """An error, ready to be put in at `step`.

    `call` counts the calls of the step from 0; `tool` and `arguments` are the recorded call's.
    `text` is what the agent is shown as its result, `wrong_arguments` the call it is shown to have
    made (None: the recorded one). `path` names the leaf that was changed, `false` are the values
    that only the error says, `true` those it hides; `about` are the names, in small letters, of
    what the call was about.
    """

    kind: Kind
    step: int
    call: int
    tool: str
    arguments: Json
    text: str
    is_error: bool | None = None
    wrong_arguments: Json = None
    path: str = ""
    false: tuple[Json, ...] = ()
    true: tuple[Json, ...] = ()
    about: tuple[str, ...] = ()

    @property
    def phrase(self) -> str:
        """What was put in, in one line: `get_order → total_cents 3900 → 7900`."""
        if self.kind == "tool-error":
            return f"{self.tool} → {self.text}"
        if not self.false or not self.true:
            where = f"{self.tool} → {self.path}" if self.path else self.tool
            return f"{where}: another result"
        path = self.path or "text"
        where = f"{self.tool}({path})" if self.kind == "step" else f"{self.tool} → {path}"
        return f"{where} {shown(self.true[0])} → {shown(self.false[0])}"


def shown(value: Json) -> str:
    """A value as it is written in a sentence: a text bare, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def decoded(text: str) -> Json:
    """The JSON value of a text, the text itself where it is none."""
    try:
        return from_text(text)
    except msgspec.DecodeError:
        return text


def about(arguments: Json, result: Json) -> tuple[str, ...]:
    """Names of what a call is about: its own arguments that name something, and the ids at the top
    of what it returned."""
    named = [leaf for _, leaf in values.leaves(arguments) if _names(leaf)]
    if isinstance(result, dict):
        named += [v for k, v in result.items() if values.is_id_name(words_of(k)) and _names(v)]
    return tuple(dict.fromkeys(str(each).strip().lower() for each in named))


def _names(leaf: Json) -> bool:
    if isinstance(leaf, bool) or leaf is None or isinstance(leaf, (dict, list)):
        return False
    text = str(leaf).strip()
    return 2 <= len(text) <= 80


def shares(arguments: Json, names: Sequence[str]) -> bool:
    """Is a call with these arguments about one of the names?"""
    return any(str(leaf).strip().lower() in names for _, leaf in values.leaves(arguments))
