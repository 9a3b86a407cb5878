"""What replay takes for granted about the Messages API, and what would be wrong if it did not hold.

The one list of it: `checkup` tries what can be tried, reports name it, the README is written from
it. All of it comes from documents, and from a server of our own that was built after them.
"""

from __future__ import annotations

from msgspec import Struct

AS_OF = "2026-11-21"
"""The day this list was last gone through. Up to then nothing of it had met the live API."""


class Assumption(Struct, frozen=True, kw_only=True):
    """`says` is what is assumed, `otherwise` what follows for a replay where it is not so.

    `untried` says why no check tries it, None where one does.
    """

    id: str
    says: str
    otherwise: str
    untried: str | None = None


ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        id="tool_ids",
        says="calls and results under our own ids (`toolu_arc_0`, …) are accepted",
        otherwise="no step after a tool call can be replayed",
    ),
    Assumption(
        id="results_then_text",
        says="several results in one user turn, and text after them, are accepted",
        otherwise="steps with parallel calls, or where a user spoke beside results, are refused",
    ),
    Assumption(
        id="tool_gone",
        says="a tool that the history calls need not be offered any more",
        otherwise="an edit with `remove_tool` is refused at every step after a call of it",
    ),
    Assumption(
        id="system_after_user",
        says="a system message after a user's turn is accepted",
        otherwise="recordings with one, and edits that insert one, are refused from there on",
    ),
    Assumption(
        id="system_after_answer",
        says="a system message between an answer and the next user turn is accepted",
        otherwise="recordings with one are refused from there on",
    ),
    Assumption(
        id="forced_choice",
        says="a forced `tool_choice` is accepted and obeyed",
        otherwise="steps recorded with one cannot be asked of this model",
    ),
    Assumption(
        id="sampling",
        says="`temperature` is refused for Claude models and taken for others",
        otherwise="replay leaves out a recorded temperature that would have been obeyed, or is"
        " refused at every step that was recorded with one",
    ),
    Assumption(
        id="stripped_thinking",
        says="a turn whose thinking was taken out is accepted while its calls are pending",
        otherwise="runs recorded with thinking cannot be replayed on this model after a call",
    ),
    Assumption(
        id="bound_thinking",
        says="thinking sent back behind an edited prompt is refused or dropped",
        otherwise="here thinking could be kept; taking it out of every arm is no need, only a rule",
    ),
    Assumption(
        id="token_count",
        says="`count_tokens` agrees with the input that is billed, to within 2 %",
        otherwise="a rebuilt request cannot be checked by its recorded number of tokens",
    ),
    Assumption(
        id="prefix_cache",
        says="a marked prefix is read from the cache by a repetition and by an extension of it",
        otherwise="replaying in ascending order costs several times its estimate",
    ),
    Assumption(
        id="batch",
        says="a batch is taken and can be found again by its id",
        otherwise="`--schedule batch` cannot be used here",
    ),
    Assumption(
        id="stream",
        says="a limit above 16 000 tokens is answered as a whole stream",
        otherwise="steps recorded with a large `max_tokens` fail",
    ),
    Assumption(
        id="retry_after",
        says="a busy server names its wait in `retry-after` or `retry-after-ms`",
        otherwise="retries come too early or too late; limits of spending hold all the same",
        untried="a rate limit cannot be provoked politely",
    ),
    Assumption(
        id="timeout_billing",
        says="an answer that never arrives may be billed",
        otherwise="budgets count calls that cost nothing",
        untried="a bill is not seen from here",
    ),
    Assumption(
        id="batch_discount",
        says="an answer of a batch costs half its price",
        otherwise="estimates and limits in USD are off for `--schedule batch`",
        untried="a bill is not seen from here",
    ),
    Assumption(
        id="batch_cache",
        says="requests of one batch seldom read each other's cached prefixes",
        otherwise="batches cost less than estimated",
        untried="a batch may take a day",
    ),
    Assumption(
        id="cache_timing",
        says="a prefix can be read once the answer that wrote it has begun",
        otherwise="asking the samples of a step together costs more than estimated",
        untried="it would take many calls at once to tell",
    ),
    Assumption(
        id="cache_floor",
        says="prefixes under 512 to 4 096 tokens, by model, are not cached; 20 blocks are searched",
        otherwise="estimates for short or many-blocked prompts are off",
        untried="it would take a series of prompts of every size",
    ),
)

BY_ID = {each.id: each for each in ASSUMPTIONS}

TRIED = tuple(each.id for each in ASSUMPTIONS if each.untried is None)
"""Those a check can try, in the order of the list."""
