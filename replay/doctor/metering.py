"""Tries of what is counted and cheaper: token counts, the prefix cache, batches."""

from __future__ import annotations

from collections.abc import Iterator

from replay.doctor import requests
from replay.doctor.desk import Desk
from replay.doctor.found import Found, Probe, fails, holds, input_tokens, tried, unclear, used
from replay.errors import RequestRefused
from replay.models.marker import marked

COUNT_TOLERANCE = 0.02

_WRITTEN, _READ = "cache_creation_input_tokens", "cache_read_input_tokens"


def _token_count(desk: Desk) -> Iterator[Found]:
    check, body = "token_count", requests.called(desk.model)
    try:
        counted = desk.count_tokens(body)
    except RequestRefused as refused:
        yield fails(check, f"refused: {refused.message}")
        return
    if counted is None:
        yield fails(check, "this server counts no tokens")
        return
    answer = tried(desk, body)
    if isinstance(answer, RequestRefused):
        yield unclear(check, f"counted {counted}, but the request was refused: {answer.message}")
        return
    billed = input_tokens(answer)
    said = f"counted {counted}, billed {billed}"
    agrees = abs(counted - billed) <= COUNT_TOLERANCE * billed
    yield holds(check, said) if agrees else fails(check, said)


def _prefix_cache(desk: Desk) -> Iterator[Found]:
    """The same marked prefix twice, then one that goes on from it, as replay would ask them."""
    first = requests.log(desk.model, desk.began_ns)
    extended = requests.log_extended(desk.model, desk.began_ns)
    written, again, longer = (desk.ask(marked(body)) for body in (first, first, extended))
    said = (
        f"of {input_tokens(written)} tokens {used(written, _WRITTEN)} were written,"
        f" {used(again, _READ)} read by the repetition, {used(longer, _READ)} by the extension"
    )
    read = min(used(again, _READ), used(longer, _READ)) > 0
    yield holds("prefix_cache", said) if read else fails("prefix_cache", said)


def _prefix_cache_or_refusal(desk: Desk) -> Iterator[Found]:
    try:
        yield from _prefix_cache(desk)
    except RequestRefused as refused:
        yield fails("prefix_cache", f"refused: {refused.message}")


def _batch(desk: Desk) -> Iterator[Found]:
    """Two requests sent, found again, and cancelled: nobody waits a day for them."""
    try:
        sent = desk.send_batch(requests.batched(desk.model))
    except RequestRefused as refused:
        yield fails("batch", f"refused: {refused.message}")
        return
    if sent is None:
        yield fails("batch", "this server takes no batches")
        return
    name = sent.get("id")
    if not isinstance(name, str) or not name:
        yield fails("batch", "taken, but without an id")
        return
    found = desk.batch("GET", name)
    cancelled = _cancelled(desk, name)
    if found is None or found.get("id") != name:
        yield fails("batch", "taken, and not found again by its id")
        return
    yield holds("batch", f"taken, `{found.get('processing_status')}` when found again{cancelled}")


def _cancelled(desk: Desk, name: str) -> str:
    """Ask that a batch be cancelled; how that ended."""
    try:
        cancelled = desk.batch("POST", f"{name}/cancel")
    except RequestRefused:
        return ", too late to cancel"
    return ", then cancelled" if cancelled is not None else ", cannot be cancelled"


TOKEN_COUNT = Probe(("token_count",), _token_count, lambda model: [requests.called(model)])
PREFIX_CACHE = Probe(
    ("prefix_cache",),
    _prefix_cache_or_refusal,
    lambda model: [requests.log(model, 0)] * 2 + [requests.log_extended(model, 0)],
)
BATCH = Probe(("batch",), _batch, lambda model: [*requests.batched(model).values()])
