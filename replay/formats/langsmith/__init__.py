"""LangSmith: runs as its client lists them, as lines, a list, or a tree of child runs.

The path of a file: runs and feedback are told apart and gathered by trace (`rows`); a run becomes
a span (`runs`); the root of a trace makes its header, feedback its scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.langsmith.rows import Feedback, rows
from replay.formats.langsmith.runs import extra, raw
from replay.formats.normal import number
from replay.formats.otlp.records import Raw
from replay.formats.services.groups import Groups, Record
from replay.formats.services.records import joined, readable, usd
from replay.formats.services.traces import agent_of, made_of, spans, title_of
from replay.trace import Batch, Header, Level, SourceScore

NAME = "langsmith"
TITLE = "LangSmith (runs as JSON or JSON Lines)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools"

_RUN = (rb'"run_type"\s*:\s*"', rb'"(?:dotted_order|trace_id|parent_run_id|child_runs)"\s*:')
_SESSIONS = ("thread_id", "session_id", "conversation_id")


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and (head.has(rb'"dotted_order"\s*:\s*"') or head.has(*_RUN))


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where there is no run."""
    groups = Groups()
    feedback = Feedback()
    found = False
    for trace, run in rows(source, feedback, tally):
        groups.add(trace, run)
        found = True
    if not found:
        raise BadTrace(source.display, "", "holds no run with an id")
    for name, held in groups.taken():
        yield _batch(name, held, feedback, source.display, tally)


def _batch(name: str, held: list[Record], feedback: Feedback, path: str, tally: Tally) -> Batch:
    held.sort(key=lambda run: word(run.get("dotted_order")) or "")
    raws: list[Raw] = []
    for run in held:
        tally.counts[f"type {word(run.get('run_type'))}"] += 1
        raws += made_of(run, f"run {run.get('id')}", raw, tally)
    found = spans(raws, tally)
    root = next((run for run in held if word(run.get("parent_run_id")) is None), held[0])
    metadata = obj(extra(root).get("metadata"))
    session = (word(metadata.get(each)) for each in _SESSIONS)
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, readable(root.get("inputs")), word(root.get("name"))),
        task=word(root.get("reference_example_id")),
        agent=agent_of(found) or word(root.get("name")),
        labels=known(
            session=next((each for each in session if each is not None), None),
            project=word(root.get("session_name")) or word(metadata.get("ls_project")),
            tags=joined(root.get("tags")),
        ),
        reported_cost_usd=usd(root.get("total_cost")),
    )
    scores = [score for run in held for score in _scores(run, root, feedback)]
    tally.counts["feedback"] += len(scores)
    return Batch(header=header, spans=found, scores=tuple(scores), last=True)


def _scores(run: Record, root: Record, feedback: Feedback) -> Iterator[SourceScore]:
    """What was said of a run; where only sums are exported, their mean. The root's are the whole
    run's."""
    name = word(run.get("id"))
    span = None if run is root else name
    told = [*map(obj, listed(run.get("feedback"))), *feedback.of(name)]
    for each in told:
        yield _score(each, span)
    keys = {word(each.get("key")) for each in told}
    for key, sums in obj(readable(run.get("feedback_stats"))).items():
        if key not in keys and number(obj(sums).get("avg")) is not None:
            count = obj(sums).get("n")
            said = f"mean of {count}" if isinstance(count, int) and count != 1 else None
            yield SourceScore(
                name=key,
                by="feedback",
                span=span,
                value=number(sums["avg"]),
                explanation=said,
            )


def _score(said: dict[str, Any], span: str | None) -> SourceScore:
    value = said.get("value")
    return SourceScore(
        name=word(said.get("key")) or "feedback",
        by=word(obj(said.get("feedback_source")).get("type")) or "feedback",
        span=span,
        value=number(said.get("score")),
        label=value if isinstance(value, str) and value else None,
        explanation=word(said.get("comment")),
    )
