"""The oracles of `replay` that need judgement: would a rule find the same failure in this answer?

The answer is put in the place of the recorded one, the trace ends there, and the rule that found
the failure reads it again. Only rules that need nothing of what came back later can answer so;
of the others, an answer with the recorded calls shows the failure, and of another nothing is
known.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from replay import digests
from replay.action import Act, Action, action
from replay.predicate import Detector
from replay.trace import Message, Response, Step, ToolCall, Trace
from taxonomy.findings import Finding
from taxonomy.rules import EVERY_RULE, rule_of
from taxonomy.rules.context import RuleContext
from taxonomy.rules.rule import Shown


class RuleDetector:
    """A finding of a rule, asked of other answers at its step."""

    def __init__(self, trace: Trace, finding: Finding) -> None:
        self.name = f"{finding.rule}, by rule"
        self.step = finding.step
        self._trace = trace
        self._finding = finding
        self._at = trace.steps[finding.step]
        recorded = action(self._at.ask.response, self._at.ask.error)
        self._recorded = _identity(recorded)
        self._recorded_acted = bool(recorded.calls)
        self._known: dict[str, bool | None] = {}

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`; the recorded answer shows what was found in it."""
        identity = _identity(given)
        if identity not in self._known:
            same = identity == self._recorded
            self._known[identity] = True if same else self._judged(given)
        return self._known[identity]

    def _judged(self, given: Action) -> bool | None:
        if given.cut is not None:
            return None
        shown = _shown(self._finding)
        if shown == "answer":
            return self._found(given)
        if shown == "repeated calls":
            return None if not given.calls else self._repeats(given)
        if shown == "no calls" and not self._recorded_acted:
            return False if given.calls else True if self._found(given) else None
        return True if self._found(given) else None

    def _found(self, given: Action) -> bool:
        """Does the rule say the same of a run that ends with this answer?"""
        case = RuleContext(supposed(self._trace, self._at, given))
        return any(
            found.step == self.step and found.rule == self._finding.rule
            for rule in EVERY_RULE
            for found in rule.find(case)
        )

    def _repeats(self, given: Action) -> bool:
        """Are all its calls ones that were made before?"""
        before = {
            _call(Act(tool=act.name, arguments=act.arguments, raw=act.arguments_raw))
            for step in self._trace.steps[: self.step + 1]
            for act in step.acts
        }
        return all(_call(call) in before for call in given.calls)


def _shown(finding: Finding) -> Shown:
    rule = rule_of(finding)
    return "later" if rule is None else rule.shown


def detector_at(trace: Trace, findings: Iterable[Finding], step: int | None) -> Detector | None:
    """The oracle of what was found at a step, None where no rule found anything there."""
    here = [found for found in findings if found.step == step]
    direct = [found for found in here if _shown(found) == "answer"]
    for found in (*direct, *here):
        return RuleDetector(trace, found)
    return None


def supposed(trace: Trace, at: Step, given: Action) -> Trace:
    """The trace up to a step, ending with another answer there, whose calls nothing answered."""
    blocks = [{"type": "text", "text": given.text}] if given.text else []
    calls = [
        ToolCall(
            id=f"{at.ask.id}/{place}",
            name=call.tool,
            parent=at.ask.parent,
            asked_by=at.ask.id,
            call_id=f"supposed_{place}",
            arguments=None if call.raw is not None else call.arguments,
            arguments_raw=call.raw,
        )
        for place, call in enumerate(given.calls)
    ]
    uses = [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments or {}}
        for call in calls
    ]
    message = Message(dialect="anthropic", body={"role": "assistant", "content": [*blocks, *uses]})
    response = Response(message=message, stop="tool" if calls else "end")
    step = structs.replace(
        at, ask=structs.replace(at.ask, response=response, error=None), acts=tuple(calls)
    )
    return structs.replace(trace, steps=(*trace.steps[: at.index], step))


def _identity(given: Action) -> str:
    return digests.canonical([[_call(call) for call in given.calls], given.text, given.cut])


def _call(call: Act) -> str:
    return digests.canonical([call.tool, call.arguments, call.raw])
