"""Whose doing was it? The four, the one that counts now between brackets."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.reactive import reactive

from arc_tui.widgets.bound import key_of
from arc_tui.widgets.ink import KEY_CAP, Inked
from taxonomy.classes import Fault

ORDER = (Fault.AGENT, Fault.USER, Fault.HARNESS, Fault.CHECK)

MEANING = {
    Fault.AGENT: "an edit of the prompt may help",
    Fault.USER: "the user, or who played the user, went wrong",
    Fault.HARNESS: "serving, tools or the frame around the agent failed",
    Fault.CHECK: "the check wants what the task never said",
}


class FaultLine(Inked):
    """The agent until a person turns to another; a suggestion keeps its own unless they do."""

    ALLOW_SELECT = False
    INKS = {
        "key": KEY_CAP,
        "here": "bold",
        "quiet": "$quiet",
    }

    suggested: reactive[Fault | None] = reactive(None)
    turned: reactive[Fault | None] = reactive(None)

    @property
    def said(self) -> Fault:
        """Of a class that a person names."""
        return self.turned or Fault.AGENT

    @property
    def accepted(self) -> Fault:
        """Of a suggestion that a person accepts."""
        return self.turned or self.suggested or Fault.AGENT

    def turn(self) -> None:
        """To the next of the four."""
        self.turned = ORDER[(ORDER.index(self.said) + 1) % len(ORDER)]

    def render(self) -> Text:
        quiet = self.ink("quiet")
        line = Text.assemble(
            (f" {key_of(self.screen, 'tag.fault')} ", self.ink("key")), " whose doing  "
        )
        for fault in ORDER:
            if fault is self.said:
                line.append(f"[{fault.value}]", self.ink("here"))
            else:
                line.append(f" {fault.value} ", quiet)
        line.append(f"  {self._meaning()}", quiet)
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line

    def _meaning(self) -> str:
        if self.accepted is not self.said:
            key = key_of(self.screen, "tag.accept")
            return f"{key} keeps the suggestion's: {self.accepted.value}"
        return MEANING[self.said]

    def on_click(self, _: events.Click) -> None:
        self.turn()
