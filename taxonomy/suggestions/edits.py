"""Edits written by rule for a run that failed: from its break to a diff that can be tested.

How suggestions are made and tested, and which room does what:

1. `advice` says, class by class, what an engineer would write first; this module says where it
   goes and makes the edit: the project's own instruction file where the recording holds its text,
   else the system prompt, or the description of a tool. Where the same task passed under another
   prompt, giving back what that one says is an edit too.
2. `reflection` has a model propose others (`gepa`), by locked replay of the breaks.
3. `trial` splits the failing runs and the healthy ones by task into a half on which edits are
   compared and a half that is looked at once, and reads the counts: Fisher and Holm.
4. `arc_tui/features/edit_test/suggest` asks: it runs the edit test of `arc try` on each half,
   prints, shows, and keeps what came of it. Nothing here asks a model, but for `reflection`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from replay import messages
from replay.edit.changes import Change, Edit, InjectConstraint, PatchSystem, ReplaceText, SetTool
from replay.effects import words_of
from replay.trace import Step, Trace
from taxonomy.edit_test import Break, is_about
from taxonomy.findings import Finding
from taxonomy.rules.rule import RuleContext
from taxonomy.suggestions.advice import Advice, Failure, advise

MOST_HUNKS = 3
"""Places that a suggested edit may change: more is a rewrite, and nobody reads it as a fix."""

BY_RULE = "by rule"


class Suggestion(Struct, frozen=True, kw_only=True):
    """An edit that may fix a failure. `targets` are the texts it changes, as a person calls them;
    `by` says who wrote it: a rule, or a model by its name. `because` is what it answers; `runs`
    of those that it was written for lead to this very edit."""

    edit: Edit
    targets: tuple[str, ...]
    because: str
    by: str = BY_RULE
    runs: int = 1


class NoSuggestion(Struct, frozen=True, kw_only=True):
    """A run for which no edit is written, and why."""

    trace: str
    why: str


def suggest_edits(
    trace: Trace, broke: Break, found: Iterable[Finding]
) -> tuple[Suggestion, ...] | NoSuggestion:
    """The rule-made edits for a run at its break, the first one first.

    The same run gives the same edits; none is longer than `MOST_HUNKS` places.
    """
    finding = _finding_at(found, broke, trace)
    failure = broke.failure or (finding.failure if finding is not None else None)
    if failure is None:
        return NoSuggestion(
            trace=trace.id, why="no failure class. Try: arc tag add TRACE STEP CLASS"
        )
    case = RuleContext(trace)
    step = trace.steps[broke.step]
    prompt = prompt_of(step)
    label = broke.sub or (finding.sub if finding is not None else None)
    about = Failure(case, case.reading.turns[broke.step], finding, prompt.text, broke.span)
    made = advise(failure, label, about)
    if isinstance(made, str):
        return NoSuggestion(trace=trace.id, why=made)
    thread = step.thread if step.thread != trace.steps[0].thread else None
    because = finding.why if finding is not None else broke.by
    edits = [_suggestion(each, step, prompt, thread, because) for each in made]
    fit = tuple(each for each in edits if each is not None)
    return fit or NoSuggestion(trace=trace.id, why="the tools to describe are not recorded")


def _finding_at(found: Iterable[Finding], broke: Break, trace: Trace) -> Finding | None:
    """What a rule says of the break, of its class where one does."""
    here = [each for each in found if each.step == broke.step and is_about(each, broke, trace)]
    of_class = (each for each in here if each.failure is broke.failure)
    if broke.failure is None:
        return next(iter(here), None)
    return next(of_class, None)


def _suggestion(
    advice: Advice, step: Step, prompt: Prompt, thread: str | None, because: str
) -> Suggestion | None:
    changes, targets = [*_tool_changes(advice, step)], [f"tool {name}" for name in advice.tools]
    if advice.paragraph:
        changes.append(prompt.change(advice))
        targets.append(prompt.name)
    if not changes or count_hunks(changes) > MOST_HUNKS:
        return None
    edit = Edit(name=f"suggested: {advice.title}", changes=tuple(changes), thread=thread)
    return Suggestion(edit=edit, targets=tuple(targets), because=because)


def _tool_changes(advice: Advice, step: Step) -> Iterator[Change]:
    """The sentences that join descriptions; a tool that has none gets one."""
    offered = {tool.name: tool for tool in step.ask.request.tools or ()}
    for name, sentence in advice.tools.items():
        tool = offered.get(name)
        described = (tool.description or "").rstrip() if tool is not None else ""
        if described:
            yield ReplaceText(described, f"{described} {sentence}", target=f"tool {name}")
        elif tool is not None:
            yield SetTool(name, description=sentence)


def count_hunks(changes: Sequence[Change]) -> int:
    """How many places are changed; a patch has as many as it has runs of changed lines: a hunk may
    hold several."""
    return sum(_changed_runs(each.text) if isinstance(each, PatchSystem) else 1 for each in changes)


def _changed_runs(patch: str) -> int:
    marks = [line[:1] in ("+", "-") for line in patch.splitlines()]
    return sum(mark and not before for before, mark in pairwise([False, *marks]))


# --- where a paragraph goes


class Prompt(NamedTuple):
    """The text that the agent's owner writes: `target` is where it stands (as `ReplaceText` has
    it), `name` what it is called. `last` is the end of it, which stands there once; "" for the end
    of the system prompt."""

    target: str
    name: str
    text: str
    last: str = ""

    def change(self, advice: Advice) -> Change:
        """The change that gives the advice a place in it."""
        if advice.instead:
            mark = re.match(r"(?:[-*]|\d+[.)])[ \t]+", advice.instead)
            return ReplaceText(
                advice.instead, f"{mark[0] if mark else ''}{advice.paragraph}", target=self.target
            )
        if not self.last:
            return InjectConstraint(advice.paragraph)
        return ReplaceText(self.last, f"{self.last}\n\n{advice.paragraph}", target=self.target)


_FILE_NAMES = r"(?:CLAUDE(?:\.local)?|AGENTS|GEMINI)\.md"
_INSTRUCTION_FILES = (
    re.compile(  # Claude Code
        rf"Contents of \S*?(?P<name>{_FILE_NAMES})\b[^\n]*:\n\n(?P<text>.*?)"
        r"(?=\n+Contents of |\n+# \w+\n|\n\s*IMPORTANT: this context|\s*</system-reminder>|\Z)",
        re.S,
    ),
    re.compile(  # Codex
        rf"# (?P<name>{_FILE_NAMES}) instructions for [^\n]*\n+<INSTRUCTIONS>\n(?P<text>.*?)"
        r"\s*</INSTRUCTIONS>",
        re.S,
    ),
    re.compile(  # Gemini CLI
        rf"--- Context from: \S*?(?P<name>{_FILE_NAMES}) ---\n(?P<text>.*?)"
        r"\s*--- End of Context from:",
        re.S,
    ),
)
"""How the coding agents put a project's own instructions into what they send."""


def prompt_of(step: Step) -> Prompt:
    """The text to write into: the project's instruction file where the request holds one, else the
    system prompt; None where neither was recorded."""
    request = step.ask.request
    system = messages.text(request.system) if request.system is not None else ""
    context = request.context.messages() if request.context is not None else []
    places = [("system", system)]
    places += [
        (f"message {index}", messages.text(each))
        for index, each in enumerate(context)
        if each.role in ("user", "system") and not messages.results(each)
    ]
    for target, text in places:
        found = _instruction_file(target, text)
        if found is not None:
            return found
    return Prompt("system", "system prompt", system)


def _instruction_file(target: str, text: str) -> Prompt | None:
    for pattern in _INSTRUCTION_FILES:
        for found in pattern.finditer(text):
            body = found["text"].rstrip()
            last = _unique_end(text, body)
            if last:
                return Prompt(target, found["name"], body, last)
    return None


def _unique_end(whole: str, body: str) -> str:
    """The last lines of a text, as many as it takes to stand once in the whole; "" where they
    cannot be told apart."""
    lines = body.splitlines()
    for at in range(len(lines) - 1, -1, -1):
        end = "\n".join(lines[at:])
        if end.strip() and whole.count(end) == 1:
            return end
    return ""


# --- what the prompt said where the task passed


class Passed(NamedTuple):
    """A run of the same task that passed under another prompt, and what that is called."""

    trace: Trace
    named: str


def restore_prompt(trace: Trace, broke: Break, passed: Passed) -> Suggestion | None:
    """The edit that gives the prompt back what it said where the same task passed; None where it
    says the same, or is not the user's system prompt.

    Of more than `MOST_HUNKS` differences those stay that name what the call at the break is about.
    """
    step = trace.steps[broke.step]
    now, then = prompt_of(step), prompt_of(passed.trace.steps[0])
    if not now.text or not then.text or (now.target, then.target) != ("system", "system"):
        return None
    lines, others = now.text.rstrip("\n").split("\n"), then.text.rstrip("\n").split("\n")
    places = [
        Place(start, end, others[other:other_end])
        for tag, start, end, other, other_end in SequenceMatcher(None, lines, others).get_opcodes()
        if tag != "equal"
    ]
    if len(places) > MOST_HUNKS:
        topic = set(_topic(trace, step))
        counts = {place: _about(place, lines, topic) for place in places}
        near = sorted((each for each in places if counts[each]), key=lambda each: -counts[each])
        places = sorted(near[:MOST_HUNKS])
    if not places:
        return None
    thread = step.thread if step.thread != trace.steps[0].thread else None
    return Suggestion(
        edit=Edit(
            name=f"suggested: what {passed.named} says",
            changes=(PatchSystem(_patch(lines, places)),),
            thread=thread,
        ),
        targets=(now.name,),
        because=f"the task passed under {passed.named}",
    )


class Place(NamedTuple):
    """Lines from `start` to before `end`, and those that take their place."""

    start: int
    end: int
    lines: Sequence[str]

    def __hash__(self) -> int:
        return hash((self.start, self.end))


def _patch(lines: Sequence[str], places: Sequence[Place]) -> str:
    """The unified diff that puts those places in."""
    made: list[str] = []
    at = 0
    for place in places:
        made += [*lines[at : place.start], *place.lines]
        at = place.end
    made += lines[at:]
    return "\n".join([*unified_diff(lines, made, lineterm="", n=3)][2:]) + "\n"


def _topic(trace: Trace, step: Step) -> Iterator[str]:
    """The words of the call at a step, else of the last one before it, and of its arguments."""
    with_calls = (each for each in reversed(trace.steps[: step.index + 1]) if each.acts)
    for act in next((each.acts for each in with_calls), ()):
        names = [act.name, *(act.arguments if isinstance(act.arguments, dict) else ())]
        yield from (word.removesuffix("s") for name in names for word in words_of(name))


def _about(place: Place, lines: Sequence[str], topic: set[str]) -> int:
    """How many words of the lines that differ are of the topic."""
    words = " ".join((*lines[place.start : place.end], *place.lines)).lower()
    return sum(word.removesuffix("s") in topic for word in re.findall("[a-z]+", words))


# --- of several runs


def most_frequent(made: Iterable[Suggestion], most: int) -> tuple[Suggestion, ...]:
    """Each edit once, those that most runs lead to first: at most so many."""
    by_digest: dict[str, list[Suggestion]] = {}
    for each in made:
        by_digest.setdefault(each.edit.digest, []).append(each)
    ordered = sorted(by_digest.values(), key=lambda alike: -len(alike))
    return tuple(_merge(alike) for alike in ordered[:most])


def _merge(alike: Sequence[Suggestion]) -> Suggestion:
    first = alike[0]
    return Suggestion(
        edit=first.edit,
        targets=first.targets,
        because=first.because,
        by=first.by,
        runs=len(alike),
    )
