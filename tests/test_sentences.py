"""Every sentence the product can show stands in one list, and none of it in words given up."""

from __future__ import annotations

import pytest

from tests.sentences import FILE, written

GIVEN_UP = """\
stands in nothing it saw
by its place only:
in 10 on labelled runs
accuracy not measured for such a run
refused the same call
writes the observation of its own action itself
may fit better than
said what to do and called no tool for it
asked what nobody was there to answer
, which stands nowhere in the task
cut off: the stream has no closing line
was given up for the answer at
not read before:
a person stepped in:
belief against world
suggested by
a hint, counted nowhere, by
the rules have not looked at this run yet
nothing stands out at this step
no break found: nothing the rules know stands out
the published rule names this step
, not the agent's doing:
no message or observation contains it
perhaps worked out of
where from: the calls of step
nothing in this run says
Control repeats the recording at
Your edit first departs
control itself departs from
no step departs beyond chance
Your edit changes no request that was asked
asked, {} kept,
would not have been here; not counted
a look, not a result
this is of the one asked before
What was answered is kept.
control alone is asked
no step that can be asked
Which model answered was not recorded
rule-based, on this machine, free
live calls need a limit
Let the edited agent run on; the tape answers.
It left the recorded road at step
The tape does not answer
stopped at a miss
writes what it would have got
would have passed nobody checked.
recorded for this call, at another moment
which edit broke
Asking the first round.
Not sure
The other way round:
Nothing is searched yet:
Belief left the world at step
is a hypothesis until it is tested.
nothing against it
nothing of it had been shown by then
The fix saves the run from no step
The point of no return is step
It did not stay bad once it was
no answer that can be judged
that speaks for
no symptom is known
Looking what this step allows.
the edit mostly shows no failure
it mostly acts otherwise
nobody knows how right the judgements are.
not to be trusted
Labels and findings part nowhere.
what of it was wasted cannot be told
re-sent and never used
flattery ×
no edit of a prompt helps
the queue is through:
no runs here yet
attach what was not recorded
sketch them from the calls seen
no key here says
List the runs that QUERY means
Ask afresh; what is kept stays.
Say what it would ask; ask none.
which part
where from
whose score
how right
kept edits
ask the model
who agrees
the oracle
the tape
the road""".splitlines()


@pytest.mark.slow
def test_the_list_of_sentences_is_what_the_code_says() -> None:
    assert FILE.read_text() == written(), "run `python -m tests.sentences` and read the diff"


@pytest.mark.slow
def test_no_sentence_is_in_words_given_up() -> None:
    sent = "# taxonomy/first_contradiction/recoverable.py"  # a text to models stays as it was
    parts = [part for part in written().split("\n\n") if not part.startswith(sent)]
    lines = [line for part in parts for line in part.splitlines()[1:]]
    found = [(words, line) for line in lines for words in GIVEN_UP if words in line]
    assert found == []
