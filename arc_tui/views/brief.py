"""The brief of a run: what is known of it and where it broke, short enough for a coding agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from arc_tui.ui import format, markdown
from arc_tui.views.columns import caps_text
from arc_tui.views.evidence import (
    by_strength,
    candidate_kind,
    candidate_phrase,
    candidate_text,
    finding_kind,
)
from arc_tui.views.trace import TraceView, build_trace
from replay.store.handle import Store
from replay.trace import NO_TOOLS
from taxonomy.classes import BY_CLASS, Attribution, FailureClass, class_label
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.judgements.tags import TagRow
from taxonomy.query.listing import RunRow

MAX_CHARS = 5200
"""1 500 tokens, at three and a half characters a token to be on the safe side."""

PHRASE = 200


def brief_text(store: Store, name: str, *, commands: bool = True) -> str:
    """The brief of a trace, with the next `commands` for a person. Raises NotFound."""
    view = build_trace(store, name)
    parts = [_brief_head(view.run), _certain(view), _candidates(view), _unknown(view)]
    parts += [_next(view)] if commands else []
    lines = [line for part in parts if part for line in (*part, "")][:-1]
    text = format.plain("\n".join(lines))
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 20] + "\n… (truncated)"


def _brief_head(row: RunRow) -> list[str]:
    name = " / ".join(filter(None, [row.task, row.trial])) or row.title or row.source_id
    outcome = row.outcome if row.outcome_value is None else f"{row.outcome} ({row.outcome_value})"
    return [
        f"# {_phrase(name)}",
        f"trace {row.trace}, {row.format}, outcome {outcome}"
        + (f", check: {row.outcome_by}" if row.outcome_by else "")
        + (f", {caps}" if (caps := caps_text(row)) else ""),
        f"{format.count(row.steps, 'step')}, {format.count(row.calls, 'tool call')}, "
        f"{format.count(row.errors, 'error')}, model {row.models or 'unknown'}, "
        f"time {format.duration(row.duration_ns)}, tokens in {format.tokens(row.input_tokens)}, "
        f"cost {format.usd(row.cost_usd, complete=row.cost_complete)}",
        f"title: {_phrase(row.title)}" if row.title else "title: none",
    ]


def judged_line(finding: Finding) -> str:
    """What a judge suggests, in a line: `suggested: step 3 · loop · reason · judge NAME · …`."""
    name = class_label(finding.failure, finding.sub)
    return format.one_line(
        f"suggested: step {finding.step} · {name} · {finding.why} · {finding.rule}"
    )


def _candidates(view: TraceView) -> list[str]:
    judged = [f"- {_phrase(judged_line(each))}" for each in view.judged]
    return [*_evidence(view), *judged]


def _evidence(view: TraceView) -> list[str]:
    said = view.diagnosis
    if said is None or not said.candidates:
        given = [each.by for each in view.scorers if each.used and each.source != "rule"]
        why = "no rule matches"
        if given:
            by = ", ".join(map(_phrase, given))
            why = f"no clear failure in the scores by {by}; no rule matches the other steps"
        return ["## Evidence", *_others(view), f"No break candidates: {why}."]
    shape = said.shape.value if said.shape else "unknown"
    lines = [f"## Evidence, strongest first; shape {shape}", *_others(view)]
    for candidate in said.candidates:
        lines += _candidate(candidate, said)
    return lines


def _certain(view: TraceView) -> list[str]:
    """What is known before any rule speaks, each fact on a line."""
    facts = [f"- {_phrase(each.line)}" for each in view.known]
    return ["## Known for certain", *facts] if facts else []


def _others(view: TraceView) -> list[str]:
    """Whom a finding outside of the candidates is attributed to: it is stronger than any."""
    lines: list[str] = []
    for finding in by_strength(view.diagnosis.findings if view.diagnosis else ()):
        outside = finding.attribution not in (None, Attribution.AGENT)
        if outside and not finding.is_hint and finding.step not in view.marked:
            lines += _finding(finding, f"- step {finding.step} · ")
    return lines


def _candidate(candidate: Candidate, said: Diagnosis) -> list[str]:
    """A candidate; its findings stand below, the strongest first, each fact once."""
    findings = by_strength([each for each in said.findings if each.step == candidate.step])
    place = f"step {candidate.step}"
    same = next((f for f in findings if f.why == candidate.why and not f.is_hint), None)
    if same is not None:
        lines = _finding(same, f"- {place} · ", f" ({candidate.accuracy})")
        findings.remove(same)
    else:
        lines = [f"- {place} · {_phrase(candidate_text(candidate))} ({candidate.accuracy})"]
    for finding in findings:
        lines += _finding(finding, "  ")
    return lines


def _finding(finding: Finding, before: str, after: str = "") -> list[str]:
    """A finding with its kind, its evidence and the first fix."""
    kind = "hint, not counted · " if finding.is_hint else ""
    kind += finding_kind(finding)
    name = class_label(finding.failure, finding.sub)
    lines = [f"{before}{kind}: {name} · {_phrase(finding.why)}{after}"]
    lines += [
        f"    {_phrase(each.role)}: {_phrase(each.text)} [{each.place or 'step ' + str(each.step)}]"
        for each in finding.evidence[:4]
    ]
    if finding.failure is not FailureClass.OTHER:
        lines.append(f"    first fix: {BY_CLASS[finding.failure].fix}")
    return lines


def _missing(row: RunRow) -> list[str]:
    """What is not known of a run."""
    facts = {
        "outcome": row.outcome == "unknown",
        "latency": row.duration_ns is None,
        "tokens of some steps": not row.tokens_complete,
        "cost of some steps": not row.cost_complete,
        "system prompt": row.prompt is None,
    }
    return [name for name, absent in facts.items() if absent]


def _unknown(view: TraceView) -> list[str]:
    row = view.run
    said = ", ".join(_missing(row)) or "none"
    return [
        "## Unknown",
        said,
        f"fidelity of the recorded requests: {row.fidelity.value if row.fidelity else 'none'}",
    ]


def _next(view: TraceView) -> list[str]:
    key = view.run.trace[:8]
    step = view.marked[0] if view.marked else 0
    lines = ["## Next", f"arc show {key} {step}"]
    lacks = [
        what
        for what, is_missing in (
            ("prompt", view.run.prompt is None),
            ("tools", any(NO_TOOLS in (row.fidelity_reasons or "") for row in view.steps)),
        )
        if is_missing
    ]
    if lacks:
        lines.append(f"arc attach {key}   # replay needs the {' and the '.join(lacks)}: what fits")
    model = "" if view.run.models else " --model NAME"
    lines.append(f"arc replay {key} --system FILE{model}   # replay every step")
    lines.append(f"arc tag add {key} {step} CLASS   # {', '.join(BY_CLASS)}")
    return lines


def _phrase(text: str | None) -> str:
    return format.cut(format.one_line(text), PHRASE)


# --- for an issue or a pull request

HEAD = "####"
"""Before the title of a section."""

ISSUE = 60_000
"""Characters of a brief at most; an issue of GitHub's takes 65 536."""

QUOTES = 6
"""Quotes of one finding that are shown; the rest is counted."""


def brief_markdown(store: Store, name: str) -> str:
    """The brief of a trace in GitHub's Markdown. Raises NotFound.

    Whatever the trace holds is code there, and secrets in it are masked by the rules of today.
    """
    view = build_trace(store, name)
    mask = store.redactor.text
    parts = (
        *_markdown_head(view.run, mask),
        *known_markdown(view, mask),
        *break_markdown(view, mask),
        *_markdown_tags(view.tags, mask),
    )
    return "\n\n".join((*_within(parts, ISSUE), *_markdown_rest(view))) + "\n"


def _within(parts: Iterable[str], most: int) -> Iterator[str]:
    """As many parts as have room, then how many have not."""
    used = left_out = 0
    for part in parts:
        used += len(part) + 2
        if used <= most:
            yield part
        else:
            left_out += 1
    if left_out:
        yield f"{format.count(left_out, 'part')} left out: an issue has no room for more."


Mask: TypeAlias = Callable[[str], str]
"""Masks the secrets of a text."""


def run_facts(row: RunRow, mask: Mask) -> list[tuple[str, str]]:
    """What a run was, as labels and Markdown."""
    outcome = markdown.cell(mask(row.outcome_value or "")) if row.outcome_value else ""
    by = f"by {markdown.cell(mask(row.outcome_by))}" if row.outcome_by else ""
    tokens = "" if row.tokens_complete else "≥ "
    return [
        ("outcome", " · ".join(filter(None, (row.outcome, outcome, by)))),
        ("run", f"{markdown.cell(row.trace)} · {markdown.cell(row.format)}"),
        ("variant", markdown.cell(mask(row.variant or ""))),
        ("model", markdown.cell(mask(row.models or ""))),
        ("steps", f"{format.number(row.steps)}, {format.count(row.calls, 'tool call')},"
         f" {format.count(row.errors, 'error')}"),
        ("time", format.duration(row.duration_ns)),
        ("tokens in", f"{tokens if row.input_tokens is not None else ''}"
         f"{format.tokens(row.input_tokens)}"),
        ("cost", format.usd(row.cost_usd, complete=row.cost_complete)),
        *((("cap", markdown.cell(mask(caps))),) if (caps := caps_text(row)) else ()),
    ]  # fmt: skip


def _markdown_head(row: RunRow, mask: Mask) -> Iterator[str]:
    name = " / ".join(filter(None, [row.task, row.trial])) or row.title or row.source_id
    yield f"### {markdown.code(_short(mask(name)))} {row.outcome}"
    yield markdown.table([[label, said] for label, said in run_facts(row, mask)], ("", ""))
    if row.title and row.title != name:
        yield markdown.value("Title", mask(row.title))


def _short(text: str) -> str:
    return format.cut(format.one_line(text), markdown.WIDTH)


def known_markdown(view: TraceView, mask: Mask, head: str = HEAD) -> Iterator[str]:
    """What is known before any rule speaks."""
    if view.known:
        yield f"{head} Known for certain"
    for each in view.known:
        place = "" if each.step is None else f", step {each.step}"
        yield markdown.value(f"**{each.kind}**{place}", mask(each.text))


def break_markdown(view: TraceView, mask: Mask, head: str = HEAD) -> Iterator[str]:
    """Where it may have broken: the candidates with their evidence, then findings elsewhere."""
    yield f"{head} Where it broke"
    said = view.diagnosis
    candidates = said.candidates if said else ()
    findings = by_strength(said.findings if said else ())
    if not candidates:
        yield "No break candidates."
    for place, candidate in enumerate(candidates, 1):
        kind = candidate_kind(candidate)
        kind_text = "positional guess" if kind == "guess" else kind
        head = f"**{place}. step {candidate.step}** · {kind_text} · {candidate.accuracy}"
        yield markdown.value(head, mask(candidate_phrase(candidate)))
        for finding in findings:
            if finding.step == candidate.step:
                yield _markdown_finding(finding, mask)
    outside = (
        finding
        for finding in findings
        if finding.attribution not in (None, Attribution.AGENT)
        and not finding.is_hint
        and finding.step not in view.marked
    )
    for finding in (*outside, *view.judged):
        yield _markdown_finding(finding, mask, f"step {finding.step}, ")


def _markdown_finding(finding: Finding, mask: Mask, place: str = "") -> str:
    """A finding to be unfolded: what it says, and what it rests on."""
    parts = [markdown.value("Finding", mask(finding.why))]
    if finding.sub or finding_kind(finding) == "judge":
        named = f"{class_label(finding.failure, finding.sub)} · {finding.rule}"
        parts.append(markdown.value("Class", mask(named)))
    for each in finding.evidence[:QUOTES]:
        where = "" if each.step is None else f"Step {each.step}, "
        said = f"{each.role}, {each.place}" if each.place else each.role
        parts.append(f"{where}{markdown.code(mask(said))}\n\n{markdown.block(mask(each.text))}")
    more = len(finding.evidence) - QUOTES
    if more > 0:
        parts.append(f"{format.count(more, 'more quote')} not shown.")
    hint = "hint, not counted · " if finding.is_hint else ""
    quotes = format.count(len(finding.evidence), "quote")
    summary = f"{place}{hint}{finding_kind(finding)}: {finding.failure.value}, {quotes}"
    return markdown.details(summary, parts)


def _markdown_tags(tags: Sequence[TagRow], mask: Mask) -> Iterator[str]:
    if tags:
        yield f"{HEAD} Tags"
    for tag in tags:
        named = markdown.code(mask(class_label(tag.failure, tag.sub)))
        whose = "" if tag.attribution is None else f", attribution {tag.attribution.value}"
        line = f"Step {tag.step}: {named} by {markdown.code(mask(tag.by))}{whose}"
        yield markdown.value(line, mask(tag.why)) if tag.why else line


def _markdown_rest(view: TraceView) -> Iterator[str]:
    key = view.run.trace[:8]
    step = view.marked[0] if view.marked else 0
    missing = _missing(view.run)
    if missing:
        yield f"Not recorded: {', '.join(missing)}."
    commands = f"arc show {key} {step}\narc diagnose {key}\narc replay {key} --system FILE"
    yield markdown.block(commands, "sh")
