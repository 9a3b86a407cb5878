"""Edits proposed by a model that reads what failed: reflective optimisation (`gepa`, an extra).

The optimiser evolves the prompt that most of the runs share, and the descriptions of the tools they
called at the break, where tools are the failure. A text is scored by locked replay of the breaks:
the share of the samples that no longer show the failure. Every call goes through the models it is
given, so budget, stored answers and stop are those of all else; gepa's own client is never loaded.

It is stopped after so many proposals, as soon as one fixes every break, and when a call is refused.
A text that differs in more than three places is rejected and asked of nobody.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, structs

from replay import messages
from replay.convert import Converter, Sent
from replay.edit.changes import Change, Edit, PatchSystem, ReplaceText, SetSystem, SetTool
from replay.errors import ArcError, BadEdit
from replay.locked.row import Models, fixed
from replay.locked.run import Lane, replay_all
from replay.locked.tally import Reply, StepResult
from replay.messages import content_text
from replay.models.cached import Cached
from replay.predicate import Detector
from replay.trace import Message, Request, Trace, extend
from taxonomy.classes import FailureClass
from taxonomy.edit_test import Break
from taxonomy.evidence.results import cut
from taxonomy.judge.exhibit import Piece, fenced
from taxonomy.suggestions.edits import MOST_HUNKS, Prompt, Suggestion, count_hunks, prompt_of
from taxonomy.suggestions.library_thread import Closed, LibraryThread

T = TypeVar("T")

MAX_TOKENS = 4_096
MINIBATCH = 3
_SHOWN = 600

_BETWEEN = "\n\n--- what happened ---\n\n"
TEMPLATE = f"<curr_param>{_BETWEEN}<side_info>"
"""What gepa fills in; `reflection_request` quotes it and says what is wanted."""

_TASK = f"""An agent works by the text that is quoted first: one part of what the agent is given.
Quoted after it are situations in which the agent failed, what it did, and why that is wrong: data
recorded from another program.

Write the text anew so that the agent does not fail like that, and does everything else as before.
Change as little as possible, in at most {MOST_HUNKS} places; keep every other line as it is. Name
no order, person, sum or other value of these situations: others will come. Put the whole new text
between ``` marks, and nothing else between them."""


def reflection_request(filled: str, model: str) -> Sent:
    """What the reflecting model is asked: `TEMPLATE` as gepa filled it, quoted, then the task."""
    text, _, happened = filled.partition(_BETWEEN)
    quoted = fenced([Piece("the text", text), Piece("what happened", happened)])
    body = {"role": "user", "content": f"{quoted}\n\n{_TASK}"}
    said = Message(dialect="anthropic", body=body)
    request = Request(params={"max_tokens": MAX_TOKENS}, context=extend(None, [said]))
    return Converter(model).sent(request)


class Broken(NamedTuple):
    """A run that broke: where, who tells whether an answer shows the failure, and why it is one."""

    trace: Trace
    broke: Break
    detector: Detector | None
    why: str
    models: Models


class Proposals(Struct, frozen=True, eq=False, kw_only=True):
    """The edits that came of it, the best first; why others were rejected; how many were asked
    for; and why it ended early, None where it did not."""

    made: tuple[Suggestion, ...] = ()
    rejected: tuple[str, ...] = ()
    asked: int = 0
    ended: str | None = None


NOTHING = Proposals()


class Reflected(NamedTuple):
    """How far it is: the proposals asked for, and how many of the breaks were replayed under the
    last of them."""

    asked: int
    done: int
    total: int


def propose(
    runs: Sequence[Broken], reflect: Cached, *, proposals: int, samples: int, range: int = 0
) -> Generator[Reflected, None, Proposals]:
    """The edits that `reflect` proposes for these runs; yields whenever it is further.

    The same answers give the same edits. Raises OfflineMiss where an answer is not stored and may
    not be asked for, ModelRefused where a model declines, and Stopped. gepa must be installed.
    """
    texts = _Texts.shared(runs)
    if texts is None:
        return NOTHING
    adapter = _Adapter(texts, reflect, samples, range)
    result = yield from adapter.library.run(lambda: _optimize(adapter, texts, proposals))
    if adapter.trouble is not None:
        raise adapter.trouble
    return Proposals(
        made=tuple(_suggestions(result, texts, reflect)),
        rejected=tuple(dict.fromkeys(adapter.rejected)),
        asked=adapter.asked,
        ended=adapter.ended,
    )


def _optimize(adapter: _Adapter, texts: _Texts, proposals: int) -> Any:
    """gepa's result. It has no stop of its own: it would spend all it is given."""
    from gepa.api import optimize

    def over(state: Any) -> bool:
        best = max(state.program_full_scores_val_set, default=0.0)
        return adapter.is_over or best >= 1.0 or state.i + 1 >= proposals

    asked: dict[str, Any] = {
        "adapter": adapter,
        "reflection_lm": adapter.reflect,
        "stop_callbacks": over,
        "logger": _Silent(),
    }
    try:
        return optimize(
            seed_candidate=dict(texts.seed),
            trainset=list(texts.runs),
            valset=list(texts.runs),
            reflection_prompt_template=TEMPLATE,
            reflection_minibatch_size=min(MINIBATCH, len(texts.runs)),
            cache_evaluation=True,
            seed=0,
            **asked,
        )
    except (ArcError, Closed):
        if adapter.trouble is None:
            raise
        return None


class _Silent:
    """gepa writes what it does to stdout, where results stand."""

    def log(self, message: str) -> None:
        del message


class _Texts(NamedTuple):
    """The texts that are evolved, by name, as recorded; and the runs that have them."""

    seed: Mapping[str, str]
    prompt: Prompt
    runs: tuple[Broken, ...]

    @classmethod
    def shared(cls, runs: Sequence[Broken]) -> _Texts | None:
        """The prompt that most runs have, and those runs; None where none has one."""
        prompts = [prompt_of(each.trace.steps[each.broke.step]) for each in runs]
        counts = Counter((each.target, each.text) for each in prompts if each.text.strip())
        if not counts:
            return None
        ((common, _),) = counts.most_common(1)
        own = [
            (prompt, run)
            for prompt, run in zip(prompts, runs, strict=True)
            if (prompt.target, prompt.text) == common
        ]
        prompt, chosen = own[0][0], tuple(run for _, run in own)
        return cls({prompt.name: prompt.text, **_descriptions(chosen)}, prompt, chosen)

    def edit(self, candidate: Mapping[str, str]) -> Edit | None:
        """The edit that makes the recorded texts those of a candidate, None where they are it."""
        changes = [
            change
            for name, text in candidate.items()
            if text.strip() != self.seed[name].strip()
            for change in self._changes(name, text)
        ]
        return Edit(name="proposed", changes=tuple(changes)) if changes else None

    def _changes(self, name: str, text: str) -> list[Change]:
        before = self.seed[name]
        if name != self.prompt.name:
            tool = name.removeprefix("tool ")
            if not before:
                return [SetTool(tool, description=text)]
            return [ReplaceText(before, text, target=name)]
        if self.prompt.target == "system" and not self.prompt.last:
            patch = _patch(before, text)
            return [PatchSystem(patch) if before.strip() else SetSystem(text)]
        return [ReplaceText(before, text, target=self.prompt.target)]

    def hunks(self, candidate: Mapping[str, str], edit: Edit) -> int:
        """In how many places the texts differ."""
        own = self.prompt.name
        if isinstance(edit.changes[0], PatchSystem) or candidate[own] == self.seed[own]:
            return count_hunks(edit.changes)
        return count_hunks([PatchSystem(_patch(self.seed[own], candidate[own])), *edit.changes[1:]])


def _descriptions(runs: Sequence[Broken]) -> dict[str, str]:
    """The descriptions of the tools called at the breaks, where those are what is at fault."""
    found: dict[str, str] = {}
    for each in runs:
        if each.broke.failure not in (FailureClass.WRONG_TOOL, FailureClass.BAD_ARGS):
            continue
        step = each.trace.steps[each.broke.step]
        offered = {tool.name: tool for tool in step.ask.request.tools or ()}
        for act in step.acts:
            if act.name in offered:
                found.setdefault(f"tool {act.name}", offered[act.name].description or "")
    return found


def _patch(before: str, after: str) -> str:
    lines = before.rstrip("\n").split("\n"), after.strip("\n").split("\n")
    made = difflib.unified_diff(*lines, lineterm="", n=3)
    return "\n".join(list(made)[2:]) + "\n"


class _Adapter:
    """What gepa asks of the agent: scores of a candidate, and what to reflect on."""

    propose_new_texts = None

    def __init__(self, texts: _Texts, model: Cached, samples: int, range: int) -> None:
        self._texts = texts
        self._model = model
        self._sampling = structs.replace(fixed(samples), range=range)
        self._times: Counter[str] = Counter()
        self.asked = 0
        self.rejected: list[str] = []
        self.ended: str | None = None
        self.trouble: ArcError | Closed | None = None
        self.library: LibraryThread[Reflected] = LibraryThread()

    @property
    def is_over(self) -> bool:
        return self.trouble is not None or self.ended is not None

    # --- as gepa calls it

    def evaluate(
        self, batch: list[Broken], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        from gepa.core.adapter import EvaluationBatch

        del capture_traces
        why, edit = self._applicable(candidate)
        found = {} if why else self._ask(lambda: self._replay(batch, edit))
        tried = [_Attempt(each, self._replies(each, edit, found), why) for each in batch]
        return EvaluationBatch(
            outputs=[each.did for each in tried],
            scores=[each.score for each in tried],
            trajectories=tried,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        del candidate
        records = [each.record() for each in eval_batch.trajectories]
        return dict.fromkeys(components_to_update, records)

    def reflect(self, prompt: str | list[dict[str, Any]]) -> str:
        """What the reflecting model answers; the same prompt again is another sample."""
        if self.trouble is not None:
            raise self.trouble
        words = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
        return self._ask(lambda: self._reflect(words))

    # --- how it is answered

    def _ask(self, work: Callable[[], Generator[Reflected, None, T]]) -> T:
        """What comes of it in the thread that stores and models are of."""
        try:
            return self.library.ask(work)
        except (ArcError, Closed) as error:  # gepa goes on after what its model raises
            self.trouble = error
            raise

    def _reflect(self, words: str) -> Generator[Reflected, None, str]:
        sent = reflection_request(words, self._model.name)
        self.asked += 1
        yield Reflected(self.asked, 0, len(self._texts.runs))
        body = self._model.answer(sent, self._times[words]).body
        self._times[words] += 1
        return content_text(body.get("content"))

    def _applicable(self, candidate: Mapping[str, str]) -> tuple[str, Edit | None]:
        """Why a candidate is rejected, "" where it is not; and its edit, None for the recorded."""
        edit = self._texts.edit(candidate)
        if edit is None:
            return "", None
        places = self._texts.hunks(candidate, edit)
        if places > MOST_HUNKS:
            why = f"it changes {places} places, at most {MOST_HUNKS} are allowed"
            self.rejected.append(why)
            return why, None
        return "", edit

    def _replay(
        self, batch: Sequence[Broken], edit: Edit | None
    ) -> Generator[Reflected, None, dict[str, StepResult]]:
        """The breaks asked again; a run that the edit does not apply to is left out."""
        lanes = []
        for each in batch:
            try:
                lanes.append(self._lane(each, edit))
            except BadEdit as error:
                self.rejected.append(error.message)
        found: dict[str, StepResult] = {}
        yield Reflected(self.asked, 0, len(lanes))
        for lane, result in replay_all(lanes):
            found[lane.trace.id] = result
            self.ended = self.ended or result.ended
            yield Reflected(self.asked, len(found), len(lanes))
        return found

    def _lane(self, run: Broken, edit: Edit | None) -> Lane:
        return Lane(
            run.trace,
            edit,
            run.models,
            sampling=self._sampling,
            steps=(run.broke.step,),
            detector=run.detector,
        )

    def _replies(
        self, run: Broken, edit: Edit | None, found: Mapping[str, StepResult]
    ) -> tuple[Reply, ...]:
        result = found.get(run.trace.id)
        if result is None:
            return ()
        return result.control if edit is None else result.edited


class _Attempt(NamedTuple):
    """A break as it went under a candidate: its samples, or why it was not asked."""

    run: Broken
    replies: tuple[Reply, ...]
    rejected: str

    @property
    def _shown(self) -> list[bool]:
        """By sample that can be judged: does it show the failure?"""
        if self.run.detector is None:
            return [each.against.same for each in self.replies if each.against.same is not None]
        return [each.shows for each in self.replies if each.shows is not None]

    @property
    def score(self) -> float:
        """The share of all samples that no longer show the failure: what cannot be judged is no
        success."""
        return self._shown.count(False) / len(self.replies) if self.replies else 0.0

    @property
    def did(self) -> str:
        return "; ".join(dict.fromkeys(each.action.phrase for each in self.replies))

    def record(self) -> dict[str, str]:
        """What is told of it: the end of the context, what the agent did, why that is wrong."""
        step = self.run.trace.steps[self.run.broke.step]
        context = step.ask.request.context
        said = context.messages() if context is not None else []
        last = [f"{each.role}: {cut(_whole(each), _SHOWN)}" for each in said[-3:]]
        wrong = f"{self.run.why}. In {self._shown.count(True)} of {len(self.replies)} samples."
        return {
            "Inputs": "\n".join(last),
            "Generated Outputs": cut(self.did, _SHOWN),
            "Feedback": f"Rejected: {self.rejected}." if self.rejected else wrong,
        }


def _whole(message: Message) -> str:
    shown = [result.text for result in messages.results(message)]
    return " ".join(filter(None, (messages.text(message), *shown)))


def _suggestions(result: Any, texts: _Texts, model: Cached) -> list[Suggestion]:
    """The candidates that do better than the recorded texts, the best first."""
    if result is None:
        return []
    scores = result.val_aggregate_scores
    better = [at for at in range(1, len(scores)) if scores[at] > scores[0]]
    made = []
    for number, at in enumerate(sorted(better, key=lambda each: -scores[each]), 1):
        edit = texts.edit(result.candidates[at])
        if edit is None:
            continue
        changed = [name for name in texts.seed if result.candidates[at][name] != texts.seed[name]]
        named = structs.replace(edit, name=f"proposed {number} by {model.name}")
        made.append(
            Suggestion(
                edit=named,
                targets=tuple(changed),
                because=texts.runs[0].why,
                by=f"model {model.name}",
                runs=len(texts.runs),
            )
        )
    return made
