"""How the engine says no: one base, one child per thing a user can do about it.

Expected outcomes (a miss, a divergence, no score, no price) are values, never exceptions.
Every error carries a sentence for a person and, where there is one, the next thing to try.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class ArcError(Exception):
    """What failed and why (`message`), and what to do next (`hint`: `Try: …`, may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message}{'. ' if self.hint[0].isupper() else '; '}{self.hint}"


class BadTrace(ArcError):
    """A source that cannot be read: what is wrong, in which file, and where in it."""

    def __init__(self, path: Path | str, where: str, why: str, hint: str = "") -> None:
        place = f"{path}: {where}" if where else str(path)
        super().__init__(f"{place}: {why}", hint)
        self.path = str(path)
        self.where = where
        self.why = why


class NotFound(ArcError):
    """Nothing, or more than one thing, answers to the name the user gave."""

    def __init__(self, what: str, name: str, near: Sequence[str] = (), *, hint: str = "") -> None:
        said = f"did you mean {', '.join(near)}?" if near else hint
        super().__init__(f"no {what} {name!r}", said)


def no_step(step: int, steps: int) -> NotFound:
    """What to raise where a run has so many steps, and not this one."""
    known = f"Steps: 0 to {steps - 1}" if steps else "The run has no steps"
    return NotFound("step", str(step), hint=known)


class BadEdit(ArcError):
    """An edit that cannot be applied; the message names the step or the file."""


class ModelRefused(ArcError):
    """A model, or our own rules about it, declined the request."""


class OfflineMiss(ArcError):
    """A request without a stored answer, asked for while live calls are off."""


class StoreUnusable(ArcError):
    """The database cannot be opened, read or written."""


class RequestRefused(ModelRefused):
    """A model declined this one request; the next may be fine."""


class Stopped(ArcError):
    """The user stopped a call in flight. What was answered before it is kept."""


class CannotTell(ArcError):
    """What is expected could not be asked for here: no answer is stored, a limit is reached, the
    step cannot be asked, a file is not there."""
