"""A paraphrase of what a user asked: its text, who wrote it, and whether it may be tried."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replay import messages
from replay.errors import ArcError
from replay.trace import Trace
from taxonomy.wording.sameness import sameness


class NothingAsked(ArcError):
    """A run in which no user asks for anything: there is nothing to say in other words."""


class Request(Struct, frozen=True, kw_only=True):
    """What a user asked: the text, and the index of its message in the thread of step 0."""

    text: str
    message: int
    thread: str


class Paraphrase(Struct, frozen=True, kw_only=True):
    """The request in other words. `by` is a file's name, a model's, or `by rule`.

    `refusal` says why it is not tried, None where it is; `names` it may have lost.
    """

    text: str
    by: str
    refusal: str | None = None
    names: tuple[str, ...] = ()


def request_of(trace: Trace, message: int | None = None) -> Request:
    """What the user asked first, or in message `message` (counted from 0, no system prompt).

    Raises NothingAsked where the run has no such words of a user.
    """
    if not trace.steps:
        raise NothingAsked("the run has no steps")
    thread = trace.steps[0].thread
    own = [step for step in trace.steps if step.thread == thread]
    longest = max((step.ask.request.context for step in own), key=lambda c: c.depth if c else 0)
    first = own[0].ask.request.context
    context = longest if message is not None else first
    for index, said in enumerate(context.messages() if context else ()):
        spoken = said.role == "user" and not messages.results(said)
        text = messages.text(said).strip() if spoken else ""
        if text and message in (None, index):
            return Request(text=text, message=index, thread=thread)
    where = "before its first step" if message is None else f"in message {message}"
    raise NothingAsked(f"no user says anything {where}", "--message N names another message")


def tried(original: str, texts: Iterable[str], by: str) -> tuple[Paraphrase, ...]:
    """The texts as paraphrases, those that do not ask for the same with the reason."""
    found: list[Paraphrase] = []
    seen = {_plain(original)}
    for text in texts:
        same = sameness(original, text)
        refusal = "it is empty" if not text.strip() else same.refusal
        if _plain(text) in seen:
            refusal = refusal or "it is the request itself, or another paraphrase of it"
        seen.add(_plain(text))
        found.append(Paraphrase(text=text.strip(), by=by, refusal=refusal, names=same.names))
    return tuple(found)


def _plain(text: str) -> str:
    return " ".join(text.split())
