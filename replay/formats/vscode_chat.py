"""Chat sessions of Visual Studio Code, mostly with GitHub Copilot:
`workspaceStorage/*/chatSessions/*.json`, and since 1.109 `.jsonl`, a journal of changes.

A request is what the user asked, with all that followed. Copilot keeps beside it the rounds of its
loop: what each response said, which tools it called, and what they returned. Where no rounds are
kept only what was shown is known: not the arguments of most calls, nor where one response ends and
the next begins. Tokens are of a whole request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import structs

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import count, derived_id, known, listed, ms_ns, obj, total_usage, word
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Head, Source, Tally, decoded
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    Usage,
)

NAME = "vscode-chat"
TITLE = "VS Code chat sessions (GitHub Copilot)"
FILES = ".json, .jsonl in workspaceStorage/*/chatSessions"
FIDELITY = (Level.PARTIAL, Level.NONE)
LACKS = "the system prompt, the tools, tokens of a call; of other agents than Copilot, the rounds"
VERIFIED = "its source code, and tests of others' readers"

NO_ROUNDS = "which calls one response made not recorded"
_SHOWN_ONLY = Fidelity(level=Level.NONE, reasons=(NO_SYSTEM, NO_TOOLS, NO_ROUNDS))

_ABOUT = rb'"(creationDate|responderUsername|requesterUsername)"\s*:'
_MOST_CHANGES = 1_000_000
_DEEPEST = 60
_TOOL = "toolInvocationSerialized"


def sniff(head: Head) -> bool:
    """A session, or the first line of a journal, which holds one."""
    lines = head.lines()
    first = obj(decoded(lines[0])) if lines else {}
    if first.get("kind") == 0 and {"requests", "creationDate"} & obj(first.get("v")).keys():
        return True
    if head.starts(b'{"kind":0,"v":{') and head.has(_ABOUT):
        return True
    return head.starts(b"{") and head.has(_ABOUT, rb'"requests"\s*:\s*\[')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where nothing was answered."""
    session = _session(source, tally)
    requests = [*map(obj, listed(session.get("requests")))]
    name = word(session.get("sessionId")) or source.name.partition(".")[0]
    builder = _SpanBuilder(name, tally)
    for index, request in enumerate(requests):
        builder.build(index, request)
    spans = builder.finish()
    if not spans:
        raise BadTrace(source.display, "", "contains no answer to a request")
    times = [at for span in spans for at in (span.start_ns, span.end_ns) if at is not None]
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        status="error" if builder.error else "unset",
        error=builder.error,
        place=Place(span=name),
        extra=known(request_tokens=builder.tokens),
    )
    title = word(session.get("customTitle")) or builder.asked
    folder = _folder(session.get("workingDirectory")) or _workspace(source)
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=title_line(title),
        agent=word(session.get("responderUsername")) or NAME,
        labels={"cwd": folder} if folder else {},
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    tally.counts["sessions"] += 1
    yield Batch(header=header, spans=(root, *spans), last=True)


def _workspace(source: Source) -> str | None:
    """The folder that the workspace is of, as the file above says."""
    path = source.path.parent.parent / "workspace.json"
    if source.display == "-" or source.path.parent.name != "chatSessions" or not path.is_file():
        return None
    try:
        return _folder(obj(Source(path).document()).get("folder"))
    except BadTrace:
        return None


def _folder(uri: Json) -> str | None:
    text = word(uri)
    try:
        return unquote(urlsplit(text).path) or None if text and "://" in text else text
    except ValueError:
        return None


# --- the journal


def _session(source: Source, tally: Tally) -> dict[str, Any]:
    """The session as it stands after all changes."""
    lines = source.head.lines()
    if obj(decoded(lines[0]) if lines else None).get("kind") != 0 and not source.head.starts(
        b'{"kind":0'
    ):
        return obj(source.document())
    session: dict[str, Any] = {}
    for number, change in source.records(tally):
        if number > _MOST_CHANGES:
            tally.problem(f"line {number}", f"more than {_MOST_CHANGES} changes: the rest left out")
            break
        if change.get("kind") == 0:
            session = obj(change.get("v"))
        elif not _apply(session, change):
            tally.problem(f"line {number}", "changes what is not there")
    return session


def _apply(session: dict[str, Any], change: dict[str, Any]) -> bool:
    """Set, append to or delete what a way leads to; False where it leads nowhere."""
    way, kind, value = listed(change.get("k")), change.get("kind"), change.get("v")
    if not way or len(way) > _DEEPEST:
        return False
    target: Json = session
    for name in way[:-1]:
        target = _inside(target, name)
    last = way[-1]
    if kind == 2:
        found = _inside(target, last)
        if found is None and isinstance(target, dict) and isinstance(last, str):
            found = target[last] = []
        if not isinstance(found, list):
            return False
        start = count(change.get("i"))
        if start is not None:
            del found[start:]
        found.extend(listed(value))
        return True
    if isinstance(target, dict) and isinstance(last, str):
        if kind == 1:
            target[last] = value
        else:
            target.pop(last, None)
        return kind in (1, 3)
    if isinstance(target, list) and isinstance(last, int) and 0 <= last < len(target):
        target[last] = value if kind == 1 else None
        return kind in (1, 3)
    return False


def _inside(value: Json, name: Json) -> Json:
    if isinstance(value, dict) and isinstance(name, str):
        return value.get(name)
    if isinstance(value, list) and isinstance(name, int) and 0 <= name < len(value):
        return value[name]
    return None


# --- requests


class _SpanBuilder:
    """Tells a session request by request. `tokens` are those of whole requests."""

    def __init__(self, parent: str, tally: Tally) -> None:
        self.asked: str | None = None
        self.error: str | None = None
        self.tokens: list[Json] = []
        self._parent, self._tally = parent, tally
        self._thread = Thread(
            parent=parent, request=Request(), fidelity=without_tools(None), tally=tally
        )

    def finish(self) -> tuple[AnySpan, ...]:
        for call in self._thread.open_calls():
            self._tally.problem(f"request {call.place.message}", f"{call.name} has no result")
        return self._thread.spans()

    def build(self, index: int, request: dict[str, Any]) -> None:
        self._tally.counts["requests"] += 1
        result = obj(request.get("result"))
        about = obj(result.get("metadata"))
        asked = word(obj(request.get("message")).get("text"))
        rendered = (about.get("renderedGlobalContext"), about.get("renderedUserMessage"))
        shown = [words for each in rendered for words in _texts(each)]
        self._say("user", "\n".join(shown) or asked or "", index)
        self.asked = self.asked or asked
        model = word(about.get("resolvedModel")) or word(request.get("modelId"))
        self._thread.request = structs.replace(
            self._thread.request, model=model.rpartition("/")[2] if model else None
        )
        at_ns, end_ns = ms_ns(request.get("timestamp")), ms_ns(request.get("responseTimestamp"))
        rounds = [*map(obj, listed(about.get("toolCallRounds")))]
        usage = _usage(request, about)
        if rounds:
            self._add_rounds(
                index, rounds, obj(about.get("toolCallResults")), (at_ns, end_ns), usage
            )
        else:
            self._add_shown(
                index, [*map(obj, listed(request.get("response")))], (at_ns, end_ns), usage
            )
        why = word(obj(result.get("errorDetails")).get("message"))
        self.error = why

    def _say(self, role: str, words: str, index: int) -> None:
        message = Message(dialect="openai", body={"role": role, "content": words})
        self._thread.add_message(message, place=Place(message=index))

    def _add_rounds(
        self,
        index: int,
        rounds: list[dict[str, Any]],
        results: dict[str, Any],
        times: tuple[int | None, int | None],
        usage: Usage | None,
    ) -> None:
        """Each round is a response of the model and what its calls returned."""
        start_ns = times[0]
        for number, each in enumerate(rounds):
            calls = [
                {"id": word(call.get("id")), "type": "function", "function": _function(call)}
                for call in map(obj, listed(each.get("toolCalls")))
            ]
            thought = obj(each.get("thinking")).get("text")
            body: dict[str, Json] = {
                "role": "assistant",
                "content": word(each.get("response")),
                **known(reasoning_content=_join(thought), tool_calls=calls),
            }
            last = number == len(rounds) - 1
            end_ns = ms_ns(each.get("timestamp")) or (times[1] if last else None)
            own = usage if len(rounds) == 1 else None
            self._answer(index, number, body, (start_ns, end_ns), own)
            start_ns = end_ns
            for call in calls:
                found = obj(results.get(str(call["id"])))
                if found:
                    content = "\n".join(_texts(found.get("content")))
                    self._add_result(index, str(call["id"]), content, None)
        if len(rounds) > 1:
            self._keep_tokens(index, usage)

    def _add_shown(
        self,
        index: int,
        parts: list[dict[str, Any]],
        times: tuple[int | None, int | None],
        usage: Usage | None,
    ) -> None:
        """What was shown of the response: texts after calls are taken for the next answer's."""
        answers = _answers(parts)
        fidelity = _SHOWN_ONLY if any(called for _, called in answers) else None
        for number, (body, called) in enumerate(answers):
            named = {word(p.get("toolCallId")) or f"{index}.{at}": p for at, p in enumerate(called)}
            calls = [
                {"id": name, "type": "function", "function": _call_shown(part)}
                for name, part in named.items()
            ]
            body |= known(tool_calls=calls)
            start_ns = times[0] if number == 0 else None
            end_ns = times[1] if number == len(answers) - 1 else None
            own = usage if len(answers) == 1 and not called else None
            self._answer(index, number, body, (start_ns, end_ns), own, fidelity)
            for name, part in named.items():
                self._add_result(index, name, *_outcome(part))
        if len(answers) > 1:
            self._keep_tokens(index, usage)

    def _answer(
        self,
        index: int,
        number: int,
        body: dict[str, Json],
        times: tuple[int | None, int | None],
        usage: Usage | None,
        fidelity: Fidelity | None = None,
    ) -> None:
        turn = Turn(
            id=derived_id(self._parent, index, number),
            response=Response(model=self._thread.request.model),
            usage=usage,
            start_ns=times[0],
            end_ns=times[1],
            time_quality="none" if times == (None, None) else "derived",
            place=Place(message=index),
            fidelity=fidelity,
        )
        self._thread.add_model_call(Message(dialect="openai", body=body), turn)

    def _add_result(self, index: int, name: str, content: str | None, why: str | None) -> None:
        if content is None:
            return
        body = {"role": "tool", "tool_call_id": name, "content": content}
        errors = {name: why} if why is not None else None
        message = Message(dialect="openai", body=body)
        self._thread.add_message(message, place=Place(message=index), errors=errors)

    def _keep_tokens(self, index: int, usage: Usage | None) -> None:
        if usage is None:
            return
        tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
        self.tokens.append({"request": index, **tokens})
        self._tally.problem(f"request {index}", "its tokens are of no single call: kept on the run")


def _answers(parts: list[dict[str, Any]]) -> list[tuple[dict[str, Json], list[dict[str, Any]]]]:
    """The message of each answer, and the calls that were shown after it."""
    found: list[tuple[dict[str, Json], list[dict[str, Any]]]] = []
    for part in parts:
        kind, value = word(part.get("kind")), _join(part.get("value"))
        if not found or (kind != _TOOL and value and found[-1][1]):
            found.append(({"role": "assistant", "content": None}, []))
        body, called = found[-1]
        field = "reasoning_content" if kind == "thinking" else "content"
        if kind == _TOOL:
            called.append(part)
        elif kind in (None, "thinking", "markdownContent") and value:
            body[field] = f"{body.get(field) or ''}{value}"
    return [each for each in found if each[1] or len(each[0]) > 2 or each[0]["content"]]


def _usage(request: dict[str, Any], about: dict[str, Any]) -> Usage | None:
    given = count(about.get("promptTokens")) or count(request.get("promptTokens"))
    out = count(about.get("outputTokens")) or count(request.get("completionTokens"))
    return total_usage(given, out)


def _function(call: dict[str, Any]) -> dict[str, Json]:
    given = call.get("arguments")
    text = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    return {"name": word(call.get("name")) or "unknown tool", "arguments": text}


def _call_shown(part: dict[str, Any]) -> dict[str, Json]:
    """A call as it was shown: its input where that is part of it."""
    command = word(obj(obj(part.get("toolSpecificData")).get("commandLine")).get("original"))
    given = obj(part.get("resultDetails")).get("input")
    shown = {"command": command} if command else {"input": given} if given is not None else {}
    name = word(part.get("toolId")) or "unknown tool"
    return {"name": name, "arguments": msgspec.json.encode(shown).decode()}


def _outcome(part: dict[str, Any]) -> tuple[str | None, str | None]:
    """(what a call returned, why it failed), None where that was not shown."""
    about, details = obj(part.get("toolSpecificData")), obj(part.get("resultDetails"))
    code = obj(about.get("terminalCommandState")).get("exitCode")
    failed = isinstance(code, int) and code != 0
    why = f"exit code {code}" if failed else "failed" if details.get("isError") is True else None
    output = obj(about.get("terminalCommandOutput")).get("text")
    shown = output if isinstance(output, str) else "\n".join(_texts(details.get("output")))
    return (shown if shown or why else None), why


def _join(value: Json) -> str | None:
    """A text, that of a Markdown string, or several in a list."""
    if isinstance(value, list):
        return "".join(filter(None, map(_join, value))) or None
    return word(value.get("value")) if isinstance(value, dict) else word(value)


def _texts(value: Json, depth: int = 0) -> list[str]:
    """The texts of rendered parts: plain ones, and those of a tree of nodes."""
    if depth > _DEEPEST:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each, depth + 1)]
    for name in ("text", "value", "node", "children", "content"):
        if name in obj(value):
            return _texts(value[name], depth + 1)
    return []
