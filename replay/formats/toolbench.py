"""ToolBench answers: a file of queries by id, each with a tree of turns; one trace a query.

A tool turn holds what the model called and what came back, in one; an assistant turn before it is
what the model said as it called, and alone a call of the model without one. Search methods go on
from earlier turns: the path to the final answer is the thread; where the search turned back, the
branches it left are kept beside it. How a run ended is its own word (`Finish`), not a verdict.

Evaluation files cut every message at a hundred characters: what is cut is marked, and its step's
request counts as not recorded. A tool turn's message is the Python text of `{'name': …,
'arguments': …, 'response': …}`, cut anywhere, so it is read literal by literal up to where it ends.
Only single string literals are evaluated, never a nested value: a hostile text costs no more than
its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import title_line, tool
from replay.formats.common import STRING, derived_id, known, listed, obj, string, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally
from replay.trace import (
    NO_SYSTEM,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    OtherSpan,
    Outcome,
    Place,
    Request,
    Tool,
    ToolCall,
)

NAME = "toolbench"
TITLE = "ToolBench answers"
FILES = ".json"
FIDELITY = (Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "usually the system prompt; evaluation files truncate every message"
VERIFIED = "real files"

_FIELDS = {"query", "available_tools", "answer"}
_ANSWER = {"method", "total_steps", "final_answer", "answer_details"}


def sniff(head: Head) -> bool:
    return head.starts(b"{") and head.has(rb'"query"\s*:', rb'"available_tools"\s*:\s*\[')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a query. Raises BadTrace where the document contains no answer by query id."""
    document = source.document()
    runs = document if isinstance(document, dict) else {}
    if not any(isinstance(run, dict) and "answer" in run for run in runs.values()):
        raise BadTrace(source.display, "", "contains no `answer` under a query id")
    for item, run in runs.items():
        if not isinstance(run, dict) or not isinstance(run.get("answer"), dict):
            tally.problem(f"#{item}", "has no answer")
            continue
        yield _run(item, run, source, tally)


def _run(item: str, run: dict[str, Any], source: Source, tally: Tally) -> Batch:
    answer = obj(run.get("answer"))
    for name in (run.keys() - _FIELDS) | (answer.keys() - _ANSWER):
        tally.unknown[name] += 1
    query, final = word(run.get("query")), word(answer.get("final_answer"))
    found = nodes(listed(answer.get("answer_details")))
    path = path_to(leaf_of_answer(found, final))
    tally.counts["traces"] += 1
    tally.counts["total_steps"] += len(found)
    tally.counts["tool_messages"] += sum(node.role == "tool" for node in found)
    root = derived_id(NAME, item, msgspec.json.encode([query, answer]).decode())
    teller = SpanBuilder(root=root, tools=_tools(run), query=query, final=final, tally=tally)
    for node in path:
        teller.build(node)
    teller.close()
    agent = AgentSpan(
        id=root,
        name=word(answer.get("method")) or "agent",
        time_quality="none",
        extra=known(method=answer.get("method"), total_steps=answer.get("total_steps")),
    )
    header = Header(
        format=NAME,
        source_id=root,
        item=item,
        path=source.display,
        title=title_line(query),
        task=item,
        variant=word(answer.get("method")),
        outcome=_outcome(finish(path, final)),
        labels={"recorded": CUT} if teller.cut else {},
    )
    return Batch(
        header=header, spans=(agent, *teller.spans(), *alternatives(found, path, root)), last=True
    )


def _tools(run: dict[str, Any]) -> tuple[Tool, ...] | None:
    declared = run.get("available_tools")
    return tuple(map(tool, declared)) if isinstance(declared, list) else None


def _outcome(ended: str | None) -> Outcome:
    """The run's own word: giving up is failing; an answer may be right or wrong."""
    if ended is None:
        return Outcome()
    gave_up = ended.startswith("give_up")
    return Outcome(status="failed" if gave_up else "unknown", value=ended, by="Finish")


# --- the tree of turns, and the run's way through it


class Node(Struct, frozen=True, eq=False, kw_only=True):
    """One turn. `reply` is what a tool turn holds, None for any other."""

    place: int
    role: str
    text: str
    reply: Reply | None = None
    parent: Node | None = None
    leaf: bool = False

    @property
    def ends(self) -> bool:
        """Does the turn end the run or this branch of it?"""
        return self.reply is not None and self.reply.name == "Finish"


def nodes(details: list[Json]) -> list[Node]:
    """Every node of the tree, each before what follows it."""
    found: list[Node] = []
    waiting: list[tuple[Json, Node | None]] = [(each, None) for each in reversed(details)]
    while waiting:
        value, parent = waiting.pop()
        raw = obj(value)
        role, text = word(raw.get("role")) or "", word(raw.get("message")) or ""
        after = listed(raw.get("next"))
        node = Node(
            place=len(found),
            role=role,
            text=text,
            reply=read_reply(text) if role == "tool" else None,
            parent=parent,
            leaf=not after,
        )
        found.append(node)
        waiting.extend((each, node) for each in reversed(after))
    return found


def leaf_of_answer(found: Sequence[Node], final: str | None) -> Node | None:
    """Where the run ended: the leaf that gave the final answer, the last that gave one, the last
    that ended at all, the last."""
    leaves = [node for node in found if node.leaf]
    ends = [node for node in leaves if node.ends]
    gave = [node for node in ends if node.reply and "give_answer" in (node.reply.arguments or "")]
    said = [node for node in ends if node.reply and node.reply.says(final)]
    for choice in (said, gave, ends, leaves):
        if choice:
            return choice[-1]
    return None


def path_to(leaf: Node | None) -> list[Node]:
    """The nodes from the root to a leaf."""
    path = [*_up(leaf)]
    path.reverse()
    return path


def _up(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


# --- the path as spans

CUT = "messages cut by the source"
WIDTH = 100
"""Characters at which evaluation files cut a message."""


class SpanBuilder:
    """Tells the nodes of one path. `cut` once something told was cut by the source."""

    def __init__(
        self,
        *,
        root: str,
        tools: tuple[Tool, ...] | None,
        query: str | None,
        final: str | None,
        tally: Tally,
    ) -> None:
        self.cut = False
        self._root, self._query, self._final, self._tally = root, query, final, tally
        self._thought: Node | None = None
        self._cut_calls: set[str] = set()
        self._thread = Thread(
            parent=root,
            request=Request(tools=tools),
            fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM,)),
            tally=tally,
        )

    def build(self, node: Node) -> None:
        if node.role == "assistant":
            self.close()
            self._thought = node
        elif node.role == "tool":
            self._acted(node)
        elif node.role == "system":
            self._prompted(node)
        else:
            self.close()
            words = self._user_words(node) if node.role == "user" else self._words(node)
            self._hear({"role": node.role or "user", "content": words}, node)

    def close(self) -> None:
        """A thought that no call follows is an answer of its own."""
        if self._thought is not None:
            self._say(self._thought, None, None)

    def spans(self) -> Iterator[AnySpan]:
        for span in self._thread.spans():
            cut = isinstance(span, ToolCall) and span.call_id in self._cut_calls
            yield structs.replace(span, extra={"cut": "arguments"}) if cut else span

    def _prompted(self, node: Node) -> None:
        if node.text:
            system = Message(
                dialect="openai", body={"role": "system", "content": self._words(node)}
            )
            self._thread.request = structs.replace(self._thread.request, system=system)

    def _user_words(self, node: Node) -> str:
        """The user's words; a cut query stands whole beside the tree."""
        if self._query is not None and node.text and self._query.startswith(node.text):
            return self._query
        return self._words(node)

    def _words(self, node: Node) -> str:
        """The words of a turn; as long as the source lets them be, they go on."""
        if len(node.text) != WIDTH:
            return node.text
        self.cut = True
        return node.text + MORE

    def _acted(self, node: Node) -> None:
        reply = node.reply
        if reply is None:
            self.close()
            self._tally.problem(f"turn {node.place}", "is not a readable call")
            self._hear({"role": "user", "content": self._words(node)}, node)
            return
        call_id = f"call_{node.place}"
        self._say(node, reply, call_id)
        if reply.response is None:
            return
        shown = reply.response + (MORE if reply.cut == "response" else "")
        self.cut = self.cut or reply.cut is not None
        body = {"role": "tool", "tool_call_id": call_id, "name": reply.name, "content": shown}
        self._hear(body, node)

    def _hear(self, body: dict[str, Any], node: Node) -> None:
        self._thread.add_message(
            Message(dialect="openai", body=body), place=Place(message=node.place)
        )

    def _say(self, node: Node, reply: Reply | None, call_id: str | None) -> None:
        thought, self._thought = self._thought, None
        self._thread.fidelity = self._known()
        body: dict[str, Any] = {"role": "assistant", "content": None}
        if thought is not None:
            body["content"] = self._words(thought)
        if reply is not None and call_id is not None:
            function = {"name": reply.name, "arguments": self._arguments(reply, call_id)}
            body["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        turn = Turn(id=derived_id(self._root, node.place), place=Place(message=node.place))
        self._thread.add_model_call(Message(dialect="openai", body=body), turn)

    def _arguments(self, reply: Reply, call_id: str) -> str:
        """The arguments as text; cut ones mended and marked, or whole from the final answer."""
        given = reply.arguments or ""
        if reply.cut != "arguments":
            return given
        whole = self._final if reply.name == "Finish" and reply.says(self._final) else None
        if whole is not None and parsed(whole) is not None:
            return whole
        self.cut = True
        self._cut_calls.add(call_id)
        return msgspec.json.encode(mended(whole or given)).decode()

    def _known(self) -> Fidelity:
        prompted = self._thread.request.system is not None
        reasons = () if prompted else (NO_SYSTEM,)
        if self.cut:
            return Fidelity(level=Level.NONE, reasons=(CUT, *reasons))
        return Fidelity(level=Level.PARTIAL if reasons else Level.REBUILT, reasons=reasons)


def finish(path: Sequence[Node], final: str | None) -> str | None:
    """The `return_type` with which the path ended, None where it did not say."""
    reply = path[-1].reply if path and path[-1].ends else None
    if reply is None:
        return None
    given = reply.arguments or ""
    whole = final if final and reply.says(final) else given
    value = parsed(whole)
    return word(obj(mended(whole) if value is None else value).get("return_type"))


def alternatives(found: Sequence[Node], path: Sequence[Node], root: str) -> Iterator[OtherSpan]:
    """The branches that the search left, one span each: after which turn, and what was in it."""
    taken = {node.place for node in path}
    branch_of: dict[int, int] = {}
    turns: dict[int, list[Node]] = {}
    for node in found:
        if node.place in taken:
            continue
        above = node.parent.place if node.parent is not None else None
        start = branch_of.get(above, node.place) if above is not None else node.place
        branch_of[node.place] = start
        turns.setdefault(start, []).append(node)
    for branch in turns.values():
        first = branch[0]
        yield OtherSpan(
            id=derived_id(root, "alternative", first.place),
            name=first.reply.name if first.reply is not None else first.role,
            parent=root,
            time_quality="none",
            place=Place(message=first.place),
            operation="alternative",
            extra={
                "after": first.parent.place if first.parent is not None else None,
                "turns": [{"place": n.place, "role": n.role, "message": n.text} for n in branch],
            },
        )


# --- a tool turn's message

MORE = "…"
"""Stands at the end of what the source cut."""

_KEY = re.compile(r"\s*[{,]\s*(?:'(\w+)'|\"(\w+)\")\s*:\s*")
_ENDINGS = (f'{MORE}"}}', f'{MORE}"]}}', f'{MORE}"}}}}', "}", "]}", "}}")
_OPEN = re.compile(r"[\w.+-]\s*$")


class Reply(Struct, frozen=True, kw_only=True):
    """What a tool turn holds; `arguments` is JSON text.

    `cut` names the field at which the source cut the message; what comes after it is None.
    """

    name: str
    arguments: str | None = None
    response: str | None = None
    cut: str | None = None

    def says(self, final: str | None) -> bool:
        """Are these arguments, as far as they are there, the run's final answer?"""
        return bool(final and self.arguments and final.startswith(self.arguments))


def read_reply(message: str) -> Reply | None:
    """The parts of a tool message, None where it is no such text."""
    fields: dict[str, str] = {}
    at = 0
    cut: str | None = None
    while (key := _KEY.match(message, at)) is not None:
        name = key[1] or key[2]
        literal = STRING.match(message, key.end())
        if literal is None:
            fields[name], was_cut = _rest(message[key.end() :])
            cut = name if was_cut else None
            break
        fields[name] = string(literal[0]) or ""
        at = literal.end()
    else:
        cut = None if message[at:].strip() == "}" else _next(fields)
    if not fields.get("name") or cut == "name":
        return None
    return Reply(
        name=fields["name"],
        arguments=fields.get("arguments"),
        response=fields.get("response"),
        cut=cut,
    )


def _next(fields: dict[str, str]) -> str:
    """The field that a cut between two of them has taken whole."""
    return "response" if "arguments" in fields else "arguments"


def _rest(text: str) -> tuple[str, bool]:
    """A value that is no whole string literal: (what of it is there, was it cut)."""
    if text[:1] not in ("'", '"'):  # not a string: kept as it is written
        return text.rstrip().removesuffix("}"), not text.rstrip().endswith("}")
    for short in range(min(10, len(text))):  # an escape may be cut in two
        value = string(text[: len(text) - short] + text[0])
        if value is not None:
            return value, True
    return "", True


def parsed(arguments: str) -> Json | None:
    """The JSON value of an arguments text, None where it is none."""
    try:
        return from_text(arguments or "{}")
    except msgspec.DecodeError:
        return None


def mended(arguments: str) -> dict[str, Json]:
    """What is there of arguments that the source cut: whole members, and the text begun last with
    MORE at its end. A number or word begun last is left out, for its end is unknown."""
    text = arguments
    while text:
        for ending in _ENDINGS:
            if ending[0] != MORE and _OPEN.search(text):
                break
            value = parsed(text + ending)
            if isinstance(value, dict):
                return value
        text = text.rpartition(",")[0]
    return {}
