"""What could be searched for the edit that broke a run?

Ways are offered from what is known: earlier bisections, kept edits, the demo's own prompts;
others are named by a person: files in their order, patterns of them, or the revisions of one
file in git.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

from msgspec import Struct

from arc_tui.features.bisect.run import kept_bisects
from arc_tui.features.bisect.versions import BadVersions, Source, of_files, of_git, recorded_prompt
from arc_tui.features.bisect.view import BisectView
from arc_tui.places import fixtures
from arc_tui.ui import format
from arc_tui.views.columns import run_name
from replay import messages
from replay.bisection.hunks import hunks
from replay.edit.changes import Edit
from replay.edit.editor import Editor
from replay.errors import BadEdit
from replay.models import default_name
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.detectors import GoldEnding, NothingExpected, detector_at
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.failures import break_and_notice

LAST = 3
"""The newest prompts that are offered by themselves: one change is likelier among few."""

RANGES = 'as "prompts/v*.md", or of git: "prompt.md v1..HEAD"'


class Way(Struct, frozen=True, kw_only=True):
    """Something to search: versions in their order, the hunks between two texts, or an edit tried
    from each step. `kept` is what an earlier search came to."""

    name: str
    words: str = ""
    sources: tuple[Source, ...] = ()
    old: Source | None = None
    new: Source | None = None
    fix: Edit | None = None
    kept: BisectView | None = None


class BisectOptions(Struct, frozen=True, kw_only=True):
    """A run before a search: the step it is asked at (None where it has none), what a rule found
    there by whose word (`by` None: nothing), and the ways there are.

    `gold` tells that its source says what should have been done.
    """

    run: str
    step: int | None
    steps: int
    by: str | None
    why: str
    gold: bool
    model: str | None
    ways: tuple[Way, ...]


def build_options(
    store: Store, name: str, at: int, edit: Edit | None = None, *, exactly: bool = False
) -> BisectOptions:
    """What can be searched at step `at`; unless `exactly` there, where the run broke if no rule
    found anything at `at`, but one did there.

    With an `edit`, its ways come first. Raises NotFound.
    """
    row = trace_row(store, name)
    trace = read.load(store, row.trace)
    step = _step(store, trace, at, exactly=exactly)
    by, why = _found(store, trace, step)
    return BisectOptions(
        run=run_name(row),
        step=step,
        steps=len(trace.steps),
        by=by,
        why=why,
        gold=_has_gold(trace),
        model=default_name(trace),
        ways=tuple(_ways(store, trace, step or 0, edit)),
    )


def _step(store: Store, trace: Trace, at: int, *, exactly: bool) -> int | None:
    if not trace.steps:
        return None
    at = max(0, min(at, len(trace.steps) - 1))
    broke, _ = break_and_notice(store, trace.id)
    if exactly or broke is None or _found(store, trace, at)[0]:
        return at
    return broke if _found(store, trace, broke)[0] else at


def _found(store: Store, trace: Trace, step: int | None) -> tuple[str | None, str]:
    """By whose word an answer at the step is bad, and the finding it rests on."""
    said = diagnosis(store, trace.id)
    findings = said.findings if said is not None else ()
    oracle = detector_at(trace, findings, step)
    if oracle is None:
        return None, ""
    rule = oracle.name.removesuffix(", by rule")
    here = (each.why for each in findings if each.step == step and each.rule == rule)
    return oracle.name, format.one_line(next(here, ""))


def _has_gold(trace: Trace) -> bool:
    try:
        GoldEnding(trace)
    except NothingExpected:
        return False
    return True


# --- what is known


def _ways(store: Store, trace: Trace, step: int, edit: Edit | None) -> Iterator[Way]:
    if not trace.steps:
        return
    if edit is not None:
        yield from _of_edit(trace, step, edit)
    for view in kept_bisects(store, trace.id):
        yield Way(name=f"earlier: {view.status}", words=format.one_line(view.sentence), kept=view)
    yield from _of_demo(recorded_prompt(trace, step))
    given = edit.digest if edit is not None else None
    for kept in edits.listed(store):
        if kept.digest != given:
            yield from _of_edit(trace, step, kept.edit)


def _of_edit(trace: Trace, step: int, edit: Edit) -> Iterator[Way]:
    """The parts of an edit, where there are several, and the edit from each step."""
    try:
        request = Editor(edit, trace).request(trace.steps[step].ask.request, "the step", step)
    except BadEdit:
        return
    name = format.cut(format.one_line(edit.name), 40)
    old = recorded_prompt(trace, step)
    new = "" if request.system is None else messages.text(request.system)
    parts = len(hunks(old, new))
    if parts:
        yield Way(
            name=f"parts of {name}",
            words=f"{format.count(parts, 'hunk')} of the system prompt: which of them?",
            old=Source(name="as recorded", text=old),
            new=Source(name=edit.name, text=new),
        )
    if edit.model is None:
        words = "until which step does it save the run?"
        yield Way(name=f"{name} from each step", words=words, fix=edit)


def _of_demo(recorded: str) -> Iterator[Way]:
    """The demo's prompts up to the recorded one, where it is one of them."""
    files = in_order(fixtures() / "demo" / "prompts")
    sources = tuple(of_files(files))
    texts = [each.text.rstrip("\n") for each in sources]
    if recorded.rstrip("\n") not in texts:
        return
    until = sources[: texts.index(recorded.rstrip("\n")) + 1]
    if len(until) > LAST:
        yield Way(
            name=spanned(until[-LAST:]), words="the demo's last prompts", sources=until[-LAST:]
        )
    if len(until) > 1:
        yield Way(name=spanned(until), words="all the demo's prompts until this", sources=until)


def in_order(folder: Path) -> list[Path]:
    """The prompts of a folder, v2 before v10."""
    return sorted(folder.glob("*.md"), key=_natural)


def _natural(path: Path | str) -> tuple[tuple[int, int | str], ...]:
    parts = re.split(r"(\d+)", str(path))
    return tuple((0, int(each)) if each.isdecimal() else (1, each) for each in parts)


def spanned(sources: Sequence[Source]) -> str:
    """Versions in a few words: `v3 … v5`."""
    names = [format.cut(format.one_line(each.name), 30) for each in sources]
    return f"{names[0]} … {names[-1]}" if len(names) > 2 else " and ".join(names)


# --- what a person names


def named(words: str) -> Way:
    """The versions that a person names: files and patterns, the oldest first, or `PATH A..B`.

    What a pattern finds is put in its natural order. Raises BadVersions.
    """
    try:
        said = shlex.split(words)
    except ValueError as error:
        raise BadVersions(f"{words!r} cannot be read: {error}", RANGES) from error
    if len(said) == 2 and ".." in said[1] and not Path(said[1]).expanduser().exists():
        sources = of_git(Path(said[0]).expanduser(), said[1])
    else:
        sources = of_files([file for each in said for file in _files(each)])
    if len(sources) < 2:
        raise BadVersions(f"{words!r} names one version, and two are needed", RANGES)
    return Way(name=spanned(sources), sources=tuple(sources))


def _files(word: str) -> list[Path]:
    path = Path(word).expanduser()
    if path.exists():
        return in_order(path) if path.is_dir() else [path]
    found = [Path(each) for each in sorted(glob(str(path), recursive=True), key=_natural)]
    if not found:
        raise BadVersions(f"no file {word!r}", RANGES)
    return [each for each in found if each.is_file()]
