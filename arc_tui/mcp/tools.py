"""The tools there are: the name and the description by which a model chooses one, the arguments it
takes as a strict schema, and what it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from arc_tui.mcp import changes, lists, questions
from arc_tui.mcp.answers import Answer
from arc_tui.mcp.session import Call, Session
from replay.errors import ArcError, NotFound
from replay.store.handle import Store

A = TypeVar("A", bound=questions.Arguments)

Work = Callable[[Session, Call, Any], Answer]


class Definition(Struct, frozen=True, eq=False, kw_only=True):
    """A tool as a client is told of it."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    reads_only: bool
    spends: bool


class Tool(Struct, frozen=True, eq=False, kw_only=True):
    """A tool. `keeps` something in the database; `spends`: only offered where that is allowed."""

    name: str
    title: str
    description: str
    arguments: type[questions.Arguments]
    work: Work
    keeps: bool = False
    spends: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """What it takes, as a JSON schema without references."""
        (_,), known = msgspec.json.schema_components([self.arguments], ref_template="{name}")
        made = cast("dict[str, Any]", _whole(known[self.arguments.__name__], known))
        made.pop("title")
        return {**made, "additionalProperties": False}

    @property
    def definition(self) -> Definition:
        return Definition(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.schema,
            reads_only=not self.keeps,
            spends=self.spends,
        )

    def answer(self, session: Session, under_way: Call, given: object) -> Answer:
        """Answer a call. Raises ArcError with a sentence for whoever made it."""
        with session.turn(under_way):
            arguments = self._read(given)
            if not self.spends:
                return self.work(session, under_way, arguments)
        return self.work(session, under_way, arguments)

    def _read(self, given: object) -> questions.Arguments:
        try:
            return msgspec.convert(given, self.arguments)
        except msgspec.ValidationError as error:
            raise _refusal(self, str(error)) from None


def _whole(part: Any, known: dict[str, Any]) -> Any:
    """A part of a schema with what it refers to put in its place."""
    if isinstance(part, list):
        return [_whole(each, known) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        named = {key: value for key, value in known[part["$ref"]].items() if key != "title"}
        named.pop("description", None)
        part = named | {key: value for key, value in part.items() if key != "$ref"}
    return {key: _whole(value, known) for key, value in part.items()}


_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.S)
_QUOTED = re.compile(r"[`'](.*)[`']", re.S)


def _refusal(tool: Tool, why: str) -> ArcError:
    """What is wrong with the arguments of a call, in one sentence."""
    found = _PLACE.fullmatch(why)
    assert found is not None
    what, place = found["what"], found["place"]
    names = [each.encode_name for each in msgspec.structs.fields(tool.arguments)]
    quoted = _QUOTED.search(what)
    word = quoted[1] if quoted is not None else ""
    takes = f"{tool.name} takes {', '.join(names)}"
    if "unknown field" in what:
        near = _near(word, names)
        hint = f"did you mean {near[0]}?" if near else takes
        return ArcError(f"{tool.name} takes no {word!r}", hint)
    if "missing required field" in what:
        return ArcError(f"{tool.name}: {word} is missing", takes)
    if "Invalid enum value" in what and place:
        values = tool.schema["properties"][place]["enum"]
        return NotFound(place, word, _near(word, values) or values)
    said = what[:1].lower() + what[1:].replace("`", "").replace(" | null", "")
    return ArcError(f"{tool.name}: {place + ': ' if place else ''}{said}", "" if place else takes)


def _near(word: str, known: Sequence[str]) -> list[str]:
    return get_close_matches(word, known, n=1, cutoff=0.5)


def _reads(answer: Callable[[Store, A], Answer]) -> Work:
    """A tool that reads the database and nothing else."""

    def work(session: Session, under_way: Call, given: A) -> Answer:
        with session.store(under_way) as store:
            return answer(store, given)

    return work


TOOLS = (
    Tool(
        name="list_runs",
        title="List runs",
        description="Recorded runs of LLM agents, a line each: id, outcome, steps, cost, first"
        " reason of a failure. Start here; narrow with query, such as outcome:failed.",
        arguments=lists.ListRuns,
        work=_reads(lists.list_runs),
    ),
    Tool(
        name="brief",
        title="Brief of a run",
        description="What is known of one run: outcome, gold and failed checks, break candidates"
        " with evidence, what was not recorded.",
        arguments=questions.Brief,
        work=_reads(questions.brief),
    ),
    Tool(
        name="diagnose",
        title="Where a run broke",
        description="Up to three steps where a run probably broke, each with its evidence, its"
        " signals and how often such a candidate is right.",
        arguments=questions.Diagnose,
        work=_reads(questions.diagnose),
    ),
    Tool(
        name="step",
        title="Read a step",
        description="What stood at a step: what was new to the model, what it said and called, what"
        " came back. Without a step number: the list of all steps.",
        arguments=questions.Step,
        work=_reads(questions.step),
    ),
    Tool(
        name="search",
        title="Search runs",
        description="Which runs contain a text, and at which step: prompts, messages, reasoning,"
        " tool arguments, results and errors.",
        arguments=lists.Search,
        work=_reads(lists.search),
    ),
    Tool(
        name="compare",
        title="Compare two runs",
        description="Two runs of a task, or a run and a replay of it, step by step: where their"
        " actions diverge, how prompts, figures and outcome differ.",
        arguments=questions.Compare,
        work=_reads(questions.compare),
    ),
    Tool(
        name="failures",
        title="Why runs fail",
        description="How many failed runs show each class of failure, with an example; or the runs"
        " behind one class.",
        arguments=lists.Failures,
        work=_reads(lists.failures),
    ),
    Tool(
        name="tag",
        title="Suggest a tag",
        description="Suggest a class of failure for a step, with a quote from it, under your name."
        " A person accepts it or not; it never counts as a person's tag.",
        arguments=changes.Tag,
        work=changes.tag,
        keeps=True,
    ),
    Tool(
        name="estimate",
        title="Estimate an edit",
        description="What replaying a run with an edited prompt or tool would cost, at which steps"
        " it changes something, and why a step cannot be asked. Sends nothing.",
        arguments=changes.Estimate,
        work=changes.estimate,
    ),
    Tool(
        name="replay",
        title="Replay with an edit",
        description="Ask the model again at every recorded step, as recorded and with the edit, and"
        " say whether it acts otherwise. Costs money, up to the limit a person gave for this"
        " session. Runs no tool of the agent.",
        arguments=changes.Replay,
        work=changes.replay,
        keeps=True,
        spends=True,
    ),
)
"""In the order in which a run is understood."""


def tools_of(session: Session) -> tuple[Tool, ...]:
    """The tools of a session: those that spend only where something may be spent."""
    return tuple(each for each in TOOLS if session.budget is not None or not each.spends)


def find_tool(session: Session, name: str) -> Tool:
    """The tool of that name. Raises NotFound."""
    known = {each.name: each for each in tools_of(session)}
    if name not in known:
        hint = "start `arc mcp` with --allow-spend USD" if name == "replay" else ""
        raise NotFound("tool", name, [] if hint else _near(name, [*known]) or [*known], hint=hint)
    return known[name]
