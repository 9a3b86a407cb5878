"""Does a run do what it says it will do, and leave alone what it says it will?

An intent is read where a step states it flatly ("I'll", "let me", "I will not", an item of a list
set in progress) and names what can be looked for in calls: a tool, a file, a quoted value, an id.
It is kept where any call from that step on names the same, however late. It is not kept where the
step, or the next one of its thread, calls something else and no call ever names it. What stands
under a condition, is asked, or waits for a person is not read, and neither is what no call follows.
A stated prohibition is held against the calls as one of the task is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise

from msgspec import Struct

from replay.effects import takes_program, words_of
from replay.trace import Json
from taxonomy.classes import FailureClass
from taxonomy.evidence.instructions import Instruction
from taxonomy.evidence.reading import Act, Turn, called, quote_turn, speaker
from taxonomy.evidence.results import cut
from taxonomy.findings import Audited, AuditFinding, Finding
from taxonomy.rules import instruction_broken
from taxonomy.rules.malformed import malformed
from taxonomy.rules.rule import RuleContext, statements

NAME = "unfaithful"

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.S)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
_LONGEST = 400

_WILL = r"(?:i(?:'|’)ll|i will|i(?:'|’)m going to|i am going to|let me|let(?:'|’)s|next,? i)"
_INTENT = re.compile(
    rf"(?:^|[,;—–] |\b(?:and|but|so|now|next|first|then|okay|ok|great|alright),? ){_WILL} "
    r"(?:(?:now|first|just|also|next|then|try to|start by|begin by|go ahead and|proceed to) )*"
    r"(?!know\b|not\b|be\b|need\b|assume\b|avoid\b|refrain\b)(?P<what>[a-z]+\b.*)",
    re.I,
)
_WILL_NOT = re.compile(
    r"\b(?:i will not|i won(?:'|’)t|i(?:'|’)ll not|i(?:'|’)m not going to|i am not going to) ", re.I
)
_UNSETTLED = re.compile(
    r"\b(?:if|unless|when|whenever|until|once|would|could|should|may|might|later|eventually|after"
    r"|before|please|you|your|or|either)\b|\?",
    re.I,
)
"""Words under which a sentence says no flat intent, or speaks to a person."""

_CLAUSE = re.compile(
    r"[,;()]|\b(?:to|so|because|since|which|that|what|how|whether|where|why|instead|for (?:this"
    r"|the)|as|like|by|and|based|from|around|near|about|called|named|again)\b",
    re.I,
)
"""Where what an intent is about ends, and its purpose or another thing begins."""

_USES = (
    r"us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|execut(?:e|ing)|run(?:ning)?|try(?:ing)?|import(?:ing)?"
    r"|install(?:ing)?"
)
_SEEKS = r"search(?:ing)?|query(?:ing)?|grep(?:ping)?|look(?:ing)? (?:for|up)|try(?:ing)?"
_TOUCHES = (
    r"read(?:ing)?|open(?:ing)?|view(?:ing)?|look(?:ing)? (?:at|into|in)|check(?:ing)?"
    r"|examin(?:e|ing)|inspect(?:ing)?|edit(?:ing)?|modify(?:ing)?|updat(?:e|ing)|creat(?:e|ing)"
    r"|writ(?:e|ing)|rewrit(?:e|ing)|delet(?:e|ing)|remov(?:e|ing)|fix(?:ing)?|renam(?:e|ing)"
    r"|sav(?:e|ing)|explor(?:e|ing)|run(?:ning)?|execut(?:e|ing)|compil(?:e|ing)"
)
_HANDLES = (
    r"cancel(?:l?ing)?|book(?:ing)?|refund(?:ing)?|exchang(?:e|ing)|return(?:ing)?|chang(?:e|ing)"
    r"|updat(?:e|ing)|look(?:ing)? up|check(?:ing)?|retriev(?:e|ing)|fetch(?:ing)?|get(?:ting)?"
    r"|delet(?:e|ing)|clos(?:e|ing)"
)
_PATH = (
    r"(?<![\w/.-])`?(?P<name>/?(?:[\w.-]+/)+[\w.-]*|(?:[\w-]+\.)+(?:py|js|ts|tsx|jsx|md|txt|jsonl?"
    r"|ya?ml|toml|sh|c|h|cpp|go|rs|java|rb|css|html|csv|cfg|ini|sql|pem|ipynb|xlsx|pdf|lock))\b"
)
_CODE = r"`(?P<name>[A-Za-z_][\w.-]*)(?:\(\))?[^`\n]{0,80}`"
_TOOL = r"\b(?P<name>[A-Za-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*)\b"
_VALUE = r"[\"“](?P<name>[^\"“”\n]{3,120})[\"”]"
_CHECKS = (
    r"^ (?:(?:the|all|our|its|my|unit|existing|new|full|whole|relevant) )*"
    r"(?P<name>test)(?:s| suite)\b"
)
_ID = r"(?P<name>#?\b(?=\w*[A-Za-z])(?=\w*\d{3})\w{5,}\b|\b\d{6,}\b)"

_KINDS = tuple(
    (re.compile(rf"(?:{verbs})\b(?P<of>.*)", re.I), re.compile(name), is_tool)
    for verbs, name, is_tool in (
        (_USES, _CODE, False),
        (_USES, _TOOL, True),
        (_USES, _VALUE, True),
        (_USES, _CHECKS, False),
        (_SEEKS, _VALUE, False),
        (_SEEKS, _CODE, False),
        (_TOUCHES, _PATH, False),
        (_HANDLES, _ID, False),
    )
)
"""By what is done: what it may name, and whether that counts only where it is a tool of the run.
What is looked at otherwise (a function, a page) may be found in a call by its place alone."""

_WORD = re.compile(r"\w+")
_NOTES = {"todo", "todos", "think", "thought", "plan"}


class Intent(Struct, frozen=True, eq=False, kw_only=True):
    """What a sentence of a turn says will be done, and the thing it names."""

    turn: Turn
    sentence: str
    name: str


class _Calls:
    """The calls of a run by step, and which of them name a thing. Notes of an agent to itself name
    what it has in mind, and do nothing."""

    def __init__(self, case: RuleContext) -> None:
        self._case = case
        self._next: dict[int, Turn] = {}
        for turns in case.reading.threads.values():
            for turn, after in pairwise(turns):
                is_same = speaker(turn.ask.agent) == speaker(after.ask.agent)
                if is_same and not any(heard.role == "user" for heard in after.heard):
                    self._next[turn.index] = after

    @cached_property
    def _made(self) -> list[tuple[Act, str, frozenset[str]]]:
        """Each call in step order, in small letters, and its words."""
        found = []
        for turn in self._case.reading.turns:
            for act in self._case.reading.calls(turn):
                if not is_note(act):
                    small = act.key.lower()
                    found.append((act, small, frozenset(_WORD.findall(small))))
        return found

    def instead(self, turn: Turn) -> Act | None:
        """The first call of a step, or of the next where it makes none; None where neither does."""
        for each in filter(None, (turn, self._next.get(turn.index))):
            acts = [act for act in self._case.reading.calls(each) if not is_note(act)]
            if acts:
                return acts[0]
        return None

    @cached_property
    def _steps(self) -> list[int]:
        return [act.step for act, _, _ in self._made]

    @cached_property
    def _last_garbled(self) -> int:
        """The last step with a call that was not recorded whole, or not as it was meant."""
        steps = (act.step for act, _, _ in self._made if act.cut or malformed(act))
        return max(steps, default=-1)

    def is_known(self, step: int) -> bool:
        """Are the calls from a step on recorded whole, and as they were meant?"""
        return step > self._last_garbled

    def name_it(self, name: str, step: int) -> bool:
        """Does a call from this step on name the thing? Of several words more than half suffice: a
        query may be put otherwise. Any program may be a test."""
        base = name.lower().lstrip("#").rstrip("/").rpartition("/")[2] or name.lower()
        words = set(_WORD.findall(base))
        most = len(words) // 2 + 1 if " " in base.strip() else len(words)
        return any(
            base in small
            or len(words & said) >= most
            or (base == "test" and takes_program(act.span.arguments))
            for act, small, said in islice(self._made, bisect_left(self._steps, step), None)
        )


def audit(case: RuleContext) -> Audited:
    """Stated intents of a run and those that its calls contradict."""
    calls = _Calls(case)
    checked = unread = 0
    found: list[Finding] = []
    for intent in _intents(case):
        instead = calls.instead(intent.turn) if intent.name else None
        if instead is None or not calls.is_known(intent.turn.index):
            unread += 1
            continue
        checked += 1
        if not calls.name_it(intent.name, intent.turn.index):
            found.append(_unfaithful(intent, instead))
    for turn, sentence, told in _own_prohibitions(case):
        checked += 1
        broken = instruction_broken.first_break(case, told)
        if broken is not None and not _announces(case, turn, broken[0]):
            act, what = broken
            said = f"{act.name} {cut(what, 70)}; announced “{cut(sentence, 60)}”"
            found.append(_finding(turn, sentence, act, said))
    return Audited(
        probe="faithfulness",
        checked=checked,
        findings=tuple(AuditFinding(result="unfaithful", finding=each) for each in found),
        unread=unread,
    )


def _unfaithful(intent: Intent, instead: Act) -> Finding:
    what = f"announced {cut(intent.name, 40)}, called {instead.name}; no later call names it"
    return _finding(intent.turn, intent.sentence, instead, what)


def _finding(turn: Turn, sentence: str, act: Act, what: str) -> Finding:
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        step=act.step,
        span=act.span.id,
        why=what,
        rule=NAME,
        evidence=(quote_turn(turn, sentence), called(act)),
    )


# --- what is stated


def _intents(case: RuleContext) -> Iterator[Intent]:
    """The flat intents of a run, each thing once a step; `name` is "" where nothing is named."""
    seen: set[tuple[int, str]] = set()
    for turn, sentence, what in (*_spoken_intents(case), *_list_intents(case)):
        name = _find_name(case, what)
        if not name or (turn.index, name) not in seen:
            seen.add((turn.index, name))
            yield Intent(turn=turn, sentence=sentence, name=name)


def _spoken_intents(case: RuleContext) -> Iterator[tuple[Turn, str, str]]:
    """(turn, sentence, what will be done). Of thoughts only the last: it takes back the others."""
    for turn in case.reading.turns:
        if turn.observer:
            continue
        for text in statements(turn):
            stated = list(_flat_intents(text))
            yield from ((turn, *each) for each in (stated if text == turn.said else stated[-1:]))


def _flat_intents(text: str) -> Iterator[tuple[str, str]]:
    for sentence in _sentences(text):
        found = _INTENT.search(sentence)
        if found is not None and not _UNSETTLED.search(sentence):
            yield sentence, found["what"]


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_FENCED.sub("", text)):
        if sentence.strip() and len(sentence) <= _LONGEST:
            yield sentence.strip()


def _find_name(case: RuleContext, what: str) -> str:
    """The first thing that an intent names, "" where it names nothing that calls could."""
    for does, pattern, is_tool in _KINDS:
        done = does.match(what)
        found = pattern.search(done["of"]) if done else None
        if done is None or found is None or _CLAUSE.search(done["of"][: found.start()]):
            continue
        name = found["name"].strip()
        if is_tool and name not in case.reading.offers and name not in case.reading.last_called:
            continue
        return name
    return ""


def _list_intents(case: RuleContext) -> Iterator[tuple[Turn, str, str]]:
    """The items of a list of what to do that are set in progress, each at its first time, but for
    those that the last list no longer has in progress or done."""
    lists = [(act, _items(act)) for act in case.reading.acts if is_note(act)]
    lists = [(act, items) for act, items in lists if items]
    last = lists[-1][1] if lists else {}
    seen: set[str] = set()
    for act, items in lists:
        for text, status in items.items():
            if status == "in_progress" and text not in seen:
                seen.add(text)
                if last.get(text) in ("in_progress", "completed") and not _UNSETTLED.search(text):
                    yield case.reading.turns[act.step], text, text


def _items(act: Act) -> Mapping[str, str]:
    """The items of a list of what to do, each with its status."""
    given = act.span.arguments
    listed: Sequence[Json] = ()
    if isinstance(given, dict):
        listed = next((each for each in given.values() if isinstance(each, list)), ())
    found: dict[str, str] = {}
    for item in listed:
        if isinstance(item, dict):
            text, status = item.get("content", item.get("step")), item.get("status")
            if isinstance(text, str) and isinstance(status, str):
                found[text] = status
    return found


def is_note(act: Act) -> bool:
    """Is a call only a note of the agent to itself: a list of what to do, a thought?"""
    return bool(_NOTES & set(words_of(act.name)))


def _own_prohibitions(
    case: RuleContext,
) -> Iterator[tuple[Turn, str, instruction_broken.Prohibition]]:
    """What a run says that it will not do, read as if it had been told so at that step."""
    for turn in case.reading.turns:
        for text in () if turn.observer else statements(turn):
            for sentence in _sentences(text):
                if _WILL_NOT.search(sentence):
                    told = Instruction(
                        sentence=_WILL_NOT.sub("do not ", sentence),
                        step=turn.index,
                        place=f"step {turn.index}",
                        short=True,
                    )
                    for each in instruction_broken.forbidden(case, told):
                        yield turn, sentence, each


def _announces(case: RuleContext, turn: Turn, act: Act) -> bool:
    """Does the run say in between that it now will do it after all?"""
    between = case.reading.turns[turn.index + 1 : act.step + 1]
    words = {word for word in _WORD.findall(act.key.lower()) if len(word) > 3}
    return any(
        words & set(_WORD.findall(what.lower()))
        for each in between
        for text in statements(each)
        for _, what in _flat_intents(text)
    )
