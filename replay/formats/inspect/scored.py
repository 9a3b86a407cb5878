"""The scores that a sample's events give, and the model call that each was given after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from replay.errors import BadTrace
from replay.formats.fields import obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.tree import Node


class Scored(NamedTuple):
    """A score event: by whom, what, and the model call of the scored thread before it."""

    scorer: str
    score: dict[str, Any]
    intermediate: bool
    after: str | None


def scored(nodes: Sequence[Node], texts: Attachments) -> list[Scored]:
    """Every score event, in its order. A call's id is its node's."""
    found: list[Scored] = []
    latest: dict[str, str] = {}
    for node in nodes:
        if node.kind == "model" and node.speaker is not None:
            latest[node.speaker.id] = node.id
        elif node.kind == "score":
            found.append(_scored(node, latest, texts))
    return found


def _scored(node: Node, latest: dict[str, str], texts: Attachments) -> Scored:
    try:
        event = obj(texts.read(node.raw))
    except BadTrace:
        event = {}
    above = list(node.ancestors())
    scorer = next((each.name for each in above if each.type == "scorer"), "score")
    judged = (latest.get(each.id) for each in above if each.type != "scorer")
    return Scored(
        scorer=word(event.get("scorer")) or scorer,
        score=obj(event.get("score")),
        intermediate=bool(event.get("intermediate")),
        after=next((ask for ask in judged if ask is not None), None),
    )
