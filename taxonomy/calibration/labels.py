"""What was said of runs by others, and which trace and step does each word point at?

A label file is JSON Lines, a label a line: `{trace, at, class, score, items, decisive, by}` and,
kept and shown, `strength`, `note`, `category` and whatever else stands there. `trace` is the id of
a trace or the end of its source path, with `#item` for one run of several; `at` is a span, a
message or a step, counted from 0, or null for the whole run. `items` says which rubric items held
at a step: `{"arguments grounded": true}`, null nothing. A line that cannot be read, and a label
that points nowhere, is a value with its reason: nothing is dropped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from replay.errors import ArcError
from replay.store import Store, read
from replay.store.rows import TraceRow, step_rows, trace_rows
from replay.trace import Json
from taxonomy import ledger
from taxonomy.calibration.pointing import At, Names, Places
from taxonomy.calibration.rubric_items import item_named, item_names
from taxonomy.classes import CLASSES, FailureClass
from taxonomy.findings import StepScore

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


class Placed(Struct, frozen=True, kw_only=True):
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
SCALE_HINT = "`arc label --from FILE --scale WORST..BEST` takes another scale: -1..1, 1..5"


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
        holds = "holds" if len(files) == 1 else "hold"
        form = 'a label is {"trace": …, "at": …, …}'
        off_scale = bool(unusable) and unusable[0].off_scale
        raise ArcError(f"{names}: {holds} no label{first}", SCALE_HINT if off_scale else form)
    return tuple(found), tuple(unusable)


def _labels(path: Path, name: str | None, scale: Scale) -> Iterator[Label | Unusable]:
    """What each line of a file says; `name` is what the file is called."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ArcError(f"{path}: cannot be read: {why}", "name a file of labels") from error
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
        return Unusable(trace=None, line=number, why=f"is no label: {error}")
    said = [known.class_] if isinstance(known.class_, str) else known.class_
    classes = None if said is None else [class_named(word) for word in said]
    if said is not None and classes is not None and None in classes:
        word = said[classes.index(None)]
        return Unusable(trace=known.trace, line=number, why=f"names no class we know: {word!r}")
    if known.score is not None and known.score not in scale:
        why = f"gives a score of {known.score:g}, which is not within {scale}"
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
        return "names not exactly one of span, message and step"
    unknown = [word for word in known.items or () if item_named(word) is None]
    if unknown:
        return (
            f"answers no rubric item we know: {unknown[0]!r} (there are {', '.join(item_names())})"
        )
    if known.items and at is None:
        return "answers rubric items of a whole run: they are asked of a step"
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
        for tag in ledger.human_tags(store)
    )
    cleared = (
        Label(trace=each.trace, classes=(), by=each.by, note=each.note, blind=each.blind)
        for each in ledger.clearances(store)
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
        for each in ledger.opinions(store)
        if not each.empty
    )
    return (*tags, *cleared, *said)


# --- placing


def place(store: Store, labels: Iterable[Label]) -> tuple[tuple[Placed, ...], tuple[Unusable, ...]]:
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
    placed: list[Placed] = []
    for key, (row, own) in by_trace.items():
        steps = _steps(store, row, [label.at for label in own if label.at is not None])
        for label in own:
            if label.at is not None and steps[label.at] is None:
                unusable.append(_lost(label, f"points at no step: {label.at}"))
            else:
                step = None if label.at is None else steps[label.at]
                placed.append(Placed(label=label, trace=key, step=step))
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
        return "names no trace of this database"
    return f"names {found} traces of this database; an id or #item tells one"


# --- scores of others


class FileScores(Struct, frozen=True, kw_only=True):
    """What a name's scores in a file came to: the steps they are of, by trace."""

    by: str
    steps: dict[str, frozenset[int]]


def keep_file_scores(
    store: Store, placed: Iterable[Placed], *, unnamed: str, remove: bool = False
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
                ledger.replace_file_scores(store, trace, by, () if remove else kept)
    return tuple(
        FileScores(by=by, steps={trace: frozenset(steps) for trace, steps in traces.items()})
        for by, traces in given.items()
    )
