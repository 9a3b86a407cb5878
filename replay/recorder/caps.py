"""May a recorded program make this call? Caps of its run, and the kill file of the database.

A cap is reached when what is counted comes to it; the next call is then refused, in the shape of
its API's own errors, and its SDK raises at once. Calls in flight end as they would. Near a cap of
tokens or USD a call waits for those in flight, as long as these together could reach it: so a run
goes past such a cap by one call at most, however many it makes at once. The run is all that one
recorder hears; it is under way from its first call on.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from replay.budget import Budget, Limits, Used, Worst
from replay.errors import ArcError
from replay.models.line import max_cost
from replay.models.wire import OUTPUT_LIMITS
from replay.prices import price
from replay.providers import Rates
from replay.recorder.calls import usage_of
from replay.recorder.exchange import Api, Packed, RecordedExchange, Refusal, unpacked
from replay.stop_order import StopOrder, stop_order
from replay.trace import Cost, Usage

NO_CAPS = Limits()

STATUS = 403
"""SDKs retry 408, 409, 429 and what the server failed at; this one they raise at once."""

NO_RETRY = {"x-should-retry": "false"}
"""The SDKs of Anthropic and OpenAI obey it whatever the status."""

_NOTHING = Worst(tokens=0, usd=0.0)
_FREE = Usage(input_tokens=0, output_tokens=0)

_ELSEWHERE = re.compile(
    rb'"(?:file_id|previous_response_id|conversation)"\s*:\s*["{]|"type"\s*:\s*"url"'
    rb'|"image_url"\s*:\s*(?:\{\s*"url"\s*:\s*)?"http'
)
"""What a request names and does not hold: how many tokens that is, it does not say."""

_UNITS = {"calls": "steps", "tokens": "tokens", "USD": "USD", "minutes": "minutes"}


def checked_caps(caps: Limits) -> Limits:
    """The caps. Raises ArcError naming one that is no number above 0."""
    for name, value in zip(caps.__struct_fields__, msgspec.structs.astuple(caps), strict=True):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ArcError(f"a cap of {value} {_UNITS.get(name, name)} is no number above 0")
    return caps


def caps_text(caps: Limits) -> str:
    """`20 steps · 100 000 tokens · $1.00 · 10 minutes`, "" where there is none."""
    given = (("calls", caps.calls), ("tokens", caps.tokens), ("USD", caps.usd))
    values = (*given, ("minutes", caps.minutes))
    return " · ".join(_amount(what, value, value) for what, value in values if value is not None)


def _amount(what: str, value: float, limit: float) -> str:
    unit = _UNITS[what] if limit != 1 else _UNITS[what].removesuffix("s")
    if what == "USD":
        return f"${value:.2f}" if value >= 0.1 else f"${value:.4f}"
    shown = f"{value:.3g}" if what == "minutes" else f"{value:,}".replace(",", " ")
    return f"{shown} {unit}"


def _used_text(used: Used) -> str:
    """`3 of 3 steps`, `$1.02 of $1.00`."""
    spent, limit = (_amount(used.what, each, used.limit) for each in (used.used, used.limit))
    number, _, _ = spent.rpartition(" ")
    return f"{number or spent} of {limit}"


def refusal_body(api: Api, refusal: Refusal) -> bytes:
    """A refusal as the server of an API would word an error."""
    message = f"arc record: {refusal.why}"
    if api == "messages":
        return msgspec.json.encode(
            {"type": "error", "error": {"type": "permission_error", "message": message}}
        )
    code = {"cap": "cap_hit", "stop": "stopped"}[refusal.kind]
    error = {"message": message, "type": "request_forbidden", "param": None, "code": code}
    return msgspec.json.encode({"error": error})


class AskedCall(Struct, frozen=True, kw_only=True):
    """What a request says that its caps need: whom it asks, and the most that it can use, None
    where that is not known."""

    model: str | None = None
    most: Worst | None = None
    priced: bool = False


class Ticket(Struct, frozen=True, kw_only=True, eq=False):
    """A call that may be made. `settle` it once, whatever came of it."""

    call: AskedCall | None
    held: Worst


class CallGuard:
    """Admits calls of one recorded run, or says why not. Used in one thread.

    `rates` are prices that a person configured, by the model's name at its server; `clock` gives
    seconds from any fixed point.
    """

    def __init__(
        self,
        database: Path,
        caps: Limits = NO_CAPS,
        *,
        rates: Mapping[str, Rates] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caps = checked_caps(caps)
        self.refused = 0
        """Calls that were refused."""
        self.refusal: str | None = None
        """Why the last of them was."""
        self._database = database
        self._rates = rates or {}
        self._budget = Budget(caps, clock)
        self._begun = False
        self._boundless = 0
        self._uncounted = False
        self._inexact = False

    @property
    def reads_requests(self) -> bool:
        """Does a cap need to know what a request holds?"""
        return self.caps.tokens is not None or self.caps.usd is not None

    @property
    def stopped(self) -> StopOrder | None:
        """The order that holds now."""
        return stop_order(self._database)

    def read_call(self, request: bytes, encoding: str = "") -> AskedCall:
        """What a request says, its body as it was sent."""
        try:
            plain = unpacked(request, encoding)
            body = msgspec.json.decode(plain)
        except (Packed, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return AskedCall()  # which a provider refuses too
        if not isinstance(body, dict):
            return AskedCall()
        model = body.get("model")
        model = model if isinstance(model, str) else None
        priced = self._price(_FREE, model) is not None
        most = None if _ELSEWHERE.search(plain) else self._most(body, model)
        return AskedCall(model=model, most=most, priced=priced)

    def ask(self, call: AskedCall | None = None) -> Ticket | Refusal | None:
        """A ticket for a call, or why it is refused; None where calls in flight decide that: ask
        again when one has ended. `call` is what its request says, where `reads_requests`."""
        refusal = self._refusal(call)
        if refusal is not None:
            return self._count(refusal)
        if call is not None:
            if self._boundless or self._budget.used_up(with_open=True) is not None:
                return None
            self._boundless += call.most is None
        self._begun = True
        most = call.most if call is not None else None
        return Ticket(call=call, held=self._budget.hold(most or _NOTHING))

    def refuse_batch(self) -> Refusal | None:
        """Why a batch may not be sent, None where it may: what it will use nobody counts."""
        refusal = self._stop()
        if refusal is None and self.caps.any:
            refusal = _capped("batches are not counted", "a run with caps cannot send one")
        return refusal and self._count(refusal)

    def _count(self, refusal: Refusal) -> Refusal:
        self.refused += 1
        self.refusal = refusal.why
        return refusal

    def _stop(self) -> Refusal | None:
        order = self.stopped
        if order is None or (self._begun and not order.at_once):
            return None
        return Refusal(kind="stop", what=order.text, why=order.text)

    def _refusal(self, call: AskedCall | None) -> Refusal | None:
        stopped = self._stop()
        if stopped is not None:
            return stopped
        used = self._budget.used_up(with_open=False)
        if used is not None:
            inexact = self._inexact and used.what in ("tokens", "USD")
            return _capped(f"{'≤ ' if inexact else ''}{_used_text(used)}")
        if call is None:
            return None
        if self.caps.usd is not None and not call.priced:
            named = f"of {call.model}" if call.model else "of the model"
            return _capped(
                f"price {named} unknown",
                "a cap in USD cannot hold. Try: prices under [models] of the settings, or a cap of"
                " tokens in its place",
            )
        if self._uncounted:
            return _capped(
                "tokens of an earlier call unknown",
                "a cap of tokens or USD cannot hold. Try: max_tokens in each request, or"
                " stream_options.include_usage in streamed chat completions",
            )
        return None

    def settle(self, ticket: Ticket, heard: RecordedExchange | None) -> None:
        """The call is over; `heard` None where it never reached its provider."""
        call = ticket.call
        if call is not None:
            self._boundless -= call.most is None
        if call is None or heard is None or (heard.status or 0) >= 400:
            self._budget.settle(ticket.held, _FREE, 0.0)
            return
        usage, answered = usage_of(heard)
        cost = self._price(usage, answered, call.model)
        counted = usage is not None and (self.caps.usd is None or cost is not None)
        if not counted:  # then it stays counted at the most it could use
            self._inexact = True
            self._uncounted = self._uncounted or call.most is None
        self._budget.settle(ticket.held, usage, cost.usd if cost is not None else None)

    def _price(self, usage: Usage | None, *models: str | None) -> Cost | None:
        for model in models:
            rates = self._rates.get(model or "")
            if rates is not None:
                return rates.price(usage)
        return price(usage, *models)

    def _most(self, body: dict[str, Any], model: str | None) -> Worst | None:
        """The most that a request can use, None where it does not say so."""
        limits = [body[name] for name in OUTPUT_LIMITS if body.get(name) is not None]
        tools = body.get("tools")
        if not limits or not all(type(each) is int and each >= 0 for each in limits):
            return None
        if body.get("n") not in (None, 1) or not isinstance(tools, list | None):
            return None
        for tool in tools or ():  # what a server runs itself calls the model again
            if not isinstance(tool, dict) or tool.get("type") not in (None, "custom", "function"):
                return None
        known = {name: value for name, value in body.items() if name not in OUTPUT_LIMITS}
        most = max_cost(
            known | {OUTPUT_LIMITS[0]: max(limits)}, model or "", self._rates.get(model or "")
        )
        return most if self.caps.usd is None or most.usd is not None else None


def _capped(what: str, rest: str = "") -> Refusal:
    why = f"cap hit: {what}"
    return Refusal(kind="cap", what=what, why=f"{why}: {rest}" if rest else why)
