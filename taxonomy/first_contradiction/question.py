"""What does the model believe at a step? It is asked, and held against what it had been shown.

The demo model answers from its own rules. Costs are estimated before the first call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import action, digests
from replay.convert import Converter, Sent
from replay.digests import bare_text
from replay.edit.changes import Edit
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.locked.estimate import Estimate, price_of
from replay.models.cached import Answered, Ask, Cached
from replay.models.choose import label
from replay.models.demo import Demo, request
from replay.models.demo.mind import Mind
from replay.models.demo.rules import Chance
from replay.plan import Plan, plans
from replay.trace import Json, Level, Message, Request, Trace, Usage, extend
from taxonomy.findings import Evidence
from taxonomy.first_contradiction.contradictions import Answer
from taxonomy.first_contradiction.facts import Fact, agrees
from taxonomy.first_contradiction.recoverable import Arm, arm

OPENING = "A check of what you know by now. It is not part of the conversation."

_MANNERS = (
    "Answer from what stands above alone and call no tool. For each of these give `known` (false"
    ' where nothing above tells it), `value` (as it was written, "" where it is not known) and'
    " `from` (where it stands, in a few words):"
)
_PART = {
    "type": "object",
    "properties": {
        "known": {"type": "boolean"},
        "value": {"type": "string"},
        "from": {"type": "string"},
    },
    "required": ["known", "value", "from"],
    "additionalProperties": False,
}
_ABOUT = 400
"""Characters of a fact's name, which a field of the trace may have chosen."""
_ANSWER_TOKENS = 4096
"""Room for an answer, and for the thinking of models that cannot leave it."""


class Belief(Struct, frozen=True, rename={"source": "from"}):
    """What a model says of a fact; `value` "" where it says that it does not know."""

    known: bool
    value: str
    source: str


def words(abouts: Sequence[str]) -> str:
    """The question about facts, in the order of their keys."""
    texts = (" ".join(about.split())[:_ABOUT] for about in abouts)
    lines = [f"{key}: {about}" for key, about in zip(keys(abouts), texts, strict=True)]
    return "\n".join([OPENING, _MANNERS, *lines])


def keys(abouts: Sequence[str]) -> tuple[str, ...]:
    """The names under which the facts are answered."""
    return tuple(f"fact_{number}" for number in range(1, len(abouts) + 1))


def sent(request: Request, abouts: Sequence[str], model: str) -> Sent:
    """The request of a step with the question after it, as that model gets it."""
    question = Message(dialect="anthropic", body={"role": "user", "content": words(abouts)})
    shape = {
        "type": "object",
        "properties": dict.fromkeys(keys(abouts), _PART),
        "required": list(keys(abouts)),
        "additionalProperties": False,
    }
    config = request.params.get("output_config")
    output = config if isinstance(config, dict) else {}
    params: dict[str, Any] = {
        **request.params,
        "max_tokens": _ANSWER_TOKENS,
        "output_config": {**output, "format": {"type": "json_schema", "schema": shape}},
    }
    if request.tools:
        params["tool_choice"] = {"type": "none"}
    probing = structs.replace(request, params=params, context=extend(request.context, [question]))
    return Converter(model).sent(probing)


def read(body: Mapping[str, Any], abouts: Sequence[str]) -> tuple[Belief, ...] | str:
    """The beliefs in an answer, in the order of the facts; a sentence where it cannot be read."""
    given = action.answered(body, str)
    if given.cut is not None:
        return f"its answer was {given.cut}"
    try:
        found = msgspec.json.decode(given.text.strip(), type=dict[str, Belief])
    except msgspec.DecodeError:
        return "its answer does not follow the schema"
    if set(found) != set(keys(abouts)):
        return "its answer omits a fact"
    return tuple(found[key] for key in keys(abouts))


NOTHING_SHOWN = "not in context yet"


class Held(Struct, frozen=True, kw_only=True):
    """What is believed of a fact: `holds` None where it says that it does not know."""

    fact: Fact
    belief: Belief
    holds: bool | None


class BeliefDetector:
    """As `StepDetector`: is what the model believes at a step what it had been shown?"""

    monotone = False
    calls = 1

    def __init__(self, trace: Trace, facts: Sequence[Fact], model: Cached) -> None:
        self.name = f"belief of {label(model.name)}"
        self.facts = tuple(facts)
        self.model = model
        self._trace = trace
        self._threads = [step.thread for step in trace.steps]
        self._plans = {plan.step.index: plan for plan in plans(trace, None, model.name, None)}
        self.unasked: Mapping[int, str] = {
            step: why for step in range(len(trace.steps)) if (why := self._why_not(step))
        }
        self.steps = tuple(step for step in range(len(trace.steps)) if step not in self.unasked)

    def at(self, step: int) -> Answer:
        """As `StepDetector.at`. Raises OfflineMiss naming the step, ModelRefused, Stopped."""
        (outcome,) = self._outcomes([Ask(self.sent(step), 0)], step)
        held = self._held(step, outcome)
        if isinstance(held, str):
            return Answer(step=step, bad=None, phrase=held)
        return _answer(step, held)

    def sent(self, step: int, plan: Plan | None = None) -> Sent:
        """The request that asks about a step, as recorded or with the fix of a plan."""
        request = (plan or self._plans[step]).edited.request
        return sent(request, self._abouts(step), self.model.name)

    def trial(self, step: int, fix: Edit, samples: int) -> tuple[Arm, Arm]:
        """Control and the fix at a step, `samples` beliefs each: how many are false.

        They are fresh: the first sample is why the step was chosen. Raises BadEdit where the fix
        does not apply there.
        """
        (plan,) = plans(self._trace, fix, self.model.name, {step})
        both = self.sent(step), self.sent(step, plan)
        asks = [Ask(sent, sample) for sent in both for sample in range(1, samples + 1)]
        judged = [self._judged(step, outcome) for outcome in self._outcomes(asks, step)]
        control, edited = (
            arm([bad for bad, _ in part], next((why for bad, why in part if bad is None), None))
            for part in (judged[:samples], judged[samples:])
        )
        return control, edited

    # --- asking

    def _outcomes(self, asks: Sequence[Ask], step: int) -> list[Answered | RequestRefused]:
        found: dict[int, Answered | RequestRefused] = {}
        for place, outcome in self.model.answers(asks, marked=True):
            if isinstance(outcome, OfflineMiss):
                raise OfflineMiss(f"step {step}, belief: {outcome.message}", outcome.hint)
            found[place] = outcome
        return [found[place] for place in range(len(asks))]

    def _held(self, step: int, outcome: Answered | RequestRefused) -> list[Held] | str:
        """What is believed of each fact; a sentence where the answer cannot be read."""
        if isinstance(outcome, RequestRefused):
            return str(outcome)
        beliefs = read(outcome.body, self._abouts(step))
        if isinstance(beliefs, str):
            return beliefs
        return [
            Held(fact=fact, belief=belief, holds=self._holds(fact, belief, step))
            for fact, belief in zip(self._known(step), beliefs, strict=True)
        ]

    def _holds(self, fact: Fact, belief: Belief, step: int) -> bool | None:
        shown = fact.world(step)
        return agrees(belief.value, shown.value) if belief.known and shown is not None else None

    def _judged(self, step: int, outcome: Answered | RequestRefused) -> tuple[bool | None, str]:
        """Is a belief false, and what it says; None and the reason where that cannot be told."""
        held = self._held(step, outcome)
        if isinstance(held, str):
            return None, held
        answer = _answer(step, held)
        return answer.bad, answer.phrase

    # --- what can be asked

    def _known(self, step: int) -> list[Fact]:
        """The facts whose value the step had been shown."""
        return [fact for fact in self.facts if self._shown(fact, step)]

    def _shown(self, fact: Fact, step: int) -> bool:
        shown = fact.world(step)
        if shown is None:
            return False
        return shown.act is None or self._threads[shown.act.step] == self._threads[step]

    def _abouts(self, step: int) -> list[str]:
        return [fact.about for fact in self._known(step)]

    def _why_not(self, step: int) -> str | None:
        if not self._known(step):
            return NOTHING_SHOWN
        ask = self._trace.steps[step].ask
        if ask.fidelity.level is Level.NONE:
            return "; ".join(ask.fidelity.reasons) or "its request was not recorded"
        return self._plans[step].control.sent.refusal


def _answer(step: int, held: Sequence[Held]) -> Answer:
    wrong = [each for each in held if each.holds is False]
    lost = sum(each.holds is None for each in held)
    if wrong:
        evidence = tuple(_evidence(each, step) for each in wrong)
        return Answer(
            step=step,
            bad=True,
            phrase=" · ".join(map(_believes, wrong)),
            evidence=tuple(each for pair in evidence for each in pair),
        )
    if lost == len(held):
        return Answer(step=step, bad=None, phrase="says that it does not know")
    known = ", ".join(each.belief.value for each in held if each.holds)
    return Answer(step=step, bad=False, phrase=f"believes {known}, as shown")


def _believes(held: Held) -> str:
    return f"believes {held.fact.about} to be {held.belief.value}"


def _evidence(held: Held, step: int) -> Iterator[Evidence]:
    """What it says and what the world showed."""
    where = f" (from {held.belief.source})" if held.belief.source else ""
    yield Evidence(
        role="believes", text=f"{held.fact.about}: {held.belief.value}{where}", step=step
    )
    shown = held.fact.source(step)
    if shown is not None:
        yield shown


def shown_words(facts: Sequence[Fact]) -> tuple[str, ...]:
    """The facts that are asked about, each with the world's values, for a person to look at."""
    return tuple(
        f"{fact.about}: "
        + ", then ".join(
            f"{bare_text(each.value)} from step {each.visible}"
            if each.value is not None
            else f"changed before step {each.visible}, not looked at"
            for each in fact.history
        )
        for fact in facts
    )


_LINE = re.compile(r"^(fact_\d+): (?P<field>[\w.]+) of (?P<name>\w+) (?P<value>\S+)$", re.M)
_ANY = re.compile(r"^(fact_\d+): (.*)$", re.M)


class DemoBeliefs:
    """`replay.models.protocol.Model` for questions about beliefs: rule-based, local, free."""

    name = Demo.name

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """Raises ModelRefused where no question about beliefs ends the request, and where its
        tools are not those of a shop."""
        rest, question = _parted(body)
        mind = Mind(rest, Chance(rest.fingerprint, sample))
        if not mind.kit.is_shop():
            raise ModelRefused(
                "the demo model believes only what a shop's tools showed it",
                "ask the run's own model (--model NAME --live --budget USD)",
            )
        facts = {key: _believed_fact(mind, line) for key, line in _lines(question)}
        content = [{"type": "text", "text": json.dumps(facts)}]
        digest = digests.digest("belief", rest.fingerprint, question)
        return {
            "id": f"msg_{digest.partition(':')[2][:24]}",
            "type": "message",
            "role": "assistant",
            "model": self.name,
            "content": content,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": len(digests.canonical(body)) // 4,
                "output_tokens": len(digests.canonical(content)) // 4,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }


def _parted(body: dict[str, Any]) -> tuple[request.Asked, str]:
    """The conversation without the question that ends it, and the question."""
    *before, last = body["messages"]
    content = last["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    question = next((b["text"] for b in blocks if str(b.get("text", "")).startswith(OPENING)), None)
    if question is None:
        raise ModelRefused("the demo model was asked for no belief")
    left = [block for block in blocks if block.get("text") != question]
    others = [*before, {**last, "content": left}] if left else before
    return request.read({**body, "messages": others}), question


def _lines(question: str) -> Iterator[tuple[str, str]]:
    for match in _ANY.finditer(question):
        yield match[1], match[0]


def _believed_fact(mind: Mind, line: str) -> dict[str, Json]:
    """What it believes of a fact of a thing; of any other question it knows nothing."""
    fact = _LINE.match(line)
    if fact is None:
        return _unknown()
    mixes = (fact["name"], fact["field"]) == ("order_id", "total_cents")
    believed = _gone_by(mind, fact["value"]) if mixes else fact["value"]
    for call in reversed(mind.calls):
        record = next(_records(call.value, fact["name"], believed), None)
        value = record.get(fact["field"]) if record is not None and not call.failed else None
        if value is not None:
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return {"known": True, "value": shown, "from": f"{call.name} {believed}"}
    return _unknown()


def _unknown() -> dict[str, Json]:
    return {"known": False, "value": "", "from": ""}


def _gone_by(mind: Mind, order: str) -> str:
    """The order whose record it goes by when it thinks of that one."""
    latest = mind.facts.latest_order()
    mixes = latest is not None and mind.facts.stale(order) and not mind.obeys("reread")
    return latest if mixes and latest is not None else order


def _records(value: Json, name: str, identifier: str) -> Iterator[dict[str, Json]]:
    """The objects in a result that are about that thing."""
    if isinstance(value, dict):
        if str(value.get(name)) == identifier:
            yield value
        for each in value.values():
            yield from _records(each, name, identifier)
    elif isinstance(value, list):
        for each in value:
            yield from _records(each, name, identifier)


ANSWER_TOKENS = 60
"""About what an answer about one fact takes."""

NOTHING = Estimate(calls=0, stored=0, input_tokens=0, output_tokens=0, usd=0.0)

_CHARACTERS_PER_TOKEN = 4


def estimate_cost(trace: Trace, detector: BeliefDetector) -> Estimate:
    """One call a step that is not answered yet: the recorded tokens of its request and the
    question's, by size where none were recorded, and an answer a fact."""
    open_ = [step for step in detector.steps if not detector.model.stored(detector.sent(step), 0)]
    usages = [_usage(trace, detector, step) for step in open_]
    costs = [price_of(detector.model, usage) for usage in usages]
    known = [cost.usd for cost in costs if cost is not None]
    return Estimate(
        calls=len(open_),
        stored=len(detector.steps) - len(open_),
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        by_size=len(open_),
        usd=sum(known) if len(known) == len(costs) else None,
    )


def _usage(trace: Trace, detector: BeliefDetector, step: int) -> Usage:
    body = detector.sent(step).body()
    recorded = trace.steps[step].ask.usage
    known = recorded.input_tokens if recorded is not None else None
    added = len(digests.encode(body["messages"][-1])) // _CHARACTERS_PER_TOKEN
    whole = len(digests.encode(body)) // _CHARACTERS_PER_TOKEN
    return Usage(
        input_tokens=whole if known is None else known + added,
        output_tokens=ANSWER_TOKENS * len(detector.facts),
    )
