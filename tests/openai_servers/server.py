"""The server as a test holds it: what it was asked, how it is scripted, which path leads where."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, structs

from replay.errors import ModelRefused
from tests.messages_api.faults import STREAM_CUTS, Fault
from tests.messages_api.handler import Received, Reply
from tests.messages_api.loopback import Loopback
from tests.openai_servers import chat, chat_request, faults, responses, responses_request
from tests.openai_servers.batches import Batches
from tests.openai_servers.chat import Piece
from tests.openai_servers.faults import CHAT, RESPONSES
from tests.openai_servers.models import Catalogue, KnownModel
from tests.openai_servers.policy import Policy, Said, kept, said, tokens
from tests.openai_servers.prompt_cache import PromptCache, Reading, shown
from tests.openai_servers.rate_limits import RateLimits
from tests.openai_servers.shape import Body, Refused

_AZURE = re.compile(r"/openai/deployments/([^/]+)/chat/completions")
_AZURE_RESPONSES = "/openai/responses"
_MODEL = re.compile(r"/v1/models/([^/]+)")
_RESPONSE = re.compile(rf"{RESPONSES}/([^/]+)")
_BATCH = re.compile(r"/v1/batches/([^/]+)(/cancel)?")
_CONTENT = re.compile(r"/v1/files/([^/]+)/content")


NO_DEPLOYMENT = (
    "The API deployment for this resource does not exist. If you created the deployment within the"
    " last 5 minutes, please wait a moment and try again."
)


class Answered(Struct, frozen=True):
    """A bill: every answer made is on it, whether or not it arrived."""

    model: str
    usage: Body
    batch: bool = False


class OpenaiApi(Loopback):
    """The server of OpenAI's two APIs, and of Azure's paths to them.

    `policy` answers both. `models` are those it knows, None for any name; `keys` those it lets in,
    None for any. Limits are a minute's. `clock` gives seconds since the epoch. `batches` says what
    becomes of those that are sent.
    """

    answers = rf"{CHAT}|{RESPONSES}|{_AZURE.pattern}|{_AZURE_RESPONSES}"

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        models: Iterable[KnownModel | str] | None = None,
        keys: Collection[str] | None = None,
        requests_a_minute: int | None = None,
        tokens_a_minute: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.policy: Policy = policy or (lambda _: said("Done."))
        self._keys = keys
        self._catalogue = Catalogue(models)
        self._cache = PromptCache(clock)
        self._storage = responses.Storage()
        self._limits = RateLimits(requests_a_minute, tokens_a_minute, clock)
        self.batches = Batches(self._answer_line, clock)
        self._answered: list[Answered] = []
        self._made = 0

    @property
    def answered(self) -> list[Answered]:
        """What was billed so far, in the order of the answers."""
        with self._lock:
            return list(self._answered)

    def usage_total(self) -> Body:
        """The sums of the billed token figures; details are not among them."""
        total: Counter[str] = Counter()
        for each in self.answered:
            total.update({n: v for n, v in each.usage.items() if type(v) is int})
        return dict(total)

    def _reply(self, received: Received, fault: Fault | None) -> Reply:
        if fault is not None and not fault.cut:
            body = fault.body or faults.error(fault.status, "scripted")
            return Reply(status=fault.status, headers=fault.headers, body=body)
        cut = fault.cut if fault is not None else ""
        if cut in STREAM_CUTS and not received.body.get("stream"):
            why = f"the scripted fault needs a stream: {cut}"
            return Reply(status=500, body=faults.error(500, why))
        found = self._gate(received) or self._routed(received, cut)
        if isinstance(found, Refused):
            return _refusal(received, found)
        return found

    def _gate(self, received: Received) -> Refused | None:
        """Why nobody looks at a request at all."""
        key = _key(received)
        if not key:
            why = "You didn't provide an API key. You need to provide your API key in an"
            return Refused(f"{why} Authorization header using Bearer auth.", status=401)
        if self._keys is not None and key not in self._keys:
            why = f"Incorrect API key provided: {key[:8]}***."
            return Refused(why, None, "invalid_api_key", 401)
        if not received.readable and received.path != "/v1/files":
            return Refused("We could not parse the JSON body of your request.")
        return None

    def _routed(self, received: Received, cut: str) -> Reply | Refused:
        azure, model = _AZURE.fullmatch(received.path), _MODEL.fullmatch(received.path)
        kept = _RESPONSE.fullmatch(received.path)
        batch, content = _BATCH.fullmatch(received.path), _CONTENT.fullmatch(received.path)
        match received.method, received.path:
            case "POST", "/v1/chat/completions":
                return self._chat(received.body, cut)
            case "POST", _ if azure is not None and "api-version" in received.query:
                return self._chat({**received.body, "model": unquote(azure[1])}, cut, azure=True)
            case "POST", path if path == _AZURE_RESPONSES and "api-version" in received.query:
                return self._respond(received.body, cut)
            case _, path if _is_azures(path):
                return Refused("Resource not found", None, "404", 404)
            case "POST", "/v1/responses":
                return self._respond(received.body, cut)
            case "GET", _ if kept is not None:
                return self._kept(kept[1], cut)
            case "POST", "/v1/files":
                kind = received.headers.get("content-type", "")
                return _found(self.batches.upload(kind, received.raw), cut)
            case "GET", _ if content is not None:
                text = self.batches.content(content[1])
                return text if isinstance(text, Refused) else Reply(body=text, cut=cut)
            case "POST", "/v1/batches":
                return _found(self.batches.create(received.body), cut)
            case "GET", "/v1/batches":
                after, limit = received.query.get("after"), int(received.query.get("limit", 20))
                return _json(self.batches.page(after, limit), cut)
            case "GET", _ if batch is not None and not batch[2]:
                return _found(self.batches.retrieve(batch[1]), cut)
            case "POST", _ if batch is not None and batch[2]:
                return _found(self.batches.cancel(batch[1]), cut)
            case "GET", "/v1/models":
                return _json(self._catalogue.page(), cut)
            case "GET", _ if model is not None:
                return _found(self._catalogue.one(model[1]), cut)
            case method, path:
                return Refused(f"Invalid URL ({method} {path})", status=404)

    def _answer_line(self, path: str, body: Body) -> Reply:
        """What a line of a batch is answered."""
        before = len(self._answered)
        found = self._chat(body, "") if path == CHAT else self._respond(body, "")
        self._answered[before:] = [
            structs.replace(each, batch=True) for each in self._answered[before:]
        ]
        return found if isinstance(found, Reply) else _plain(found)

    def _chat(self, body: Body, cut: str, *, azure: bool = False) -> Reply | Refused:
        model = _served(self._catalogue, body, chat_request.shape_refusal(body))
        if isinstance(model, Refused):
            return model
        parts = chat.seen(body)
        wrong = chat_request.rule_refusal(body, model, _length(parts))
        if wrong is not None:
            return wrong
        reading = self._cache.read(body, parts)
        limited, headers = self._limits.take(body["model"], reading.input_tokens)
        if limited is not None:
            return Reply(status=429, headers=headers, body=json.dumps(limited.body))
        most = chat_request.limit(body) or model.most_output_tokens
        try:
            answers = [self._say(body, most) for _ in range(body.get("n") or 1)]
        except ModelRefused as error:
            return Refused(str(error))
        usage = chat.usage(reading, answers, charged=model.charges_writes)
        number = self._send(body, reading, usage)
        if not body.get("stream"):
            return _json(chat.completion(body, number, answers, usage), cut, headers)
        pieces = chat.stream(body, number, answers, usage)
        first = [chat.FILTERED] if azure else []
        return Reply(pieces=[*first, *_until(cut, pieces, chat.broken)], headers=headers, cut=cut)

    def _respond(self, body: Body, cut: str) -> Reply | Refused:
        model = _served(self._catalogue, body, responses_request.shape_refusal(body))
        if isinstance(model, Refused):
            return model
        items = self._storage.resolved(body, responses_request.items_of(body.get("input")))
        if isinstance(items, Refused):
            return items
        wrong = responses_request.rule_refusal(body, model, items)
        if wrong is not None:
            return wrong
        parts = responses.seen(body, items)
        while body.get("truncation") == "auto" and items and _length(parts) > model.context_tokens:
            del parts[len(parts) - len(items)]
            items = items[1:]
        wrong = responses_request.too_long(model, _length(parts))
        if wrong is not None:
            return wrong
        reading = self._cache.read(body, parts)
        limited, headers = self._limits.take(body["model"], reading.input_tokens)
        if limited is not None:
            return Reply(status=429, headers=headers, body=json.dumps(limited.body))
        try:
            answer = self._say(
                {**body, "input": items}, body.get("max_output_tokens") or model.most_output_tokens
            )
        except ModelRefused as error:
            return Refused(str(error))
        usage = responses.usage(reading, answer, charged=model.charges_writes)
        whole = responses.response(body, self._send(body, reading, usage), answer, usage)
        if whole["store"]:
            self._storage.keep(whole, items)
        if not body.get("stream"):
            return _json(whole, cut, headers)
        events = _until(cut, responses.stream(body, whole), responses.broken)
        return Reply(pieces=list(events), headers=headers, cut=cut)

    def _kept(self, id: str, cut: str) -> Reply | Refused:
        kept = self._storage.find(id)
        if kept is None:
            return Refused(f"Response with id '{id}' not found.", status=404)
        return _json(kept.response, cut)

    def _say(self, body: Body, most: int) -> Said:
        stop = body.get("stop") or []
        return kept(
            self.policy(body),
            most=most,
            stop=[stop] if isinstance(stop, str) else stop,
            parallel=body.get("parallel_tool_calls") is not False,
        )

    def _send(self, body: Body, reading: Reading, usage: Body) -> str:
        """The answer goes out: it can be read in the cache, and is billed. Returns its number."""
        self.flights.hold()
        self._cache.write(reading)
        with self._lock:
            self._made += 1
            self._answered.append(Answered(body["model"], usage))
            return f"{self._made:06d}"


def _served(catalogue: Catalogue, body: Body, wrong: Refused | None) -> KnownModel | Refused:
    return wrong if wrong is not None else catalogue.find(body["model"])


def _length(parts: list[Any]) -> int:
    """The tokens of what a model sees."""
    return tokens(len(shown(parts)))


def _is_azures(path: str) -> bool:
    return path.startswith("/openai/")


def _key(received: Received) -> str:
    """The key of a request; Azure's stands in a header of its own, a token where others have it."""
    azure = received.headers.get("api-key") if _is_azures(received.path) else None
    return azure or received.headers.get("authorization", "").removeprefix("Bearer ").strip()


def _refusal(received: Received, refused: Refused) -> Reply:
    body = refused.body
    if _is_azures(received.path) and refused.status in {401, 404}:
        code, said = refused.code or str(refused.status), refused.message
        if code == "model_not_found":
            code, said = "DeploymentNotFound", NO_DEPLOYMENT
        body = {"error": {"code": code, "message": said}}
    return Reply(status=refused.status, body=json.dumps(body))


def _plain(refused: Refused) -> Reply:
    return Reply(status=refused.status, body=json.dumps(refused.body))


def _found(found: Body | Refused, cut: str) -> Reply | Refused:
    return found if isinstance(found, Refused) else _json(found, cut)


def _json(found: Body, cut: str = "", headers: dict[str, str] | None = None) -> Reply:
    return Reply(body=json.dumps(found), cut=cut, headers=headers or {})


def _until(cut: str, made: Iterator[Piece], broken: Callable[[str], Piece]) -> Iterator[bytes]:
    """The pieces of a stream up to where a fault ends them."""
    for each in made:
        if cut == "in tool" and each.part == "arguments":
            yield each.raw
            return
        if cut in STREAM_CUTS | {"truncated"} and each.part == "last":
            if cut == "error":
                yield broken("The server had an error processing your request.").raw
            if cut == "in event":
                yield each.raw[: len(each.raw) // 2]
            return
        yield each.raw
