"""Golden tasks and runs: a task drafted from a run, a run graded by a task, a set held against all
runs of the database.

A check is prefilled from the gold of the run, else from the rule that found its failure, else from
the class that a person gave it. Where none is there, nothing is made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from replay import messages
from replay.compare import rules
from replay.effects import guess
from replay.errors import ArcError, NotFound
from replay.predicate import Condition, predicate
from replay.redact.placeholders import masked_count
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow
from replay.trace import Json, Trace
from taxonomy.classes import BY_CLASS, FailureClass, class_label
from taxonomy.evidence.endings import is_hand_over
from taxonomy.evidence.final_answer import LONGEST, final_answer
from taxonomy.evidence.reading import Reading, mutates
from taxonomy.findings import Finding
from taxonomy.golden import grader
from taxonomy.golden.changes import Pinned
from taxonomy.golden.sets import (
    Action,
    ActionsCheck,
    AnswerCheck,
    BadGolden,
    Check,
    GoldenTask,
    JudgeCheck,
    Origin,
    PredicateCheck,
    RuleCheck,
    check_kind,
    task_problems,
    tools_text,
)
from taxonomy.judgements.golds import with_own_gold
from taxonomy.judgements.tags import TagRow
from taxonomy.metrics.calls import predecessors
from taxonomy.metrics.gold import answer_of, gold_of, own_parts
from taxonomy.query.failures import tags_of
from taxonomy.query.listing import tools_called
from taxonomy.rules import EVERY_RULE, findings
from taxonomy.rules.rule import RuleContext

K = 4
"""How many times a task is run where nobody says otherwise: pass^k needs four (article 001)."""

RULES = tuple(dict.fromkeys(rule.name for rule in EVERY_RULE))

FORMS = "predicate:EXPR rule:NAME judge:QUESTION contains:TEXT regex:PATTERN equals:TEXT"


class NothingToCheck(ArcError):
    """A run says nothing of which a check could be made."""


class Draft(Struct, frozen=True, kw_only=True):
    """A task made from a run and not written yet. `sources` says of each check what it came from;
    `met`: what the checks say of the run itself, None where that is not decided here."""

    task: GoldenTask
    pinned: Pinned
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    met: bool | None
    outcome: str


def read_check(text: str) -> Check:
    """A check as it is written on the command line. Raises BadGolden, BadPredicate, NotFound."""
    kind, colon, rest = text.partition(":")
    value = rest.strip()
    check: Check
    match kind.strip().lower():
        case "predicate":
            predicate(value)  # raises with the place in it
            check = PredicateCheck(expect=value)
        case "rule":
            if value not in RULES:
                raise NotFound("rule", value, RULES)
            check = RuleCheck(absent=value)
        case "judge":
            check = JudgeCheck(item=value)
        case "contains":
            check = AnswerCheck(texts=(value,))
        case "regex":
            check = AnswerCheck(texts=(value,), how="regex")
        case "equals":
            check = AnswerCheck(texts=(value,), how="equals")
        case _:
            raise BadGolden(f"check '{text}': kind unknown", f"Try: {FORMS}")
    if not colon or not value:
        raise BadGolden(f"check '{text}': says nothing", f"Try: {FORMS}")
    return check


def draft_task(
    store: Store,
    row: TraceRow,
    *,
    id: str | None = None,
    k: int = K,
    reason: str = "",
    text: str | None = None,
    checks: Sequence[Check] = (),
    step: int | None = None,
) -> Draft:
    """A golden task of a run: of its tag at a step, else of its first. Raises NothingToCheck,
    BadGolden."""
    trace = with_own_gold(store, read.load(store, row.trace))
    name = row.task or id
    if name is None:
        raise BadGolden(f"run {row.trace[:8]}: has no task name", "Try: --id NAME")
    said = text or _user_text(trace)
    if said is None:
        raise BadGolden(f"run {row.trace[:8]}: no user message recorded", "Try: --text TEXT")
    tag, finding = _failure(store, trace, step)
    notes: list[str] = []
    prefilled = list(_prefill(store, trace, tag, finding, notes))
    if checks:
        made = [(check, "given") for check in checks]
    elif prefilled:
        made = prefilled
    else:
        why = "; ".join([*notes, "no gold, no tag, and no rule found a failure"])
        raise NothingToCheck(
            f"run {row.trace[:8]}: no check can be prefilled: {why}",
            "Try: --check 'contains:TEXT' (or predicate, rule, judge, regex, equals)",
        )
    then = _said_later(trace)
    if then:
        notes.append(
            f"the user spoke again {len(then)}×: an export says the recorded words, whatever the"
            " agent answers"
        )
    pinned = _pin(trace, notes)
    origin = _origin(row, tag, finding)
    task = GoldenTask(
        id=id or name,
        task=name,
        text=said,
        k=k,
        reason=reason or _reason(row, origin),
        check=tuple(check for check, _ in made),
        then=then,
        origin=origin,
        pin=pinned.pins,
    )
    masked: GoldenTask = msgspec.convert(
        store.redactor.value(msgspec.to_builtins(task)), GoldenTask
    )
    wrong = next(task_problems(masked), None)
    if wrong is not None:
        raise BadGolden(f"task '{masked.id}': {wrong}")
    met = grader.overall(grade_run(masked, trace))
    return Draft(
        task=masked,
        pinned=pinned,
        sources=tuple(source for _, source in made),
        notes=tuple(notes),
        met=met,
        outcome=row.outcome,
    )


def _user_text(trace: Trace) -> str | None:
    """What the user said before the first step: the last message, since examples stand before."""
    context = trace.steps[0].ask.request.context if trace.steps else None
    given = context.messages() if context is not None else []
    said = (messages.prose(each).strip() for each in reversed(given) if each.role == "user")
    return next((text for text in said if text), None)


def _said_later(trace: Trace) -> tuple[str, ...]:
    """What the user said after answers that called nothing; of an agent that acts by programs in
    its texts what comes next is a terminal's output."""
    reading = Reading(trace)
    main = () if reading.programs else reading.main
    return tuple(
        message.text
        for before, turn in pairwise(main)
        if not before.acts
        for message in turn.heard
        if message.role == "user" and message.text.strip()
    )


def _failure(store: Store, trace: Trace, step: int | None) -> tuple[TagRow | None, Finding | None]:
    """The tag of a person and the finding of a rule that the task is about: of one class where
    both are there; a finding alone counts where nobody tagged."""
    tags = [each for each in tags_of(store, trace.id) if step is None or each.step == step]
    tag = min(tags, key=lambda each: each.step, default=None)
    found = [each for each in findings(RuleContext(trace)) if not each.is_hint]
    if tag is not None:
        found = [each for each in found if each.failure == tag.failure]
        found.sort(key=lambda each: abs(each.step - tag.step))
    elif trace.header.outcome.status == "passed":
        found = []
    elif step is not None:
        found = [each for each in found if each.step == step]
    others = [each for each in found if each.rule != "gold"] or found
    return tag, next(iter(others), None)


def _origin(row: TraceRow, tag: TagRow | None, finding: Finding | None) -> Origin:
    if tag is not None:
        return Origin(
            run=row.trace, failure=tag.failure, sub=tag.sub, step=tag.step, by=tag.by, why=tag.why
        )
    if finding is not None:
        return Origin(
            run=row.trace, failure=finding.failure, sub=finding.sub, step=finding.step,
            by=f"rule {finding.rule}", why=finding.why,
        )  # fmt: skip
    return Origin(run=row.trace)


def _reason(row: TraceRow, origin: Origin) -> str:
    label = class_label(origin.failure, origin.sub) if origin.failure else f"outcome {row.outcome}"
    at = f" at step {origin.step}" if origin.step is not None else ""
    return f"run {row.trace[:8]}: {label}{at}"


# --- prefilled checks


def _prefill(
    store: Store, trace: Trace, tag: TagRow | None, finding: Finding | None, notes: list[str]
) -> Iterator[tuple[Check, str]]:
    """Checks from gold; where it gives none, from the finding; without one, from the tag."""
    reference = trace.header.reference or {}
    any_ = False
    for check in (_gold_actions(store, trace, notes), *_gold_answers(trace, notes)):
        if check is not None:
            any_ = True
            part = "actions" if isinstance(check, ActionsCheck) else "answer"
            own = part in own_parts(reference)
            yield check, "your gold" if own else "gold of the source"
    if any_:
        return
    if finding is not None and finding.rule != "gold":
        yield RuleCheck(absent=finding.rule), f"finding at step {finding.step}"
    elif tag is not None:
        label = class_label(tag.failure, tag.sub)
        words = tag.why if tag.failure is FailureClass.OTHER else None
        about = words or BY_CLASS[tag.failure].definition
        about = tag.sub if about.startswith("none of") and tag.sub else about
        if tag.failure is FailureClass.OTHER and not (words or tag.sub):
            notes.append("tagged `other` without sub-label or note")
            return
        yield JudgeCheck(item=f"Is the run free of this failure: {label} ({about})?"), "the tag"


def _gold_actions(store: Store, trace: Trace, notes: list[str]) -> ActionsCheck | None:
    """Each gold call; of a source's gold those that change something, since it holds what matters
    to the end state, and a run may look up, reckon and hand over as it likes."""
    gold = gold_of(trace.header.reference or {})
    if gold is None:
        return None
    writes = _writing_tools(store, trace, [call.tool for call in gold.calls])
    actions: list[Action] = []
    places: dict[int, int] = {}
    free: list[str] = []
    for place, call in enumerate(gold.calls):
        if not gold.own and (is_hand_over(call.tool) or not writes.get(call.tool)):
            free += [call.tool] if writes.get(call.tool) is None else []
            continue
        places[place] = len(actions)
        masked = masked_count(msgspec.json.encode(call.arguments).decode())
        if masked:
            notes.append(f"arguments of {call.tool} hold masked secrets: any will do")
        any_will_do = masked or is_hand_over(call.tool) or not isinstance(call.arguments, dict)
        actions.append(Action(tool=call.tool, arguments=None if any_will_do else call.arguments))
    if free:
        names = ", ".join(dict.fromkeys(free))
        notes.append(f"not known to change anything, and left out of the check: {names}")
    only = sorted(name for name, does in writes.items() if does and not is_hand_over(name))
    if not actions and not only:
        notes.append("gold asks for no action, and no tool is known to change anything")
        return None
    size = len(gold.calls)
    before = predecessors(size, gold.order, gold.after or ())
    after = tuple(
        (places[earlier], places[later])
        for earlier in range(size)
        for later in range(size)
        if gold.order == "graph" and before[later] >> earlier & 1
        if earlier in places and later in places
    )
    order = "any" if gold.order == "graph" and not after else gold.order
    return ActionsCheck(actions=tuple(actions), order=order, after=after, only=tuple(only))


def _writing_tools(store: Store, trace: Trace, gold: Sequence[str]) -> dict[str, bool]:
    """Of each tool that gold names, that was on offer, or that a run of the agent called, whether
    it changes something, as far as known."""
    reading = Reading(trace)
    found: dict[str, bool] = {}
    for name in (*gold, *reading.offers, *tools_called(store, trace.id)):
        guessed = guess(name)
        if guessed is not None:
            found[name] = guessed == "write"
    for act in reading.acts:
        known = mutates(act.span)
        if known is not None:
            found[act.name] = known or found.get(act.name, False)
    return found


def _gold_answers(trace: Trace, notes: list[str]) -> Iterator[AnswerCheck]:
    wanted = answer_of(trace.header.reference or {})
    if wanted is None:
        return
    if any(len(each) > LONGEST for each in wanted.answers):
        notes.append(f"gold's answer is over {LONGEST} characters: words do not decide it")
    elif wanted.answers:
        yield AnswerCheck(texts=wanted.answers)
    for each in wanted.said:
        yield AnswerCheck(texts=(each,), where="run")


def _pin(trace: Trace, notes: list[str]) -> Pinned:
    request = trace.steps[0].ask.request if trace.steps else None
    system = None if request is None or request.system is None else messages.text(request.system)
    tools = None if request is None else request.tools
    if system is None:
        notes.append("system prompt not recorded: not pinned")
    if tools is None:
        notes.append("tool definitions not recorded: not pinned")
    results = [
        {
            "tool": act.span.name,
            "arguments": act.span.arguments,
            "result": messages.observed(act.span.observation).text,
            "failed": act.reply.failed is True,
        }
        for act in Reading(trace).acts
        if act.span.observation is not None
    ]
    shown = msgspec.json.format(msgspec.json.encode(results), indent=1).decode()
    return Pinned(
        prompt=system,
        tools=None if tools is None else tools_text(tools),
        results=shown if results else None,
    )


# --- grading


def check_value(check: Check) -> dict[str, Json]:
    """A check as `grader` and exports read it."""
    value: dict[str, Json] = {"kind": check_kind(check), **msgspec.to_builtins(check)}
    match check:
        case ActionsCheck():
            value["actions"] = [action.value for action in check.actions]
            value |= {"order": check.order, "after": list(check.after), "only": list(check.only)}
        case PredicateCheck():
            value["rows"] = predicate_rows(check.expect)
        case AnswerCheck():
            value |= {"how": check.how, "where": check.where}
        case RuleCheck() | JudgeCheck():
            pass
    return value


def predicate_rows(text: str) -> list[list[dict[str, Json]]]:
    """An expectation as plain values. Raises BadPredicate."""
    return [
        [
            {
                "field": each.field,
                "how": each.how,
                "value": each.value,
                "also": _read(each),
                "path": [_path_step(step) for step in rules.steps(each.path)],
                "turned": each.turned,
                "none": each.says_none,
            }
            for each in row
        ]
        for row in predicate(text).rows
    ]


def _path_step(step: rules.Step) -> Json:
    return {"any": step.value} if isinstance(step, rules.Wild) else step


def _read(condition: Condition) -> list[Json]:
    """The value of an `=` as JSON, where it is more than a text."""
    if condition.how != "=" or condition.quoted:
        return []
    try:
        return [msgspec.json.decode(condition.value)]
    except msgspec.DecodeError:
        return []


def run_value(trace: Trace) -> dict[str, object]:
    """A run as the grader reads it."""
    reading = Reading(trace)
    final = final_answer(reading)
    return {
        "calls": [
            {
                "tool": act.name,
                "arguments": act.span.arguments,
                "failed": act.reply.failed is True,
            }
            for act in reading.acts
        ],
        "answer": final[0] if final is not None else "",
        "said": [turn.said for turn in reading.turns if not turn.observer],
    }


def grade_run(task: GoldenTask, trace: Trace) -> list[dict[str, object]]:
    """Each check with its verdict on a run; a judge's is None: nobody was asked."""
    verdicts = grader.grade(map(check_value, task.check), run_value(trace))
    if any(isinstance(check, RuleCheck) for check in task.check):
        found = {each.rule for each in findings(RuleContext(trace)) if not each.is_hint}
        for check, verdict in zip(task.check, verdicts, strict=True):
            if isinstance(check, RuleCheck) and check.absent in RULES:
                hit = check.absent in found
                verdict |= {"passed": not hit, "why": f"found by {check.absent}" if hit else ""}
    return verdicts
