"""A seeded corpus of agent traces: contexts that grow, prompts that are shared, words that vary.

35 spans a trace (17 model calls with their tool calls, one agent), like a small coding agent. Words
are drawn from a fixed list, so the text is neither all alike nor noise.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Fidelity,
    Header,
    Level,
    Message,
    ModelCall,
    Observation,
    Outcome,
    Request,
    Response,
    Tool,
    ToolCall,
    Usage,
    extend,
)

WORDS = """
order customer refund invoice retry cache index shard queue token parse error warning file line
module function test assert value result status shipped pending failed update commit branch merge
request response timeout server client header body query table column row
""".split()
TOOLS = tuple(
    Tool(name=name, description=f"{name} something in the shop", schema={"type": "object"})
    for name in ("get_order", "search", "refund", "run", "read_file", "write_file")
)
STEPS = 17


def batches(traces: int, *, seed: int = 7, steps: int = STEPS) -> Iterator[Batch]:
    """The traces of the corpus, one batch each."""
    for number in range(traces):
        yield trace(random.Random(f"{seed}/{number}"), f"corpus-{seed}-{number}", steps)


def trace(chance: random.Random, name: str, steps: int = STEPS, words: int = 60) -> Batch:
    """One trace of `2 * steps + 1` spans; `words` are in the message that all requests begin
    with."""
    system = _message("system", "You are a careful agent. " + "Keep to the rules. " * 80)
    context = extend(None, [_message("user", _words(chance, words))])
    clock = 1_700_000_000_000_000_000 + chance.randrange(10**15)
    spans: list[AnySpan] = [AgentSpan(id=f"{name}-a", name="agent", start_ns=clock)]
    for step in range(steps):
        asked, clock, context = _step(chance, name, step, clock, system, context)
        spans += asked
    outcome = Outcome(status=chance.choice(["passed", "failed"]), value=0.0, by="corpus")
    header = Header(
        format="arc", source_id=name, title=_words(chance, 6), task=f"task {chance.randrange(50)}",
        outcome=outcome,
    )  # fmt: skip
    return Batch(header=header, spans=tuple(spans), last=True)


def _step(
    chance: random.Random,
    name: str,
    step: int,
    clock: int,
    system: Message,
    context: Context | None,
) -> tuple[list[AnySpan], int, Context | None]:
    tool = chance.choice(TOOLS).name
    call = {"type": "tool_use", "id": f"c{step}", "name": tool, "input": {"q": _words(chance, 4)}}
    asks = _message("assistant", [{"type": "text", "text": _words(chance, 20)}, call])
    content = _words(chance, chance.choice([20, 80, 300]))
    result = _message(
        "user", [{"type": "tool_result", "tool_use_id": f"c{step}", "content": content}]
    )
    answered = clock + chance.randrange(10**9, 5 * 10**9)
    done = answered + chance.randrange(10**7, 10**9)
    depth = context.depth if context else 0
    ask = ModelCall(
        id=f"{name}-m{step}", name="chat", parent=f"{name}-a", start_ns=clock, end_ns=answered,
        request=Request(model="gpt-4o", system=system, tools=TOOLS, context=context),
        response=Response(message=asks, stop="tool"),
        usage=Usage(input_tokens=900 + 150 * depth, output_tokens=60),
        fidelity=Fidelity(level=Level.EXACT),
    )  # fmt: skip
    act = ToolCall(
        id=f"{name}-t{step}", name=tool, parent=f"{name}-a", start_ns=answered, end_ns=done,
        call_id=f"c{step}", asked_by=ask.id, arguments=call["input"],
        status="error" if chance.random() < 0.05 else "ok",
        observation=Observation(message=result, block=0),
    )  # fmt: skip
    return [ask, act], done, extend(context, [asks, result])


def _message(role: str, content: object) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": content})


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))
