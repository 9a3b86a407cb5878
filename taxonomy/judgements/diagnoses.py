"""What did the rules say of a trace, and which traces must they look at again?

A diagnosis names the rules that wrote it by a digest of their sources. It is made anew once
anything has changed that it follows from, be it only a comment: to look again is cheap, and a
version that somebody must think of is forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from replay.store.handle import Store, now_ns
from taxonomy.classes import FailureClass
from taxonomy.findings import Diagnosis, Source, StepScore
from taxonomy.judgements.scores import all_scores, insert_scores, score_rows

if TYPE_CHECKING:
    from replay.redact.redactor import Redactor


class Kept(Struct, frozen=True, kw_only=True):
    """A diagnosis as it is kept: rows of suggestions and of scores, and its own columns."""

    trace: str
    suggestions: tuple[tuple[Any, ...], ...]
    scores: tuple[tuple[Any, ...], ...]
    columns: tuple[Any, ...]


def keep(
    store: Store, diagnosis: Diagnosis, spans: Mapping[int, str], until_ns: int | None = None
) -> None:
    """Keep what the rules say of a trace, in place of what they said before.

    `spans` gives the model span of each step, `until_ns` when a score that the candidates rest on
    ceases to count: from then on the trace is undiagnosed. None: none ever does.
    """
    keep_all(store, [prepare(store.redactor, diagnosis, spans, until_ns)])


def prepare(
    redactor: Redactor,
    diagnosis: Diagnosis,
    spans: Mapping[int, str],
    until_ns: int | None = None,
    content: str | None = None,
) -> Kept:
    """A diagnosis for `keep_all`. `content` is the digest of the trace that it is of, None: of the
    trace as it stands when it is kept."""
    first = diagnosis.candidates[0] if diagnosis.candidates else None
    encode = msgspec.json.encode
    return Kept(
        trace=diagnosis.trace,
        suggestions=tuple(
            (
                diagnosis.trace,
                place,
                found.span or spans.get(found.step, ""),
                found.step,
                found.failure.value,
                found.sub,
                found.attribution.value if found.attribution else None,
                found.why,
                found.rule,
                found.confidence,
                encode(found.evidence).decode(),
            )
            for place, found in enumerate(diagnosis.findings)
        ),
        scores=score_rows(
            redactor, diagnosis.trace, (_placed(score, spans) for score in diagnosis.scores)
        ),
        columns=(
            content,
            engine_version(),
            diagnosis.shape.value if diagnosis.shape else None,
            first.why if first else None,
            first.step if first else None,
            encode(diagnosis.warnings).decode(),
            encode(structs.replace(diagnosis, scores=())).decode(),  # they have rows of their own
            until_ns,
        ),
    )


def keep_all(store: Store, given: Iterable[Kept]) -> None:
    """Keep diagnoses of traces in one transaction, in place of what was said of them before."""
    with store.writing() as db:
        for each in given:
            key = each.trace
            db.execute("DELETE FROM suggestion WHERE trace = ? AND source = 'rule'", (key,))
            db.execute("DELETE FROM score WHERE trace = ? AND source IN ('rule', 'import')", (key,))
            db.executemany(
                "INSERT INTO suggestion (trace, place, span, step, class, sub, fault, why, by,"
                " source, confidence, evidence) VALUES (?,?,?,?,?,?,?,?,?,'rule',?,?)",
                each.suggestions,
            )
            insert_scores(store, each.scores)
            db.execute(
                "INSERT OR REPLACE INTO diagnosis (trace, content, engine, shape, why, why_step,"
                " warnings, body, until_ns)"
                " SELECT key, coalesce(?, content), ?, ?, ?, ?, ?, ?, ? FROM trace"
                " WHERE key = ? AND complete",
                (*each.columns, key),
            )


def _placed(score: StepScore, spans: Mapping[int, str]) -> StepScore:
    """The score with the span of its step."""
    if score.span is not None:
        return score
    return structs.replace(score, span=spans.get(score.step))


def diagnosis(store: Store, trace: str, *, scores: bool = True) -> Diagnosis | None:
    """What the rules said of a trace, None where they were not asked yet; with the `scores` of its
    steps or, because a long run has very many, without."""
    row = store.db.execute("SELECT body FROM diagnosis WHERE trace = ?", (trace,)).fetchone()
    if row is None:
        return None
    said = msgspec.json.decode(row[0], type=Diagnosis)
    found = all_scores(store, trace) if scores else ()
    return structs.replace(
        said, scores=tuple(each for each in found if each.source in ("rule", "import"))
    )


def undiagnosed(store: Store, at_ns: int | None = None) -> list[str]:
    """Traces the rules have not seen as they are, or whose diagnosis rests on a score that counts
    no more at `at_ns` (None: now), in the order of their import. Those that are live are looked
    at when they are over."""
    now = now_ns() if at_ns is None else at_ns
    found = store.db.execute(
        "SELECT t.key FROM trace t LEFT JOIN diagnosis d ON d.trace = t.key"
        " WHERE t.complete AND coalesce(t.live_until_ns, 0) <= ?"
        " AND (d.content IS NOT t.content OR d.engine IS NOT ? OR d.until_ns <= ?)"
        " ORDER BY t.id",
        (now, engine_version(), now),
    )
    return [row[0] for row in found]


class Suggested(Struct, frozen=True, kw_only=True):
    """A class that a rule or a judge suggests for a step."""

    source: Source
    by: str
    step: int
    failure: FailureClass
    confidence: float | None
    why: str


def suggested(store: Store, trace: str) -> list[Suggested]:
    """What rules and judges suggest of a trace, by source and step."""
    found = store.db.execute(
        "SELECT source, by, step, class, confidence, why FROM suggestion WHERE trace = ?"
        " ORDER BY source, step, place",
        (trace,),
    )
    return [
        Suggested(
            source=source,
            by=by,
            step=step,
            failure=FailureClass(failure),
            confidence=confidence,
            why=why,
        )
        for source, by, step, failure, confidence, why in found
    ]


SOURCES = {
    "taxonomy": (
        "classes.py",
        "diagnosis.py",
        "evidence",
        "findings.py",
        "localiser",
        "metrics",
        "rules",
        "shapes.py",
        "step_scores.py",
    ),
    "replay": (
        "action.py",
        "compare",
        "depth.py",
        "digests.py",
        "edit/changes.py",
        "effects.py",
        "errors.py",
        "messages.py",
        "patterns.py",
        "programs.py",
        "redact/placeholders.py",
        "statistics.py",
        "tool_errors.py",
        "trace.py",
        "written.py",
    ),
}
"""All that `taxonomy.diagnosis` imports: files, and folders with every file in them."""


@cache
def engine_version() -> str:
    """The version of what writes diagnoses: the same however `arc` was installed."""
    return f"arc rules {digest_sources(SOURCES)}"


def digest_sources(sources: Mapping[str, tuple[str, ...]]) -> str:
    """A digest of files, and folders with every file in them, by the package they stand in."""
    found = sha256()
    for name, file in _files(sources):
        with open(file, "rb") as source:
            lines = source.read().replace(b"\r\n", b"\n")
        found.update(f"{name} {len(lines)}\n".encode() + lines)
    return found.hexdigest()[:16]


def _files(sources: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Every source by its name, in the order of these; by plain paths, as every start does it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for package, names in sources.items():
        for name in names:
            place = os.path.join(root, package, name)
            if name.endswith(".py"):
                yield f"{package}/{name}", place
                continue
            for own in sorted(each for each in os.listdir(place) if each.endswith(".py")):
                yield f"{package}/{name}/{own}", os.path.join(place, own)
