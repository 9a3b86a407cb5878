"""What a user adds where a source was silent: the system prompt, the tools (`arc attach`).

A supplement is named, stored once by its content, and stands beside the trace: what was recorded
is never overwritten. A step completed by one is `supplied` at best; tools sketched from the calls
seen keep it `partial`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from replay import canon
from replay.store.handle import Store, now_ns
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Fidelity,
    Level,
    Message,
    ModelCall,
    Tool,
    ToolCall,
    Trace,
)

SKETCHED = "tools sketched from the calls seen"


class Supplement(Struct, frozen=True, kw_only=True):
    """A system prompt, tool definitions, or both; `sketched` when derived from the calls seen."""

    name: str
    system: str | None = None
    tools: tuple[Tool, ...] | None = None
    sketched: bool = False


def attach(store: Store, trace: str, supplement: Supplement) -> str:
    """Put a supplement beside a trace, over an earlier one; returns its digest."""
    redact = store.redactor
    system = redact.text(supplement.system) if supplement.system is not None else None
    tools = supplement.tools
    values = None if tools is None else redact.value([canon.tool_value(tool) for tool in tools])
    body = None if values is None else canon.encode(values).decode()
    digest = canon.digest("supplement", system or "", body or "")
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO supplement VALUES (?, ?, ?, ?, ?, ?)",
            (digest, supplement.name, system, body, int(supplement.sketched), now_ns()),
        )
        db.execute(
            "INSERT INTO trace_supplement VALUES (?, ?)"
            " ON CONFLICT (trace_key) DO UPDATE SET supplement = excluded.supplement",
            (trace, digest),
        )
    return digest


def supplement_of(store: Store, trace: str) -> Supplement | None:
    """The supplement beside a trace, None where there is none."""
    row = store.db.execute(
        "SELECT name, system, tools, sketched FROM supplement"
        " WHERE digest = (SELECT supplement FROM trace_supplement WHERE trace_key = ?)",
        (trace,),
    ).fetchone()
    if row is None:
        return None
    tools = None if row[2] is None else msgspec.json.decode(row[2], type=tuple[Tool, ...])
    return Supplement(name=row[0], system=row[1], tools=tools, sketched=bool(row[3]))


def supplied(call: ModelCall, added: Supplement) -> ModelCall:
    """The call with the supplement where its request is silent, and the fidelity that leaves."""
    request, reasons = call.request, list(call.fidelity.reasons)
    used = False
    if request.system is None and added.system is not None:
        body = {"role": "system", "content": added.system}
        request = structs.replace(request, system=Message(dialect="anthropic", body=body))
        reasons, used = [r for r in reasons if r != NO_SYSTEM], True
    if request.tools is None and added.tools is not None:
        request = structs.replace(request, tools=added.tools)
        reasons, used = [r for r in reasons if r != NO_TOOLS], True
        if added.sketched:
            reasons.append(SKETCHED)
    if not used:
        return call
    level = Level.PARTIAL if reasons else Level.SUPPLIED
    fidelity = Fidelity(level=level, reasons=(*reasons, f"supplied by {added.name}"))
    return structs.replace(call, request=request, fidelity=fidelity)


def sketch(trace: Trace) -> tuple[Tool, ...]:
    """Tools as far as the calls of a trace show them: names and the keys of their arguments."""
    keys: dict[str, dict[str, None]] = {}
    for span in trace.spans:
        if isinstance(span, ToolCall) and span.asked_by is not None:
            given = span.arguments if isinstance(span.arguments, dict) else {}
            keys.setdefault(span.name, {}).update(dict.fromkeys(given))
    return tuple(
        Tool(name=name, schema={"type": "object", "properties": {key: {} for key in seen}})
        for name, seen in keys.items()
    )
