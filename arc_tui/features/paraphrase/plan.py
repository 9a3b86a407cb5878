"""What `arc vary` will ask: of whom, about which step, in which words, and for about how much."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest
from replay.edit.changes import Edit, SetMessage
from replay.errors import ModelRefused, no_step
from replay.locked.estimate import Estimate
from replay.locked.row import fixed
from replay.models.cached import Cached
from replay.models.choose import DEMO, default_name
from replay.store import read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.goals import Goals
from taxonomy.judge.requests import JudgeRequest, judge_requests
from taxonomy.judge.rubrics import RUBRICS
from taxonomy.judge.run import estimate_cost
from taxonomy.paraphrase_test import paraphrases, result
from taxonomy.paraphrase_test.paraphrases import Paraphrase, Paraphrases, request_of, tried
from taxonomy.paraphrase_test.result import steps_to_ask
from taxonomy.query.failures import break_and_notice

RUBRIC = RUBRICS["step"]
"""What a judge is asked of an answer."""


class ParaphraseRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to say in other words.

    `judge` None judges by rule where the demo model answers. `paraphrases` (from `file`) None
    asks `writer` for `count` of them (None: the model itself). `step` None is where the run broke,
    as far as is known; `whole` scores the whole road whatever is known.
    """

    traces: tuple[str, ...]
    judge: str | None = None
    writer: str | None = None
    paraphrases: Paraphrases | None = None
    file: str = ""
    count: int = 3
    samples: int = 1
    message: int | None = None
    step: int | None = None
    whole: bool = False
    goals: Goals | None = None


class TestModels(Struct, frozen=True, eq=False, kw_only=True):
    """Who is asked: the model, the judge (None: the rules), who writes (None: nobody)."""

    model: Cached
    judge: Cached | None
    writer: Cached | None


def choose_models(models: ModelPool, request: ParaphraseRequest, trace: Trace) -> TestModels:
    """Who is asked. Raises ModelRefused where a judge is not named."""
    model = models.named(request.model or default_name(trace))
    judge = request.judge or (DEMO if model.name == DEMO else None)
    if judge is None:
        raise ModelRefused(
            "a judge must be named",
            "--judge NAME, of another family than the agent's; --judge demo judges by rule",
        )
    writer = request.writer or model.name
    unwritten = request.paraphrases is None and writer != DEMO
    return TestModels(
        model=model,
        judge=None if judge == DEMO else models.named(judge),
        writer=models.named(writer) if unwritten else None,
    )


class Task:
    """One run's task: what was asked, and where it broke.

    Raises NothingAsked where no user asks for anything, NotFound where there is no such step.
    """

    def __init__(self, store: Store, request: ParaphraseRequest, trace: Trace) -> None:
        self.request = request
        self.trace = trace
        self.user_request = request_of(trace, request.message)
        self.broke = self._breaks_at(store)

    def _breaks_at(self, store: Store) -> int | None:
        """The step to score at: as asked for, else where the run broke; None for all of them."""
        if self.request.step is not None:
            if not 0 <= self.request.step < len(self.trace.steps):
                raise no_step(self.request.step, len(self.trace.steps))
            return self.request.step
        if self.request.whole:
            return None
        at, _ = break_and_notice(store, self.trace.id)
        own = at is not None and self.trace.steps[at].thread == self.user_request.thread
        return at if own else None

    def given(self) -> tuple[Paraphrase, ...] | None:
        """The paraphrases of the file, None without one."""
        if self.request.paraphrases is None:
            return None
        return tried(
            self.user_request.text, self.request.paraphrases.of(self.trace), self.request.file
        )


class Plan(Task):
    """A task with the words to ask it in, and who is asked."""

    def __init__(
        self, store: Store, request: ParaphraseRequest, trace: Trace, who: TestModels
    ) -> None:
        super().__init__(store, request, trace)
        self.who = who
        self.steps = steps_to_ask(trace, self.user_request.thread, self.broke)
        self.sampling = fixed(request.samples)
        self.goals = request.goals.of(trace.header) if request.goals is not None else ()
        self.scores = read.scores(store, trace.id)

    def paraphrases(self) -> tuple[Paraphrase, ...]:
        """Those of the file, else by rule or asked of a model. Raises OfflineMiss, ModelRefused."""
        text, count = self.user_request.text, self.request.count
        given = self.given()
        if given is not None:
            return given
        if self.who.writer is None:
            return tried(text, paraphrases.framed(text, count), paraphrases.NAME)
        return result.paraphrases(text, count, self.who.writer)

    def edit(self, name: str, text: str) -> Edit:
        """The request in other words, as an edit of the run."""
        task = self.trace.header.task or self.trace.id[:8]
        return Edit(
            name=f"{task} in other words {name}",
            changes=(SetMessage(self.user_request.message, text),),
            thread=self.user_request.thread,
        )

    def estimates(self) -> Iterator[Estimate]:
        """What is still to be asked of each."""
        writer, model, judge = self.who.writer, self.who.model, self.who.judge
        if writer is not None:
            yield result.of_writing(self.user_request.text, self.request.count, writer)
            texts = paraphrases.framed(
                self.user_request.text, self.request.count
            )  # of about their size
        else:
            texts = tuple(each.text for each in self.paraphrases() if each.refusal is None)
        wordings = [self.edit(str(at), text) for at, text in enumerate(texts)]
        if model.name != DEMO:
            yield result.of_answers(self.trace, wordings, model, self.sampling, self.steps)
        if judge is not None:
            places = self.steps if self.broke is None else (self.broke,)
            recorded = judge_requests(
                self.trace, RUBRIC, judge.name, goals=self.goals, scores=self.scores
            )
            there = [
                e for e in recorded if isinstance(e, JudgeRequest) and e.places[0].step in places
            ]
            yield estimate_cost(there, judge, (len(wordings) + 1) * self.request.samples)
