"""What does one line of a Claude Code recording say, whatever shape it was written in?

Besides what a person and the model said, the model is shown what a local command printed and what
a person wrote while it was at work (an attachment): such lines speak too.
"""

from __future__ import annotations

from msgspec import Struct

from replay.messages import Result, content_text, results
from replay.trace import Json, Message, Place

_NOISE = (
    "<bash-",
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<user-prompt-submit-hook>",
    "Caveat: The messages below",
    "[Request interrupted by user",
)


class Line(Struct, frozen=True, kw_only=True, eq=False):
    """One line, out of its wrapper.

    `number` counts from 1 in its file. `kind` is the source's `type`, `agent` names the sub-agent
    a `sidechain` line belongs to: its id, or the id of the call that delegated to it. `speaks`
    tells a usable message line; its `message` is still None where the source kept no content.
    `record` is what is left of the source's line, `rich` what it says of a tool's result beside the
    message. `copied` marks what was said in another session, of which this one goes on.
    """

    number: int
    record: dict[str, Json]
    kind: str
    place: Place
    session: str | None = None
    uuid: str | None = None
    parent: str | None = None
    sidechain: bool = False
    agent: str | None = None
    at_ns: int | None = None
    speaks: bool = False
    message: Message | None = None
    rich: dict[str, Json] | None = None
    copied: bool = False

    def flag(self, name: str) -> bool:
        return self.record.get(name) is True

    def word(self, *names: str) -> str | None:
        """The first of these fields that holds a text."""
        return first_text(self.record, *names)

    @property
    def raw_message(self) -> dict[str, Json]:
        """The message with what is not sent back to a model: id, model, usage, stop reason."""
        raw = self.record.get("message")
        return raw if isinstance(raw, dict) else {}

    @property
    def subtype(self) -> str | None:
        """What kind of a system line this is, None for any other line."""
        return self.word("subtype") if self.kind == "system" else None

    @property
    def streamed(self) -> bool:
        """Is this a line of `stream-json`, which ends with a result line?"""
        return "session_id" in self.record

    @property
    def answer(self) -> str | None:
        """The id of the API response that an assistant line is a part of."""
        return first_text(self.raw_message, "id")

    @property
    def blocks(self) -> list[dict[str, Json]]:
        content = self.message.body["content"] if self.message is not None else None
        return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []

    @property
    def asked(self) -> list[str | None]:
        """The ids of the tool calls of this line, in their order."""
        return [first_text(b, "id") for b in self.blocks if b.get("type") == "tool_use"]

    @property
    def results(self) -> tuple[Result, ...]:
        """The tool results this line brings."""
        return results(self.message) if self.message is not None else ()

    @property
    def prompt(self) -> str:
        """What a person (or a delegating call) wrote in this line; "" for results alone."""
        if self.kind not in {"user", "attachment"} or self.message is None:
            return ""
        content = self.message.body["content"]
        if isinstance(content, list):
            results_out = (b for b in content if not _is_result(b))
            return content_text(list(results_out))
        return content_text(content)


def first_text(record: dict[str, Json], *names: str) -> str | None:
    """The first of these fields that holds a text that is not empty."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def is_noise(text: str) -> bool:
    """Is this text of a user line the harness speaking?"""
    return text.lstrip().startswith(_NOISE)


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"
