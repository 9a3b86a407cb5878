"""What was recorded of a step, as documents: request, response, results, raw. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.ui import format
from arc_tui.ui.document import INDENT, Block, Document, Fold, Item, value
from arc_tui.views.step import CallView, MessageView, Seen, StepView
from arc_tui.views.trace import TraceView
from replay.trace import NO_SYSTEM, NO_TOOLS

SYSTEM_SHOWN = 240
"""Characters of the system prompt shown before it is opened."""


EARLIER = "earlier"
"""The fold with the messages that the step before saw too: they are read where it is opened."""

SAID_BELOW = (NO_SYSTEM, NO_TOOLS)
"""Reasons that the page repeats in place of the missing part."""


def request_page(_: TraceView, step: StepView) -> Document:
    """The context of the model call: what is new in full, the rest behind one line."""
    return (
        Block(text=_request_facts(step), style="quiet"),
        *(Block(text=format.one_line(reason), style="quiet", indent=INDENT)
          for reason in step.reasons if reason not in SAID_BELOW),
        *_system(step),
        *_tools(step),
        *_earlier(step),
        *(item for place, said in enumerate(step.new)
          for item in _message(said, f"new {step.row.span} {place}", new=True)),
    )  # fmt: skip


def _request_facts(step: StepView) -> str:
    row = step.row
    cached = f", {format.tokens(row.cache_read_tokens)} from cache" if row.cache_read_tokens else ""
    known = row.input_tokens is not None
    tokens = f" · {format.tokens(row.input_tokens)} tokens in" if known else ""
    masked = f", {row.masked} masked" if row.masked else ""
    return (
        f"{format.one_line(row.model) or 'model unknown'} · fidelity {step.fidelity.value}{masked}"
        f"{tokens}{cached}"
    )


def _system(step: StepView) -> Iterator[Item]:
    if step.system is None:
        yield Block(text="system prompt not recorded", style="quiet")
        return
    line = f"system prompt · {format.count(len(step.system), 'character')}"
    text = format.plain(step.system)
    if step.before is not None and not step.system_changed:
        whole = Block(text=text, indent=INDENT, style="quiet")
        yield Fold(key="system", line=f"{line} · as in step {step.before}", inside=lambda: (whole,))
        return
    changed = f" · changed since step {step.before}" if step.system_changed else ""
    yield Block(text=line + changed, style="candidate" if changed else "role")
    yield Block(text=text, indent=INDENT, key="system", shown=_beginning(text), style="quiet")


def _beginning(text: str) -> int:
    """Where the first lines of a prompt end."""
    return max(text.rfind("\n", 0, SYSTEM_SHOWN), 0) or SYSTEM_SHOWN


def _tools(step: StepView) -> Iterator[Item]:
    if step.tools is None:
        yield Block(text="tools offered: not recorded", style="quiet")
        return
    names = ", ".join(map(format.one_line, step.tools)) or "none"
    yield Block(text=f"tools offered · {len(step.tools)}", style="role")
    yield Block(text=names, indent=INDENT, style="quiet")


def _earlier(step: StepView) -> Iterator[Item]:
    if not step.shared:
        return
    before = "the previous step" if step.before is None else f"step {step.before}"
    line = f"{format.count(step.shared, 'message')} as in {before}"
    yield Fold(key=EARLIER, line=line, says_key=True, inside=lambda: _earlier_messages(step))


def _earlier_messages(step: StepView) -> Document:
    if step.earlier is None:
        return (Block(text="Loading messages…", style="quiet", indent=INDENT),)
    return tuple(
        item
        for place, said in enumerate(step.earlier)
        for item in _message(said, f"earlier {place}", new=False)
    )


def _message(said: MessageView, key: str, *, new: bool) -> Iterator[Item]:
    mark = "┃ " if new else "  "
    role = "tool result" if said.results and not said.text else said.role
    yield Block(text=format.one_line(role), style="role", mark=mark)
    if said.thinking:
        yield _thinking(said.thinking, f"{key} thinking", mark)
    if said.text:
        yield value(said.text, key=f"{key} text", mark=mark)
    for place, call in enumerate(said.calls):
        yield from _call(call, f"{key} call {place}", mark)
    for place, result in enumerate(said.results):
        yield value(result, key=f"{key} result {place}", mark=mark)
    if not (said.text or said.thinking or said.calls or said.results):
        yield Block(text="(empty)", style="quiet", indent=INDENT, mark=mark)


def _thinking(text: str, key: str, mark: str = "") -> Block:
    return Block(text=format.plain(text), style="quiet", indent=INDENT, key=key, mark=mark)


def _call(call: CallView, key: str, mark: str = "") -> Iterator[Item]:
    from arc_tui.views.code import edit_items

    yield Block(text=f"→ {format.one_line(call.name)}", style="head", mark=mark)
    if not call.parsed:
        yield Block(text="invalid JSON arguments, shown as sent", style="error",
                    indent=INDENT, mark=mark)  # fmt: skip
    yield from edit_items(call.edits, key, mark)
    arguments = value(call.arguments, key=key, mark=mark)
    if call.only_edits:
        line = f"arguments as sent · {format.count(len(call.arguments), 'character')}"
        yield Fold(key=f"{key} sent", line=line, inside=lambda: (arguments,))
    else:
        yield arguments


def response_page(_: TraceView, step: StepView) -> Document:
    """What the model answered."""
    row = step.row
    facts = [
        f"stop {row.stop}" if row.stop else "stop not recorded",
        f"{format.tokens(row.output_tokens)} tokens out",
        format.duration(row.latency_ns),
        format.usd(row.cost_usd),
    ]
    known = " · ".join(fact for fact in facts if not fact.startswith(format.UNKNOWN))
    items: list[Item] = [Block(text=known, style="quiet")]
    if row.error:
        items.append(Block(text=format.plain(row.error), style="error", key=f"{row.span} error"))
    if step.response is None:
        return (*items, Block(text="response not recorded", style="quiet"))
    said = step.response
    if said.thinking:
        items += [Block(text="thinking", style="role"), _thinking(said.thinking, "thinking")]
    if said.text:
        items += [Block(text="text", style="role"), value(said.text, key=f"{row.span} said")]
    for place, call in enumerate(said.calls):
        items += _call(call, f"{row.span} call {place}")
    if not (said.thinking or said.text or said.calls):
        items.append(Block(text="empty response", style="quiet"))
    return tuple(items)


def results_page(_: TraceView, step: StepView) -> Document:
    """Each call of the step with what came back."""
    if not step.observations:
        return (Block(text="No tool calls in this step.", style="quiet"),)
    return tuple(item for seen in step.observations for item in _observation(seen))


def _observation(seen: Seen) -> Iterator[Item]:
    from arc_tui.views.code import output_items, output_view

    yield from _call(seen.call, f"{seen.span} arguments")
    took = f" · {_took(seen)}" if seen.duration_ns is not None else ""
    if seen.result is None:
        yield Block(text=f"result not recorded{took}", style="quiet")
        return
    word, style = ("✗ error", "error") if seen.error else ("result", "role")
    size = format.count(len(seen.result), "character")
    output, key = output_view(seen.result), f"{seen.span} result"
    counts = f" · {output.counts}" if output else ""
    yield Block(text=f"{word} · {size}{counts}{took}", style=style)
    if output is not None:
        yield from output_items(output, key, "")
    else:
        yield value(seen.result, key=key, style="error" if seen.error else "")


def _took(seen: Seen) -> str:
    """How long a call took, and beside the others of its tool."""
    took, others = format.duration(seen.duration_ns), seen.standing
    if others is None:
        return took
    calls = f"{format.count(others.spans, 'call')} of {format.one_line(others.tool)}"
    return f"{took}, slower than {others.percent} % of {calls}"


def raw_page(_: TraceView, step: StepView) -> Document:
    """The spans of the step as they are stored."""
    raw = format.plain(step.raw)  # laid out already, and it may be long
    return (Block(text=raw, key=f"{step.row.span} raw", json=True),)
