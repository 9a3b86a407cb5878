"""A rubric that a user wrote: read from a TOML file, kept by its version.

```toml
name = "refunds"               # letters, digits, _ and -
mode = "window"                # what the judge sees: step, window or run
about = "Refunds of the shop." # what is to be judged, in a sentence (may be left out)

[[item]]                       # yes or no, in mode step or window
name = "amount confirmed"
question = "Did the user agree to the amount before it was paid back?"
```

In place of items a scale from 0 to 1 has bands, in any mode:

```toml
[[band]]
from = 0.0
to = 0.4
means = "the user never agreed to the amount"
```

The version is the name, what an answer is (items or bands), and a digest of all that the judge is
told: scores of two versions never mix, and each is calibrated and approved by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.store import answers
from replay.store.handle import Store
from replay.written import toml_problem
from taxonomy.judge.rubrics import BAND, ITEM, RUBRICS, Mode, Question, Rubric, closed_object

MOST_ITEMS = 20
"""Items of a rubric: an answer has to have room for all."""

_NAME = re.compile(r"[A-Za-z][\w-]{0,39}")
_HINT = "Try: name, mode (step, window or run), and [[item]] or [[band]] tables"
_NOTE = "rubric "


class BadRubric(ArcError):
    """A rubric file that cannot be used; the message names the file and the place in it."""


class _Item(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    question: str


class _Band(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: float = msgspec.field(name="from")
    to: float
    means: str


class OwnRubric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in the file."""

    name: str
    mode: Mode
    about: str = ""
    item: tuple[_Item, ...] = ()
    band: tuple[_Band, ...] = ()

    def rubric(self) -> Rubric:
        """What a judge is told."""
        base = RUBRICS[self.mode].words.splitlines()[0].split(" Answer each question")[0]
        kind = "items" if self.item else "bands"
        about = " ".join(self.about.split())
        if not self.item:
            bands = "; ".join(f"{e.start:g} to {e.to:g} {' '.join(e.means.split())}"
                              for e in self.band)  # fmt: skip
            return Rubric(
                mode=self.mode,
                number=1,
                own=f"{self.name}.{kind}",
                words="\n".join(filter(None, [base, about, f"Bands: {bands}."])),
                shape=RUBRICS["run"].shape if self.mode == "run" else BAND,
            )
        questions = tuple(
            Question(
                name=f"{self.name}: {each.name}",
                key=_key(each.name),
                asks=" ".join(each.question.split()),
            )
            for each in self.item
        )
        answer = "Answer each question with yes, no, or not applicable."
        return Rubric(
            mode=self.mode,
            number=1,
            own=f"{self.name}.{kind}",
            words="\n".join(filter(None, [base, about, answer])),
            shape=closed_object(**{each.key: ITEM for each in questions}),
            questions=questions,
        )


class Kept(Struct, frozen=True, kw_only=True):
    """A version of a rubric as it is kept; `items` are the names a person labels them by."""

    version: str
    mode: Mode
    items: tuple[str, ...]
    content: OwnRubric


def read(file: Path) -> Rubric:
    """The rubric in a file. Raises BadRubric naming the file and the place."""
    return _read(file).rubric()


def read_and_keep(store: Store, file: Path) -> Rubric:
    """The same, kept by its version, so that its items can be labelled."""
    found = _read(file)
    rubric = found.rubric()
    items = tuple(question.name for question in rubric.questions)
    kept = Kept(version=rubric.version, mode=rubric.mode, items=items, content=found)
    answers.keep(store, f"{_NOTE}{rubric.version}", kept)
    return rubric


def kept_rubrics(store: Store) -> list[Kept]:
    """Every version of every rubric that was used, by version."""
    return answers.found(store, _NOTE, Kept)


def _read(file: Path) -> OwnRubric:
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=OwnRubric)
    except OSError as error:
        raise BadRubric(f"{file}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRubric(f"{file}: {toml_problem(error)}", _HINT) from error
    wrong = next(_flaws(found), None)
    if wrong is not None:
        raise BadRubric(f"{file}: {wrong}", _HINT)
    return found


def _flaws(found: OwnRubric) -> Iterator[str]:
    if not _NAME.fullmatch(found.name):
        yield f"name '{found.name}' is not a letter and up to 39 letters, digits, _ or -"
    if bool(found.item) == bool(found.band):
        yield "has both items and bands" if found.item else "has neither items nor bands"
    if found.item and found.mode == "run":
        yield "mode run is scored on bands: items need mode step or window"
    if len(found.item) > MOST_ITEMS:
        yield f"has {len(found.item)} items; at most {MOST_ITEMS}"
    keys: set[str] = set()
    for at, item in enumerate(found.item, 1):
        if not _key(item.name) or not item.question.strip():
            yield f"item {at}: its name or its question is empty"
        if _key(item.name) in keys:
            yield f"item {at}: '{item.name}' is there twice"
        keys.add(_key(item.name))
    before = 0.0
    for at, band in enumerate(found.band, 1):
        if not band.means.strip():
            yield f"band {at}: `means` is empty"
        if not before <= band.start <= band.to <= 1:
            place = f"band {at}: {band.start:g} to {band.to:g}"
            yield f"{place} is not above the one before it and within 0 to 1"
        before = band.to


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")
