"""How often a suggested edit is called a fix, wrongly and rightly: `python -m tests.bench suggest`,
and in full `python -m tests.bench.suggest`.

Simulated agents first: at each break the arms answer by chance, with rates that are set, and the
counts go through the very functions that decide. Then the demo model, whose faults are planted in
its prompts and tools: that is conformance, not evidence about any model. The edits tested there are
those that `arc suggest` makes of the runs; the reflecting model is scripted: it adds the sentences
of a fixed list of general advice, and knows neither the demo nor its faults.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arc_tui import importing
from arc_tui.features.edit_test.suggest.run import run_suggestions
from arc_tui.features.edit_test.suggest.view import (
    SuggestRequest,
    SuggestView,
    evidence,
    verdict_sentence,
)
from arc_tui.places import fixtures
from replay import messages
from replay.formats import arc
from replay.models.cached import Cached
from replay.statistics import rate
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Step, ToolCall
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from taxonomy.suggestions.trial import Tried, holding, score
from tests.bench.measure import Row
from tests.judge_policy import quoted
from tests.messages_api import message, text
from tests.shop import runs
from tests.shop.tasks import TASKS

TRIES = 2_000
ROW_TRIES = 500
SAMPLES = 5
EDITS = 3


# --- simulated agents


class Agent(NamedTuple):
    """A class of failures: so many tasks with so many runs each. `shows` is how often control
    shows the failure at a break, `fixes` the share of tasks in which the edit takes it away
    (leaving `left` of it); `moves` the share of breaks at which any edit changes the answer for no
    reason of its own."""

    name: str
    tasks: int = 12
    runs: int = 2
    shows: Callable[[random.Random], float] = lambda _: 1.0
    fixes: float = 0.0
    left: float = 0.0
    moves: float = 0.0


def _noise(chance: random.Random) -> float:
    """A failure that comes and goes."""
    return chance.uniform(0.2, 0.8)


WITHOUT = (
    Agent("no edit does anything, the failure always comes"),
    Agent("no edit does anything, the failure comes and goes", shows=_noise),
    Agent("the same, 4 tasks of 3 runs", tasks=4, runs=3, shows=_noise),
    Agent("the same, 40 tasks of 1 run", tasks=40, runs=1, shows=_noise),
    Agent("any edit moves 1 break in 6", moves=1 / 6),
    Agent("the same, 4 tasks of 3 runs", tasks=4, runs=3, moves=1 / 6),
)
"""Agents whose failures no edit mends."""

WITH = tuple(
    Agent(
        f"gone in {fixes:.0%} of {tasks} tasks, but for {left:.0%}", tasks, fixes=fixes, left=left
    )
    for tasks in (4, 12, 40)
    for fixes in (0.5, 0.75, 1.0)
    for left in (0.0, 0.3)
)
"""Agents with a planted defect that one edit of three mends, to a known extent."""


def is_called_fix(agent: Agent, chance: random.Random) -> bool:
    """One whole `arc suggest` of simulated answers: three edits on one half, one look."""
    rates = [agent.shows(chance) for _ in range(agent.tasks)]
    half = agent.tasks // 2
    scores = []
    for edit in range(EDITS):
        fixed = [edit == 0 and chance.random() < agent.fixes for _ in rates]
        scores.append(fixed)
    compared = [score(_tried(agent, chance, range(half), rates, fixed)) for fixed in scores]
    best = next(iter(holding(compared)), None)
    if best is None:
        return False
    looked = score(_tried(agent, chance, range(half, agent.tasks), rates, scores[best]))
    return looked.is_fix


def _tried(
    agent: Agent,
    chance: random.Random,
    tasks: Sequence[int],
    rates: Sequence[float],
    fixed: Sequence[bool],
) -> Iterator[Tried]:
    for task in tasks:
        for _ in range(agent.runs):
            control = rates[task]
            edited = agent.left * control if fixed[task] else control
            if chance.random() < agent.moves:
                edited = 0.0
            hits = [sum(chance.random() < p for _ in range(SAMPLES)) for p in (control, edited)]
            yield Tried(str(task), (hits[0], SAMPLES, hits[1], SAMPLES))


def simulated(agents: Sequence[Agent], tries: int) -> Iterator[tuple[str, int, int]]:
    """(agent, how often its edit is called a fix, of so many)."""
    for agent in agents:
        chance = random.Random(agent.name)
        yield agent.name, sum(is_called_fix(agent, chance) for _ in range(tries)), tries


# --- the demo model


PLANTED = {
    "v5, the line about looking up is turned": ("v5", 'class:"hallucinated state" variant:v5'),
    "v6, the section on errors is cut": ("v6", '(class:loop OR class:"gave up") variant:v6'),
    "v7, “try” not to guess": ("v7", 'class:"hallucinated state" variant:v7'),
    "two tools that claim the same": ("v8", 'class:"wrong tool"'),
}
"""What is planted, in which version of the prompt, and the runs that show it."""

TRIALS = 4
DEMO_SAMPLES = 12


class Advice:
    """A reflecting model that adds general advice to whatever it is shown, a sentence more each
    time."""

    name = "advice"
    SENTENCES = (
        "Think step by step before you act.",
        "Ask for what you do not know instead of assuming it.",
        "When something fails, find out why before you go on.",
        "Before you finish, check that everything that was asked for is done.",
    )

    def __init__(self) -> None:
        self._given = 0

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        del sample
        shown = quoted(text_of(body["messages"][-1]))[0].text.rstrip("\n")
        sentence = self.SENTENCES[self._given % len(self.SENTENCES)]
        self._given += 1
        return message(text(f"```\n{shown}\n{sentence}\n```"), model=self.name)


def text_of(message_: dict[str, Any]) -> str:
    content = message_["content"]
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def put_shop(store: Store, folder: Path, variant: str, trials: int = TRIALS) -> None:
    """Every task of the shop under a version of its prompt, an earlier one and a later one."""
    demo = fixtures() / "demo"
    for task in TASKS:
        for version in dict.fromkeys(("v4", variant, "v8")):
            for trial in range(trials):
                run = runs.Run(task, version, trial)
                file = folder / f"{run.source_id}.jsonl"
                file.write_bytes(b"".join(arc.write([runs.record(run, demo, {})])))
    for _ in importing.import_paths(store, [folder]):
        pass


def tag_wrong_tools(store: Store) -> None:
    """What a person sees in the runs that failed: the catalogue was asked for the stock."""
    for row in trace_rows(store):
        if row.outcome != "failed":
            continue
        steps = read.load(store, row.trace).steps
        asked = [(step.index, act.id) for step in steps for act in step.acts
                 if act.name == "get_product" and is_for_stock(act, step)]  # fmt: skip
        for step, span in asked[:1]:
            wrong = FailureClass.WRONG_TOOL
            put_tag(store, Tag(trace=row.trace, span=span, step=step, failure=wrong, by="bench"))


def is_for_stock(act: ToolCall, step: Step) -> bool:
    """Does the agent say that it makes this call to see whether the product is in stock?"""
    answer = step.ask.response.message
    said = messages.text(answer) if answer is not None else ""
    product = act.arguments["product"] if isinstance(act.arguments, dict) else None
    return f"whether the {product} is in stock" in said


def of_demo(variant: str, query: str) -> SuggestView:
    with tempfile.TemporaryDirectory() as name, open_ledger(":memory:") as store:
        put_shop(store, Path(name), variant)
        if "wrong tool" in query:
            tag_wrong_tools(store)
        request = SuggestRequest(
            query=query, model="demo", samples=DEMO_SAMPLES, reflect=Advice.name, proposals=4
        )
        with request.model_pool(store) as models:
            models.add(Advice.name, Cached(store, Advice.name, Advice(), source="scripted"))
            *_, view = run_suggestions(store, request, models)
        return view


def rows(folder: Path) -> Iterator[Row]:
    """The worst of the agents that no edit helps, those that one edit helps, and the demo."""
    del folder
    wrong = max(simulated(WITHOUT, ROW_TRIES), key=lambda each: each[1])
    yield Row("called a fix, worst agent where no edit helps", share(*wrong[1:]), "at most 5 %")
    for name, hits, n in simulated(WITH, ROW_TRIES):
        yield Row(f"called a fix, {name}", share(hits, n), "–")
    for title, planted in PLANTED.items():
        view = of_demo(*planted)
        made = view.fix
        said = verdict_sentence(made).split(". ")[0] if made is not None else "no fix"
        yield Row(f"demo model, conformance: {title}", said, "a fix")


def share(hits: int, n: int) -> str:
    """In percent, with the 95 % interval."""
    found = rate(hits, n)
    return f"{hits / n:.1%} ({found.low:.1%}–{found.high:.1%}) of {n}"


def main(tries: int) -> None:
    print(f"called a fix, of {tries} simulated agents each ({SAMPLES} samples, {EDITS} edits):")
    for title, agents in (("no edit helps", WITHOUT), ("one edit helps (power)", WITH)):
        print(f"\n{title}")
        for name, hits, n in simulated(agents, tries):
            print(f"  {share(hits, n)}  {name}")
    print("\nthe demo model, conformance:")
    for title, (variant, query) in PLANTED.items():
        view = of_demo(variant, query)
        print(f"\n{title}: {view.runs} runs of {view.compared_tasks + view.held_back_tasks} tasks")
        print(f"  {view.proposed} proposals, {len(view.rejected)} rejected")
        for each in view.edits:
            test = each.looked or each.compared
            said = evidence(test) if test is not None else each.refused or ""
            where = "held back" if each.looked is not None else "compared"
            print(f"  {each.verdict} · {each.name}\n    {where}: {said}")
            print(f"    {verdict_sentence(each)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else TRIES)
