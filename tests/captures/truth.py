"""Is an imported capture what really happened? One plain sentence a difference.

What `not_in_the_file` names may be unknown, and never wrong. Results of parallel calls may come in
any order; a framework may wrap a result or an error in words of its own. A cost may be above the
truth where the cached tokens are not known, and never below.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from arc_tui import importing
from replay import formats, tool_errors
from replay.formats.common import stop
from replay.messages import observed, text
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from replay.trace import Json, Step, ToolCall, Trace, Usage
from taxonomy.judgements.schema import open_ledger
from tests.captures.expected import Expected, ExpectedCall, ExpectedRun, ExpectedStep, expected_of

CENT_OF_A_CENT = 1e-9
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens")


def differences_of(folder: Path) -> list[str]:
    """What is wrong when the files of a capture are imported together, as a user would."""
    return differences_in(folder, expected_of(folder))


def differences_in(folder: Path, expected: Expected) -> list[str]:
    """What of a folder's files is not read as expected."""
    with open_ledger(":memory:") as store:
        *_, report = importing.import_paths(store, [folder])
        assert isinstance(report, importing.ImportReport)
        imported = {Path(file.path) for file in report.files if file.traces}
        unread = [
            f"{name}: not imported"
            for name in expected.files
            if folder / name not in imported
            and not Path(name).name.startswith(".")
            and formats.part_of(folder / name) is None
        ]
        return [*report.errors, *unread, *differences(expected, store)]


def differences(expected: Expected, store: Store) -> list[str]:
    """What of the runs in a database is not as expected."""
    runs: defaultdict[str, list[TraceRow]] = defaultdict(list)
    for row in trace_rows(store, every=True):
        runs[row.run].append(row)
    left = list(runs.values())
    found = []
    if len(left) != len(expected.runs):
        found.append(f"{len(left)} runs instead of {len(expected.runs)}")
    for at, wanted in enumerate(expected.runs):
        if not left:
            break
        said = [_run(expected, wanted, rows, store) for rows in left]
        nearest = min(range(len(left)), key=lambda each: len(said[each]))
        left.pop(nearest)
        where = f"run {at}: " if len(expected.runs) > 1 else ""
        found += [where + each for each in said[nearest]]
    return found


def _run(
    expected: Expected, wanted: ExpectedRun, rows: Sequence[TraceRow], store: Store
) -> list[str]:
    """The differences of every recording of a run. What the preferred one has, others may lack."""
    found = []
    for row in rows:
        absent = expected.absent(row.path)
        if not row.preferred:
            absent |= {"task", "system", "stop", "model", "cost_usd"}
        where = f"{Path(row.path or '').name}: " if len(rows) > 1 else ""
        recording = _Recording(wanted, row, read.load(store, row.trace), absent)
        found += [where + each for each in recording.differences()]
    return found


class _Recording:
    """One recording of a run beside the truth."""

    def __init__(
        self, wanted: ExpectedRun, row: TraceRow, trace: Trace, absent: frozenset[str]
    ) -> None:
        self.wanted, self.row, self.trace, self.absent = wanted, row, trace, absent

    def differences(self) -> Iterator[str]:
        wanted, steps = self.wanted, self.trace.steps
        yield from self.of_the_run()
        yield from self.sums()
        if "steps" in self.absent:
            if self.row.preferred:
                acts = [span for span in self.trace.spans if isinstance(span, ToolCall)]
                yield from self.calls(acts, [call for step in wanted.steps for call in step.calls])
            return
        if len(steps) != len(wanted.steps):
            yield f"{len(steps)} model steps instead of {len(wanted.steps)}"
            return
        for at, (step, true) in enumerate(zip(steps, wanted.steps, strict=True)):
            yield from (f"step {at}: {each}" for each in self.of_a_step(step, true))
        if self.trace.loose and not self.absent & {"arguments", "text", "asked_by"}:
            yield f"{len(self.trace.loose)} calls belong to no step"

    def of_the_run(self) -> Iterator[str]:
        wanted, header = self.wanted, self.trace.header
        first = self.trace.steps[0].ask.request if self.trace.steps else None
        shown = [
            text(message)
            for message in (first.context.messages() if first and first.context else ())
            if message.role == "user"
        ]
        task = header.title or header.task
        if wanted.task is not None:
            if "task" not in self.absent and not _says(task, wanted.task):
                yield f"task is {_shown(task)}, not {_shown(wanted.task)}"
            if shown and not any(_says(each, wanted.task) for each in shown):
                yield f"the first request begins with {_shown(shown[0])}, not {wanted.task}"
        system = text(first.system) if first and first.system else None
        if wanted.system is not None and wanted.system not in (system or ""):
            yield from self.lacks("system", system, wanted.system)
        last = self.trace.steps[-1].ask.response.message if self.trace.steps else None
        answer = None if last is None else text(last).strip()
        if answer != wanted.final_answer and (answer or "final_answer" not in self.absent):
            yield f"final answer is {answer!r}, not {wanted.final_answer!r}"
        if wanted.outcome is not None and self.row.outcome != wanted.outcome:
            yield f"outcome is {self.row.outcome}, not {wanted.outcome}"
        if wanted.outcome is None and self.row.outcome != "unknown":
            yield f"outcome is {self.row.outcome}, and nothing says how the run ended"

    def sums(self) -> Iterator[str]:
        wanted, row = self.wanted, self.row
        calls = [span for span in self.trace.spans if isinstance(span, ToolCall)]
        errors = sum(bool(tool_errors.is_error(call)) for call in calls)
        if len(calls) != wanted.tool_calls and (calls or "calls" not in self.absent):
            yield f"{len(calls)} tool calls instead of {wanted.tool_calls}"
        if not (errors == wanted.tool_errors or (errors == 0 and "result" in self.absent)):
            yield f"{errors} tool errors instead of {wanted.tool_errors}"
        for name in ("input_tokens", "output_tokens"):
            got, true = getattr(row, name), getattr(wanted, name)
            part = got is not None and got < true and not row.tokens_complete
            if got != true and not (part and name in self.absent):
                yield from self.lacks(name, got, true)
        known = not self.absent & {"input_tokens", "output_tokens"}
        if row.tokens_complete != known:
            yield f"tokens are said to be {'complete' if row.tokens_complete else 'incomplete'}"
        if wanted.cost_usd is None:
            return
        if row.cost_usd is None or not self.is_cost(row.cost_usd, wanted.cost_usd):
            yield from self.lacks("cost_usd", row.cost_usd, wanted.cost_usd)

    def is_cost(self, cost_usd: float, true_usd: float) -> bool:
        """The true cost, more where the cached tokens were not recorded, or less where arc says
        that it does not know all of it."""
        more = cost_usd - true_usd
        if more < 0 and "cost_usd" in self.absent and not self.row.cost_complete:
            return True
        upper = "cache_read_tokens" in self.absent and not self.knows_cache()
        return abs(more) < CENT_OF_A_CENT or (upper and 0 < more < true_usd)

    def knows_cache(self) -> bool:
        usages = [step.ask.usage for step in self.trace.steps]
        return any(usage and usage.cache_read_tokens for usage in usages)

    def lacks(self, name: str, got: Json, true: Json) -> Iterator[str]:
        """A field that is wrong, or unknown although the file holds it."""
        if got is not None or name not in self.absent:
            yield f"{name} is {_shown(got)}, not {_shown(true)}"

    def of_a_step(self, step: Step, true: ExpectedStep) -> Iterator[str]:
        ask = step.ask
        model = ask.response.model or ask.request.model
        if model is None or not model.startswith(self.wanted.model):
            yield from self.lacks("model", model, self.wanted.model)
        usage = ask.usage or Usage()
        for name in TOKENS:
            got, wanted = getattr(usage, name), getattr(true, name)
            if got != wanted and (got or wanted):
                yield from self.lacks(name, got, wanted)
        yield from self.stop(step, true)
        said = None if ask.response.message is None else text(ask.response.message).strip()
        if (said or None) != true.text and (said or "text" not in self.absent):
            yield f"text is {said!r}, not {true.text!r}"
        yield from self.calls(step.acts or self.unclaimed(true), true.calls)

    def stop(self, step: Step, true: ExpectedStep) -> Iterator[str]:
        """A model that calls tools stops for them, also where the wire says STOP or nothing."""
        wanted = "tool" if true.calls and not true.text else stop(true.stop) or "end"
        got = step.ask.response.stop
        if got != wanted and (got or (true.stop is not None and "stop" not in self.absent)):
            yield f"stop is {got}, not {wanted}"

    def unclaimed(self, true: ExpectedStep) -> tuple[ToolCall, ...]:
        """Calls that no step claims, as many and as named as this step should have."""
        names = [call.name for call in true.calls]
        wanted = [call.arguments for call in true.calls]
        return tuple(
            call
            for call in self.trace.loose
            if call.name in names and (call.arguments is None or call.arguments in wanted)
        )

    def calls(self, acts: Sequence[ToolCall], true: Sequence[ExpectedCall]) -> Iterator[str]:
        left = list(acts)
        if not left and "calls" in self.absent:
            return
        if len(left) != len(true):
            yield f"{len(left)} calls instead of {len(true)}"
        for wanted in true:
            if not left:
                return
            said = [list(self.call(act, wanted)) for act in left]
            nearest = min(range(len(left)), key=lambda each: len(said[each]))
            left.pop(nearest)
            yield from (f"{wanted.name}({wanted.arguments}): {each}" for each in said[nearest])

    def call(self, act: ToolCall, true: ExpectedCall) -> Iterator[str]:
        if act.name != true.name:
            yield f"name is {act.name!r}"
        if act.arguments != true.arguments and not (
            act.arguments is None and act.arguments_raw is None and "arguments" in self.absent
        ):
            yield f"arguments are {_shown(act.arguments or act.arguments_raw)}"
        if true.id is not None and act.call_id != true.id:
            yield from self.lacks("id", act.call_id, true.id)
        result = None if act.observation is None else observed(act.observation).text
        failed = tool_errors.is_error(act)
        shown = "\n".join(filter(None, (act.error, result)))
        if true.error is None and failed:
            yield f"is an error: {_shown(shown)}"
        elif true.error is not None and not (failed is None and "result" in self.absent):
            if not failed:
                yield f"is no error: {_shown(shown or None)}"
            elif true.error.lower() not in shown.lower() and not self.absent & {"result", "error"}:
                yield f"error is {_shown(shown)}, not {_shown(true.error)}"
        if true.error is None and not (
            (result is None and "result" in self.absent) or _says(result, true.result)
        ):
            yield f"result is {_shown(result)}, not {_shown(true.result)}"


def _says(got: Json, wanted: Json) -> bool:
    """Does a value hold another, perhaps wrapped, or as JSON in a text?"""
    wanted = _parsed(wanted)
    if got is None:
        return wanted is None
    if _parsed(got) == wanted or (isinstance(wanted, str) and wanted.strip() in str(got)):
        return True
    if isinstance(got, str) and not isinstance(wanted, str) and _holds(got, wanted):
        return True
    inner = _parsed(got)
    parts = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
    return any(_says(part, wanted) for part in parts)


def _holds(got: str, wanted: Json) -> bool:
    """Does a text hold a value as JSON, with whatever around it?"""
    decoder = json.JSONDecoder()
    starts = [at for at, sign in enumerate(got) if sign in "{["]
    for at in starts:
        try:
            if decoder.raw_decode(got, at)[0] == wanted:
                return True
        except ValueError:
            continue
    return False


def _parsed(value: Json) -> Json:
    """The value of a text that is JSON of an object or a list, else the value itself."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _shown(value: Json) -> str:
    if value is None:
        return "unknown"
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return words if len(words) <= 120 else words[:119] + "…"
