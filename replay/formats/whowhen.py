"""Who&When: group chats of several agents, one object a file, with the step people blame.

The chat is read as every group chat is (`chat.group_spans`), the question before it. The blame,
its reason and the true answer are kept as reference, where neither rules nor judges look. No calls,
times or tokens are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.errors import BadTrace
from replay.formats.chat import group_spans, title_line
from replay.formats.common import derived_id, known, obj, word
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Header, Level, Outcome

NAME = "whowhen"
TITLE = "Who&When group chats"
FILES = ".json"
FIDELITY = (Level.PARTIAL,)
LACKS = "the tools; what each speaker was shown"
VERIFIED = "real files"

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
    """The one chat of the file. Raises BadTrace where it contains no `history`."""
    chat = source.document()
    if not isinstance(chat, dict) or not isinstance(chat.get("history"), list):
        raise BadTrace(source.display, "", "contains no `history` of messages")
    for name in chat.keys() - _FIELDS:
        tally.unknown[name] += 1
    tally.counts["traces"] += 1
    messages = chat["history"]
    said = [msgspec.json.encode(each) for each in messages if isinstance(each, dict)]
    source_id = derived_id(chat.get("question_ID"), *said)
    question = word(chat.get("question"))
    yield Batch(
        header=Header(
            format=NAME,
            source_id=source_id,
            path=source.display,
            title=title_line(question),
            task=word(chat.get("question_ID")),
            outcome=_outcome(chat),
            labels=known(level=word(chat.get("level"))),
            reference=known(**{name: chat.get(name) for name in _REFERENCE}) or None,
        ),
        spans=group_spans(
            messages,
            root=source_id,
            tally=tally,
            question=question,
            prompts=obj(chat.get("system_prompt")),
        ),
        last=True,
    )


def _outcome(chat: dict[str, Any]) -> Outcome:
    for name in ("is_correct", "is_corrected"):
        if isinstance(chat.get(name), bool):
            return Outcome(status="passed" if chat[name] else "failed", by=name)
    return Outcome()
