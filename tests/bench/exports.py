"""A seeded corpus as a collector writes it: OTLP JSON, an export a line, agents side by side.

A trace has 35 spans (17 model calls, the tool calls between them, their agent), and each call is
recorded with all that was said before it, so that most of the file is said many times. One trace
is a tenth of the file. Words fall off in frequency as those of a language do; tool results have
paths and numbers among them, and a few have a secret. `python -m tests.bench.exports FILE` writes
it and says how much of it is said once.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Json = Any

MEGABYTES = 1000
STEPS = 17
SPANS_OF_EXPORT = 64
AGENTS_AT_ONCE = 8
SECRET_EACH = 400
"""One result in so many holds a secret."""

_TRACE_BYTES = 350_000
_HUGE_STEPS_OF = 0.34
"""Steps of the huge trace by the root of the file's size in kilobytes: its contexts add up with
the square of its steps."""

LONG_STEPS = 5000
WINDOW = 40
"""Messages that the agent of the long trace is shown at a step: the latest."""

_encode = msgspec.json.Encoder().encode


class Corpus(NamedTuple):
    """What was written. `unique_bytes` are what is said, each distinct message counted once."""

    traces: int
    spans: int
    bytes: int
    largest_span_bytes: int
    unique_bytes: int

    @property
    def unique(self) -> float:
        """The share of the file that is said for the first time."""
        return self.unique_bytes / self.bytes


def write(path: Path, megabytes: int = MEGABYTES, seed: int = 7) -> Corpus:
    """Write about so many megabytes."""
    speaker = Speaker(seed)
    written = [_Trace(speaker, seed, 0, round(_HUGE_STEPS_OF * (megabytes * 1000) ** 0.5))]
    traces = round(megabytes * 1e6 * 0.9 / _TRACE_BYTES)
    spans = largest = 0
    with path.open("wb") as out:
        running = iter([*written, *(_Trace(speaker, seed, n, STEPS) for n in range(1, traces))])
        while together := list(islice(running, AGENTS_AT_ONCE)):
            ended = sorted((span for trace in together for span in trace.spans()), key=_end)
            spans += len(ended)
            for start in range(0, len(ended), SPANS_OF_EXPORT):
                lines = [data for _, data in ended[start : start + SPANS_OF_EXPORT]]
                largest = max(largest, *map(len, lines))
                out.write(_BEFORE + b",".join(lines) + _AFTER)
    return Corpus(traces, spans, path.stat().st_size, largest, speaker.unique_bytes)


def write_one(path: Path, steps: int = LONG_STEPS, seed: int = 7) -> Corpus:
    """Write one long trace, of an agent that is shown the latest messages only."""
    speaker = Speaker(seed)
    spans = largest = 0
    with path.open("wb") as out:
        running = _Trace(speaker, seed, 0, steps, WINDOW).spans()
        while lines := [data for _, data in islice(running, SPANS_OF_EXPORT)]:
            spans += len(lines)
            largest = max(largest, *map(len, lines))
            out.write(_BEFORE + b",".join(lines) + _AFTER)
    return Corpus(1, spans, path.stat().st_size, largest, speaker.unique_bytes)


_RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "corpus"}}]}
_BEFORE = (
    b'{"resourceSpans":[{"resource":' + _encode(_RESOURCE)
    + b',"scopeSpans":[{"scope":{"name":"corpus","version":"1"},"spans":['
)  # fmt: skip
_AFTER = b"]}]}]}\n"


def _end(span: tuple[int, bytes]) -> int:
    return span[0]


class Speaker:
    """Says things, and counts what was said for the first time."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        lengths = range(2, 11)
        self._words = [
            "".join(self._chance.choices(letters, k=self._chance.choice(lengths)))
            for _ in range(20_000)
        ]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))
        self.unique_bytes = 0

    def words(self, count: int) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=count))

    def path(self) -> str:
        return "src/" + "/".join(self._chance.choices(self._words, k=2)) + ".py"

    def number(self, below: int) -> int:
        return self._chance.randrange(below)

    def result(self) -> str:
        """What a tool returned: lines with a place and some words, of very unequal length."""
        lines = [
            f"{self.path()}:{self.number(900)}: {self.words(14)}"
            for _ in range(self._chance.choice((2, 4, 8, 30)))
        ]
        if not self.number(SECRET_EACH):
            lines.append(f"export API_KEY=sk-live-{self.number(10**18):024x}abc")
        return "\n".join(lines)

    def message(self, role: str, *parts: Json) -> bytes:
        """A message in the shape of the GenAI conventions."""
        said = _encode({"role": role, "parts": parts})
        self.unique_bytes += len(said)
        return said


class _Trace:
    """One agent's run. With a `window` it is shown that many of the latest messages."""

    def __init__(
        self, speaker: Speaker, seed: int, number: int, steps: int, window: int | None = None
    ) -> None:
        self._speaker = speaker
        self._steps = steps
        self._window = window
        self._id = f"{seed:08x}{number:024x}"
        self._spans = 0

    def spans(self) -> Iterator[tuple[int, bytes]]:
        """(end, span) of each span, in the order of their ends."""
        say = self._speaker
        clock = began = 1_700_000_000_000_000_000 + say.number(10**15)
        agent = self._name()
        asked = [say.message("user", {"type": "text", "content": say.words(60)})]
        for step in range(self._steps):
            call: dict[str, Json] = {"type": "tool_call", "id": f"call_{step}", "name": "search"}
            call |= {"arguments": {"query": say.words(4), "path": say.path()}}
            answer = say.message("assistant", {"type": "text", "content": say.words(25)}, call)
            ended = clock + say.number(4 * 10**9) + 10**9
            yield self._span(agent, "chat gpt-4o", clock, ended, _call(step, asked, answer))
            found = say.result()
            result = {"type": "tool_call_response", "id": f"call_{step}", "response": found}
            asked += [answer, say.message("tool", result)]
            del asked[: -self._window if self._window else 0]
            clock = ended + say.number(10**9) + 10**7
            acted = _act(call, found)
            yield self._span(agent, "execute_tool search", ended, clock, acted)
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "corpus"}
        yield self._span(None, "invoke_agent corpus", began, clock, about, agent)

    def _name(self) -> str:
        self._spans += 1
        return f"{self._id[-8:]}{self._spans:08x}"

    def _span(
        self,
        parent: str | None,
        name: str,
        start: int,
        end: int,
        about: dict[str, Json],
        id: str | None = None,
    ) -> tuple[int, bytes]:
        span: dict[str, Json] = {"traceId": self._id, "spanId": id or self._name()}
        if parent is not None:
            span["parentSpanId"] = parent
        span |= {"name": name, "kind": 3 if parent else 1}
        span |= {"startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
        span["attributes"] = [{"key": key, "value": _typed(value)} for key, value in about.items()]
        return end, _encode(span | {"status": {"code": 1}})


def _call(step: int, asked: list[bytes], answer: bytes) -> dict[str, Json]:
    """What is recorded of a model call."""
    told = b"[" + b",".join(asked) + b"]"
    said = b'[{"finish_reason":"tool_call",' + answer[1:] + b"]"
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.id": f"chatcmpl-{step}",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.usage.input_tokens": 800 + len(told) // 4,
        "gen_ai.usage.output_tokens": len(answer) // 4,
        "gen_ai.system_instructions": _SYSTEM,
        "gen_ai.tool.definitions": _TOOLS,
        "gen_ai.input.messages": told.decode(),
        "gen_ai.output.messages": said.decode(),
    }


_SYSTEM = _encode(
    [{"type": "text", "content": "You are a careful agent. " + "Keep to the rules. " * 60}]
).decode()
_TOOLS = _encode(
    [
        {
            "type": "function",
            "name": "search",
            "description": "Lines of the project that hold a text.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "path": {"type": "string"}},
            },
        }
    ]
).decode()


def _act(call: dict[str, Json], result: str) -> dict[str, Json]:
    """What is recorded of a tool call."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call["name"],
        "gen_ai.tool.call.id": call["id"],
        "gen_ai.tool.call.arguments": _encode(call["arguments"]).decode(),
        "gen_ai.tool.call.result": result,
    }


def _typed(value: Json) -> Json:
    """A value as OTLP has it, its type beside it."""
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value}


def main() -> None:
    asked = argparse.ArgumentParser(description="Write a corpus of agent runs as OTLP JSON.")
    asked.add_argument("file", type=Path)
    asked.add_argument("--mb", type=int, default=MEGABYTES, help="how large, in megabytes")
    asked.add_argument("--seed", type=int, default=7)
    given = asked.parse_args()
    made = write(given.file, given.mb, given.seed)
    print(
        f"{made.traces} traces, {made.spans} spans, {made.bytes / 1e6:.0f} MB,"
        f" largest span {made.largest_span_bytes / 1e6:.2f} MB, said once {made.unique:.1%}"
    )


if __name__ == "__main__":
    main()
