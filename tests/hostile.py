"""A small run in every format, and what a hostile file may hold where one of its values stands.

A place is the way to a value inside the run; what is put there is JSON as bytes, because much of
it no encoder would write.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from replay.formats import arc
from tests.replay import otlp_case as otlp
from tests.replay import test_amazon_q as amazon_q
from tests.replay import test_atif as atif
from tests.replay import test_bloom as bloom
from tests.replay import test_codex as codex
from tests.replay import test_formats as chats
from tests.replay import test_gemini_cli as gemini_cli
from tests.replay import test_goose as goose
from tests.replay import test_langfuse as langfuse
from tests.replay import test_langsmith as langsmith
from tests.replay import test_mini_swe_agent as mini_swe_agent
from tests.replay import test_mlflow as mlflow
from tests.replay import test_openai_agents as openai_agents
from tests.replay import test_openclaw as openclaw
from tests.replay import test_opencode as opencode
from tests.replay import test_openhands as openhands
from tests.replay import test_openinference as openinference
from tests.replay import test_swe_agent as swe_agent
from tests.replay import test_tau2 as tau2
from tests.replay import test_vscode_chat as vscode_chat
from tests.replay import test_weave as weave
from tests.replay import test_whowhen as whowhen
from tests.replay.recorded import RECORDED
from tests.replay.test_anthropic_log import talk
from tests.replay.test_claude_code import Session, call, result, words
from tests.replay.test_inspect import CONVERSATION, SPEC, asks, model, sample, says, tool
from tests.replay.test_store import batch, spans
from tests.replay.test_toolbench import ends, ran, turn

Value = Any
Way = tuple[Any, ...]


def _claude_code() -> list[Value]:
    own = Session()
    own.user("a", "Where is order 7?")
    own.answer("b", "m1", words("I look."), call("t1", command="ls"))
    own.user("c", [result("t1", "shipped")])
    own.answer("d", "m2", words("Shipped."), fields={"costUSD": 0.01, "durationMs": 7})
    own.add("result", "e", subtype="success", total_cost_usd=0.02, duration_ms=9, num_turns=2)
    return list(own.lines)


def _inspect() -> list[Value]:
    events = [
        model(0, CONVERSATION[:2], asks("c1"), uuid="m1"),
        tool(2, "c1", "here", uuid="t1"),
        model(4, CONVERSATION, says("Here."), uuid="m2"),
    ]
    own = sample(events, scores={"match": {"value": "C", "answer": "7"}}, metadata={"shop": 7})
    return [{"version": 2, "status": "success", "eval": SPEC, "samples": [own]}]


def _toolbench() -> list[Value]:
    way = ran("quizzes", '{"page": 1}', "[]", turn("assistant", "Done.", ends("give_answer", "7")))
    details = [turn("system", "", turn("user", "Which", way))]
    tools = [{"name": "quizzes", "parameters": {"type": "object"}}]
    answer = {"method": "m", "total_steps": 3, "final_answer": "7", "answer_details": details}
    return [{"17": {"query": "Which?", "available_tools": tools, "answer": answer}}]


def _tau_bench() -> list[Value]:
    task = {"user_id": "mia", "actions": [{"name": "get", "kwargs": {"id": 7}}], "outputs": []}
    info = {"task": task, "reward_info": {"reward": 1.0}}
    return [[{"task_id": 3, "trial": 0, "reward": 1.0, "info": info, "traj": chats.CHAT}]]


CLINE = RECORDED / "cline" / "1795489038937_l4bcm" / "1795489038937_l4bcm.messages.json"


def _recorded(name: str) -> Callable[[], list[Value]]:
    """The values of a session that an agent recorded itself."""
    text = (RECORDED / name).read_text()
    return lambda: [json.loads(line) for line in text.splitlines()]


SEEDS: dict[str, Callable[[], list[Value]]] = {
    "arc": lambda: [json.loads(line) for line in arc.write([batch(*spans())])],
    "inspect": _inspect,
    "atif": lambda: [atif.HARD],
    "claude-code": _claude_code,
    "codex": lambda: codex.WHOLE,
    "cline": lambda: [json.loads(CLINE.read_text())],
    "copilot-cli": _recorded("copilot-cli.jsonl"),
    "gemini-cli": lambda: gemini_cli.LOG,
    "goose": lambda: [goose.ABOUT, *goose.TALK],
    "amazon-q": lambda: [amazon_q.CONVERSATION],
    "vscode-chat": lambda: [vscode_chat.SESSION],
    "opencode": lambda: [opencode.WHOLE],
    "openclaw": lambda: openclaw.CHAT,
    "anthropic": talk,
    "otlp": lambda: [otlp.spans(otlp.AGENT, otlp.FIRST, otlp.RUN, otlp.LAST)],
    "openinference": lambda: [
        [openinference.AGENT, openinference.FIRST, openinference.RUN, openinference.SECOND]
    ],
    "langfuse": lambda: [langfuse.TRACE],
    "openai-agents": lambda: openai_agents.LINES,
    "mlflow": lambda: [mlflow.TRACE],
    "langsmith": lambda: langsmith.LINES,
    "weave": lambda: weave.LINES,
    "swe-agent": lambda: [swe_agent.RUN],
    "mini-swe-agent": lambda: [mini_swe_agent.RUN],
    "openhands": lambda: [openhands.RUN],
    "whowhen": lambda: [whowhen.CHAT],
    "toolbench": _toolbench,
    "bloom": lambda: [bloom.WHOLE],
    "tau2": lambda: [tau2.RESULTS],
    "tau-bench": _tau_bench,
    "chat": lambda: [chats.CHAT],
}
"""The values of a file by format: one a line, or one document. Formats that are no JSON have tests
of their own."""


def _nested(opening: bytes, depth: int, closing: bytes, inside: bytes = b"7") -> bytes:
    return opening * depth + inside + closing * depth


def _text(data: bytes) -> bytes:
    return json.dumps(data.decode()).encode()


HUGE: dict[str, bytes] = {
    "309 digits": b"9" * 309,
    "less than nothing by 400 digits": b"-" + b"9" * 400,
    "5 000 digits": b"1" * 5_000,
    "less than nothing by 5 000 digits": b"-" + b"1" * 5_000,
    "beyond every number": b"1e999",
    "below every number": b"-1e999",
    "the largest float": b"1.7976931348623157e308",
    "2^64": b"18446744073709551616",
    "before all time": b"-99999999999999999999",
}
"""Numbers that a field of a number may be given, and that no column, float or clock can hold."""

SECRET = b'{"password":"hunter22","note":"aws_secret token"}'

ODD: dict[str, bytes] = {
    "10 000 lists": _nested(b"[", 10_000, b"]"),
    "10 000 objects": _nested(b'{"a":', 10_000, b"}"),
    "400 objects with a secret": _nested(b'{"password":', 400, b"}", SECRET),
    "90 objects with a secret": _nested(b'{"cookie":', 90, b"}", SECRET),
    "190 objects in lists": _nested(b'[{"a":', 95, b"}]", SECRET),
    "text of 450 objects": _text(_nested(b'{"a":', 450, b"}", SECRET)),
    "text of 5 000 lists": _text(_nested(b"[", 5_000, b"]")),
    "text of a python list": _text(_nested(b"[", 900, b"]", b"'a'")),
    "half a character": b'"\\ud800 x"',
    "half a character in a text of JSON": b'"{\\"a\\": \\"\\\\ud800\\"}"',
    "half a character in a text of Python": b"\"{'a': '\\\\ud800'}\"",
    "zero byte": b'"a\\u0000b"',
    "no character": b'"\xff\xfe\xed\xa0\x80"',
    "no number": b"NaN",
    **HUGE,
    "a text of 400 digits": b'"' + b"9" * 400 + b'"',
    "JSON of 400 digits in a text": b'"{\\"a\\": ' + b"9" * 400 + b'}"',
    "a moment before year 1": b'"0001-01-01T00:00:00+23:59"',
    "a moment of year 0": b'"0000-00-00T00:00:00Z"',
    "a moment of year 9999": b'"9999-12-31T23:59:59.999999999Z"',
    "nothing": b"null",
    "an empty list": b"[]",
    "an empty object": b"{}",
    "lists of objects of lists": b'[[{"type":["text"],"role":{}}],{"id":[1],"content":[[]]}]',
}


def many(names: int) -> bytes:
    """An object of so many fields."""
    return json.dumps({f"field.{at}": at for at in range(names)}).encode()


def long(size: int) -> bytes:
    """A text of so many bytes, of what the rules for secrets look at closely."""
    piece = "-----BEGIN a token= aws: bearer 4111 " + "x" * 60
    return json.dumps((piece * (size // len(piece) + 1))[:size]).encode()


def places(value: Value, above: Way = ()) -> Iterator[Way]:
    """The way to every value inside of this one."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in inside:
        yield (*above, name)
        if isinstance(each, (dict, list)):
            yield from places(each, (*above, name))


_HERE = "put it here"


def put(values: list[Value], place: Way, odd: bytes) -> bytes:
    """The file with the bytes in one place."""
    changed = copy.deepcopy(values)
    *way, last = place
    target: Any = changed
    for name in way:
        target = target[name]
    target[last] = _HERE
    return written(changed).replace(json.dumps(_HERE).encode(), odd)


def written(values: list[Value]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in values) + b"\n"


_ID = re.compile(r"(^|_|[a-z])(id|Id|ID|uuid|Uuid|parent|parentId)$")


def same_ids(values: list[Value]) -> bytes:
    """The file with every id, and every name of a parent, the same: duplicates, and circles."""
    return written([_renamed(each, lambda _: "x") for each in values])


def crossed_ids(values: list[Value]) -> bytes:
    """The file with the ids handed on to the next that asks: parents that come later, circles."""
    found: list[str] = []

    def other(value: str) -> str:
        found.append(value)
        return found[len(found) * 7 // 11 - 1]

    return written([_renamed(each, other) for each in values])


def twice(values: list[Value]) -> bytes:
    """The file with everything said twice."""
    return written([*values, *values])


_TURNED = {b"start": b"end", b"Start": b"End", b"created": b"completed"}
_TURNED |= {after: before for before, after in _TURNED.items()}


def backwards(values: list[Value]) -> bytes:
    """The file with its last line first, and ends before beginnings."""
    return re.sub(b"|".join(_TURNED), lambda word: _TURNED[word[0]], written(values[::-1]))


_CLOCK = re.compile(r"time|start|end|created|updated|completed|timestamp|date|_at$", re.I)
_HOUR = re.compile(r"T\d\d:")


def apart(values: list[Value]) -> bytes:
    """The file with clocks that are hours, days and years apart, and one that runs backwards."""
    found: list[str] = []

    def told(value: Value, named: str) -> Value:
        if isinstance(value, dict):
            return {name: told(each, str(name)) for name, each in value.items()}
        if isinstance(value, list):
            return [told(each, named) for each in value]
        if isinstance(value, bool) or not _CLOCK.search(named):
            return value
        found.append(named)
        if isinstance(value, (int, float)):
            return value + (-1) ** len(found) * abs(value) // (3 * len(found))
        if isinstance(value, str):
            year = f"{1970 + len(found) * 37 % 80}{value[4:]}" if value[:4].isdigit() else value
            return _HOUR.sub(f"T{23 - len(found) % 24:02}:", year)
        return value

    return written([told(each, "") for each in values])


SHAPES: dict[str, Callable[[list[Value]], bytes]] = {
    "the same ids": same_ids,
    "ids handed on": crossed_ids,
    "everything twice": twice,
    "backwards": backwards,
    "clocks apart": apart,
    "without an end": lambda values: written(values)[:-40],
    "after a zero byte": lambda values: b"\0" + written(values),
    "after a mark": lambda values: b"\xef\xbb\xbf" + written(values),
    "in UTF-16": lambda values: written(values).decode().encode("utf-16"),
    "with a broken line": lambda values: b'{"a": \xff\n' + written(values),
}


def _renamed(value: Value, other: Callable[[str], str]) -> Value:
    if isinstance(value, list):
        return [_renamed(each, other) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: other(each)
        if isinstance(each, str) and _ID.search(str(name))
        else _renamed(each, other)
        for name, each in value.items()
    }
