"""Who&When: group chats of several agents, one object a file, with the step people blame.

Every message is a step, the terminal's too: labels and published figures count messages. What a
speaker was shown is not recorded; it is taken to be the question and everything said before it.
The blame, its reason and the true answer are kept as reference, where neither rules nor judges
look. No calls, times or tokens are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.chat import cut
from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.normal import derived_id
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Level,
    Message,
    Outcome,
    Place,
    Request,
    extend,
)

NAME = "whowhen"
TITLE = "Who&When group chats"
FILES = ".json"
FIDELITY = (Level.PARTIAL,)
LACKS = "what each speaker was shown; the tools"

NO_VIEW = "what each speaker of the group was shown is not recorded"

_FIELDS = {
    "question", "question_ID", "level", "ground_truth", "history", "system_prompt",
    "mistake_agent", "mistake_step", "mistake_reason", "is_correct", "is_corrected",
}  # fmt: skip
_REFERENCE = ("ground_truth", "mistake_agent", "mistake_step", "mistake_reason")
_ABOUT = rb'"(?:question_ID|ground_truth|mistake_agent|mistake_step|is_corrected)"\s*:'
_NAMED_ROLE = rb'"role"\s*:\s*"(?!(?:system|user|assistant|tool|function|developer)")'
"""A role that is a speaker's name, as in files whose `history` stands first and fills the head."""


def sniff(head: Head) -> bool:
    if not head.starts(b"{") or not head.has(rb'"history"\s*:\s*\[\s*\{'):
        return False
    return head.has(_ABOUT) or head.has(rb'\A\W*"history"\s*:', _NAMED_ROLE)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one chat of the file. Raises BadTrace where it holds no `history`."""
    chat = source.document()
    if not isinstance(chat, dict) or not isinstance(chat.get("history"), list):
        raise BadTrace(source.display, "", "holds no `history` of messages")
    for name in chat.keys() - _FIELDS:
        tally.unknown[name] += 1
    tally.counts["traces"] += 1
    said = [*_messages(chat, tally)]
    tally.counts["steps"] += len(said)
    source_id = derived_id(chat.get("question_ID"), *(msgspec.json.encode(s.body) for s in said))
    question = word(chat.get("question"))
    yield Batch(
        header=Header(
            format=NAME,
            source_id=source_id,
            path=source.display,
            title=_title(question),
            task=word(chat.get("question_ID")),
            outcome=_outcome(chat),
            labels=known(level=word(chat.get("level"))),
            reference=known(**{name: chat.get(name) for name in _REFERENCE}) or None,
        ),
        spans=_spans(said, source_id, question, obj(chat.get("system_prompt")), tally),
        last=True,
    )


class _Said(Struct, frozen=True, kw_only=True):
    """One message: who said it, and where it stands in the history."""

    index: int
    speaker: str
    body: dict[str, Any]


def _messages(chat: dict[str, Any], tally: Tally) -> Iterator[_Said]:
    for index, body in enumerate(listed(chat.get("history"))):
        if not isinstance(body, dict):
            tally.problem(f"message {index}", "is not an object")
            continue
        speaker = word(body.get("name")) or word(body.get("role")) or "unknown speaker"
        yield _Said(index=index, speaker=speaker, body=body)


def _spans(
    said: list[_Said], root: str, question: str | None, prompts: dict[str, Any], tally: Tally
) -> tuple[AnySpan, ...]:
    """A root agent for the group, and a model call a message."""
    systems = {
        speaker: Message(dialect="openai", body={"role": "system", "content": prompt})
        for speaker, prompt in prompts.items()
        if isinstance(prompt, str)
    }
    thread = Thread(parent=root, request=Request(), fidelity=_fidelity(None), tally=tally)
    if question is not None and not _asks(said):
        asked = Message(dialect="openai", body={"role": "user", "content": question})
        thread.context = extend(None, (asked,))
    for each in said:
        system = systems.get(each.speaker)
        thread.request = structs.replace(thread.request, system=system)
        thread.fidelity = _fidelity(system)
        turn = Turn(
            id=derived_id(root, each.index),
            name=each.speaker,
            place=Place(message=each.index),
            agent=each.speaker,
        )
        thread.said(Message(dialect="openai", body=each.body), turn)
    return AgentSpan(id=root, name="group chat", time_quality="none"), *thread.spans()


def _asks(said: list[_Said]) -> bool:
    """Does the history begin with the person who asks?"""
    return bool(said) and said[0].speaker.lower() in {"human", "user", "user_proxy"}


def _fidelity(system: Message | None) -> Fidelity:
    reasons = (NO_VIEW, NO_TOOLS) if system is not None else (NO_VIEW, NO_SYSTEM, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=reasons)


def _outcome(chat: dict[str, Any]) -> Outcome:
    for name in ("is_correct", "is_corrected"):
        if isinstance(chat.get(name), bool):
            return Outcome(status="passed" if chat[name] else "failed", by=name)
    return Outcome()


def _title(question: str | None) -> str | None:
    lines = question.strip().splitlines() if question else []
    return cut(lines[0]) if lines else None
