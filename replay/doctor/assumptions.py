"""What replay takes for granted about the APIs of models, and what follows where it is not so."""

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
        says="calls and results with arc's own ids (`toolu_arc_0`, …) are accepted",
        otherwise="no step after a tool call can be replayed",
    ),
    Assumption(
        id="results_then_text",
        says="several results in one user turn, and text after them, are accepted",
        otherwise="steps with parallel calls, or with user text beside results, are rejected",
    ),
    Assumption(
        id="tool_gone",
        says="a tool called earlier may be missing from the tools offered now",
        otherwise="an edit with `remove_tool` is rejected at every step after a call of that tool",
    ),
    Assumption(
        id="system_after_user",
        says="a system message after a user's turn is accepted",
        otherwise="recordings with one, and edits that insert one, are rejected from that step on",
    ),
    Assumption(
        id="system_after_answer",
        says="a system message between an answer and the next user turn is accepted",
        otherwise="recordings with one are rejected from that step on",
    ),
    Assumption(
        id="forced_choice",
        says="a forced `tool_choice` is accepted and obeyed",
        otherwise="steps recorded with one cannot be replayed on this model",
    ),
    Assumption(
        id="sampling",
        says="`temperature` is rejected by Claude models and accepted by others",
        otherwise="replay drops a recorded temperature that the model would use, or is rejected at"
        " every step that was recorded with one",
    ),
    Assumption(
        id="stripped_thinking",
        says="a response without its thinking is accepted while its calls are pending",
        otherwise="runs recorded with thinking cannot be replayed on this model after a call",
    ),
    Assumption(
        id="bound_thinking",
        says="thinking sent back after an edited prompt is rejected or dropped",
        otherwise="thinking could be kept: removing it from both arms would be optional",
    ),
    Assumption(
        id="token_count",
        says="`count_tokens` matches the billed input within 2 %",
        otherwise="a rebuilt request cannot be verified by its recorded token count",
    ),
    Assumption(
        id="prefix_cache",
        says="a marked prefix is read from the prompt cache when repeated or extended",
        otherwise="replaying in ascending order costs several times its estimate",
    ),
    Assumption(
        id="batch",
        says="a batch is accepted and can be retrieved by its id",
        otherwise="`--schedule batch` cannot be used here",
    ),
    Assumption(
        id="stream",
        says="a response limit above 16 000 tokens streams to the end",
        otherwise="steps recorded with a large `max_tokens` fail",
    ),
    Assumption(
        id="retry_after",
        says="a busy server sends `retry-after` or `retry-after-ms`",
        otherwise="retries come too early or too late; spending limits still hold",
        untried="a rate limit cannot be triggered without abuse",
    ),
    Assumption(
        id="timeout_billing",
        says="a response that never arrives may be billed",
        otherwise="budgets count calls that were free",
        untried="billing data is not available to arc",
    ),
    Assumption(
        id="batch_discount",
        says="a response in a batch costs half",
        otherwise="estimates and limits in USD are off for `--schedule batch`",
        untried="billing data is not available to arc",
    ),
    Assumption(
        id="batch_cache",
        says="requests of one batch rarely share prompt-cache prefixes",
        otherwise="batches cost less than estimated",
        untried="a batch may take a day",
    ),
    Assumption(
        id="cache_timing",
        says="a cached prefix is readable once the response that wrote it has started",
        otherwise="running the samples of a step in parallel costs more than estimated",
        untried="needs many parallel calls to test",
    ),
    Assumption(
        id="cache_floor",
        says="prefixes under 512 to 4 096 tokens, by model, are not cached; 20 blocks are read",
        otherwise="estimates for short or many-blocked prompts are off",
        untried="needs prompts of many sizes to test",
    ),
)


OPENAI_ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        id="recorded_call",
        says="a recorded call and its result are accepted, `content: null` and recorded ids too",
        otherwise="no step after a tool call can be replayed",
    ),
    Assumption(
        id="translated_call",
        says="calls and results with arc's own ids are accepted, several in one turn",
        otherwise="runs of other providers, and free replays, cannot go on after a call",
    ),
    Assumption(
        id="tool_gone",
        says="a tool called earlier may be missing from the tools offered now",
        otherwise="an edit with `remove_tool` is rejected at every step after a call of that tool",
    ),
    Assumption(
        id="late_system",
        says="a system message after an answer is accepted",
        otherwise="recordings with one, and edits that insert one, are rejected from that step on",
    ),
    Assumption(
        id="forced_choice",
        says="a forced `tool_choice` is accepted and obeyed",
        otherwise="steps recorded with one cannot be replayed on this model",
    ),
    Assumption(
        id="sampling",
        says="`temperature` is rejected by OpenAI's models that reason and accepted by others",
        otherwise="replay drops a recorded temperature that the model would use, or is rejected at"
        " every step that was recorded with one",
    ),
    Assumption(
        id="answer_form",
        says="an answer follows the JSON schema that was asked for",
        otherwise="this model cannot judge, paraphrase or say what it believes",
    ),
    Assumption(
        id="usage",
        says="an answer says how many tokens it read and wrote",
        otherwise="calls are counted at the most they can cost; limits are reached early",
    ),
    Assumption(
        id="stream",
        says="a response limit above 16 000 tokens streams to the end, with its usage",
        otherwise="steps recorded with a large limit fail, or are counted at their most",
    ),
    Assumption(
        id="batch",
        says="a batch is accepted, can be retrieved by its id and be cancelled",
        otherwise="`--schedule batch` cannot be used here",
    ),
    Assumption(
        id="batch_discount",
        says="a response in a batch costs half",
        otherwise="estimates and limits in USD are off for `--schedule batch`",
        untried="billing data is not available to arc",
    ),
    Assumption(
        id="rate_limit",
        says="a busy server sends `retry-after` or `x-ratelimit-reset-*`",
        otherwise="retries come too early or too late; spending limits still hold",
        untried="a rate limit cannot be triggered without abuse",
    ),
    Assumption(
        id="reasoning_back",
        says="encrypted reasoning is accepted back by the model and the account that it came from",
        otherwise="runs of models that reason are rejected after the first call, but with"
        " `openai-responses-plain:`",
    ),
    Assumption(
        id="reasoning_left_out",
        says="a call without the reasoning before it is accepted while its result is sent",
        otherwise="runs of models that reason cannot be replayed after a call",
        untried="a model that reasons need not do so when it is asked to",
    ),
    Assumption(
        id="timeout_billing",
        says="a response that never arrives may be billed",
        otherwise="budgets count calls that were free",
        untried="billing data is not available to arc",
    ),
)
"""The same of OpenAI's two APIs; nothing of it has met a live server."""
