"""Claude Code's own telemetry: events of a session that name no span, and figures for its spans.

It exports no content unless told to, so a session read from events alone shows its calls with
their models, tokens, costs and times, and no more. Its input tokens leave the cache out.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import word
from replay.formats.normal import derived_id, seconds_ns
from replay.formats.otlp.names import first_word
from replay.formats.otlp.records import Event, Log, Raw
from replay.trace import Json, Status

_STEM = "claude_code."
_CALLS = {"api_request": "llm_request", "api_error": "llm_request", "tool_result": "tool"}
"""Events told when something ended, and the kind of span that it was."""


def session_of(log: Log) -> str | None:
    """The session that an event without a trace belongs to."""
    return first_word(log.event.attributes, ("session.id",)) or word(log.resource.get("session.id"))


def spans_of(trace: str, logs: list[Log]) -> list[Raw]:
    """The spans that the events of a session tell of, below one agent; [] where they are none of
    Claude Code's."""
    found = [log for log in logs if log.event.name.startswith(_STEM)]
    if not found:
        return []
    root = Raw(
        trace=trace,
        id=derived_id(trace),
        name="claude_code.session",
        attributes={"span.type": "interaction", "gen_ai.agent.name": "claude-code"},
        resource=found[0].resource,
    )
    prompts = (word(log.event.attributes.get("prompt")) for log in found)
    prompt = next((each for each in prompts if each), None)
    if prompt is not None:
        root.attributes["input.value"] = prompt
    session = session_of(found[0])
    if session is not None:
        root.attributes["session.id"] = session
    calls = [_call(log, root, at) for at, log in enumerate(found) if _word(log) in _CALLS]
    starts = [call.start_ns for call in calls if call.start_ns is not None]
    ends = [call.end_ns for call in calls if call.end_ns is not None]
    root.start_ns, root.end_ns = min(starts, default=None), max(ends, default=None)
    return [root, *calls]


def _word(log: Log) -> str:
    return log.event.name.removeprefix(_STEM)


def _call(log: Log, root: Raw, at: int) -> Raw:
    event = log.event
    given = {name: value for name, value in event.attributes.items() if name != "session.id"}
    failed = _word(log) == "api_error" or given.get("success") in (False, "false")
    status: Status = "error" if failed else "ok"
    lasted = seconds_ns(_milliseconds(given) / 1000)
    known = event.time_ns is not None and lasted is not None
    return Raw(
        trace=root.trace,
        id=derived_id(root.trace, word(given.get("event.sequence")) or at, event.name),
        parent=root.id,
        name=event.name,
        start_ns=(event.time_ns or 0) - (lasted or 0) if known else None,
        end_ns=event.time_ns,
        status=status,
        message=word(given.get("error")) if failed else None,
        attributes={**given, "span.type": _CALLS[_word(log)]},
        resource=log.resource,
        logged=True,
    )


def _milliseconds(given: dict[str, Any]) -> float:
    try:
        return float(given.get("duration_ms") or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def figures(spans: list[Raw], logs: list[Log]) -> None:
    """Give the spans of requests what the event of the same request says they cost."""
    costs: dict[str, Json] = {}
    for log in logs:
        request = _request(log.event)
        if request is not None and "cost_usd" in log.event.attributes:
            costs[request] = log.event.attributes["cost_usd"]
    for raw in spans if costs else ():
        request = first_word(raw.attributes, ("request_id", "gen_ai.response.id"))
        if request in costs:
            raw.attributes.setdefault("cost_usd", costs[request or ""])


def _request(event: Event) -> str | None:
    named = event.name == f"{_STEM}api_request"
    return first_word(event.attributes, ("request_id",)) if named else None
