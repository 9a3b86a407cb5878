"""Conversations of Cursor: its `state.vscdb`, a table of keys and JSON.

`composerData:ID` has what is known of a conversation and the order of its bubbles,
`bubbleId:ID:BUBBLE` each of these: what the user said, or a thought, a text, a call with its
result. Which calls one response made is said by `modelCallId`, in releases that write it; before
that an answer is taken to end where one of its calls has come back. Neither system prompt nor tools
are recorded, tokens hardly ever. There is no account of the format: it is read as public readers
do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from replay.depth import from_text
from replay.formats.chat import title_line
from replay.formats.common import count, derived_id, known, listed, ms_ns, ns, obj, usd, word
from replay.formats.common import total_usage as usage_of
from replay.formats.database import Database
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Tally, decoded_text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Header,
    Json,
    Message,
    Place,
    Request,
    Response,
    Usage,
)

NAME = "cursor"
TABLES = frozenset({"cursorDiskKV"})
"""Of its database, which `sqlite` reads."""

NO_BORDERS = "which calls one response made not recorded"

_PREFIX = "composerData:"
_USER, _MODEL = 1, 2
_FAILED = {"cancelled", "error", "rejected"}


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """The conversations that have an answer, in the order of their ids."""
    keys = (word(row.get("key")) for row in database.rows("cursorDiskKV", ("key",)))
    for key in sorted(key for key in keys if key is not None and key.startswith(_PREFIX)):
        composer = obj(_value(database, key, path, tally))
        name = key.removeprefix(_PREFIX)
        bubbles = [*_bubbles(database, name, composer, path, tally)]
        if any(bubble.get("type") == _MODEL for bubble in bubbles):
            yield _batch(name, composer, bubbles, path, tally)


def _value(database: Database, key: str, path: str, tally: Tally) -> Json:
    """What stands under a key, None where nothing does or it is no JSON."""
    for row in database.rows("cursorDiskKV", ("value",), key=key):
        value = row.get("value")
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return decoded_text(text, path, key, tally)
    return None


def _bubbles(
    database: Database, name: str, composer: dict[str, Any], path: str, tally: Tally
) -> Iterator[dict[str, Any]]:
    """The bubbles in their order; early releases keep them with the conversation."""
    early = [*map(obj, listed(composer.get("conversation")))]
    if early:
        yield from early
        return
    for header in map(obj, listed(composer.get("fullConversationHeadersOnly"))):
        bubble = obj(_value(database, f"bubbleId:{name}:{header.get('bubbleId')}", path, tally))
        if bubble:
            yield {"type": header.get("type"), "createdAt": header.get("createdAt")} | bubble
        else:
            tally.problem(f"bubble {header.get('bubbleId')}", "is not in the database")


def _batch(
    name: str,
    composer: dict[str, Any],
    bubbles: list[dict[str, Any]],
    path: str,
    tally: Tally,
) -> Batch:
    model = word(obj(composer.get("modelConfig")).get("modelName"))
    builder = _SpanBuilder(name, model, tally)
    for index, bubble in enumerate(bubbles):
        builder.build(index, bubble)
    spans = builder.finish()
    times = [at for span in spans for at in (span.start_ns, span.end_ns) if at is not None]
    started = _at_ns(composer.get("createdAt"))
    start_ns = min([*times, *([] if started is None else [started])], default=None)
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=start_ns,
        end_ns=max(times, default=None),
        time_quality="none" if start_ns is None else "derived",
        place=Place(span=name),
    )
    where = obj(obj(composer.get("workspaceIdentifier")).get("uri"))
    folder = word(where.get("fsPath")) or word(where.get("path"))
    cents = [usd(obj(each).get("costInCents")) for each in obj(composer.get("usageData")).values()]
    costs = [each / 100 for each in cents if each]
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_line(word(composer.get("name")) or builder.asked),
        agent=NAME,
        labels={"cwd": folder} if folder else {},
        reported_cost_usd=sum(costs) if costs else None,
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    tally.counts["sessions"] += 1
    return Batch(header=header, spans=(root, *spans), last=True)


def _at_ns(at: Json) -> int | None:
    return ns(at) if isinstance(at, str) else ms_ns(at)


class _SpanBuilder:
    """Tells a conversation bubble by bubble. `_answer` are the bubbles of the answer being written,
    each with its index."""

    def __init__(self, parent: str, model: str | None, tally: Tally) -> None:
        self.asked: str | None = None
        self._parent, self._tally = parent, tally
        self._thread = Thread(
            parent=parent, request=Request(model=model), fidelity=without_tools(None), tally=tally
        )
        self._answer: list[tuple[int, dict[str, Any]]] = []
        self._heard_ns: int | None = None

    def finish(self) -> tuple[AnySpan, ...]:
        self._close()
        return self._thread.spans()

    def build(self, index: int, bubble: dict[str, Any]) -> None:
        self._tally.counts["bubbles"] += 1
        if bubble.get("type") == _MODEL:
            if self._is_next(bubble):
                self._close()
            self._answer.append((index, bubble))
            return
        self._close()
        words = word(bubble.get("text"))
        if bubble.get("type") != _USER:
            self._tally.unknown[f"bubble of type {word(bubble.get('type'))}"] += 1
        elif words is not None:
            message = Message(dialect="openai", body={"role": "user", "content": words})
            at_ns = _at_ns(bubble.get("createdAt"))
            self._thread.add_message(message, place=Place(message=index), at_ns=at_ns)
            self._heard_ns = at_ns or self._heard_ns
            self.asked = self.asked or words
        model = word(obj(bubble.get("modelInfo")).get("modelName"))
        if model is not None:
            self._thread.request = structs.replace(self._thread.request, model=model)

    def _is_next(self, bubble: dict[str, Any]) -> bool:
        """Does this bubble begin another answer? It does after a call, unless it is one of the same
        response."""
        calls = [call for _, each in self._answer if (call := obj(each.get("toolFormerData")))]
        if not calls:
            return False
        before, own = calls[-1], obj(bubble.get("toolFormerData"))
        same = word(before.get("modelCallId"))
        return same is None or same != word(own.get("modelCallId"))

    def _close(self) -> None:
        bubbles, self._answer = self._answer, []
        if not bubbles:
            return
        first, calls = bubbles[0][0], []
        for index, bubble in bubbles:
            call = obj(bubble.get("toolFormerData"))
            if call:
                calls.append((word(call.get("toolCallId")) or f"bubble {index}", call))
        if any(word(call.get("modelCallId")) is None for _, call in calls):
            self._thread.weaken(NO_BORDERS)
        message = _message([bubble for _, bubble in bubbles], calls)
        if message is None:
            return
        at_ns = _at_ns(bubbles[0][1].get("createdAt"))
        turn = Turn(
            id=derived_id(self._parent, "answer", first),
            response=Response(model=self._thread.request.model),
            usage=_usage([bubble for _, bubble in bubbles]),
            start_ns=self._heard_ns,
            end_ns=at_ns,
            time_quality="none" if at_ns is None else "derived",
            place=Place(message=first),
        )
        self._thread.add_model_call(message, turn)
        self._heard_ns = at_ns or self._heard_ns
        for name, call in calls:
            shown, why = _outcome(call)
            if shown is None and why is None:
                self._tally.problem(f"message {first}", f"{name!r} has no result")
                continue
            body = {"role": "tool", "tool_call_id": name, "content": shown or why}
            errors = {name: why} if why is not None else None
            told = Message(dialect="openai", body=body)
            self._thread.add_message(told, place=Place(message=first), errors=errors)


def _message(
    bubbles: list[dict[str, Any]], calls: list[tuple[str, dict[str, Any]]]
) -> Message | None:
    """The bubbles as the answer that they were, None where they are empty."""
    texts = [word(bubble.get("text")) for bubble in bubbles]
    thoughts = [word(obj(bubble.get("thinking")).get("text")) for bubble in bubbles]
    told = known(
        reasoning_content="\n".join(filter(None, thoughts)),
        tool_calls=[
            {"id": name, "type": "function", "function": _function(call)} for name, call in calls
        ],
    )
    content = "\n".join(filter(None, texts)) or None
    if content is None and not told:
        return None
    return Message(dialect="openai", body={"role": "assistant", "content": content, **told})


def _function(call: dict[str, Any]) -> dict[str, Json]:
    """The arguments as the model gave them, else as Cursor took them."""
    given: Json = call.get("rawArgs") or call.get("params") or {}
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return {"name": word(call.get("name")) or "unknown tool", "arguments": text}


def _outcome(call: dict[str, Any]) -> tuple[str | None, str | None]:
    """(what a call returned, why it failed), None where it is not recorded and where it did not."""
    given, status = call.get("result"), (word(call.get("status")) or "").lower()
    shown = (
        given if isinstance(given, str) or given is None else msgspec.json.encode(given).decode()
    )
    value: Json = given
    if isinstance(given, str) and given.startswith("{"):
        try:
            value = from_text(given)
        except msgspec.DecodeError:
            value = None
    error = call.get("error") or obj(value).get("error")
    code = obj(value).get("exitCode", obj(value).get("exitCodeV2"))
    if isinstance(code, int) and code != 0:
        return shown, f"exit code {code}"
    if error or status in _FAILED:
        return shown, word(error) or word(obj(error).get("message")) or status or "error"
    return shown or None, None


def _usage(bubbles: list[dict[str, Any]]) -> Usage | None:
    """The tokens of an answer, on the last of its bubbles that has any."""
    for bubble in reversed(bubbles):
        told = obj(bubble.get("tokenCount"))
        found = usage_of(count(told.get("inputTokens")), count(told.get("outputTokens")))
        if found is not None:
            return found
    return None
