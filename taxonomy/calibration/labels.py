"""What was said of runs by others, and which trace and step does each label point at?

Traces go by what others call them, steps by where they stand. A label may name a rubric item of
the judge or of the rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from replay.digests import run_id
from replay.errors import ArcError
from replay.steps import nodes_of, plan
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow, step_rows, trace_rows
from replay.trace import Json, ModelCall, Trace
from taxonomy.classes import CLASSES, FailureClass
from taxonomy.findings import StepScore
from taxonomy.judgements.scores import opinions, replace_file_scores
from taxonomy.judgements.tags import clean_marks, human_tags

By = Literal["people", "rule"]

MADE_BY_RULE = frozenset({"mechanical", "self-declared", "rule", "script", "judge", "model"})
"""Words of `by` and `strength` for a label that no person gave. Agreement with such labels is
conformance to the rule that made them, not accuracy."""


class Label(Struct, frozen=True, kw_only=True):
    """What one line says. `at` None: the whole run; `classes` () none, None nothing said.

    `line` counts from 1, None for a label that stands in the database; `file` is named where there
    were several. `blind` is known of what stands in the database: was it said before what others,
    rules and judges said was seen? `extra` holds keys of the line that mean nothing here.
    """

    trace: str
    at: At | None = None
    classes: tuple[FailureClass, ...] | None = None
    score: float | None = None
    items: dict[str, bool] = {}
    decisive: bool | None = None
    by: str | None = None
    strength: str | None = None
    note: str | None = None
    category: str | None = None
    extra: dict[str, Json] = {}
    line: int | None = None
    file: str | None = None
    blind: bool | None = None

    @property
    def made_by(self) -> By:
        """A rule, where `by` or `strength` says so; else people."""
        words = {_first_word(self.by), _first_word(self.strength)}
        return "rule" if words & MADE_BY_RULE else "people"


class Unusable(Struct, frozen=True, kw_only=True):
    """A label that does not count, and why; `off_scale` where its score is on another scale."""

    trace: str | None
    why: str
    line: int | None = None
    file: str | None = None
    off_scale: bool = False


class PlacedLabel(Struct, frozen=True, kw_only=True):
    """A label with the id of its trace and its step, None where it labels the whole run."""

    label: Label
    trace: str
    step: int | None


# --- reading


class Scale(Struct, frozen=True, kw_only=True):
    """The scores of files, from the worst to the best there is; ours are 0..1."""

    worst: float = 0.0
    best: float = 1.0

    def __contains__(self, score: float) -> bool:
        return min(self.worst, self.best) <= score <= max(self.worst, self.best)

    def __str__(self) -> str:
        return f"{min(self.worst, self.best):g} and {max(self.worst, self.best):g}"

    def to_unit(self, score: float) -> float:
        """A score of this scale on ours."""
        return (score - self.worst) / (self.best - self.worst)


UNIT_SCALE = Scale()
SCALE_HINT = "Try: arc label --from FILE --scale WORST..BEST, such as -1..1"


def read_labels(
    *paths: Path, scale: Scale = UNIT_SCALE
) -> tuple[tuple[Label, ...], tuple[Unusable, ...]]:
    """The labels of files, and the lines that hold none; a file named twice is read once.

    Scores are on `scale`. Raises ArcError where a file cannot be read, and where none of them holds
    a label.
    """
    files = tuple(dict.fromkeys(paths))
    found: list[Label] = []
    unusable: list[Unusable] = []
    for path in files:
        name = path.name if len(files) > 1 else None
        for said in _labels(path, name, scale):
            found.append(said) if isinstance(said, Label) else unusable.append(said)
    if not found:
        first = f": line {unusable[0].line} {unusable[0].why}" if unusable else ""
        names = ", ".join(map(str, files))
        contain = "contains" if len(files) == 1 else "contain"
        form = 'a label is {"trace": …, "at": …, …}'
        off_scale = bool(unusable) and unusable[0].off_scale
        raise ArcError(f"{names}: {contain} no label{first}", SCALE_HINT if off_scale else form)
    return tuple(found), tuple(unusable)


def _labels(path: Path, name: str | None, scale: Scale) -> Iterator[Label | Unusable]:
    """What each line of a file says; `name` is what the file is called."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ArcError(f"{path}: cannot be read: {why}", "Try: another label file") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield structs.replace(_label(line, number, scale), file=name)


def class_named(word: str) -> FailureClass | None:
    """A class by its name (`bad args`, `bad_args`), its letter, or `other / …`; None: unknown."""
    wanted = word.partition("/")[0].strip().lower().replace("_", " ").replace("-", " ")
    for entry in CLASSES:
        if wanted in {entry.name.value, entry.key}:
            return entry.name
    return None


class _Line(Struct, kw_only=True):
    """The keys of a line that are understood, with the types they must have."""

    trace: str
    at: At | None = None
    class_: list[str] | str | None = msgspec.field(name="class", default=None)
    score: float | None = None
    items: dict[str, bool | None] | None = None
    decisive: bool | None = None
    by: str | None = None
    strength: str | None = None
    note: str | None = None
    category: str | None = None


_KNOWN = frozenset(_Line.__struct_encode_fields__)


def _label(line: bytes, number: int, scale: Scale) -> Label | Unusable:
    try:
        known = msgspec.json.decode(line, type=_Line)
        everything: dict[str, Any] = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unusable(trace=None, line=number, why=f"is not a label: {error}")
    said = [known.class_] if isinstance(known.class_, str) else known.class_
    classes = None if said is None else [class_named(word) for word in said]
    if said is not None and classes is not None and None in classes:
        word = said[classes.index(None)]
        return Unusable(trace=known.trace, line=number, why=f"unknown class: {word!r}")
    if known.score is not None and known.score not in scale:
        why = f"has a score of {known.score:g}, not between {scale}"
        return Unusable(trace=known.trace, line=number, why=why, off_scale=True)
    wrong = _wrong(known)
    if wrong is not None:
        return Unusable(trace=known.trace, line=number, why=wrong)
    return Label(
        trace=known.trace,
        at=known.at,
        classes=None if classes is None else tuple(each for each in classes if each is not None),
        score=None if known.score is None else scale.to_unit(known.score),
        items=_items(known),
        decisive=known.decisive,
        by=known.by,
        strength=known.strength,
        note=known.note,
        category=known.category,
        extra={name: value for name, value in everything.items() if name not in _KNOWN},
        line=number,
    )


def _wrong(known: _Line) -> str | None:
    """What a line says that cannot be."""
    at = known.at
    if at is not None and [at.span, at.message, at.step].count(None) != 2:
        return "needs exactly one of span, message and step"
    unknown = [word for word in known.items or () if item_named(word) is None]
    if unknown:
        return f"unknown rubric item {unknown[0]!r} (known: {', '.join(item_names())})"
    if known.items and at is None:
        return "has rubric items for a whole run: they apply to a step"
    return None


def _items(known: _Line) -> dict[str, bool]:
    """The items that a line answers, by their names."""
    named = ((item_named(word), held) for word, held in (known.items or {}).items())
    return {name: held for name, held in named if name is not None and held is not None}


def _first_word(text: str | None) -> str:
    return (text or "").strip().lower().replace(":", " ").partition(" ")[0]


def kept_labels(store: Store) -> tuple[Label, ...]:
    """What people said in the database itself: tags, runs they found nothing wrong with, and what
    else they said of steps.

    A tag says nothing of whether its step was decisive.
    """
    tags = (
        Label(
            trace=tag.trace,
            at=At(step=tag.step),
            classes=(tag.failure,),
            by=tag.by,
            note=tag.note,
            blind=tag.blind,
        )
        for tag in human_tags(store)
    )
    cleared = (
        Label(trace=each.trace, classes=(), by=each.by, note=each.note, blind=each.blind)
        for each in clean_marks(store)
    )
    said = (
        Label(
            trace=each.trace,
            at=At(step=each.step),
            score=each.value,
            items=each.items,
            by=each.by,
            note=each.note,
        )
        for each in opinions(store)
        if not each.empty
    )
    return (*tags, *cleared, *said)


# --- placing


def place(
    store: Store, labels: Iterable[Label]
) -> tuple[tuple[PlacedLabel, ...], tuple[Unusable, ...]]:
    """The labels on the traces of a database, and those that point at nothing in it."""
    names = Names(trace_rows(store, every=True))
    by_trace: dict[str, tuple[TraceRow, list[Label]]] = {}
    unusable: list[Unusable] = []
    for label in labels:
        found = names.find(label.trace)
        if len(found) == 1:
            by_trace.setdefault(found[0].trace, (found[0], []))[1].append(label)
        else:
            unusable.append(_lost(label, _which(len(found))))
    placed: list[PlacedLabel] = []
    for key, (row, own) in by_trace.items():
        steps = _steps(store, row, [label.at for label in own if label.at is not None])
        for label in own:
            if label.at is not None and steps[label.at] is None:
                unusable.append(_lost(label, f"refers to no step: {label.at}"))
            else:
                step = None if label.at is None else steps[label.at]
                placed.append(PlacedLabel(label=label, trace=key, step=step))
    return tuple(placed), tuple(
        sorted(unusable, key=lambda each: (each.file or "", each.line or 0))
    )


def _steps(store: Store, row: TraceRow, places: Sequence[At]) -> dict[At, int | None]:
    """The step of each place; the trace itself is read only where a step's number is not given."""
    if all(at.step is not None for at in places):
        return {at: at.step if at.step in range(row.steps) else None for at in places}
    known = Places(read.load(store, row.trace))
    return {at: known.step(at) for at in places}


def _lost(label: Label, why: str) -> Unusable:
    return Unusable(trace=label.trace, line=label.line, file=label.file, why=why)


def _which(found: int) -> str:
    if not found:
        return "matches no run of this database"
    return f"matches {found} runs of this database; an id or #item selects one"


# --- scores of others


class FileScores(Struct, frozen=True, kw_only=True):
    """What a name's scores in a file came to: the steps they are of, by trace."""

    by: str
    steps: dict[str, frozenset[int]]


def keep_file_scores(
    store: Store, placed: Iterable[PlacedLabel], *, unnamed: str, remove: bool = False
) -> tuple[FileScores, ...]:
    """Keep the scores of steps that labels give, in place of what the same names gave the same
    traces in a file before; or take those back.

    Of several scores that a name gives parts of one step, the lowest is the step's. `unnamed` is
    who gave those that name nobody.
    """
    given: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for each in placed:
        if each.label.score is not None and each.step is not None:
            steps = given[each.label.by or unnamed][each.trace]
            steps[each.step] = min(each.label.score, steps.get(each.step, each.label.score))
    with store.writing():
        for by, traces in given.items():
            for trace, steps in traces.items():
                spans = {row.step: row.span for row in step_rows(store, trace)}
                kept = [
                    StepScore(step=step, value=value, source="file", by=by, span=spans[step])
                    for step, value in steps.items()
                ]
                replace_file_scores(store, trace, by, () if remove else kept)
    return tuple(
        FileScores(by=by, steps={trace: frozenset(steps) for trace, steps in traces.items()})
        for by, traces in given.items()
    )


LEAST_PREFIX = 6
"""Characters of an id before it is taken for one."""


class At(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in a run: exactly one of a span id, a message of the source, a step."""

    span: str | None = None
    message: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        known = {"span": self.span, "message": self.message, "step": self.step}
        return " ".join(f"{name} {value}" for name, value in known.items() if value is not None)


class Places:
    """Where the source's own span ids and messages stand among the steps of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._of = plan(nodes_of(trace.spans)).of

    def step(self, at: At) -> int | None:
        """The step of a place, None where the trace has no such place or no step before it."""
        if at.step is not None:
            return at.step if 0 <= at.step < len(self._trace.steps) else None
        if at.span is not None:
            return self._spans.get(at.span)
        return None if at.message is None else self._of_message(at.message)

    @cached_property
    def _spans(self) -> Mapping[str, int | None]:
        """Each span's step by its id there and here; one that no step precedes is in the first
        step below it."""
        found: dict[str, int | None] = {}
        for span in self._trace.spans:
            step = self._of[span.id]
            step = self._first_below(span.id) if step is None else step
            for name in (span.place.span, span.id):
                if name is not None:
                    found.setdefault(name, step)
        return found

    def _first_below(self, above: str) -> int | None:
        parents = {span.id: span.parent for span in self._trace.spans}
        for step in self._trace.steps:
            node: str | None = step.ask.id
            seen: set[str] = set()
            while node is not None and node not in seen:
                if node == above:
                    return step.index
                seen.add(node)
                node = parents.get(node)
        return None

    def _of_message(self, message: int) -> int | None:
        """The step whose call or result the message is, else the nearest that begins before it."""
        exact = [span for span in self._trace.spans if span.place.message == message]
        exact.sort(key=lambda span: not isinstance(span, ModelCall))
        if exact and self._of[exact[0].id] is not None:
            return self._of[exact[0].id]
        begun = [
            (step.ask.place.message, step.index)
            for step in self._trace.steps
            if step.ask.place.message is not None and step.ask.place.message <= message
        ]
        return max(begun)[1] if begun else None


class Names:
    """Traces by what a label may call them."""

    def __init__(self, known: Sequence[TraceRow]) -> None:
        self._rows = known
        self._by_file: dict[str, list[TraceRow]] = defaultdict(list)
        for row in known:
            self._by_file[_slashed(row.path or "").rpartition("/")[2]].append(row)

    def find(self, name: str) -> list[TraceRow]:
        """By id or the beginning of one, by the end of the path, by the source's own id of the
        recording or else of the run."""
        if len(name) >= LEAST_PREFIX:
            found = [row for row in self._rows if row.trace.startswith(name)]
            if found:
                return found
        path, mark, item = name.rpartition("#")
        return (
            self._at(name, None)
            or (self._at(path, item) if mark else [])
            or [row for row in self._rows if row.source_id == name]
            or [row for row in self._rows if row.preferred and row.run == run_id(name, None)]
        )

    def _at(self, path: str, item: str | None) -> list[TraceRow]:
        wanted = _slashed(path).removeprefix("./")
        return [
            row
            for row in self._by_file.get(wanted.rpartition("/")[2], ())
            if ("/" + _slashed(row.path or "")).endswith("/" + wanted.lstrip("/"))
            and (item is None or item in {row.item, row.source_id})
        ]


def _slashed(path: str) -> str:
    return path.replace("\\", "/")


@cache
def item_names() -> tuple[str, ...]:
    """Every item that a judge or the rules answer."""
    from taxonomy.judge.rubrics import QUESTIONS
    from taxonomy.step_scores import FITS, FRESH

    return (*(question.name for question in QUESTIONS), FITS, FRESH)


def item_named(word: str) -> str | None:
    """The item of that name (`arguments grounded`, `arguments_grounded`) or of that key in a
    judge's answer (`state_reverified`), or of a user's rubric; None: there is none."""
    from taxonomy.judge.rubrics import QUESTIONS

    keys = {question.key.replace("_", " "): question.name for question in QUESTIONS}
    plain = {name.replace("-", " "): name for name in item_names()}
    wanted = " ".join(word.replace("_", " ").replace("-", " ").lower().split())
    return (keys | plain).get(wanted) or (word if OWN_ITEM.fullmatch(word) else None)


OWN_ITEM = re.compile(r"[A-Za-z][\w-]*: \S.*")
"""An item of a rubric that a user wrote: `refunds: amount confirmed`."""
