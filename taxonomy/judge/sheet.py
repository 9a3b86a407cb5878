"""Pieces of a trace as they are collected for a judge: blinded, bounded, each with its label."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from replay import messages
from taxonomy.evidence.reading import Act, Turn
from taxonomy.judge.blind import Blind
from taxonomy.judge.fence import Piece, named

LONGEST = 8_000
"""Characters of one text that are shown; what is longer loses its middle, and says so."""


class Exhibit(Struct, frozen=True, kw_only=True):
    """What is shown, and the steps that may be cited.

    `withheld` counts what told of the outcome, `cut` the texts too long to be shown whole.
    """

    pieces: tuple[Piece, ...]
    steps: frozenset[int]
    withheld: int
    cut: int


class Sheet:
    """What is shown, as it is put together. `longest` is the most characters of one text."""

    def __init__(self, blind: Blind, longest: int) -> None:
        self._blind = blind
        self._longest = longest
        self._pieces: list[Piece] = []
        self._steps: set[int] = set()
        self._cut = 0

    def harness(self, label: str, text: str) -> None:
        """Words that are not the agent's."""
        self._add(label, text, self._blind.harness)

    def output(self, turn: Turn, before: str = "") -> None:
        """What a step said and called."""
        speaker = f" by {named(turn.ask.agent)}" if turn.ask.agent else ""
        calls = [f"calls {act.name} with {_arguments(act)}" for act in turn.acts]
        said = "\n".join(part for part in (turn.said, *calls) if part)
        self._add(f"{before}step {turn.index}{speaker}", said or "(nothing)", self._blind.agent)
        self._steps.add(turn.index)

    def printed(self, turn: Turn, before: str = "") -> None:
        """What a terminal printed, where its message is a step of the source."""
        speaker = named(turn.ask.agent or "a terminal")
        self.harness(f"{before}step {turn.index}: {speaker} printed", turn.said or "(nothing)")
        self._steps.add(turn.index)

    def result(self, act: Act, before: str = "") -> None:
        """What a call returned, and whether as an error."""
        if act.span.observation is None:
            text = "(no result was recorded)"
        else:
            text = messages.observed(act.span.observation).text or "(nothing)"
        failed = ", as an error," if act.reply.failed else ""
        self.harness(f"{before}step {act.step}: {named(act.name)}{failed} returned", text)
        self._steps.add(act.step)

    def offers(self, turn: Turn) -> None:
        """The tools it could have called, where that was recorded."""
        tools = turn.ask.request.tools
        if tools:
            told = [f"- {tool.name}: {tool.description or ''}".rstrip(": ") for tool in tools]
            self.harness("tools it could call", "\n".join(told))

    def exhibit(self) -> Exhibit:
        return Exhibit(
            pieces=tuple(self._pieces),
            steps=frozenset(self._steps),
            withheld=self._blind.count,
            cut=self._cut,
        )

    def _add(self, label: str, text: str, blinded: Callable[[str], str]) -> None:
        shown = blinded(text)
        if len(shown) > self._longest:
            self._cut += 1
            shown = _without_middle(shown, self._longest // 2)
        self._pieces.append(Piece(label, shown))


def _without_middle(text: str, half: int) -> str:
    """The ends of a text, which say most of it."""
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _arguments(act: Act) -> str:
    if act.span.arguments is None:
        return act.span.arguments_raw or "arguments that were not recorded"
    return msgspec.json.encode(act.span.arguments).decode()
