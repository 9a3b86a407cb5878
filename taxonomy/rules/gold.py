"""What a failed run did otherwise than the gold of its task: the first such call names the class.

Only calls that change something count, and only of runs known to have failed: gold is one way to
the end, and a run that passed found another. A gold call with another argument is bad args; a call
that gold has not, where gold calls another tool on the same thing, is a wrong tool, else a call
that nobody asked for; without either, a gold call that was never made is a missing step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taxonomy.classes import FailureClass
from taxonomy.evidence.gold_differences import compare_to_gold
from taxonomy.evidence.reading import Act, called
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding, GoldDifference
from taxonomy.rules.rule import Rule, RuleContext

NAME = "gold"
EXTRA = "call not in gold"
MISSING = "missing step"


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding, at the first call that differs, else at the last step that could have made a
    missing one."""
    compared = compare_to_gold(case.reading) if case.reading.failed else None
    if compared is None:
        return
    writes = [each for each in compared.differences if each.writes]
    missing = [each for each in writes if each.kind == "missing"]
    made = [each for each in writes if each.kind in ("wrong argument", "extra")]
    first = min(made or missing, key=_step, default=None)
    if first is not None and case.reading.turns:
        yield _finding(case, first, missing)


def _step(difference: GoldDifference) -> int:
    at = difference.latest if difference.step is None else difference.step
    return 0 if at is None else at


def _finding(
    case: RuleContext, first: GoldDifference, missing: Sequence[GoldDifference]
) -> Finding:
    turn = case.reading.turns[_step(first)]
    act = next((each for each in turn.acts if each.span.id == first.span), None)
    other = _instead(act, missing) if act is not None and first.kind == "extra" else None
    failure, why = FailureClass.OTHER, first.line
    if first.kind == "extra":
        why = f"{first.tool} not in gold"
    if first.kind == "wrong argument":
        names = ", ".join(each.name for each in first.arguments)
        failure, why = FailureClass.BAD_ARGS, f"{first.tool} not as in gold: {names}"
    elif other is not None:
        failure, why = FailureClass.WRONG_TOOL, f"{first.tool}; gold calls {other.tool}"
    sub = MISSING if first.kind == "missing" else EXTRA
    expected = (other or first).gold
    stated = [Evidence(role="stated", text=cut(expected, 240), place="gold")] if expected else []
    return Finding(
        failure=failure,
        sub=sub if failure is FailureClass.OTHER else None,
        step=turn.index,
        span=act.span.id if act is not None else turn.ask.id,
        why=cut(why, 150),
        rule=NAME,
        evidence=(*([called(act)] if act is not None else ()), *stated),
    )


def _instead(act: Act, missing: Sequence[GoldDifference]) -> GoldDifference | None:
    """The missing gold call of another tool that names the same thing."""
    values = {value for value in _texts(act) if len(value) > _SHORTEST}
    others = (each for each in missing if each.tool != act.name)
    return next((each for each in others if any(v in (each.gold or "") for v in values)), None)


_SHORTEST = 4
"""Letters that a value has more of, to be told from another."""


def _texts(act: Act) -> Iterator[str]:
    arguments = act.span.arguments
    for value in arguments.values() if isinstance(arguments, dict) else ():
        if isinstance(value, str):
            yield value


RULE = Rule(name=NAME, find=find, counts_as=FailureClass.OTHER, share=0.0)
"""It names a class only: what gold shows of steps, the localiser counts by itself."""
