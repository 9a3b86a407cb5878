"""What a try of an assumption came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from replay.doctor.desk import Desk
from replay.doctor.requests import Body
from replay.errors import RequestRefused

Outcome = Literal["holds", "fails", "unclear", "not run"]


class Found(Struct, frozen=True, kw_only=True):
    """`check` is the id of an assumption, `finding` one line of what was seen.

    `unclear`: it was tried, and what came back says neither yes nor no.
    """

    check: str
    outcome: Outcome
    finding: str


class Probe(NamedTuple):
    """What tries some assumptions. `likely` are the requests it will probably send."""

    checks: tuple[str, ...]
    run: Callable[[Desk], Iterator[Found]]
    likely: Callable[[str], list[Body]]


def holds(check: str, finding: str) -> Found:
    return Found(check=check, outcome="holds", finding=finding)


def fails(check: str, finding: str) -> Found:
    return Found(check=check, outcome="fails", finding=finding)


def unclear(check: str, finding: str) -> Found:
    return Found(check=check, outcome="unclear", finding=finding)


def tried(desk: Desk, body: Body) -> Body | RequestRefused:
    """The answer to a request, or how this one request was declined."""
    try:
        return desk.ask(body)
    except RequestRefused as refused:
        return refused


def input_tokens(answer: Body) -> int:
    """The whole input an answer is billed for, read from the cache or not."""
    return sum(used(answer, name) for name in _INPUT)


def used(answer: Body, name: str) -> int:
    """One figure of the usage; 0 where it is not said."""
    figure = (answer.get("usage") or {}).get(name)
    return figure if type(figure) is int else 0


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
