"""A recorded conversation as the turns of the Messages API, built once a node.

A message becomes content blocks first: text, images, calls, results, reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from replay import digests
from replay.messages import REASONING_ITEMS, Call, Result, calls, results
from replay.trace import Context, Json, Message

ORPHAN = "result that answers no call left out"
EMPTY = "empty message left out"
NO_OPENING = "opening of the conversation not recorded"
LATE_SYSTEM = "system message between call and result sent as user text"
FOREIGN_ROLE = "message of another role sent as the user's"
RAW_ARGUMENTS = "arguments that do not parse sent as `_raw`"
RENAMED = "tool name the API refuses renamed"
CUT = "answer at the end of the request cut"
SPEAKER = "speaker's name not sent"

OPENING = "(The conversation before this was not recorded.)"
"""What stands in for an opening the source does not have: the API wants the user to begin."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SYSTEM = {"system", "developer"}
_ANSWERS = {"tool", "function"}


class Turn(Struct, frozen=True, eq=False, kw_only=True):
    """A turn as sent, after those before it; `digest` is that of the conversation up to here."""

    body: dict[str, Any]
    before: Turn | None
    digest: str


class Conversation(Struct, frozen=True, eq=False, kw_only=True):
    """A context as it can be sent.

    `calls` counts the calls in it. `lead` are system messages that stood before everything else,
    `lost` says what is not as recorded, `unanswered` describes calls whose result is not known,
    `aliases` gives the recorded name of a tool by the name sent.
    """

    turn: Turn | None
    calls: int = 0
    lead: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}

    def messages(self) -> list[dict[str, Any]]:
        """The turns, oldest first; shared with other conversations, not to be changed."""
        found: list[dict[str, Any]] = []
        turn = self.turn
        while turn is not None:
            found.append(turn.body)
            turn = turn.before
        found.reverse()
        return found

    def named(self, aliases: Mapping[str, str]) -> Conversation:
        """The same with further tools whose names are not sent as recorded."""
        if not aliases:
            return self
        return msgspec.structs.replace(self, aliases={**self.aliases, **aliases})


class _Part(Struct, frozen=True, eq=False):
    """What one message adds to a turn, after what was there."""

    blocks: tuple[dict[str, Any], ...]
    before: _Part | None


class _Open(Struct, frozen=True):
    """A call that no result has answered yet."""

    id: str
    call: Call


class _State(Struct, eq=False, kw_only=True):
    """A conversation after a node: finished turns, and the turn that is still being said.

    Never changed once its node is done, but for `finished`, which is made when first needed.
    """

    closed: Turn | None = None
    role: str = ""
    results: _Part | None = None
    said: _Part | None = None
    open: tuple[_Open, ...] = ()
    given: int = 0
    lead: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    finished: Turn | None = None

    def finish(self) -> Turn | None:
        """The turns with the current one; the results it carries stand before its texts."""
        if self.finished is None and self.role:
            content = [*_joined(self.results), *_joined(self.said)]
            body = {"role": self.role, "content": _simplest(content)}
            self.finished = turn_after(self.closed, body)
        return self.finished if self.role else self.closed

    def after(self, **changes: Any) -> _State:
        return msgspec.structs.replace(self, finished=None, **changes)

    def losing(self, losses: Iterable[str | None]) -> _State:
        new = [loss for loss in losses if loss is not None and loss not in self.lost]
        return self.after(lost=tuple(dict.fromkeys((*self.lost, *new)))) if new else self


def turn_after(before: Turn | None, body: dict[str, Any]) -> Turn:
    """The conversation `before` with one more turn; a digest costs the new turn only."""
    said = digests.message_digest(Message(dialect="anthropic", body=body))
    digest = digests.node_digest(before.digest if before is not None else None, said)
    return Turn(body=body, before=before, digest=digest)


def _joined(part: _Part | None) -> list[dict[str, Any]]:
    pieces: list[tuple[dict[str, Any], ...]] = []
    while part is not None:
        pieces.append(part.blocks)
        part = part.before
    return [block for piece in reversed(pieces) for block in piece]


def _simplest(content: list[dict[str, Any]]) -> Json:
    """One text alone is sent as such: both shapes mean the same, and must share a key."""
    alone = len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if alone else content


class Conversations:
    """Converts contexts; every node once, however many requests share it."""

    def __init__(self) -> None:
        # The memo holds the node it knows, so that its id is never another node's.
        self._known: dict[int, tuple[Context, _State]] = {}

    def of(self, context: Context | None) -> Conversation:
        """The context as it can be sent, ending with the user's turn where there is one."""
        state = self._state(context)
        answered = state.role == "assistant" and not state.open
        return Conversation(
            turn=state.closed if answered else state.finish(),
            calls=state.given,
            lead=state.lead,
            lost=(*state.lost, CUT) if answered else state.lost,
            unanswered=state.unanswered + _waiting(state),
            aliases=state.aliases,
        )

    def _state(self, context: Context | None) -> _State:
        fresh: list[Context] = []
        node = context
        while node is not None and id(node) not in self._known:
            fresh.append(node)
            node = node.parent
        state = self._known[id(node)][1] if node is not None else _State()
        for each in reversed(fresh):
            state = _user_turn(state, each.message)
            self._known[id(each)] = (each, state)
        return state


def _user_turn(state: _State, message: Message) -> _State:
    """The state after one more message."""
    if message.role == "assistant":
        return _assistant(state, message)
    if message.role in _SYSTEM:
        return _system(state, message)
    if message.role != "user" and message.role not in _ANSWERS:
        state = state.losing([FOREIGN_ROLE])
    return _user(state, message)


def _assistant(state: _State, message: Message) -> _State:
    said: list[dict[str, Any]] = []
    losses = _with_results(message)
    opened: list[_Open] = []
    aliases = dict(state.aliases)
    asked = calls(message)
    for entry in _in_order(message, asked):
        if not isinstance(entry, Call):
            losses.append(entry.loss)
            said.extend([] if entry.body is None else [entry.body])
            continue
        opened.append(_Open(f"toolu_arc_{state.given + len(opened)}", entry))
        name, arguments = alias(entry.name), entry.arguments
        if name != entry.name:
            aliases[name] = entry.name
            losses.append(RENAMED)
        if not isinstance(arguments, dict):
            arguments = {"_raw": entry.raw if arguments is None else arguments}
            losses.append(RAW_ARGUMENTS)
        said.append({"type": "tool_use", "id": opened[-1].id, "name": name, "input": arguments})
    state = state.losing(losses)
    if not said:
        return state if any(losses) else state.losing([EMPTY])
    state = _turn_of(state, "assistant")
    return state.after(
        said=_Part(tuple(said), state.said),
        open=(*state.open, *opened),
        given=state.given + len(opened),
        aliases=aliases,
    )


def _with_results(message: Message) -> list[str | None]:
    """What stands beside the content of a message and has no place in the API."""
    body = message.body
    thought = any(body.get(each) for each in ("reasoning_content", "reasoning", REASONING_ITEMS))
    named = body.get("name") and message.role not in _ANSWERS
    return [THINKING if thought else None, SPEAKER if named else None]


def _in_order(message: Message, asked: tuple[Call, ...]) -> list[Block | Call]:
    """Blocks and calls of an assistant message as they stood: calls among blocks, or after them."""
    content = message.body.get("content")
    if message.dialect != "anthropic" or not isinstance(content, list):
        return [*blocks(content), *asked]
    found: list[Block | Call] = []
    waiting = iter(asked)
    for entry in content:
        if isinstance(entry, dict) and entry.get("type") == "tool_use":
            found.append(next(waiting))
        else:
            found.extend(blocks([entry]))
    return found


def alias(name: str, repeat: int = 0) -> str:
    """A name the API takes: a function of the recorded one alone, distinct for distinct names.

    Of several tools that are declared under one name, or under none, the `repeat`-th after the
    first gets a name of its own.
    """
    if _NAME.fullmatch(name) and not repeat:
        return name
    mark = digests.digest("tool name", name, *[str(repeat)] * bool(repeat)).partition(":")[2][:8]
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:100]}_{mark}"


def _user(state: _State, message: Message) -> _State:
    carried = results(message)
    content = None if message.role in _ANSWERS else message.body.get("content")
    found = list(blocks(content, without="tool_result"))
    answers: list[dict[str, Any]] = []
    losses = [*_with_results(message), *(each.loss for each in found)]
    waiting = list(state.open)
    for result in carried:
        slot = _slot(waiting, result, message)
        if slot is None:
            losses.append(ORPHAN)
            continue
        content = _result_content(message, result, losses)
        answer = {"type": "tool_result", "tool_use_id": waiting.pop(slot).id, "content": content}
        answers.append({**answer, "is_error": True} if result.is_error else answer)
    said = [each.body for each in found if each.body is not None]
    state = state.losing(losses)
    if not said and not answers:
        return state if any(losses) else state.losing([EMPTY])
    state = _turn_of(state, "user")
    return state.after(
        results=_Part(tuple(answers), state.results) if answers else state.results,
        said=_Part(tuple(said), state.said) if said else state.said,
        open=tuple(waiting),
    )


def _slot(waiting: list[_Open], result: Result, message: Message) -> int | None:
    """The place of the call a result answers: by id, else by name, else the oldest."""
    named = message.body.get("name")
    for place in reversed(range(len(waiting))) if result.call_id is not None else ():
        if waiting[place].call.id == result.call_id:
            return place
    if result.call_id is not None or not waiting:
        return None
    same = (place for place, each in enumerate(waiting) if each.call.name == named)
    return next(same, 0)


def _result_content(message: Message, result: Result, losses: list[str | None]) -> Json:
    given = message.body.get("content")
    if result.block is not None:
        given = given[result.block].get("content") if isinstance(given, list) else None
    if not isinstance(given, list):
        return result.text
    found = list(blocks(given, inside=True))
    losses.extend(each.loss for each in found)
    kept = [each.body for each in found if each.body is not None]
    return _simplest(kept) if kept else result.text


def _system(state: _State, message: Message) -> _State:
    found = list(blocks(message.body.get("content"), inside=True))
    said = tuple(each.body for each in found if each.body is not None)
    state = state.losing(each.loss for each in found)
    if not said:
        return state
    if not state.role:
        text = "\n".join(str(each.get("text", "")) for each in said)
        return state.after(lead=(*state.lead, text))
    if state.open:
        state = _turn_of(state.losing([LATE_SYSTEM]), "user")
    else:
        state = _turn_of(state, "system")
    return state.after(said=_Part(said, state.said))


def _turn_of(state: _State, role: str) -> _State:
    """The state with a turn of that role being said: the current one, or a new one after it."""
    if state.role == role:
        return state.after()
    if not state.role and role == "assistant":
        opening = turn_after(None, {"role": "user", "content": OPENING})
        return state.losing([NO_OPENING]).after(closed=opening, role=role)
    left = () if role == "user" else _waiting(state)
    return state.after(
        closed=state.finish(),
        role=role,
        results=None,
        said=None,
        open=() if left else state.open,
        unanswered=(*state.unanswered, *left),
    )


def _waiting(state: _State) -> tuple[str, ...]:
    return tuple(f"{each.call.name} ({each.id}) has no recorded result" for each in state.open)


THINKING = "thinking left out"
CITATIONS = "citations left out"
MEDIA = "media not sent"
SERVER_BLOCK = "server tool block sent as recorded"
AS_TEXT = "block of an unknown kind sent as text"

_TEXT = {"text", "input_text", "output_text", "refusal"}
_THOUGHT = {"thinking", "redacted_thinking", "reasoning"}
_MEDIA = {"image", "image_url", "input_image", "document", "file", "input_file", "audio"}
_MEDIA |= {"input_audio", "video", "data"}
_SERVER = re.compile(r"server_tool_use|(?:web|code|bash|text_editor|tool)_\w+_tool_result")
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.+)", re.S)
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


class Block(NamedTuple):
    """A block as it can be sent, None for nothing, and what was lost on the way."""

    body: dict[str, Any] | None
    loss: str | None = None


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def blocks(content: Json, *, without: str = "", inside: bool = False) -> Iterator[Block]:
    """The blocks of a `content` value (a text, a list of blocks, or nothing), one kind left out.

    `inside` a result or a system message, where a server's own blocks can only be text.
    """
    if content is None:
        return
    for entry in content if isinstance(content, list) else [content]:
        if not isinstance(entry, dict):
            yield _text_blocks(entry if isinstance(entry, str) else _json(entry))
        elif not without or entry.get("type") != without:
            found = block(entry)
            served = inside and found.loss == SERVER_BLOCK
            yield Block(text_block(_json(entry)), AS_TEXT) if served else found


def block(entry: dict[str, Any]) -> Block:
    """One block of any dialect."""
    named = entry.get("type")
    kind = named if isinstance(named, str) else None
    if kind in _TEXT or (kind is None and "text" in entry):
        said = _text_blocks(str(entry.get("text") or entry.get("refusal") or ""))
        return said._replace(loss=CITATIONS) if entry.get("citations") else said
    if kind in _THOUGHT:
        return Block(None, THINKING)
    if kind in _MEDIA:
        return _media(kind, entry)
    if kind == "search_result":
        return Block(_bare(entry))
    if kind is not None and _SERVER.fullmatch(kind):
        return Block(_bare(entry), SERVER_BLOCK)
    return Block(text_block(_json(entry)), AS_TEXT)


def _text_blocks(text: str) -> Block:
    """A text the API takes: it refuses empty ones."""
    return Block(text_block(text) if text.strip() else None)


def _bare(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "cache_control"}


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _media(kind: str, entry: dict[str, Any]) -> Block:
    """Media as base64 where it was recorded so; a reference to elsewhere is never followed."""
    source = entry.get("source")
    if isinstance(source, dict) and source.get("type") in {"base64", "text"}:
        return Block(_bare(entry))
    for read in _DATA:
        found = _DATA_URL.match(str(read(entry) or ""))
        if found is None:
            continue
        media_type, data = found.groups()
        shape = (
            "image" if media_type in _IMAGES
            else "document" if media_type == "application/pdf"
            else None
        )  # fmt: skip
        if shape is not None:
            inline = {"type": "base64", "media_type": media_type, "data": data}
            return Block({"type": shape, "source": inline})
    return Block(text_block(f"[{kind} not sent]"), MEDIA)


def _nested(entry: dict[str, Any], outer: str, inner: str) -> Json:
    held = entry.get(outer)
    return held.get(inner) if isinstance(held, dict) else held


_DATA: tuple[Callable[[dict[str, Any]], Json], ...] = (
    lambda entry: _nested(entry, "image_url", "url"),
    lambda entry: _nested(entry, "image", "url"),
    lambda entry: _nested(entry, "file", "file_data"),
    lambda entry: entry.get("document"),
)
"""Where the dialects keep a data URL."""
