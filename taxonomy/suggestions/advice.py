"""What an engineer would write first against a failure: the "first fix" of its class, with the
names of this run's tools and arguments, and the words of its prompt and its errors.

Each piece of advice is one text for one place. Values of the run (an order, a sum) are never in it:
an edit that names them fixes one run. Nothing here knows which model will read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from rapidfuzz import fuzz, process

from replay.effects import words_of
from replay.trace import Tool
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Act, Turn, leaves
from taxonomy.findings import Finding
from taxonomy.rules.rule import RuleContext


class Advice(NamedTuple):
    """What is to be said. `paragraph` joins the prompt; `instead` is the block of the prompt whose
    place it takes; `tools` are sentences that join descriptions, by tool. `title` names it."""

    title: str
    paragraph: str = ""
    instead: str = ""
    tools: Mapping[str, str] = {}


class Failure(NamedTuple):
    """A failure to advise on: the run, the step, what was found there, the prompt's text, and the
    span that a person tagged."""

    case: RuleContext
    turn: Turn
    finding: Finding | None
    prompt: str
    tagged: str | None = None

    @property
    def acts(self) -> Sequence[Act]:
        return self.case.reading.calls(self.turn)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What was offered at the step, else anywhere in the run."""
        here = {tool.name: tool for tool in self.turn.ask.request.tools or ()}
        return here or self.case.reading.offers

    @property
    def act(self) -> Act | None:
        """The call that is tagged or that the finding is about, else the first one of the step."""
        span = self.tagged or (self.finding.span if self.finding is not None else None)
        own = (act for act in self.acts if act.span.id == span)
        return next(own, self.acts[0] if self.acts else None)

    def reads(self, tool: str) -> bool:
        return self.case.effects.of(tool).effect == "read"


Advise: TypeAlias = Callable[[Failure], Iterator[Advice]]


def advise(failure: FailureClass, sub: str | None, about: Failure) -> tuple[Advice, ...] | str:
    """The advice on a failure, the first one first; the reason where no honest edit is known."""
    if failure is FailureClass.OTHER:
        reason = NO_EDIT.get(sub or "")
        if reason is not None:
            return reason
        made = OTHERS.get(sub or "")
        if made is None:
            return "no first fix is known for this sub-label. Try: arc try FILE --on QUERY"
        return tuple(made(about)) or "the run does not show what the edit would name"
    found = tuple(CLASSES[failure](about))
    return found or "the run does not show what the edit would name"


# --- hallucinated state: read before use


def _read_first(about: Failure) -> Iterator[Advice]:
    missing = [
        each for each in about.case.grounding.get(about.turn.index, ()) if each.origin is None
    ]
    if not missing:
        yield from _say_only_what_was_seen(about)
        return
    act = missing[0].act
    names = list(dict.fromkeys(_argument(each.path) for each in missing if each.act is act))
    listed = _quote(names)
    reader = _reader(about, act.name, names)
    if reader is not None:
        tool, shared = reader
        title = f"read before {act.name}"
        rule = (
            f"Before you call `{act.name}`, call `{tool}` with the same {_quote(shared)} and take"
            f" {listed} from its result."
        )
    else:
        title = f"known {_join(names)} for {act.name}"
        rule = f"For {listed} of `{act.name}`, use only what the user or a tool has named."
    finder = next(_finders(about, names), None)
    look_up = f"look it up with `{finder}`" if finder else "look it up with a tool"
    rule += f" Never guess or make up a value: if it is not known, {look_up} or ask for it."
    topic = {*words_of(act.name), *(word for name in names for word in words_of(name))}
    block = _licence(about.prompt, topic)
    if block:
        yield Advice(f"{title}, in place of the line against it", rule, block)
    yield Advice(title, rule)


def _say_only_what_was_seen(about: Failure) -> Iterator[Advice]:
    why = about.finding.why if about.finding is not None else ""
    if why.startswith("fabricates"):
        yield Advice(
            "no tool results of its own",
            "Never write the result of a tool yourself: make the call, end the turn, and wait for"
            " what comes back.",
        )
    elif why.startswith("patches"):
        yield Advice(
            "read a file before patching it",
            "Read the part of a file that you are about to change, and copy the lines that you"
            " replace from what you read; never write them from memory.",
        )
    else:
        yield Advice(
            "state what was read",
            "State facts only from the task or from what a tool returned in this conversation."
            " Where nothing was looked up yet, call a tool first; where no tool can tell, say that"
            " it is not known.",
        )


def _reader(about: Failure, tool: str, missing: Sequence[str]) -> tuple[str, list[str]] | None:
    """A tool that only reads and needs nothing but what the call has besides, and that."""
    given = _properties(about.tools.get(tool)) - set(missing)
    for other in about.tools.values():
        needs = _required(other)
        if other.name != tool and needs and needs <= given and about.reads(other.name):
            return other.name, sorted(needs)
    return None


def _finders(about: Failure, missing: Sequence[str]) -> Iterator[str]:
    """Tools that read, do not ask for the missing value, and are named after what it is of."""
    about_words = {_stem(word) for name in missing for word in words_of(name)} - _PLAIN
    for tool in about.tools.values():
        named = {_stem(word) for word in words_of(tool.name)}
        if named & about_words and about.reads(tool.name) and not _properties(tool) & set(missing):
            yield tool.name


_PLAIN = {"id", "number", "no", "code", "name", "amount", "value", "path", "file"}
_LICENCE = re.compile(
    r"\b(?:(?:no|not|n't) need|needn't|unnecessary|(?:do not|don't) bother|skip"
    r"|(?:without|instead of|rather than) (?:look|check|read|ask|verify|search)\w*)\b",
    re.I,
)
"""Words that let an agent off looking something up."""

_BLOCK = re.compile(r"(?:^|\n)((?:[-*]|\d+[.)])?[ \t]*\S[^\n]*(?:\n(?![-*#\n]|\d+[.)])[^\n]+)*)")


def _licence(prompt: str, topic: set[str]) -> str:
    """The paragraph or bullet of a prompt that lets the agent off looking up what it is about, ""
    for none. It stands there once: it can be replaced."""
    wanted = {_stem(word) for word in topic if len(word) > 3}
    for found in _BLOCK.finditer(prompt):
        words = {_stem(word) for word in re.findall(r"[a-z]+", found[1].lower())}
        if _LICENCE.search(found[1]) and words & wanted and prompt.count(found[1]) == 1:
            return found[1]
    return ""


# --- bad args: the constraint where the tool is described


_NOT_THIS = re.compile(r"[,;]? *(?:but )?\b(?:not|got|was|were|received|given|found)\b.*$", re.S)


def _fit_arguments(about: Failure) -> Iterator[Advice]:
    act = about.act
    if act is None:
        return
    tool = about.tools.get(act.name)
    gist = act.reply.gist if act.reply.failed else ""
    bare = gist.removeprefix(f"{act.name}:").strip()
    stated = _NOT_THIS.sub("", bare).strip(" .")
    named = [name for name in sorted(_properties(tool)) if re.search(rf"\b{name}\b", bare)]
    if tool is not None and named and stated and not _names_a_value(act, stated):
        first = stated.split(maxsplit=1)[0]
        sentence = f"`{first}`{stated.removeprefix(first)}." if first in named else f"{stated}."
        if not re.match(r"\S+ (?:must|should|has to|needs|is required)", stated):
            sentence = f"A call is rejected with: {stated}."
        yield Advice(f"what {act.name} accepts", tools={act.name: sentence})
    reader = _reader(about, act.name, named) if named else None
    if reader is not None:
        other, shared = reader
        yield Advice(
            f"{_join(named)} from {other}",
            f"Take {_quote(named)} for `{act.name}` from the latest result of `{other}` with the"
            f" same {_quote(shared)}.",
        )
    if gist:
        yield Advice(
            f"correct a rejected {act.name}",
            f"When `{act.name}` rejects a call, read the error and correct the arguments that it"
            " names before you call again; never send the same arguments a second time.",
        )
    else:
        names = ", ".join(sorted(_properties(tool)) or _argument_names(act))
        yield Advice(
            f"check the arguments of {act.name}",
            f"Before you call `{act.name}`, check each argument ({names}) against what the user"
            " asked for and what the tools returned; look up or ask for what neither gives.",
        )


def _argument_names(act: Act) -> list[str]:
    """The arguments of a call, where its tool's schema is not known."""
    return sorted(act.span.arguments) if isinstance(act.span.arguments, dict) else ["all"]


def _names_a_value(act: Act, words: str) -> bool:
    """Do the words of an error hold a value of this one call, or another number of the moment?"""
    values = (str(value) for _, value in leaves(act.span.arguments) if value not in (None, ""))
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", words) for value in values)


# --- wrong tool: what tells two tools apart


def _tell_apart(about: Failure) -> Iterator[Advice]:
    act = about.act
    if act is None:
        return
    if about.tools and act.name not in about.tools:
        yield from _only_offered(about, act)
        return
    other = _other_tool(about, act)
    if other is None:
        return
    purpose = _purpose(other)
    yield Advice(
        f"tell {act.name} from {other.name}",
        tools={
            act.name: f"Not for {purpose}: call {other.name} for that.",
            other.name: f"Call this one, and not {act.name}, for that.",
        },
    )
    yield Advice(
        f"when to call {other.name}",
        f"Call `{other.name}` for {purpose}; {_instead_of(about, act)}",
    )


def _instead_of(about: Failure, act: Act) -> str:
    if about.reads(act.name):
        return f"do not conclude it from what `{act.name}` returns."
    return f"call `{act.name}` only for {_purpose(about.tools[act.name])}."


def _only_offered(about: Failure, act: Act) -> Iterator[Advice]:
    """A tool that is not there: the prompt may name it."""
    later = (
        each.name
        for each in about.case.reading.acts
        if each.step > act.step and each.name in about.tools and each.reply.failed is False
    )
    near = process.extractOne(act.name, list(about.tools), scorer=fuzz.ratio, score_cutoff=60)
    alternative = near[0] if near else next(later, None)
    rule = f"Call only the tools that are offered; there is no tool `{act.name}`."
    if alternative:
        rule += f" Use `{alternative}`."
    for found in _BLOCK.finditer(about.prompt):
        if act.name in found[1] and about.prompt.count(found[1]) == 1:
            yield Advice(f"{act.name} is not offered, in place of the line that names it",
                         rule, found[1])  # fmt: skip
            return
    yield Advice(f"{act.name} is not offered", rule)


def _other_tool(about: Failure, act: Act) -> Tool | None:
    """The tool that would have been right: the one the finding names, else the only one that takes
    the same arguments and does the same sort of thing."""
    finding = about.finding
    if finding is not None:
        said = [each.text for each in finding.evidence if each.role == "offered"]
        named = [name for name in about.tools if name != act.name
                 and any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
                         for text in (finding.why, *said))]  # fmt: skip
        if named:
            return about.tools[named[0]]
    if act.name not in about.tools:
        return None
    own = _properties(about.tools[act.name])
    alike = [
        tool
        for name, tool in about.tools.items()
        if name != act.name
        and _properties(tool) == own
        and about.reads(name) == about.reads(act.name)
    ]
    return alike[0] if len(alike) == 1 else None


def _purpose(tool: Tool) -> str:
    """What a tool is for, as its description begins, else by its name."""
    first = re.split(r"(?<=[.;!?])\s|\n", (tool.description or "").strip(), maxsplit=1)[0].rstrip(
        " ."
    )
    words = first if 0 < len(first) <= 120 else " ".join(words_of(tool.name))
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


# --- gave up: another try before the end


def _go_on(about: Failure) -> Iterator[Advice]:
    why = about.finding.why if about.finding is not None else ""
    if why.startswith("asked a question"):
        yield Advice(
            "decide without a user",
            "No user answers while you work. Do not ask: decide from the task and from what the"
            " tools return, say what you assumed, and finish the task.",
        )
        return
    if why.startswith("announced"):
        yield Advice(
            "do what is announced",
            "Do what you announce in the same turn: make the call instead of saying that you will."
            " End only when the task is done.",
        )
        return
    if why.startswith("ended with an empty message"):
        yield Advice(
            "no empty end",
            "Never end with an empty message. If the task is not done, make the next call; if it"
            " is, say what was done.",
        )
        return
    before = [each for each in about.case.reading.acts if each.step <= about.turn.index]
    failed = next((each for each in reversed(before) if each.reply.failed), None)
    others = [name for name in about.tools if about.reads(name)
              and (failed is None or name != failed.name)]  # fmt: skip
    also = f" (such as {_quote(others[:2], 'or')})" if others else ""
    if failed is not None:
        yield Advice(
            f"another try after {failed.name}",
            f"If `{failed.name}` fails or finds nothing, that is not the end: read what it"
            f" returned, and try again with different arguments or with another tool{also} before"
            " you say that you cannot help.",
        )
    else:
        yield Advice(
            "try the tools first",
            "Do not say that you cannot help, and do not hand over, before you have tried the"
            f" tools that are offered{also}.",
        )


# --- loop: no call twice


def _no_repeats(about: Failure) -> Iterator[Advice]:
    act = about.act
    if act is None:
        yield Advice(
            "say nothing twice",
            "Never repeat a message that you already sent. If nothing new came in, act differently,"
            " or end with what is known and what is missing.",
        )
        return
    told = "fails" if act.reply.failed else "brings nothing new"
    yield Advice(
        f"no {act.name} twice",
        f"Never make the same call twice with the same arguments. If `{act.name}` {told}, read what"
        " it returned, then change the arguments, use another tool, or say what is missing.",
    )


# --- other


def _arithmetic(about: Failure) -> Iterator[Advice]:
    names = (
        name for name in about.tools if {"calculate", "calculator", "python"} & {*words_of(name)}
    )
    tool = next(names, None)
    how = f"Work out every sum with `{tool}`" if tool else "Write out every step of a sum"
    yield Advice("check sums", f"{how}, and check the result before you state or use it.")


def _keep_to_it(about: Failure) -> Iterator[Advice]:
    """An instruction that was given and not kept is repeated where the call is decided."""
    evidence = about.finding.evidence if about.finding is not None else ()
    stated = next((each.text for each in evidence if each.role == "stated"), "")
    act = about.act
    if stated and act is not None:
        yield Advice(
            f"check before {act.name}",
            f"Before each call of `{act.name}`, check it against this: “{stated}” If the call would"
            " break it, do not make it.",
        )
    elif stated:
        yield Advice(
            "check the answer against what is required",
            f"Before you give your answer, check it against this: “{stated}”",
        )


def _count_days(about: Failure) -> Iterator[Advice]:
    del about
    yield Advice(
        "count the days",
        "Before you say whether a date is inside a period, write down both dates, count the days"
        " between them, and compare that number with the period.",
    )


def _read_back(about: Failure) -> Iterator[Advice]:
    act = about.act
    if act is not None:
        yield Advice(
            f"read back after {act.name}",
            f"After `{act.name}`, read what it changed, and say that it is done only if that shows"
            " it.",
        )


def _honest_checks(about: Failure) -> Iterator[Advice]:
    del about
    yield Advice(
        "claim only what ran",
        "Say that tests pass, or that something works, only if you ran the check after your last"
        " change and it passed. Otherwise say what failed and what was not run.",
    )


def _do_what_was_said(about: Failure) -> Iterator[Advice]:
    del about
    yield Advice(
        "do what was announced",
        "When you say what you will do next, do exactly that next. If you change your mind, say so"
        " and why before you do something else.",
    )


def _leave_the_check(about: Failure) -> Iterator[Advice]:
    del about
    yield Advice(
        "leave the check as it is",
        "Never change, skip or replace a test or a check to make it pass, and never write an"
        " expected value into the code. If a check seems wrong, say so and leave it as it is.",
    )


CLASSES: dict[FailureClass, Advise] = {
    FailureClass.WRONG_TOOL: _tell_apart,
    FailureClass.BAD_ARGS: _fit_arguments,
    FailureClass.HALLUCINATED_STATE: _read_first,
    FailureClass.GAVE_UP: _go_on,
    FailureClass.LOOP: _no_repeats,
}

OTHERS: dict[str, Advise] = {
    "arithmetic": _arithmetic,
    "policy violation": _keep_to_it,
    "instruction broken": _keep_to_it,
    "premise not checked": _count_days,
    "verified nothing": _read_back,
    "false claim": _honest_checks,
    "unfaithful": _do_what_was_said,
    "specification gaming": _leave_the_check,
}

NO_EDIT: dict[str, str] = {
    "": "“other” names no failure: a sub-label would say what to change",
    "missing step": "which step is missing is not known by rule. Try: arc try FILE --on QUERY",
    "malformed calls": "the calls came out garbled: that is the serving, and no prompt mends it",
    "cap hit": "the run was stopped by a limit: raise the limit, or split the task",
    "serving error": "the model's server failed: no prompt mends it",
    "user off task": "the user left the task: no prompt of the agent mends it",
    "grader never ran": "the grader did not run: no prompt mends it",
    "grader requires the unstated": "the grader requires what the task does not say",
    "call not in gold": "only gold says that it is wrong: an edit that says so teaches the test",
}
"""Why nothing is suggested, by sub-label."""


# --- shared


def _properties(tool: Tool | None) -> set[str]:
    schema = tool.schema if tool is not None and isinstance(tool.schema, dict) else {}
    found = schema.get("properties")
    return set(found) if isinstance(found, dict) else set()


def _required(tool: Tool) -> set[str]:
    schema = tool.schema if isinstance(tool.schema, dict) else {}
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _argument(path: str) -> str:
    """The argument that a value stands in, by its path: the last name that is no index."""
    return next((part for part in reversed(path.split(".")) if not part.isdecimal()), path)


def _stem(word: str) -> str:
    return word.lower().removesuffix("s")


def _join(names: Sequence[str], word: str = "and") -> str:
    *before, last = names
    return f"{', '.join(before)} {word} {last}" if before else last


def _quote(names: Sequence[str], word: str = "and") -> str:
    return _join([f"`{name}`" for name in names], word)
