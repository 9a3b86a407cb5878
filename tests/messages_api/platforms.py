"""The same models where other companies serve them: Claude on Bedrock and on Vertex.

Paths, keys, errors and the framing of streams are the platform's; what is refused, answered and
counted is the Messages server's. Made from the `anthropic` SDK's clients and from AWS's and
Google's references; it has met neither service.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from tests.messages_api import faults, signature, stream
from tests.messages_api.answering import Refused, invalid
from tests.messages_api.content import Body
from tests.messages_api.faults import Fault
from tests.messages_api.handler import Received, Reply
from tests.messages_api.server import VERSION, MessagesApi
from tests.messages_api.signature import Credentials

CREDENTIALS = Credentials(
    access_key="AKIAMADEUP", secret_key="made-up-secret", region="eu-central-1"
)

_INVOKE = re.compile(r"/model/([^/]+)/invoke(-with-response-stream)?")
_BEDROCK_NAME = re.compile(r"^(?:[a-z-]+\.)?anthropic\.")
_ERRORS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


class BedrockApi(MessagesApi):
    """`InvokeModel` of Bedrock, whole and as an event stream of AWS.

    A request is signed with `credentials`, or names `bearer`, a key of Bedrock's own.
    """

    answers = _INVOKE.pattern

    def __init__(
        self,
        *arguments: Any,
        credentials: Credentials = CREDENTIALS,
        bearer: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._credentials = credentials
        self._bearer = bearer

    def _reply(self, received: Received, fault: Fault | None) -> Reply:
        if fault is not None and not fault.cut:
            kind = _ERRORS.get(fault.status, "InternalServerException")
            headers = {"x-amzn-errortype": kind, **fault.headers}
            scripted = fault.body or json.dumps({"message": "scripted"})
            return Reply(status=fault.status, headers=headers, body=scripted)
        unsigned = self._unsigned(received)
        if unsigned is not None:
            return unsigned
        found = _INVOKE.fullmatch(received.path)
        if found is None or received.method != "POST":
            return _bedrock_error(404, "UnknownOperationException")
        refused = _envelope_refusal(received, {"model", "stream"}, "bedrock-2023-05-31")
        if refused is not None:
            return _bedrock_error(400, "ValidationException", refused.why)
        body = {n: v for n, v in received.body.items() if n not in _ENVELOPE}
        body["model"] = _BEDROCK_NAME.sub("", unquote(found[1]))
        if found[2]:
            body["stream"] = True
        return _as_bedrock(super()._reply(_as_messages(received, body), fault))

    def _unsigned(self, received: Received) -> Reply | None:
        given = received.headers.get("authorization", "")
        if given.startswith("Bearer "):
            if self._bearer is not None and given == f"Bearer {self._bearer}":
                return None
            return _bedrock_error(403, "AccessDeniedException", "Authentication failed")
        found = signature.flaw(received, self._credentials, "bedrock", self._clock())
        return None if found is None else _bedrock_error(403, found.kind, found.why)

    def _pieces(self, events: Iterator[Body], cut: str) -> list[bytes]:
        silent = (each for each in events if each["type"] != "ping")
        return list(stream.pieces(cut, silent, _framed))


class VertexApi(MessagesApi):
    """`rawPredict` and `streamRawPredict` of Vertex. `tokens` are those it lets in; more are
    issued at `token_uri` to whoever signs for them, as a service account does."""

    answers = r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/[^/]+"

    def __init__(
        self,
        *arguments: Any,
        tokens: Collection[str] = (),
        project: str = "made-up",
        region: str = "europe-west1",
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._tokens = set(tokens)
        models = f"/v1/projects/{project}/locations/{region}/publishers/anthropic/models"
        self._path = re.compile(rf"{models}/([^/]+):(rawPredict|streamRawPredict)")

    @property
    def token_uri(self) -> str:
        return f"{self.base_url}/token"

    def _reply(self, received: Received, fault: Fault | None) -> Reply:
        if fault is None and (received.method, received.path) == ("POST", "/token"):
            return self._issued(received)
        if fault is not None and not fault.cut:
            return super()._reply(received, fault)
        key = received.headers.get("authorization", "").removeprefix("Bearer ")
        if key not in self._tokens:
            why = "Request had invalid authentication credentials. Expected OAuth 2 access token."
            return _google_error(401, why, "UNAUTHENTICATED")
        found = self._path.fullmatch(unquote(received.path))
        if found is None or received.method != "POST":
            return _google_error(404, f"no such path: {received.path}", "NOT_FOUND")
        counts = found[1] == "count-tokens"
        refused = _envelope_refusal(received, set() if counts else {"model"}, "vertex-2023-10-16")
        if refused is not None:
            return _refusal(refused)
        body = {n: v for n, v in received.body.items() if n not in _ENVELOPE}
        if counts:
            return super()._reply(_as_messages(received, body, "/v1/messages/count_tokens"), fault)
        if bool(body.get("stream")) != (found[2] == "streamRawPredict"):
            return _refusal(invalid(f"stream: not as {found[2]} needs it"))
        body["model"] = found[1].replace("@", "-")
        reply = super()._reply(_as_messages(received, body), fault)
        if reply.status == 404:
            why = f"Publisher Model `{found[1]}` was not found or your project has no access to it."
            return _google_error(404, why, "NOT_FOUND")
        return reply

    def _issued(self, received: Received) -> Reply:
        """A token for an assertion that names this server and the scope of its platform."""
        form = dict(parse_qsl(received.raw.decode()))
        claims = _claims(form.get("assertion", ""))
        granted = form.get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        scoped = "https://www.googleapis.com/auth/cloud-platform" in claims.get("scope", "")
        if not granted or not scoped or not claims.get("iss"):
            error = {"error": "invalid_grant", "error_description": "Invalid JWT"}
            return Reply(status=400, body=json.dumps(error))
        with self._lock:
            token = f"ya29.made-up-{len(self._tokens)}"
            self._tokens.add(token)
        issued = {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        return Reply(body=json.dumps(issued))


_ENVELOPE = frozenset({"anthropic_version", "anthropic_beta"})
"""What of a body is the platform's, where it stands in headers elsewhere."""


def _envelope_refusal(received: Received, elsewhere: set[str], older: str) -> Refused | None:
    """Why a body does not fit its platform, None where it does; `elsewhere` stands in the path."""
    if not received.readable:
        return invalid("the request body is not a JSON object")
    if received.body.get("anthropic_version") not in {VERSION, older}:
        return invalid("anthropic_version: Field required")
    for name in sorted(elsewhere & set(received.body)):
        return invalid(f"{name}: Extra inputs are not permitted")
    return None


def _refusal(found: Refused) -> Reply:
    return Reply(status=found.status, body=faults.error(found.kind, found.why))


def _as_messages(received: Received, body: Body, path: str = "/v1/messages") -> Received:
    """A request as the Messages server knows it; its key was looked at."""
    betas = received.body.get("anthropic_beta") or []
    named = [received.headers.get("anthropic-beta", ""), *betas]
    headers = {
        "authorization": "Bearer platform",
        "anthropic-version": VERSION,
        "anthropic-beta": ",".join(filter(None, named)),
    }
    return msgspec.structs.replace(received, path=path, headers=headers, body=body)


def _as_bedrock(reply: Reply) -> Reply:
    """A reply of the Messages server as Bedrock gives it."""
    if reply.pieces is not None:
        kind = {"content-type": "application/vnd.amazon.eventstream"}
        return msgspec.structs.replace(reply, headers={**reply.headers, **kind})
    if reply.status == 200:
        return reply
    if reply.status == 404:  # a name that is no model's
        return _bedrock_error(
            400, "ValidationException", "The provided model identifier is invalid."
        )
    kind_of_error = _ERRORS.get(reply.status, "ValidationException")
    return _bedrock_error(reply.status, kind_of_error, json.loads(reply.body)["error"]["message"])


def _bedrock_error(status: int, kind: str, why: str = "") -> Reply:
    body = json.dumps({"message": why or kind})
    return Reply(status=status, headers={"x-amzn-errortype": kind}, body=body)


def _google_error(status: int, why: str, kind: str) -> Reply:
    error = {"error": {"code": status, "message": why, "status": kind}}
    return Reply(status=status, body=json.dumps(error))


def _claims(assertion: str) -> Body:
    """What a signed assertion says. Who signed is not looked at: every account here is made up."""
    parts = assertion.split(".")
    if len(parts) != 3 or not parts[2]:
        return {}
    padded = parts[1] + "=" * (-len(parts[1]) % 4)
    claims: Body = json.loads(base64.urlsafe_b64decode(padded))
    return claims


def _framed(event: Body) -> bytes:
    """An event as a message of AWS's event stream; an error is an exception of the stream."""
    if event["type"] == "error":
        headers = {":message-type": "exception", ":exception-type": "modelStreamErrorException"}
        return frame(headers, {"message": event["error"]["message"]})
    sent = dict(event)
    if event["type"] == "message_stop":
        sent["amazon-bedrock-invocationMetrics"] = {"invocationLatency": 1, "firstByteLatency": 1}
    chunk = base64.b64encode(json.dumps(sent).encode()).decode()
    return frame({":message-type": "event", ":event-type": "chunk"}, {"bytes": chunk, "p": "abcd"})


def frame(headers: dict[str, str], payload: Body) -> bytes:
    """One message: lengths and their checksum, headers, payload, and a checksum of it all."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value
        for name, value in _encoded({**headers, ":content-type": "application/json"})
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + body
    return message + struct.pack("!I", zlib.crc32(message))


def _encoded(headers: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    for name, value in headers.items():
        yield name, value.encode()
