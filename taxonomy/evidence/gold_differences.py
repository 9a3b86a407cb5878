"""Where does a run differ from the gold of its task: in its calls, in what it says? No verdict.

What counts of the calls: those that change something, by the recorded effect or by the verb in the
tool's name, and those of tools of which that is unknown where gold calls them too. Reads do not
count: gold holds what matters to the end state, and a run may look up what it likes. Of gold that
a user wrote the reads count as missing: they were asked for. Calls that ended in an error changed
nothing and are left out. A hand-over to a person ends a run and changes nothing; its words are
prose, and not compared.

Calls are aligned by tool and arguments: first those that gold's order allows, then the same calls
out of that order, then calls of one tool that agree in an argument, or are the only ones left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import msgspec
from msgspec import UNSET

from replay import action
from replay.action import Action
from replay.compare import likeness
from replay.compare.rules import PLAIN, Place, Rules, arguments_of
from replay.trace import Json, ToolCall
from taxonomy.evidence.endings import is_hand_over
from taxonomy.evidence.final_answer import answer_problems
from taxonomy.evidence.reading import Act, Reading, mutates
from taxonomy.findings import ArgumentDifference, GoldComparison, GoldDifference
from taxonomy.metrics.calls import counted, pairs, predecessors
from taxonomy.metrics.gold import Gold, answer_of, gold_of, own_parts, seen_late


def compare_to_gold(reading: Reading, rules: Rules = PLAIN) -> GoldComparison | None:
    """Where a run differs from its gold; None where neither its source nor its user gives any.

    `rules` say what counts when arguments are compared.
    """
    reference = reading.trace.header.reference or {}
    gold, wanted = gold_of(reference), answer_of(reference)
    if gold is None and wanted is None:
        return None
    calls = None if gold is None else _Calls(reading, gold, rules)
    problems = () if wanted is None else answer_problems(reading, wanted)
    differences = (
        *(calls.differences() if calls else ()),
        *(GoldDifference(kind="answer", step=step, gold=text, made=said)
          for text, said, step in problems),
    )  # fmt: skip
    wrong = [each for each in differences if each.kind in ("wrong argument", "extra")]
    first = _least(each.step for each in wrong if each.writes)
    failed = tuple(calls.failed) if calls else ()
    own = tuple(part for part in own_parts(reference) if part != "plan")
    return GoldComparison(
        differences=differences,
        matched=calls.matched if calls else 0,
        gold=len(calls.wanted) if calls else 0,
        own=own,
        hindsight=seen_late(reference, reading.trace.start_ns) if own else None,
        failed=failed,
        first_write_not_in_gold=first,
        first_attempt_not_in_gold=_least([first, *(each.step for each in failed)]),
        last_chance=max(
            (each.latest for each in differences if each.latest is not None), default=None
        ),
    )


class _Calls:
    """The calls that count, made and gold, and which of them answer to each other.

    `_paired`, `_moved` (out of gold's order) and `_wrong` are (place made, place in gold), `_extra`
    and `_missing` the places that are in none of them.
    """

    def __init__(self, reading: Reading, gold: Gold, rules: Rules) -> None:
        self._rules = rules
        self._last = max((turn.index for turn in reading.turns if not turn.observer), default=None)
        self._effects: dict[str, bool | None] = {}
        for act in reading.acts:
            self._effects[act.name] = self._effects.get(act.name) or mutates(act.span)
        self.wanted = [
            call
            for call in gold.calls
            if gold.own or is_hand_over(call.tool) or self._writes(call) is not False
        ]
        tools = {call.tool for call in self.wanted}
        self._acts = [
            act
            for act in reading.acts
            if not act.reply.failed and (self._effects[act.name] or act.name in tools)
        ]
        self._made = [_call(act) for act in self._acts]
        self._failed = [act for act in reading.acts if act.reply.failed]
        self._pair(gold)

    def _pair(self, gold: Gold) -> None:
        mine, theirs = (list(map(self._comparable, calls)) for calls in (self._made, self.wanted))
        after = gold.after or ()
        order = gold.order if gold.own else "any"
        self._before = predecessors(len(theirs), order, after)
        self._paired = pairs(mine, theirs, order, after)
        self._extra, self._missing = list(range(len(mine))), list(range(len(theirs)))
        self._take(self._paired)
        rows, columns = self._extra, self._missing
        again = pairs([mine[row] for row in rows], [theirs[column] for column in columns])
        self._moved = [(rows[at], columns[place]) for at, place in again]
        self._take(self._moved)
        self._wrong = self._nearest()
        self._take(self._wrong)

    def _take(self, found: Sequence[tuple[int, int]]) -> None:
        rows, columns = {row for row, _ in found}, {column for _, column in found}
        self._extra = [row for row in self._extra if row not in rows]
        self._missing = [column for column in self._missing if column not in columns]

    def _comparable(self, call: action.Act) -> likeness.Counted:
        if is_hand_over(call.tool):
            return likeness.Counted(call.tool)
        return counted(call, self._rules)

    @property
    def failed(self) -> Iterator[GoldDifference]:
        """Calls that were to change something which gold does not, and failed: beside the gold call
        of the tool that they agree with most, where they agree with one in anything."""
        gold = list(map(self._comparable, self.wanted))
        for act in self._failed:
            made = _call(act)
            if self._writes(made) and not any(map(self._comparable(made).like, gold)):
                known = self._made_call(act, made)
                near = [call for call in self.wanted if call.tool == made.tool]
                best = max(near, key=lambda call: self._share(made, call), default=None)
                alike = best is not None and self._share(made, best)
                yield self._wrong_call(known, made, best) if best and alike else known

    def _wrong_call(
        self, known: GoldDifference, made: action.Act, gold: action.Act
    ) -> GoldDifference:
        return msgspec.structs.replace(
            known,
            kind="wrong argument",
            gold=_phrase(gold),
            gold_arguments=gold.arguments,
            arguments=tuple(self._differing(made, gold)),
        )

    def _made_call(self, act: Act, made: action.Act) -> GoldDifference:
        return GoldDifference(
            kind="extra",
            tool=made.tool,
            step=act.step,
            span=act.span.id,
            made=_phrase(made),
            writes=self._writes(made),
        )

    @property
    def matched(self) -> int:
        return len(self._paired) + len(self._moved)

    def differences(self) -> Iterator[GoldDifference]:
        """Calls made by step, then those that are missing in gold's order."""
        wrong, moved = dict(self._wrong), dict(self._moved)
        for row, act in enumerate(self._acts):
            made = self._made[row]
            known = self._made_call(act, made)
            if row in wrong:
                yield self._wrong_call(known, made, self.wanted[wrong[row]])
            elif row in moved:
                gold = self.wanted[moved[row]]
                yield msgspec.structs.replace(known, kind="out of order", gold=_phrase(gold))
            elif row in self._extra and (known.writes is not False or is_hand_over(made.tool)):
                yield known
        for column in self._missing:
            gold = self.wanted[column]
            yield GoldDifference(
                kind="missing",
                tool=gold.tool,
                gold=_phrase(gold),
                gold_arguments=gold.arguments,
                latest=self._latest(column),
                writes=self._writes(gold),
            )

    def _writes(self, call: action.Act) -> bool | None:
        """Does a call change something? What the run's calls of the tool say is first."""
        if is_hand_over(call.tool):
            return False
        known = self._effects.get(call.tool)
        span = ToolCall(id="", name=call.tool, arguments=call.arguments)
        return mutates(span) if known is None else known

    def _nearest(self) -> list[tuple[int, int]]:
        """Calls of one tool that are meant to be one: those that agree in most arguments first;
        without one in common only where one made and one missing are all that is left of a tool."""
        of_one_tool = [
            (self._share(self._made[row], self.wanted[column]), row, column)
            for row in self._extra
            for column in self._missing
            if self._made[row].tool == self.wanted[column].tool
        ]
        left = Counter(self._made[row].tool for row in self._extra)
        open_ = Counter(self.wanted[column].tool for column in self._missing)
        rows: dict[int, int] = {}
        columns: set[int] = set()
        for share, row, column in sorted(of_one_tool, key=lambda each: -each[0]):
            tool = self._made[row].tool
            if row in rows or column in columns or not (share or left[tool] == open_[tool] == 1):
                continue
            rows[row] = column
            columns.add(column)
            left[tool] -= 1
            open_[tool] -= 1
        return list(rows.items())

    def _share(self, call: action.Act, wanted: action.Act) -> float:
        """Of the arguments that either call gives, how many are alike."""
        made, gold = _given(call), _given(wanted)
        place = arguments_of(call.tool, self._rules)
        both = [name for name in made if name in gold]
        same = sum(likeness.alike(made[name], gold[name], place.inner(name)) for name in both)
        return same / max(len({*made, *gold}), 1)

    def _differing(self, made: action.Act, gold: action.Act) -> Iterator[ArgumentDifference]:
        place = arguments_of(made.tool, self._rules)
        if made.raw is not None:
            yield ArgumentDifference(name="arguments", expected=gold.arguments, was=made.raw)
        else:
            yield from _differing(gold.arguments, made.arguments, place, "")

    def _latest(self, column: int) -> int | None:
        later = (
            self._acts[row].step for row, place in self._paired if self._before[place] >> column & 1
        )
        found = _least(later)
        return self._last if found is None else found


def _least(steps: Iterable[int | None]) -> int | None:
    return min((step for step in steps if step is not None), default=None)


def _call(act: Act) -> action.Act:
    raw = act.span.arguments_raw if act.span.arguments is None else None
    return action.Act(tool=act.name, arguments=act.span.arguments, raw=raw)


def _given(call: action.Act) -> Mapping[str, Json]:
    return call.arguments if isinstance(call.arguments, dict) else {}


def _phrase(call: action.Act) -> str:
    return Action(calls=(call,)).phrase


def _differing(gold: Json, made: Json, place: Place, path: str) -> Iterator[ArgumentDifference]:
    """The innermost places at which two values are not alike; entries of lists that are alike are
    taken out first."""
    if place.ignored or likeness.alike(made, gold, place):
        return
    if isinstance(gold, dict) and isinstance(made, dict):
        found = list(_in_dicts(gold, made, place, path))
    elif isinstance(gold, list) and isinstance(made, list):
        found = list(_in_lists(gold, made, place, path))
    else:
        found = []
    yield from found or [ArgumentDifference(name=path or "arguments", expected=gold, was=made)]


def _in_dicts(
    gold: dict[str, Json], made: dict[str, Json], place: Place, path: str
) -> Iterator[ArgumentDifference]:
    for name in dict.fromkeys([*gold, *made]):
        inner = f"{path}.{name}" if path else name
        if name in gold and name in made:
            yield from _differing(gold[name], made[name], place.inner(name), inner)
        elif not place.inner(name).ignored:
            yield ArgumentDifference(
                name=inner, expected=gold.get(name, UNSET), was=made.get(name, UNSET)
            )


def _in_lists(
    gold: list[Json], made: list[Json], place: Place, path: str
) -> Iterator[ArgumentDifference]:
    """Nothing where the two have like entries, in another order."""
    mine, theirs = (
        [likeness.counted(each, place.inner(at)) for at, each in enumerate(values)]
        for values in (made, gold)
    )
    alike = likeness.pairs(mine, theirs)
    rows = [at for at in range(len(made)) if at not in {row for row, _ in alike}]
    columns = [at for at in range(len(gold)) if at not in {column for _, column in alike}]
    for row, column in zip_longest(rows, columns):
        at = row if column is None else column
        inner = f"{path}[{at}]"
        if row is None:
            yield ArgumentDifference(name=inner, expected=gold[column])
        elif column is None:
            yield ArgumentDifference(name=inner, was=made[row])
        else:
            yield from _differing(gold[column], made[row], place.inner(at), inner)
