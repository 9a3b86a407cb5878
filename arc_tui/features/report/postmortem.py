"""The post-mortem of a run, in Markdown: filled in as far as arc knows, blanks for a person's part.

Nothing in it is guessed: a candidate keeps the accuracy that was measured for it, a suggestion says
that nobody confirmed it, and what nobody wrote down is a blank. Foreign text is code, as in
`arc brief --md`, and secrets are masked by the rules of today.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui import markdown as md
from arc_tui.views.brief import Mask, break_markdown, known_markdown, run_facts
from arc_tui.views.columns import run_name
from arc_tui.views.failures import WHO
from arc_tui.views.trace import TraceView, build_trace
from replay.store.handle import Store
from taxonomy.classes import BY_CLASS, class_label
from taxonomy.failures import is_agents
from taxonomy.golden.sets import FOLDER
from taxonomy.judgements.tags import TagRow
from taxonomy.metrics.change import dated
from taxonomy.owners import NOBODY, Owners, owners_of
from taxonomy.playbook import NO_PLAYBOOK, Playbook
from taxonomy.query.failures import tag_rows

BLANK = "*(to be filled in)*"

OPEN = (
    ("Impact", "who was affected, since when, how was it noticed"),
    ("Root cause", "confirmed by whom, and how"),
    ("Why no check caught it", "which test, gate or guard should have"),
    ("Actions", "what is changed, by whom, until when"),
    ("Lessons", "what went well, what did not"),
)
"""What only people know."""


class Tried(Struct, frozen=True, kw_only=True):
    """A replay or an edit test of the run that is kept: what it was, in words of arc, when, with
    which edit (its name, None for none), and what it came to, a sentence each."""

    what: str
    digest: str
    ran_ns: int
    model: str
    edit: str | None
    lines: tuple[str, ...]


class GoldenLine(Struct, frozen=True, kw_only=True):
    """A golden task that was made from the run: its id, and the set it stands in."""

    id: str
    folder: str


def markdown(
    store: Store,
    name: str,
    *,
    tried: Sequence[Tried] = (),
    golden: Sequence[GoldenLine] = (),
    golden_problem: str = "",
    owners: Owners = NOBODY,
    playbook: Playbook = NO_PLAYBOOK,
) -> str:
    """The post-mortem of a run; `golden_problem` is why the golden set could not be read. Raises
    NotFound."""
    view = build_trace(store, name)
    mask = store.redactor.text
    said = tag_rows(store, "run = ?", (view.run.run,))
    parts = (
        *_facts(view, mask),
        *known_markdown(view, mask, "##"),
        *break_markdown(view, mask, "##"),
        *_class(said, mask),
        *_experiments(tried, mask),
        *_response(store, said, owners, playbook, mask),
        *_golden(golden, golden_problem, view.run.trace[:8], mask),
        *_open(),
    )
    return "\n\n".join(parts) + "\n"


def _facts(view: TraceView, mask: Mask) -> Iterator[str]:
    row = view.run
    yield f"# Post-mortem: {md.code(format.cut(mask(run_name(row, ' / ')), md.WIDTH))}"
    yield "What stands in code is quoted. What arc does not know is a blank."
    yield "## What happened"
    facts = run_facts(row, mask)
    times = [("started", _moment(row.start_ns)), ("ended", _moment(row.end_ns))]
    yield md.table([*facts[:2], *times, *facts[2:]], ("", ""))
    if row.title:
        yield md.value("Title", mask(row.title))


def _moment(ns: int | None) -> str:
    """A moment in UTC; `–` where it is unknown, or the clock of the source began with the run."""
    known = dated(ns)
    if known is None:
        return format.UNKNOWN
    return datetime.fromtimestamp(known / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _class(said: Sequence[TagRow], mask: Mask) -> Iterator[str]:
    """What people tagged, then what was only suggested."""
    yield "## Failure class"
    tags = [row for row in said if row.accepted]
    suggested = [row for row in said if not row.accepted]
    if not tags:
        yield f"No person has tagged this run. Class: {BLANK}"
    for row in (*tags, *suggested):
        yield _tag_line(row, mask)


def _tag_line(row: TagRow, mask: Mask) -> str:
    by = f"{WHO[row.source]} {md.code(mask(row.by))}"
    how = f"tagged by {by}" if row.accepted else f"suggested tag ({by}), not confirmed by a person"
    whose = "" if is_agents(row.attribution) else f", attribution {row.attribution}"
    line = f"Step {row.step}: {md.code(mask(class_label(row.failure, row.sub)))} {how}{whose}"
    return md.value(line, mask(row.why)) if row.why else line


def _experiments(tried: Sequence[Tried], mask: Mask) -> Iterator[str]:
    yield "## What was tried"
    if not tried:
        yield "No replay or edit test of this run is saved."
    for each in tried:
        edit = f" · edit {md.code(mask(each.edit))}" if each.edit else " · no edit"
        model = md.code(mask(each.model))
        yield f"**{each.what}**, {_moment(each.ran_ns)}{edit} · model {model}"
        yield md.block(mask("\n".join(each.lines)))
        yield f"Digest {md.code(each.digest)}"


def _response(
    store: Store, said: Sequence[TagRow], owners: Owners, playbook: Playbook, mask: Mask
) -> Iterator[str]:
    """Owner, rollback and guard of what the run is counted for, and the class's first fix."""
    yield "## Owner, rollback, guard"
    if not said:
        rows = [(name, BLANK) for name in ("owner", "rollback", "guard")]
        yield md.table(rows, ("", ""))
        return
    first = said[0]
    (owner,) = owners_of(store, [first], owners)
    written = playbook.of(first.failure, first.sub, first.attribution)
    yield f"Of {md.code(mask(class_label(first.failure, first.sub)))}, step {first.step}."
    cells = {"owner": owner, "rollback": written.rollback, "guard": written.guard}
    long = md.WIDTH * 4
    rows = [(name, md.cell(mask(text), long) if text else BLANK) for name, text in cells.items()]
    yield md.table(rows, ("", ""))
    fix = BY_CLASS[first.failure].fix
    if is_agents(first.attribution) and fix != format.UNKNOWN:
        yield f"Usual first fix of this class: {fix}."


def _golden(golden: Sequence[GoldenLine], problem: str, key: str, mask: Mask) -> Iterator[str]:
    yield "## Golden task"
    for each in golden:
        yield f"{md.code(mask(each.id))} in {md.code(mask(each.folder))}"
    if problem:
        yield md.value("The golden set cannot be read", mask(problem))
    elif not golden:
        command = md.code(f"arc golden add {key}")
        yield f"None in {md.code(FOLDER)} was made from this run. Try: {command}"


def _open() -> Iterator[str]:
    yield "## Open questions"
    yield "\n".join(f"- [ ] **{name}** ({what}): {BLANK}" for name, what in OPEN)
