"""Other, instruction broken: a run did what its task or its prompt flatly forbids.

A prohibition counts where it names what can be looked for in calls: files or folders, the tests, a
tool, a command, a language. One with a condition ("unless", "if", "before"), a question, and one
that speaks of something else than the agent are left to judgement. What somebody allows later is
allowed. Files that the run made itself are its own, and what was put back as it was committed is as
if it was not done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from replay.effects import takes_program
from taxonomy.classes import FailureClass
from taxonomy.evidence.file_edits import is_same_file, is_test_file
from taxonomy.evidence.instructions import Instruction, instructions
from taxonomy.evidence.reading import Act, Turn, called
from taxonomy.evidence.results import cut
from taxonomy.evidence.written_files import WrittenFiles
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "instruction broken"

_EDIT = r"(?:edit|modify|change|alter|touch|update|rewrite|overwrite|delete|remove|rename)"
_EDITING = r"(?:edit|modify|chang|alter|touch|updat|rewrit|overwrit|delet|remov|renam)ing"
_NOT = (
    r"(?:(?:^|(?<=[-.:,;(–—] )|(?<=\bplease )|(?<=\band )|(?<=\bbut )|(?<=\byou ))"
    r"(?:please )?(?:do not|don(?:'|’)t|never)"
    r"|you (?:must not|mustn(?:'|’)t|should not|shouldn(?:'|’)t|may not|cannot|can(?:'|’)t))"
)
"""How the one who is to do it is told not to; what others "must not" do is no matter here."""

_FORBIDS = re.compile(
    rf"(?:{_NOT} (?:ever )?(?:try to |attempt to )?{_EDIT}(?:(?:,| or|/| and)+ ?{_EDIT})*"
    rf"|\b(?P<aside>without|avoid|refrain from|no) {_EDITING}(?:(?:,| or|/| and)+ ?{_EDITING})*)"
    r"\b:?\s+(?P<what>[^;!?]{1,160})",
    re.I,
)
_TELLS = re.compile(
    r"(?:(?:please|now|then|and|also|just|you (?:must|should|are to|have to|need to|can)"
    r"|your task is to) )*"
    r"(?:add|avoid|change|clean|complete|debug|do|find|finish|fix|get|go|implement|improve|let"
    r"|make|mend|migrate|optimi[sz]e|pass|port|refactor|refrain|remove|rename|repair|replace|resolve"
    r"|rewrite|simplify|solve|speed|update|write|work|no)\b",
    re.I,
)
"""How a sentence begins that tells somebody what to do, rather than what is so."""

_ONLY = re.compile(
    rf"(?:(?:please|you (?:may|must|should|can)) )?(?:only {_EDIT}|{_EDIT} only)"
    r" (?P<what>[^,;!?]{1,120})",
    re.I,
)
_USE = re.compile(
    rf"(?:{_NOT} (?:ever )?(?:try to |attempt to )?(?:use|run|call|execute|invoke)"
    r"|\bwithout (?:using|running|calling))"
    r"\s+(?:the |any )?(?P<what>[^,;!?]{1,60})",
    re.I,
)
_RATHER = re.compile(
    r"(?:^|\b(?:always|only|please|must) )use (?P<use>`[^`]+`|[\w.-]+),? (?:and |but )?"
    r"(?:never|not|instead of|rather than) (?:use )?(?P<what>[^,;!?]{1,60})",
    re.I,
)
"""How one thing is to be used and another not."""

_CONDITION = re.compile(
    r"\b(?:unless|if|when|whenever|until|except|before|after|while|during|between|instead|than|directly|manually"
    r"|by hand|to (?:make|change|accommodate|fix|get|pass|work around|force|hide)"
    r"|more|again|only if|as long as|without (?:permission|\w+ing|first|an?)\b"
    r"|interactive|flags?|e\.g|for example|to (?:read|view|search|find|communicate))\b",
    re.I,
)
_TESTS = re.compile(
    r"(?:(?:the|any|of|in|existing|current|other|unit|provided|given|these|those|my|our|all|its"
    r"|testing|logic|or|failing|hidden) )*"
    r"(?:tests\b|`tests?/?`|tests?/|test (?:files?|cases?|suites?"
    r"|code|logic|folder|director(?:y|ies)|scripts?|data)\b"
    r"|test(?:(?:(?:'|’)s)? contents?\b|(?=$|[.,)]| [-–—])))",
    re.I,
)
_PATH = re.compile(
    r"`([^`\s]+)`|['\"]([\w./-]+)['\"]"
    r"|((?:/?[\w.-]+/)+(?=[\s,.)]|$)|(?:/?[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.[a-z]\w{0,9}\b)"
)
_EXTENSIONS = (
    "bash|bat|c|cc|cfg|cjs|conf|cpp|cs|css|csv|dart|env|ex|exs|go|gradle|h|hpp|html?|ini|ipynb|java"
    "|jl|jsx?|jsonl?|kts?|less|lock|lua|md|mdx|mjs|mod|pbxproj|php|pl|properties|proto|ps1|py|pyi|r"
    "|rb|rs|rst|sass|scala|scss|sh|sql|sum|svelte|swift|tf|toml|tsv|tsx?|txt|vue|xml|ya?ml|zig"
)
_LOOKS_LIKE_PATH = re.compile(
    rf"/?(?:[\w.@*-]+/)+[\w.@*-]*|(?![.])[\w.*-]+\.(?:{_EXTENSIONS})|\.(?!(?:{_EXTENSIONS})$)[\w.-]+"
    r"|\.env|Makefile|Dockerfile"
)
"""A path with a folder, a file of a known kind, or a hidden one; an ending alone is none."""

_NOT_A_PATH = re.compile(r"(?:e\.g|i\.e|etc|vs)\.?|\d[\d.]*|https?:.*", re.I)

LANGUAGES: dict[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    "python": ((".py",), re.compile(r"(?:^|[;&|]\s*)python3?\b")),
    "javascript": ((".js", ".mjs"), re.compile(r"(?:^|[;&|]\s*)node\b")),
    "typescript": ((".ts",), re.compile(r"(?:^|[;&|]\s*)(?:tsc|ts-node)\b")),
    "perl": ((".pl",), re.compile(r"(?:^|[;&|]\s*)perl\b")),
    "ruby": ((".rb",), re.compile(r"(?:^|[;&|]\s*)ruby\b")),
}
"""By its name: the endings of its files, and what runs it."""


class Prohibition(Struct, frozen=True, kw_only=True):
    """What one sentence forbids. `step` is where it was heard, `span` and `place` where it stands.

    `tests`: files of tests may not be written; `paths`: these may not, or with `only` all others;
    `tool` and `program`: what may not be called or run.
    """

    sentence: str
    step: int
    place: str
    tests: bool = False
    paths: tuple[str, ...] = ()
    only: bool = False
    tool: str = ""
    program: str = ""


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding a prohibition, at the first step that breaks it."""
    for each in prohibitions(case):
        broken = first_break(case, each)
        if broken is None:
            continue
        act, what = broken
        yield Finding(
            failure=FailureClass.OTHER,
            sub=NAME,
            step=act.step,
            span=act.span.id,
            why=f"{act.name} {cut(what, 70)}; told “{cut(each.sentence, 60)}”",
            rule=NAME,
            evidence=(
                called(act),
                Evidence(role="stated", text=cut(each.sentence, 240), place=each.place),
            ),
        )


def prohibitions(case: RuleContext) -> list[Prohibition]:
    """What the prompt, the task and the user forbid, as far as it can be looked for, each once."""
    found = (each for told in instructions(case.reading) for each in forbidden(case, told))
    return list(dict.fromkeys(found))


def forbidden(case: RuleContext, told: Instruction) -> Iterator[Prohibition]:
    """What one sentence forbids."""
    sentence, step, place = told.sentence, told.step, told.place
    if sentence.endswith("?") or not _may_forbid(sentence):
        return
    for match in _FORBIDS.finditer(sentence):
        named = list(_items(match["what"]))
        if any(map(_CONDITION.search, (sentence[: match.start()], *named))):
            continue
        if match["aside"] and not _TELLS.match(sentence):
            continue
        tests = any(_TESTS.match(item) for item in named)
        paths = tuple(path for item in named for path in _paths(item))
        if tests or paths:
            yield Prohibition(sentence=sentence, step=step, place=place, tests=tests, paths=paths)
    only = _ONLY.match(sentence) if place != "system prompt" and told.short else None
    if only is not None and not _CONDITION.search(only[0]):
        named = list(_items(only["what"]))
        paths = tuple(path for item in named for path in _paths(item))
        if paths and all(map(_NAMES_ONLY.fullmatch, named)):
            yield Prohibition(sentence=sentence, step=step, place=place, paths=paths, only=True)
    for match in _USE.finditer(sentence):
        if _CONDITION.search(sentence):
            continue
        yield from _named_tool(case, match["what"], sentence, step, place)
    rather = _RATHER.search(sentence)
    if rather is not None and not _CONDITION.search(sentence.replace(rather[0], rather["what"])):
        yield from _named_tool(case, rather["what"], sentence, step, place)


@lru_cache(4096)  # a prompt is a hundred sentences, and many runs have one prompt
def _may_forbid(sentence: str) -> bool:
    """Does a sentence speak as one does that forbids?"""
    found = any(each.search(sentence) for each in (_FORBIDS, _USE, _RATHER))
    return found or _ONLY.match(sentence) is not None


_NEXT = re.compile(r"\s*(?:[,;(]|\b(?:or|and|nor)\b)\s*")
_ANOTHER_ACT = re.compile(
    r"(?:only|just|then|please|but|instead|you|i|we|it|run|fix|use|make|keep|reply|add|write|call|read"
    r"|stop|edit|modify|change|create|update|commit|do|don(?:'|’)t|never|always|put|leave|return)\b",
    re.I,
)
"""How what follows in a list begins where it is no further item."""


def _items(what: str) -> Iterator[str]:
    """The items of a list of what is not to be touched, up to where another thing is said."""
    for item in _NEXT.split(what.strip()):
        if _ANOTHER_ACT.match(item):
            return
        yield item


_NAMES_ONLY = re.compile(
    r"(?:the |files? |in |under |folder )*\S+(?: (?:files?|folder|itself))?[.:]?"
)
_FOLDER = re.compile(r"`([\w.-]+)` (?:folder|director(?:y|ies))\b")


def _paths(what: str) -> Iterator[str]:
    yield from (f"{name}/" for name in _FOLDER.findall(what))
    for match in _PATH.finditer(what):
        name = next(filter(None, match.groups()))
        if _LOOKS_LIKE_PATH.fullmatch(name) and not _NOT_A_PATH.fullmatch(name):
            yield name.rstrip(".")


_AFTER_NAME = re.compile(
    r"(?:tools?|commands?|functions?|language|code|scripts?|at all|or|and|here)\b"
)


def _named_tool(
    case: RuleContext, what: str, sentence: str, step: int, place: str
) -> Iterator[Prohibition]:
    """A tool of the run, a command in backticks, or a language."""
    quoted = re.match(r"`([^`]+)`", what)
    word = quoted[1].strip() if quoted else re.split(r"[\s.,:)]", what, maxsplit=1)[0]
    rest = what[quoted.end() if quoted else len(word) :].strip(" .)")
    if rest and not _AFTER_NAME.match(rest):
        return
    offered = {*case.reading.offers, *case.reading.last_called}
    if word in offered and (quoted or not word.islower() or "_" in word or rest.startswith("tool")):
        yield Prohibition(sentence=sentence, step=step, place=place, tool=word)
    elif word.lower() in LANGUAGES or word.lower() in ("sudo", "git", "curl", "wget", "pip", "npm"):
        yield Prohibition(sentence=sentence, step=step, place=place, program=word.lower())
    elif quoted and re.fullmatch(r"[\w.-]+(?: [\w.-]+)?", word) and not word.startswith("-"):
        yield Prohibition(sentence=sentence, step=step, place=place, program=word)


def first_break(case: RuleContext, told: Prohibition) -> tuple[Act, str] | None:
    """The first call that does it, and what it did; None where somebody allowed it before that."""
    broken = _first_call(case, told)
    return None if broken is None or _is_allowed_later(case, told, broken[0].step) else broken


def _first_call(case: RuleContext, told: Prohibition) -> tuple[Act, str] | None:
    if told.tool:
        act = next((a for a in case.reading.acts if a.name == told.tool and a.step >= told.step
                    and not a.reply.failed), None)  # fmt: skip
        return None if act is None else (act, "was called")
    if told.program:
        return _first_program(case, told)
    files = WrittenFiles(case.writes, case.reading.acts)
    for place, each in enumerate(case.writes):
        path = each.edit.path
        if each.step < told.step or not _covers(told, path):
            continue
        if not files.are_own(each) and not files.is_put_back(path, place):
            return each.act, f"{'deleted' if each.edit.removed else 'wrote'} {path}"
    return None


def _covers(told: Prohibition, path: str) -> bool:
    """Is it forbidden to write this file?"""
    if path.startswith(("/tmp/", "/dev/", "/var/tmp/")):
        return False
    if told.tests and is_test_file(path):
        return True
    named = any(_is_in(path, each) for each in told.paths)
    return not named and bool(told.paths) if told.only else named


def _is_in(path: str, named: str) -> bool:
    folder = named.strip("/")
    if named.endswith("/"):
        return f"/{folder}/" in f"/{path.lstrip('./')}/"
    if "*" in named:
        return bool(re.fullmatch(re.escape(named).replace(r"\*", ".*"), path.rpartition("/")[2]))
    return is_same_file(path, named) or f"/{folder}/" in f"/{path.lstrip('./')}/"


def _first_program(case: RuleContext, told: Prohibition) -> tuple[Act, str] | None:
    name = told.program
    endings, runs = LANGUAGES.get(
        name, ((), re.compile(rf"(?:^|[;&|(]\s*|\bsudo )(?:\S*/)?{re.escape(name)}(?=\s|$)", re.M))
    )
    for act in case.reading.acts:
        given = act.span.arguments
        if act.step < told.step or not takes_program(given) or not isinstance(given, dict):
            continue
        texts = (v for k, v in given.items() if isinstance(v, str) and k != "description")
        command = next(texts, "")
        if runs.search(command):
            return act, f"ran {cut(command, 40)}"
    for write in case.writes:
        if write.step >= told.step and write.edit.path.endswith(endings):
            return write.act, f"wrote {write.edit.path}"
    return None


_ALLOWS = re.compile(
    rf"(?<!not )(?<!n't )(?<!never )(?<!without )\b(?:{_EDIT}|add|fix|adapt|{_EDITING})\b"
    r"[^.;!?]{0,60}",
    re.I,
)


def _is_allowed_later(case: RuleContext, told: Prohibition, step: int) -> bool:
    """Does a later message ask for what was forbidden, before it was done?"""
    for turn in case.reading.main:
        if told.step < turn.index <= step and _asks_for(turn, told):
            return True
    return False


def _asks_for(turn: Turn, told: Prohibition) -> bool:
    for heard in turn.heard:
        for match in _ALLOWS.finditer(heard.text if heard.role == "user" else ""):
            if told.tests and re.search(r"\btests?\b", match[0]):
                return True
            if any(path.rpartition("/")[2] in match[0] for path in told.paths if not told.only):
                return True
    return False


RULE = Rule(name=NAME, find=find)
