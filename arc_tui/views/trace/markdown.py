"""A step as Markdown, to paste into an issue or a conversation; whole, nothing folded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.trace.step import CallView, Said, Scored, Seen, StepView, is_hint


def step_markdown(view: StepView) -> str:
    """The step: why it is suspect and how it was scored, what was new to the model, its answer,
    what came back."""
    row = view.row
    parts = [
        f"## Step {row.step} of trace {view.trace[:8]}",
        f"{format.one_line(row.model) or 'model unknown'}, fidelity {view.fidelity.value}",
    ]
    for finding in view.findings:
        unsure = " (a hint)" if is_hint(finding) else ""
        parts.append(f"**{finding.failure.value}?** {format.one_line(finding.why)}{unsure}")
        parts += [
            f"- {format.one_line(each.role)}: {format.one_line(each.text)}"
            f" ({format.one_line(each.place) or f'step {each.step}'})"
            for each in finding.evidence
        ]
    if view.scores:
        parts += ["### Scores", "\n".join(line for each in view.scores for line in _scored(each))]
    parts.append("### New in the request")
    parts += [_said(said) for said in view.new] or ["nothing"]
    parts += ["### Response", _said(view.response) if view.response else "not recorded"]
    if view.observations:
        parts.append("### Observations")
        parts += [_seen(seen) for seen in view.observations]
    return "\n\n".join(parts) + "\n"


def _scored(scored: Scored) -> Iterator[str]:
    """A score and whose it is, its answered items below."""
    score, who = scored.score, scored.who
    shown = "no score" if score.value is None else format.score(score.value)
    unused = "" if who.used else ", counts nowhere"
    yield f"- {shown} by {format.one_line(who.name)}{unused}"
    for item in score.items:
        because = format.one_line(item.because)
        if item.held is not None:
            answer = "yes" if item.held else "no"
            yield f"  - {format.one_line(item.name)}: {answer}{f' ({because})' if because else ''}"
        elif because:
            yield f"  - {format.one_line(item.name)}: {because}"


def _said(said: Said) -> str:
    parts = [f"**{format.one_line(said.role)}**"]
    if said.thinking:
        parts.append(f"thinking:\n\n{_fenced(said.thinking)}")
    if said.text:
        parts.append(_fenced(said.text))
    parts += [_call(call) for call in said.calls]
    parts += [_fenced(result) for result in said.results]
    return "\n\n".join(parts)


def _call(call: CallView) -> str:
    return f"calls `{format.one_line(call.name)}`\n\n{_fenced(call.arguments, 'json')}"


def _seen(seen: Seen) -> str:
    result = "result not recorded" if seen.result is None else _fenced(seen.result)
    return f"{_call(seen.call)}\n\n{'error' if seen.error else 'result'}:\n\n{result}"


def _fenced(text: str, language: str = "") -> str:
    """A fence longer than any run of backticks inside, so that nothing in the text can end it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{format.plain(text)}\n{fence}"
