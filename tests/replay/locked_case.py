"""A small recorded run, and a model that really reads its prompt: the ground of replay tests.

Step 0 greets, step 1 refunds an amount nobody named (the break), step 2 reports, step 3 looks an
order up, step 4 reports. The model refunds at once unless its prompt says to verify.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replay.compare.rules import PLAIN
from replay.edit.changes import Edit, SetSystem
from replay.errors import ModelRefused
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Tally
from replay.locked.row import LOOK, Models, Sampling
from replay.locked.run import Core, core, replay
from replay.locked.tally import StepResult
from replay.models.cached import Cached
from replay.store import read
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Level,
    Message,
    Request,
    Response,
    Tool,
    Trace,
    Usage,
)
from tests.messages_api import Body, message, text, tool_use

BREAK = 1
SYSTEM = "You refund orders. Act at once."
VERIFY = "You refund orders. Always verify before acting."
ORDER = {"type": "object", "properties": {"order_id": {}}, "required": ["order_id"]}
TOOLS = (
    Tool(name="get_order", description="Look an order up.", schema=ORDER),
    Tool(name="refund_order", description="Refund an order.", schema=ORDER),
)
EXACT = Fidelity(level=Level.EXACT)
USAGE = Usage(input_tokens=1000, output_tokens=50)

Say = tuple[str, Any]
"""(role, content) of one message."""

DIALOGUE: tuple[Say, ...] = (
    ("user", "Hello"),
    ("assistant", "Hello, how can I help?"),
    ("user", "Refund order 1042, it broke."),
    ("assistant", [tool_use("refund_order", order_id=1042, amount=100)]),
    ("result", '{"refunded": 100}'),
    ("assistant", "It is done: 100."),
    ("user", "And where is order 7?"),
    ("assistant", [tool_use("get_order", order_id=7)]),
    ("result", '{"status": "shipped"}'),
    ("assistant", "It is done: shipped."),
)


class Tiny:
    """A model in three lines of thought. `bodies` is all it was asked, `dies_at` kills the process
    there."""

    name = "tiny"

    def __init__(self, dies_at: int | None = None) -> None:
        self.bodies: list[Body] = []
        self._dies_at = dies_at

    @property
    def asked(self) -> int:
        return len(self.bodies)

    def complete(self, body: Body, sample: int) -> Body:
        if self.asked == self._dies_at:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        self.bodies.append(body)
        return think(body)


def think(body: Body) -> Body:
    """What the tiny model answers."""
    last = body["messages"][-1]["content"]
    if isinstance(last, list) and last[0]["type"] == "tool_result":
        found = re.findall(r'(\d+|\w+)"?}', str(last[0]["content"]))
        return message(text(f"It is done: {found[-1]}."), model="tiny")
    said = last if isinstance(last, str) else last[-1]["text"]
    number = re.search(r"\d+", said)
    if number is None:
        return message(text("Hello, how can I help?"), model="tiny")
    careful = "verify" in str(body.get("system")) or "verify" in str(body.get("tools"))
    if "Refund" in said and not careful:
        act = tool_use("refund_order", order_id=int(number.group()), amount=100)
    else:
        act = tool_use("get_order", order_id=int(number.group()))
    return message(act, model="tiny")


class Moody:
    """The tiny model, but in every `period`-th sample it looks an order up instead of acting."""

    name = "tiny"

    def __init__(self, period: int) -> None:
        self.asked: list[int] = []
        self._period = period

    def complete(self, body: Body, sample: int) -> Body:
        self.asked.append(sample)
        if sample % self._period == self._period - 1:
            return message(tool_use("get_order", order_id=1042), model="tiny")
        return think(body)


class Fixed:
    """A model that gives one answer, or raises one error, whatever it is asked."""

    name = "tiny"

    def __init__(self, answer: Any, after: int = 0) -> None:
        self.asked = 0
        self._answer = answer
        self._after = after

    def complete(self, body: Body, sample: int) -> Body:
        self.asked += 1
        if self.asked <= self._after:
            return think(body)
        if isinstance(self._answer, ModelRefused):
            raise self._answer
        answer: Body = self._answer
        return answer


def request(**beside: Any) -> Request:
    system = Message(dialect="anthropic", body={"role": "system", "content": SYSTEM})
    return Request(**{"model": "tiny", "system": system, "tools": TOOLS, **beside})


def spans(
    said: Sequence[Say] = DIALOGUE,
    *,
    root: str = "root",
    parent: str | None = None,
    asking: Request | None = None,
    fidelity: Fidelity = EXACT,
    model: str | None = "tiny",
) -> list[AnySpan]:
    """The spans of a dialogue; a result answers the call before it."""
    thread = Thread(
        parent=root, request=asking or request(model=model), fidelity=fidelity, tally=Tally()
    )
    for at, (role, content) in enumerate(said):
        if role == "result":
            block = {"type": "tool_result", "tool_use_id": "toolu_test", "content": content}
            thread.add_message(
                Message(dialect="anthropic", body={"role": "user", "content": [block]})
            )
        elif role == "assistant":
            thread.add_model_call(
                Message(dialect="anthropic", body={"role": "assistant", "content": content}),
                Turn(id=f"{root}-{at}", usage=USAGE, response=Response(model=model)),
            )
        else:
            thread.add_message(
                Message(dialect="anthropic", body={"role": role, "content": content})
            )
    return [AgentSpan(id=root, name=root, parent=parent), *thread.spans()]


def stored(store: Store, all_spans: Sequence[AnySpan] | None = None, id: str = "case") -> Trace:
    """The trace of the spans, through the database and back."""
    writer = Writer(store)
    given = tuple(all_spans if all_spans is not None else spans())
    key = writer.write(Batch(header=Header(format="test", source_id=id), spans=given, last=True))
    writer.finish(key)
    return read.load(store, key)


def tiny(store: Store, model: Any = None) -> Cached:
    """The tiny model behind its stored answers."""
    return Cached(store, "tiny", model or Tiny())


def run(
    trace: Trace, edit: Edit | None, model: Cached, sampling: Sampling = LOOK, **beside: Any
) -> list[StepResult]:
    """The steps of a replay by one model, each as it ended."""
    going = replay(trace, edit, Models.one(model), sampling=sampling, **beside)
    rows = {row.step: row for row in going}
    return [rows[step] for step in sorted(rows)]


def core_of(
    trace: Trace, edit: Edit | None, rows: Sequence[StepResult], sampling: Sampling = LOOK
) -> Core:
    """What those steps come to, of the tiny model."""
    with Store.open(":memory:") as store:
        models = Models.one(Cached(store, "tiny"))
        return core(trace, edit, models, rows, sampling=sampling, steps=None, rules=PLAIN)


def _no_sockets(event: str, _: tuple[Any, ...]) -> None:
    if event.startswith("socket."):
        raise AssertionError(event)


def _main() -> None:
    """`python -m tests.replay.locked_case DB TRACE [DIES_AT]`: a replay in its own process.

    Without DIES_AT nothing may be asked and no socket opened. Prints the digest, then what was
    loaded of the packages that only a live call needs.
    """
    path, key, *dies_at = sys.argv[1:]
    if not dies_at:
        sys.addaudithook(_no_sockets)
    edit = Edit(name="verify", changes=(SetSystem(VERIFY),))
    with Store.open(Path(path)) as store:
        trace = read.load(store, key)
        inner = Tiny(int(dies_at[0])) if dies_at else None
        rows = run(trace, edit, Cached(store, "tiny", inner))
        print(core_of(trace, edit, rows).digest)
        print(*sorted({"anthropic", "httpx2", "textual", "genai_prices"} & set(sys.modules)))


if __name__ == "__main__":
    _main()
