"""A trace in at most 1 500 tokens: for a person in a hurry, or a coding agent.

Deterministic: no clock, no order that depends on a run. What is unknown is said; the last lines are
the exact next commands.
"""

from __future__ import annotations

from arc_tui import format
from arc_tui.views.trace.step import is_hint
from arc_tui.views.trace.view import TraceView, build_trace
from replay.store import Store
from replay.trace import NO_TOOLS
from taxonomy.classes import BY_CLASS, FailureClass, class_label
from taxonomy.findings import Candidate, Diagnosis
from taxonomy.query.listing import RunRow

MAX_CHARS = 5200
"""1 500 tokens, at three and a half characters a token to be on the safe side."""

PHRASE = 200


def brief_text(store: Store, name: str) -> str:
    """The brief of a trace. Raises NotFound."""
    view = build_trace(store, name)
    lines = [*_head(view.run), "", *_candidates(view), "", *_unknown(view), "", *_next(view)]
    text = format.plain("\n".join(lines))
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 20] + "\n… (cut to size)"


def _head(row: RunRow) -> list[str]:
    name = " / ".join(filter(None, [row.task, row.trial])) or row.title or row.source_id
    outcome = row.outcome if row.outcome_value is None else f"{row.outcome} ({row.outcome_value})"
    return [
        f"# {_phrase(name)}",
        f"trace {row.trace}, {row.format}, {outcome}"
        + (f" says {row.outcome_by}" if row.outcome_by else ""),
        f"{format.count(row.steps, 'step')}, {format.count(row.calls, 'tool call')}, "
        f"{format.count(row.errors, 'error')}, model {row.models or 'unknown'}, "
        f"time {format.duration(row.duration_ns)}, tokens in {format.tokens(row.input_tokens)}, "
        f"cost {format.usd(row.cost_usd, complete=row.cost_complete)}",
        f"title: {_phrase(row.title)}" if row.title else "title: none",
    ]


def _candidates(view: TraceView) -> list[str]:
    said = view.diagnosis
    if said is None or not said.candidates:
        given = [each.by for each in view.scorers if each.used and each.source != "rule"]
        why = "nothing the rules know stands out"
        if given:
            by = ", ".join(map(_phrase, given))
            why = f"no clear failure in the scores by {by}; at steps they leave out, {why}"
        return ["## Break", f"no break found: {why}"]
    lines = [
        f"## Break: up to three candidates, shape {said.shape.value if said.shape else 'unknown'}"
    ]
    for candidate in said.candidates:
        lines += _candidate(candidate, said)
    return lines


def _candidate(candidate: Candidate, said: Diagnosis) -> list[str]:
    lines = [f"- step {candidate.step}: {_phrase(candidate.why)} ({candidate.accuracy})"]
    for finding in said.findings:
        if finding.step == candidate.step:
            unsure = " (a hint)" if is_hint(finding) else ""
            name = f"{class_label(finding.failure, finding.sub)}{unsure}"
            lines.append(f"  {name}: {_phrase(finding.why)}")
            lines += [
                f"    {each.role}: {_phrase(each.text)} [{each.place or 'step ' + str(each.step)}]"
                for each in finding.evidence[:4]
            ]
            if finding.failure is not FailureClass.OTHER:
                lines.append(f"    first fix: {BY_CLASS[finding.failure].fix}")
    return lines


def _unknown(view: TraceView) -> list[str]:
    row = view.run
    facts = {
        "outcome": row.outcome == "unknown",
        "latency": row.duration_ns is None,
        "tokens of some steps": not row.tokens_complete,
        "cost of some steps": not row.cost_complete,
        "the system prompt": row.prompt is None,
    }
    missing = [name for name, absent in facts.items() if absent]
    said = ", ".join(missing) if missing else "nothing of what a brief shows"
    return [
        "## Not known",
        said,
        f"fidelity of the recorded requests: {row.fidelity.value if row.fidelity else 'none'}",
    ]


def _next(view: TraceView) -> list[str]:
    key = view.run.trace[:8]
    step = view.marked[0] if view.marked else 0
    lines = ["## Next", f"arc show {key} {step}"]
    if view.run.prompt is None:
        lines.append(f"arc attach {key} --system FILE   # replay needs the prompt")
    if any(NO_TOOLS in (row.fidelity_reasons or "") for row in view.steps):
        lines.append(f"arc attach {key} --tools FILE   # and the tools; or --sketch-tools")
    model = "" if view.run.models else " --model NAME"
    lines.append(f"arc replay {key} --system FILE{model}   # asks it again at every step")
    lines.append(f"arc tag {key} {step} CLASS   # {', '.join(BY_CLASS)}")
    return lines


def _phrase(text: str | None) -> str:
    return format.cut(format.one_line(text), PHRASE)
