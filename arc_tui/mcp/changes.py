"""The tools that suggest, estimate and spend: a tag by a named agent, what an edit would cost, and,
where a person allowed it, a replay."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from arc_tui.mcp.answers import Answer, QuotedError, call, line, page, short
from arc_tui.mcp.questions import Arguments, Run, StepNumber, run_row
from arc_tui.mcp.session import Call, Session
from arc_tui.ui import format
from replay.errors import ArcError, BadEdit, no_step
from taxonomy.classes import Attribution, FailureClass, class_label

if TYPE_CHECKING:
    from arc_tui.experiments.locked_view import ReplayView
    from arc_tui.experiments.request import ReplayRequest
    from arc_tui.features.replay.run import ReplayEstimate
    from replay.edit.changes import Edit

# --- tag


class Tag(Arguments, frozen=True, kw_only=True):
    run: Run
    step: StepNumber
    class_: FailureClass = field(name="class")
    why: Annotated[
        str, Meta(description="The reason, in one sentence.", min_length=3, max_length=300)
    ]
    quote: Annotated[
        str,
        Meta(
            description="Words that stand at that step, copied letter by letter: the evidence.",
            min_length=1,
            max_length=500,
        ),
    ]
    agent: Annotated[
        str,
        Meta(
            description="Your own name, such as `claude-code`: it stands beside the suggestion.",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@/-]{0,59}$(?!\n)",
        ),
    ]
    sub_label: Annotated[
        str, Meta(description="Only with class `other`: a word for it.", max_length=60)
    ] = ""
    attribution: Annotated[Attribution, Meta(description="Whose failure it is.")] = (
        Attribution.AGENT
    )
    withdraw: Annotated[
        bool, Meta(description="Take your suggestion of that class at that step back.")
    ] = False


def tag(session: Session, under_way: Call, given: Tag) -> Answer:
    """Keep a suggestion with its quote. Raises ArcError where the quote does not stand there."""
    from arc_tui.views.evidence import AGENT_BY
    from replay.store import read
    from replay.store.rows import step_rows
    from taxonomy.findings import Finding
    from taxonomy.judge.classify import Citation, Quotes
    from taxonomy.judgements.suggestions import suggest, withdraw

    failure = given.class_
    if given.sub_label and failure is not FailureClass.OTHER:
        raise ArcError(f"sub_label belongs to class other, not to {failure.value}")
    with session.store(under_way, to_read=False) as store:
        row = run_row(store, given.run)
        key = short(row.trace)
        steps = step_rows(store, row.trace)
        if given.step >= len(steps):
            raise no_step(given.step, len(steps))
        quotes = Quotes(read.load(store, row.trace))
        cited = Citation(step=given.step, quote=given.quote)
        wrong = None if given.withdraw else quotes.problem(cited)
        if wrong is not None:
            copied = call("step", run=key, step=given.step, offset=0)
            raise ArcError(f"the quote is no evidence: {wrong}", f"Try: copy it from {copied}")
        found = Finding(
            failure=failure,
            step=given.step,
            why=" ".join(given.why.split()),
            rule=f"{AGENT_BY}{given.agent}",
            span=steps[given.step].span,
            sub=given.sub_label or None,
            attribution=given.attribution,
            evidence=() if given.withdraw else (quotes.evidence(cited),),
        )
        change = withdraw if given.withdraw else suggest
        before = change(store, row.trace, found)
    what = f"run {key}, step {given.step}: {class_label(failure, found.sub)}, by {found.rule}"
    if given.withdraw:
        if not before:
            raise ArcError(f"no suggestion to withdraw: {what}")
        return Answer(says=f"Withdrawn: {what}.", calls=(call("brief", run=key),))
    return Answer(
        says=f"Suggested: {what}{' (it replaces your earlier one)' if before else ''}. It is no"
        " tag: a person accepts it in the app, and `arc tag list` shows it marked `?` with your"
        " name.",
        calls=(call("brief", run=key), call("failures")),
    )


# --- what an edit would cost


class Estimate(Arguments, frozen=True, kw_only=True):
    run: Run
    system: Annotated[
        str,
        Meta(description="The whole new system prompt. Give this or `edit`.", max_length=200_000),
    ] = ""
    edit: Annotated[
        str,
        Meta(
            description='Changes in TOML: [[change]] tables, each with kind = "replace_text"'
            ' (anchor, text, and target = "tool NAME" for a tool\'s description), "patch_system"'
            ' (text: a unified diff), "set_tool" (target, description).',
            max_length=200_000,
        ),
    ] = ""
    model: Annotated[
        str,
        Meta(description="The model to ask, if not the recorded one.", max_length=200),
    ] = ""
    samples: Annotated[
        int, Meta(description="Responses a request; 0: 3, more where inconclusive.", ge=0, le=20)
    ] = 0


class Replay(Estimate, frozen=True, kw_only=True):
    """The same arguments, and this time it is asked."""


def estimate(session: Session, under_way: Call, given: Estimate) -> Answer:
    """What a replay of the run with that edit would ask and cost. Sends nothing."""
    from arc_tui.experiments.edits import build_draft, diff_of
    from arc_tui.features.replay.run import estimate_draft

    with session.store(under_way) as store:
        row = run_row(store, given.run)
        request = _request(row.trace, given)
        with _quoting():
            draft = build_draft(store, row.trace, 0, request.edit)
            found = estimate_draft(store, draft, request)
            diff = diff_of(draft, request.edit)
        allowed = session.budget
        key = short(row.trace)
        if not found.models:
            raise ArcError("model unknown: the run does not say which one", "Try: model=NAME")
        lines = [line(f"model: {' and '.join(found.models)}"), *_refusals(found)]
        lines += [
            format.one_line(each) for each in (draft.notice, allowed and found.keyless) if each
        ]
        lines += [format.cut(format.plain(each), 300) for each in diff]
    shown, left = page(lines, 0, lambda _: "They are of your own edit.")
    if allowed is None:
        after = (
            f"A person runs it: `arc replay {key} --edit FILE --live --budget USD`, with the edit"
            " in FILE."
        )
        calls: tuple[str, ...] = (call("diagnose", run=key),)
    else:
        after = f"Left to spend in this session: {_remainder(session)}."
        calls = (call("replay", run=key, **_same(given)),)
    return Answer(
        says=f"Estimate; nothing was sent. {_cost_line(found)} {after}",
        data=shown,
        left_out=left,
        calls=calls,
    )


@contextmanager
def _quoting() -> Iterator[None]:
    """What is refused over a run may name its model, its tools or lines of its prompt."""
    try:
        yield
    except ArcError as error:
        raise QuotedError(error.message, error.hint) from error


def _request(trace: str, given: Estimate, *, live: bool = False) -> ReplayRequest:
    from arc_tui.experiments.request import ReplayRequest
    from replay.locked.row import AUTO, Sampling

    return ReplayRequest(
        trace=trace,
        edit=_edit(given),
        model=given.model or None,
        live=live,
        sampling=Sampling(levels=(given.samples,)) if given.samples else AUTO,
    )


def _edit(given: Estimate) -> Edit:
    """The edit that is meant. Raises BadEdit for none, for two, and for one that is wrong."""
    from replay.edit.changes import Edit, SetSystem
    from replay.edit.files import from_toml

    if bool(given.system) == bool(given.edit):
        raise BadEdit("give `system`, the whole new system prompt, or `edit`, changes in TOML")
    if given.system:
        return Edit(name="system prompt by an agent", changes=(SetSystem(given.system),))
    return from_toml(given.edit, "edit", "edit by an agent")


def _cost_line(found: ReplayEstimate) -> str:
    from arc_tui.cli import estimate_line
    from arc_tui.experiments.request import is_local

    assert found.calls is not None
    asked = "free, on this machine" if is_local(found.models) else estimate_line(found.calls)
    return f"{format.count(found.steps, 'step')}: {asked}."


def _refusals(found: ReplayEstimate) -> Iterator[str]:
    """The steps that cannot be asked, by their reason."""
    for said, reasons in (("cannot be asked", found.refused), ("not edited", found.edit_refused)):
        for why, count in reasons:
            yield line(f"{format.count(count, 'step')} {said}: {why}")


def _same(given: Estimate) -> dict[str, object]:
    """The arguments of a call again, long texts as `…`."""
    return {
        "system": "…" if given.system else None,
        "edit": "…" if given.edit else None,
        "model": given.model or None,
        "samples": given.samples or None,
    }


# --- what is asked


def replay(session: Session, under_way: Call, given: Replay) -> Answer:
    """Ask the model at every recorded step, as recorded and with the edit, within the session's
    budget. Runs no tool of the agent."""
    from arc_tui.cli import refuse_keyless
    from arc_tui.experiments.models import ModelPool, spending_of
    from arc_tui.features.replay.run import estimate_cost, run_replay
    from taxonomy.query.failures import break_and_notice

    with session.spend(under_way) as budget, session.store(under_way, to_read=False) as store:
        with session.turn(under_way):  # all that is read before the first call
            request = _request(run_row(store, given.run).trace, given, live=True)
            with _quoting():
                refuse_keyless(lambda: estimate_cost(store, request))
            break_and_notice(store, request.trace)
        with _quoting(), ModelPool(store, live=True, budget=budget) as pool:
            under_way.ask(pool)
            for view in run_replay(store, request, pool):
                if under_way.report is not None:
                    under_way.report(view.done, view.total, f"step {view.done} of {view.total}")
        spent = spending_of(view)
        key = short(view.trace)
        data, left = page(_print_lines(view), 0, lambda _: "Call compare, below.")
    ended = "" if view.ended is None else " Not finished: why stands in the data below."
    cost = format.usd(spent.usd, complete=spent.complete)
    done = f"{view.verdict.control.of} of {format.count(view.total, 'step')}"
    says = (
        f"Replayed {done}: {format.count(spent.calls, 'call')} · {spent.cached} cached · {cost}."
        f" Left to spend in this session: {_remainder(session)}.{ended} A replay says what the"
        " model does at recorded steps, not whether the run would pass."
    )
    calls = [call("compare", a=key, b=view.digest)] if view.digest is not None else []
    return Answer(
        says=says,
        data=data,
        left_out=left,
        calls=(*calls, call("brief", run=key)),
    )


def _remainder(session: Session) -> str:
    """What may still be spent: a call under way counts at its worst."""
    budget = session.budget
    assert budget is not None
    assert budget.limits.usd is not None
    left = max(budget.limits.usd - budget.usd, 0.0)
    return f"${left:.4f} of {format.usd(budget.limits.usd)}"


def _print_lines(view: ReplayView) -> list[str]:
    """A replay as `arc replay` prints it."""
    from arc_tui.cli import PlainConsole
    from arc_tui.features.replay.text import print_replay

    out = io.StringIO()
    plain = PlainConsole(file=out, width=160, highlight=False, emoji=False, markup=False)
    print_replay(plain, view)
    return [format.cut(each.rstrip(), 1000) for each in out.getvalue().splitlines()]
