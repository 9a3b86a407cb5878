"""The tries of a check-up: shapes of requests, thinking, what is counted and cheaper, and their
outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from replay.convert import takes_sampling
from replay.doctor import context
from replay.doctor.context import Body, CheckContext, ServerCheck
from replay.errors import RequestRefused
from replay.models.protocol import with_cache_marker

Outcome = Literal["holds", "fails", "unclear", "not run"]


class Found(Struct, frozen=True, kw_only=True):
    """`check` is the id of an assumption, `finding` one line of what was seen.

    `unclear`: it was tried, and what came back says neither yes nor no.
    """

    check: str
    outcome: Outcome
    finding: str


class Probe(NamedTuple):
    """What tries some assumptions. `likely` are the requests it will probably send."""

    checks: tuple[str, ...]
    run: Callable[[Any], Iterator[Found]]
    likely: Callable[[str], list[Body]]


def holds(check: str, finding: str) -> Found:
    return Found(check=check, outcome="holds", finding=finding)


def fails(check: str, finding: str) -> Found:
    return Found(check=check, outcome="fails", finding=finding)


def unclear(check: str, finding: str) -> Found:
    return Found(check=check, outcome="unclear", finding=finding)


def tried(desk: ServerCheck, body: Body) -> Body | RequestRefused:
    """The answer to a request, or how this one request was declined."""
    try:
        return desk.ask(body)
    except RequestRefused as refused:
        return refused


def input_tokens(answer: Body) -> int:
    """The whole input an answer is billed for, read from the cache or not."""
    return sum(used(answer, name) for name in _INPUT)


def used(answer: Body, name: str) -> int:
    """One figure of the usage; 0 where it is not said."""
    figure = (answer.get("usage") or {}).get(name)
    return figure if type(figure) is int else 0


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


COUNT_TOLERANCE = 0.02

_WRITTEN, _READ = "cache_creation_input_tokens", "cache_read_input_tokens"


def _token_count(desk: CheckContext) -> Iterator[Found]:
    check, body = "token_count", context.called(desk.model)
    try:
        counted = desk.count_tokens(body)
    except RequestRefused as refused:
        yield fails(check, f"rejected: {refused.message}")
        return
    if counted is None:
        yield fails(check, "the server has no token counting")
        return
    answer = tried(desk, body)
    if isinstance(answer, RequestRefused):
        yield unclear(check, f"counted {counted}, but the request was rejected: {answer.message}")
        return
    billed = input_tokens(answer)
    said = f"counted {counted}, billed {billed}"
    agrees = abs(counted - billed) <= COUNT_TOLERANCE * billed
    yield holds(check, said) if agrees else fails(check, said)


def _prefix_cache(desk: CheckContext) -> Iterator[Found]:
    """The same marked prefix twice, then one that goes on from it, as replay would ask them."""
    first = context.log(desk.model, desk.began_ns)
    extended = context.log_extended(desk.model, desk.began_ns)
    written, again, longer = (
        desk.ask(with_cache_marker(body)) for body in (first, first, extended)
    )
    said = (
        f"of {input_tokens(written)} tokens {used(written, _WRITTEN)} written,"
        f" {used(again, _READ)} read when repeated, {used(longer, _READ)} by the extension"
    )
    read = min(used(again, _READ), used(longer, _READ)) > 0
    yield holds("prefix_cache", said) if read else fails("prefix_cache", said)


def _prefix_cache_or_refusal(desk: CheckContext) -> Iterator[Found]:
    try:
        yield from _prefix_cache(desk)
    except RequestRefused as refused:
        yield fails("prefix_cache", f"rejected: {refused.message}")


def _batch(desk: CheckContext) -> Iterator[Found]:
    """Two requests sent, found again, and cancelled: nobody waits a day for them."""
    try:
        sent = desk.send_batch(context.batched(desk.model))
    except RequestRefused as refused:
        yield fails("batch", f"rejected: {refused.message}")
        return
    if sent is None:
        yield fails("batch", "the server has no batches")
        return
    name = sent.get("id")
    if not isinstance(name, str) or not name:
        yield fails("batch", "accepted, but without an id")
        return
    found = desk.batch("GET", name)
    cancelled = _cancelled(desk, name)
    if found is None or found.get("id") != name:
        yield fails("batch", "accepted, but not retrieved by its id")
        return
    yield holds("batch", f"accepted, `{found.get('processing_status')}` when retrieved{cancelled}")


def _cancelled(desk: CheckContext, name: str) -> str:
    """Ask that a batch be cancelled; how that ended."""
    try:
        cancelled = desk.batch("POST", f"{name}/cancel")
    except RequestRefused:
        return ", too late to cancel"
    return ", then cancelled" if cancelled is not None else ", cannot be cancelled"


TOKEN_COUNT = Probe(("token_count",), _token_count, lambda model: [context.called(model)])
PREFIX_CACHE = Probe(
    ("prefix_cache",),
    _prefix_cache_or_refusal,
    lambda model: [context.log(model, 0)] * 2 + [context.log_extended(model, 0)],
)
BATCH = Probe(("batch",), _batch, lambda model: [*context.batched(model).values()])


def accepted(check: str, body: Callable[[str], Body]) -> Probe:
    """The assumption that a request is accepted."""

    def run(desk: ServerCheck) -> Iterator[Found]:
        answer = tried(desk, body(desk.model))
        if isinstance(answer, RequestRefused):
            yield fails(check, f"rejected: {answer.message}")
        else:
            yield holds(check, f"accepted, answered with `{answer['stop_reason']}`")

    return Probe((check,), run, lambda model: [body(model)])


def _forced(desk: CheckContext) -> Iterator[Found]:
    answer = tried(desk, context.forced(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("forced_choice", f"rejected: {answer.message}")
    elif any(block.get("type") == "tool_use" for block in answer["content"]):
        yield holds("forced_choice", "accepted, and the tool was called")
    elif answer["stop_reason"] == "max_tokens":
        yield unclear("forced_choice", "accepted, but the response was cut before any call")
    else:
        yield fails("forced_choice", "accepted, but the tool was not called")


def _sampling(desk: CheckContext) -> Iterator[Found]:
    answer = tried(desk, context.warm(desk.model))
    expected = takes_sampling(desk.model)
    if not isinstance(answer, RequestRefused):
        yield (holds if expected else fails)("sampling", "accepted")
    elif "temperature" in answer.message:
        yield (fails if expected else holds)("sampling", f"rejected: {answer.message}")
    else:
        yield unclear("sampling", f"rejected, possibly for another reason: {answer.message}")


def _streamed(desk: CheckContext) -> Iterator[Found]:
    answer = tried(desk, context.streamed(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("stream", f"rejected: {answer.message}")
    else:
        yield holds("stream", f"complete stream, {used(answer, 'output_tokens')} tokens out")


FORCED = Probe(("forced_choice",), _forced, lambda model: [context.forced(model)])
SAMPLING = Probe(("sampling",), _sampling, lambda model: [context.warm(model)])
STREAMED = Probe(("stream",), _streamed, lambda model: [context.streamed(model)])


CHECKS = ("stripped_thinking", "bound_thinking")

KINDS = ("thinking", "redacted_thinking")


def _thinking(desk: CheckContext) -> Iterator[Found]:
    thought = _thought(desk)
    if isinstance(thought, str):
        yield from (unclear(check, thought) for check in CHECKS)
        return
    asked, answer = thought
    yield _stripped(desk, asked, answer["content"])
    yield _bound(desk, asked, answer["content"])


THINKING_PROBES = Probe(
    CHECKS,
    _thinking,
    lambda model: [context.puzzle(model, context.THINKING[0])] * 3 + [context.called(model)],
)


def _thought(desk: CheckContext) -> tuple[Body, Body] | str:
    """A request and an answer to it that thinks before it calls, or why there is none."""
    why = ""
    for setting in context.THINKING:
        asked = context.puzzle(desk.model, setting)
        answer = tried(desk, asked)
        if isinstance(answer, RequestRefused):
            why = f"thinking cannot be enabled for this model: {answer.message}"
            continue
        kinds = {block.get("type") for block in answer["content"]}
        if not kinds & {*KINDS}:
            return "the model returned no thinking"
        if answer["stop_reason"] != "tool_use":
            return "the model returned thinking but no tool call"
        return asked, answer
    return why


def _stripped(desk: CheckContext, asked: Body, content: list[Body]) -> Found:
    """The turn as replay sends it: no thinking, ids by their order, thinking not asked for."""
    check = CHECKS[0]
    answer = tried(desk, _without(_answered(asked, _as_replayed(content)), "thinking"))
    if isinstance(answer, RequestRefused):
        return fails(check, f"rejected: {answer.message}")
    return holds(check, f"accepted, answered with `{answer['stop_reason']}`")


def _bound(desk: CheckContext, asked: Body, content: list[Body]) -> Found:
    check = CHECKS[1]
    kept = _answered(asked, content)
    control = tried(desk, kept)
    if isinstance(control, RequestRefused):
        return unclear(check, f"thinking is rejected even without an edit: {control.message}")
    edited = {"system": context.EDITED_SYSTEM}
    answer = tried(desk, {**kept, **edited})
    if isinstance(answer, RequestRefused):
        return holds(check, f"rejected: {answer.message}")
    bare = tried(desk, {**_answered(asked, _unthinking(content)), **edited})
    if isinstance(bare, RequestRefused):
        return unclear(check, "accepted; unknown whether it was dropped")
    more = input_tokens(answer) - input_tokens(bare)
    if more > 0:
        return fails(check, f"accepted and counted: {more} tokens more than without it")
    return holds(check, "silently dropped: no extra input tokens")


def _answered(asked: Body, content: list[Body]) -> Body:
    """The conversation with that turn of the model and a result for each of its calls."""
    calls = [block["id"] for block in content if block.get("type") == "tool_use"]
    results = [context.result(call, "2.1 bar") for call in calls]
    turns = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return {**asked, "messages": [*asked["messages"], *turns]}


def _as_replayed(content: list[Body]) -> list[Body]:
    calls = (f"toolu_arc_{at}" for at in range(len(content)))
    return [
        {"type": "tool_use", "id": next(calls), "name": block["name"], "input": block["input"]}
        if block["type"] == "tool_use"
        else block
        for block in _unthinking(content)
    ]


def _unthinking(content: list[Body]) -> list[Body]:
    return [block for block in content if block.get("type") not in KINDS]


def _without(body: Body, field: str) -> Body:
    return {name: value for name, value in body.items() if name != field}
